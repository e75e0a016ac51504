/**
 * The first index of an old collection behind an endpoint that takes ten blocks per request, by an archive: the time, the
 * calls that the endpoint bills, and the memory.
 */
import type { ChainStats } from "../chain/options.ts";
import { startChain } from "../chain/start.ts";
import { median } from "../load.ts";
import { residentBytes } from "../machine.ts";
import { type Bench, grouped, type Row, spread } from "../row.ts";
import { startBenchService, temporaryFolder, untilIndexed } from "../service.ts";
import { BENCH_ADDRESS, denseCollection } from "./backfill.ts";

const [LATENCY_MS, MAX_BLOCKS, BLOCKS] = [50, 10, 1_000_000];
const [MAX_MS, MAX_CALLS] = [4_000, 200];
/** Of four times the blocks: an archive's answer has more parts, and the headers of their ends are read. */
const MAX_CALLS_LARGE = 300;
const SAMPLE_MS = 50;

interface Cost {
  readonly ms: number;
  readonly calls: number;
  /** The most resident bytes. */
  readonly bytes: number;
}

interface Asked {
  readonly transfers: number;
  readonly blocks?: number;
  /** Answers after which the archive is gone. */
  readonly archiveAnswers?: number;
  readonly maxBlocks?: number;
}

async function indexOnce({ transfers, blocks = BLOCKS, archiveAnswers, maxBlocks = MAX_BLOCKS }: Asked): Promise<Cost> {
  const collections = [{ ...denseCollection(transfers), layout: { overBlocks: blocks } }];
  const gone = archiveAnswers === undefined ? {} : { archiveAnswers };
  const chain = await startChain({ collections, latencyMs: LATENCY_MS, maxBlocks, ...gone });
  const folder = temporaryFolder();
  try {
    const env = { ARCHIVE_URL_ETH: `${chain.url}/datasets/bench`, ARCHIVE_PER_10S: "1000" };
    const service = await startBenchService({ rpcUrl: chain.url, logUrl: folder.logUrl, env });
    let bytes = 0;
    const sampling = setInterval(() => {
      bytes = Math.max(bytes, residentBytes(service.pid));
    }, SAMPLE_MS);
    try {
      const { ms, total } = await untilIndexed(service, BENCH_ADDRESS);
      if (total === 0) throw new Error("nothing was listed");
      const { requests }: ChainStats = await chain.stats();
      return { ms, calls: Object.values(requests).reduce((sum, count) => sum + count, 0), bytes };
    } finally {
      clearInterval(sampling);
      await service.stop();
    }
  } finally {
    await chain.stop();
    folder.remove();
  }
}

async function measure(name: string, asked: Asked, turns: number, reach: { ms: number; calls: number }): Promise<Row> {
  const costs: Cost[] = [];
  for (let turn = 0; turn < turns; turn++) costs.push(await indexOnce(asked));
  const of = (key: keyof Cost) => median(costs.map((cost) => cost[key]));
  const { transfers, blocks = BLOCKS, maxBlocks = MAX_BLOCKS } = asked;
  return {
    name,
    floor: "–",
    ours: `${(of("ms") / 1_000).toFixed(2)} s, ${grouped(of("calls"))} calls to the node, ${Math.round(of("bytes") / 2 ** 20)} MiB`,
    ratio: undefined,
    reach: `<= ${reach.ms / 1_000} s, ${grouped(reach.calls)} calls`,
    passed: of("ms") <= reach.ms && of("calls") <= reach.calls,
    detail:
      `${grouped(transfers)} transfers over ${grouped(blocks)} blocks, the node takes ${maxBlocks} at a time, node and ` +
      `archive ${LATENCY_MS} ms away, a fresh process; ${spread(
        costs.map(({ ms }) => ms),
        (ms) => `${(ms / 1_000).toFixed(2)} s`,
      )}, ${turns} turns`,
  };
}

export const archived: Bench = {
  name: "archive",
  measure: ({ turns }) =>
    measure("First index by an archive", { transfers: 100_000 }, turns, { ms: MAX_MS, calls: MAX_CALLS }),
};

export const archivedLarge: Bench = {
  name: "archive-large",
  measure: ({ turns }) =>
    measure("A million transfers by an archive", { transfers: 1_000_000, blocks: 4_000_000 }, turns, {
      ms: 10 * MAX_MS,
      calls: MAX_CALLS_LARGE,
    }),
};

export const archiveGone: Bench = {
  name: "archive-gone",
  measure: ({ turns }) =>
    measure(
      "First index with the archive gone half-way",
      { transfers: 100_000, archiveAnswers: 8, maxBlocks: 10_000 },
      turns,
      { ms: MAX_MS, calls: 400 },
    ),
};
