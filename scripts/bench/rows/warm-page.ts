/** Warm pages of a listing, without metadata: over one connection, over many, and during a backfill. */
import { startBareServer } from "../bare-server.ts";
import type { CollectionOptions } from "../chain/options.ts";
import { startChain } from "../chain/start.ts";
import { median } from "../load.ts";
import { type Bench, grouped, type Row, type Scale, spread } from "../row.ts";
import {
  type BenchService,
  startBenchService,
  type TemporaryFolder,
  temporaryFolder,
  untilIndexed,
} from "../service.ts";
import { STEADY_PER_SECOND, steadyP99 } from "../steady-p99.ts";
import { warmRow } from "../warm.ts";
import { untilSettled, WARM_UP_ADDRESS, warmUpCollection } from "../warm-service.ts";
import { BENCH_ADDRESS, denseCollection } from "./backfill.ts";

const PATH = `/api/v2/nft/${WARM_UP_ADDRESS}?limit=100`;
const COLLECTION: CollectionOptions = {
  address: WARM_UP_ADDRESS,
  standard: "erc721",
  transfers: 3_000,
  layout: { perBlock: 50 },
};
/** A turn at a fixed rate is longer by this factor: a percentile needs enough requests. */
const STEADY_TURN = 2;

async function indexed(folder: TemporaryFolder, rpcUrl: string, looks: number): Promise<BenchService> {
  const service = await startBenchService({ rpcUrl, logUrl: folder.logUrl });
  await untilIndexed(service, WARM_UP_ADDRESS);
  await untilSettled(service, PATH, 100, looks);
  return service;
}

async function warmPage(scale: Scale, connections: number): Promise<Row> {
  const chain = await startChain({ collections: [COLLECTION] });
  const folder = temporaryFolder();
  try {
    const service = await indexed(folder, chain.url, scale.settledLooks);
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

/**
 * The same while another service on this machine backfills, which is stopped then; and whether the backfill was done
 * before the load.
 */
async function steadyBeside(server: Pick<BenchService, "port">, reading: BenchService, ms: number) {
  let isOver = false;
  const backfill = untilIndexed(reading, BENCH_ADDRESS).then(
    () => {
      isOver = true;
    },
    () => undefined,
  );
  const p99 = await steadyP99(server, PATH, ms);
  const wasOver = isOver;
  await reading.stop();
  await backfill;
  return { p99, wasOver };
}

export const pageUnderBackfill: Bench = {
  name: "page-under-backfill",
  measure: async ({ turns, transfers, loadMs, warmUp, settledLooks }) => {
    const turnMs = loadMs * STEADY_TURN;
    const shown = warmUp > 0 ? warmUpCollection(warmUp) : COLLECTION;
    const chain = await startChain({ collections: [shown, denseCollection(transfers)] });
    const [idle, beside, busy]: [number[], number[], number[]] = [[], [], []];
    let ended = 0;
    const start = async (): Promise<{ service: BenchService; folder: TemporaryFolder }> => {
      const folder = temporaryFolder();
      return { service: await indexed(folder, chain.url, settledLooks), folder };
    };
    try {
      for (let turn = 0; turn < turns; turn++) {
        const [one, other] = await Promise.all([start(), start()]);
        await steadyP99(one.service, PATH, turnMs);
        idle.push(await steadyP99(one.service, PATH, turnMs));
        // The best possible figure: the bare server only needs a core when a request arrives.
        const bare = await startBareServer(await one.service.get(PATH));
        await steadyP99(bare, PATH, turnMs);
        beside.push((await steadyBeside(bare, other.service, turnMs)).p99);
        await bare.stop();
        const { p99, wasOver } = await steadyBeside(one.service, one.service, turnMs);
        busy.push(p99);
        if (wasOver) ended++;
        for (const { folder } of [one, other]) folder.remove();
      }
    } finally {
      await chain.stop();
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
      detail:
        `backfill of ${grouped(transfers)} transfers, ${turns} turns of ${turnMs} ms each${early}; a bare server of the ` +
        `same bytes beside a backfill in another process ${spread(beside, ms)} ms`,
    };
  },
};
