/**
 * A collection requested at a process's start, from that start to the page that says SYNCED, beside the same request to
 * a process that has run before: an operator's wait after the first start, and a test's wait in each run.
 */
import type { SyntheticChain } from "../chain/start.ts";
import { median } from "../load.ts";
import { type Bench, byTurns, grouped } from "../row.ts";
import { type BenchService, startBenchService, temporaryFolder, untilIndexed } from "../service.ts";
import { startWarmService } from "../warm-service.ts";
import { BENCH_ADDRESS, denseCollection, startWithWarmUp } from "./backfill.ts";

/** A second for the process and its first compiled code, then twice the time of compiled code. */
const [START_MS, SLOWER] = [1_000, 2];

interface Run {
  /** From the process's start, or from the request if the process is warm. */
  readonly ms: number;
  /** The part of it until the process served; 0 if it is warm. */
  readonly startMs: number;
}

/** Resolves once the page says SYNCED, which is when the message arrives. */
async function untilSynced(service: BenchService): Promise<void> {
  const { total } = await untilIndexed(service, BENCH_ADDRESS);
  const page = await service.get(`/api/v2/nft/${BENCH_ADDRESS}?limit=1`);
  const { status, result } = (await page.json()) as { status: string; result: unknown[] };
  if (status !== "SYNCED" || result.length !== 1 || total === 0) throw new Error(`the page is ${status}`);
}

async function runOnce(chain: SyntheticChain, isWarm: boolean): Promise<Run> {
  const folder = temporaryFolder();
  const began = performance.now();
  const options = { rpcUrl: chain.url, logUrl: folder.logUrl };
  const service = await (isWarm ? startWarmService : startBenchService)(options);
  try {
    const serving = performance.now();
    await untilSynced(service);
    const since = isWarm ? serving : began;
    return { ms: performance.now() - since, startMs: serving - since };
  } finally {
    await service.stop();
    folder.remove();
  }
}

export const freshProcess: Bench = {
  name: "fresh-process",
  measure: async ({ fresh: { sizes, warmUp, turns } }) => {
    const points: { transfers: number; cold: number; warm: number; startMs: number }[] = [];
    for (const transfers of sizes) {
      const { chain } = await startWithWarmUp(denseCollection(transfers), { warmUp });
      try {
        await runOnce(chain, false);
        const run = (isWarm: boolean) => runOnce(chain, isWarm);
        const { ours, floor } = await byTurns(
          turns,
          () => run(false),
          () => run(true),
        );
        const [cold, warm] = [ours, floor].map((runs) => median(runs.map(({ ms }) => ms))) as [number, number];
        points.push({ transfers, cold, warm, startMs: median(ours.map(({ startMs }) => startMs)) });
      } finally {
        await chain.stop();
      }
    }
    const times = (pick: (point: (typeof points)[number]) => number) =>
      points.map((point) => `${(pick(point) / 1_000).toFixed(2)} s`).join(", ");
    const of = sizes.map(grouped).join(", ");
    return {
      name: `Fresh process, from its start to SYNCED, of ${of} transfers`,
      floor: `${times(({ warm }) => warm)} by a warm process, from the question`,
      ours: times(({ cold }) => cold),
      ratio: Math.min(...points.map(({ cold, warm }) => warm / cold)),
      reach: `<= ${START_MS / 1_000} s and ${SLOWER}x the warm one`,
      passed: points.every(({ cold, warm }) => cold <= START_MS + SLOWER * warm),
      detail:
        `it serves after ${times(({ startMs }) => startMs)}; after the warm one's start it had read ` +
        `${grouped(warmUp)} transfers; ${turns} turns; the ratio is the least`,
    };
  },
};
