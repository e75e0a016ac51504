/** Warm pages of a listing, without metadata: over one connection and many, and while a backfill runs beside them. */
import { copyFileSync } from "node:fs";
import type { CollectionOptions } from "../chain/options.ts";
import { startChain } from "../chain/start.ts";
import { runChild } from "../children.ts";
import { median } from "../load.ts";
import type { SteadyOptions, SteadyResult } from "../parts/steady.ts";
import { type Bench, grouped, type Row, type Scale, spread } from "../row.ts";
import {
  type BenchService,
  KEY_HEADERS,
  startBenchService,
  type TemporaryFolder,
  temporaryFolder,
  untilIndexed,
} from "../service.ts";
import { warmRow } from "../warm.ts";
import { BENCH_ADDRESS, denseCollection } from "./backfill.ts";

const ADDRESS = `0x${"aa".repeat(20)}`;
const PATH = `/api/v2/nft/${ADDRESS}?limit=100`;
const COLLECTION: CollectionOptions = {
  address: ADDRESS,
  standard: "erc721",
  transfers: 3_000,
  layout: { perBlock: 50 },
};
const STEADY_PER_SECOND = 500;
/** A turn at a fixed rate is so much longer than one of load: it has to hold enough requests for a percentile. */
const STEADY_TURN = 2;
/** Looks at the page, 100 ms apart, in which it does not change. */
const SETTLED_LOOKS = 5;

/** Resolves once the first page is whole and has stayed the same for a while: nothing is asked of its tokens any more. */
async function untilSettled(service: BenchService): Promise<void> {
  let before = "";
  for (let same = 0; same < SETTLED_LOOKS; ) {
    const text = await (await service.get(PATH)).text();
    const { status, result } = JSON.parse(text) as { status: string; result: unknown[] };
    same = status === "SYNCED" && result.length === 100 && text === before ? same + 1 : 0;
    before = text;
    await Bun.sleep(100);
  }
}

async function indexed(folder: TemporaryFolder, rpcUrl: string): Promise<BenchService> {
  const service = await startBenchService({ rpcUrl, logUrl: folder.logUrl });
  await untilIndexed(service, ADDRESS);
  await untilSettled(service);
  return service;
}

async function warmPage(scale: Scale, connections: number): Promise<Row> {
  const chain = await startChain({ collections: [COLLECTION] });
  const folder = temporaryFolder();
  try {
    const service = await indexed(folder, chain.url);
    const name = `Warm page of 100, ${connections} ${connections === 1 ? "connection" : "connections"}`;
    const row = await warmRow(service, { name, path: PATH, connections, reach: 0.85, maxP99: 2 }, scale);
    await service.stop();
    return row;
  } finally {
    await chain.stop();
    folder.remove();
  }
}

export const warmPage1: Bench = { name: "page-1", measure: (scale) => warmPage(scale, 1) };
export const warmPage64: Bench = { name: "page-64", measure: (scale) => warmPage(scale, 64) };

export const pageUnderBackfill: Bench = {
  name: "page-under-backfill",
  measure: async ({ turns, transfers, loadMs }) => {
    const turnMs = loadMs * STEADY_TURN;
    const chain = await startChain({ collections: [COLLECTION, denseCollection(transfers)] });
    const folder = temporaryFolder();
    const [idle, busy]: [number[], number[]] = [[], []];
    let ended = 0;
    try {
      await (await indexed(folder, chain.url)).stop();
      for (let turn = 0; turn < turns; turn++) {
        const copy = temporaryFolder();
        for (const suffix of ["", "-wal"]) {
          copyFileSync(`${folder.path}/events.db${suffix}`, `${copy.path}/events.db${suffix}`);
        }
        const service = await startBenchService({ rpcUrl: chain.url, logUrl: copy.logUrl });
        await untilSettled(service);
        const run = (ms: number) =>
          steadyP99({ port: service.port, path: PATH, headers: KEY_HEADERS, perSecond: STEADY_PER_SECOND, ms });
        await run(turnMs);
        idle.push(await run(turnMs));
        let isRunning = true;
        const backfill = untilIndexed(service, BENCH_ADDRESS).then(
          () => {
            isRunning = false;
          },
          () => undefined,
        );
        busy.push(await run(turnMs));
        if (!isRunning) ended++;
        await service.stop();
        await backfill;
        copy.remove();
      }
    } finally {
      await chain.stop();
      folder.remove();
    }
    const ms = (value: number) => value.toFixed(2);
    const ratio = median(idle) / median(busy);
    const early = ended === 0 ? "" : `; the backfill ended before the load in ${ended} turns`;
    return {
      name: `p99 of warm pages at ${STEADY_PER_SECOND} requests/s during a backfill`,
      floor: `${spread(idle, ms)} ms`,
      ours: `${spread(busy, ms)} ms`,
      ratio,
      reach: "within 2x of idle",
      passed: ratio >= 0.5,
      detail: `backfill of ${grouped(transfers)} transfers, ${turns} turns of ${turnMs} ms each${early}`,
    };
  },
};

async function steadyP99(options: SteadyOptions): Promise<number> {
  const { p99 } = await runChild<SteadyResult>({ script: "parts/steady.ts", args: [JSON.stringify(options)] });
  return p99;
}
