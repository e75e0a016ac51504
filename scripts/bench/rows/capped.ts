/**
 * Backfills from a distant endpoint with a limit on blocks: the requests, which are the operator's bill, and the time.
 * In one row the endpoint names its limit, in the other it only says that a range is too large.
 */
import type { ChainStats } from "../chain/options.ts";
import { startChain } from "../chain/start.ts";
import { median } from "../load.ts";
import { type Bench, grouped, type Row, spread } from "../row.ts";
import { startBenchService, temporaryFolder, untilIndexed } from "../service.ts";
import { BENCH_ADDRESS, denseCollection } from "./backfill.ts";

const [LATENCY_MS, MAX_BLOCKS] = [50, 10_000];
const [TRANSFERS, BLOCKS] = [100_000, 1_000_000];
const [MAX_HTTP, MAX_LOG_CALLS, MAX_HEADERS] = [160, 130, 120];

interface Cost {
  readonly ms: number;
  readonly http: number;
  readonly logCalls: number;
  readonly headers: number;
}

async function backfillOnce(saysLimit: boolean): Promise<Cost> {
  const collections = [{ ...denseCollection(TRANSFERS), layout: { overBlocks: BLOCKS } }];
  const chain = await startChain({ collections, latencyMs: LATENCY_MS, maxBlocks: MAX_BLOCKS, saysLimit });
  const folder = temporaryFolder();
  try {
    const service = await startBenchService({ rpcUrl: chain.url, logUrl: folder.logUrl });
    try {
      const { ms, total } = await untilIndexed(service, BENCH_ADDRESS);
      if (total === 0) throw new Error("nothing was listed");
      const { http, requests }: ChainStats = await chain.stats();
      return { ms, http, logCalls: requests["eth_getLogs"] ?? 0, headers: requests["eth_getBlockByNumber"] ?? 0 };
    } finally {
      await service.stop();
    }
  } finally {
    await chain.stop();
    folder.remove();
  }
}

async function measure(name: string, saysLimit: boolean, maxMs: number, turns: number): Promise<Row> {
  const costs: Cost[] = [];
  for (let turn = 0; turn < turns; turn++) costs.push(await backfillOnce(saysLimit));
  const of = (key: keyof Cost) => costs.map((cost) => cost[key]);
  const [ms, http, logCalls, headers] = [of("ms"), of("http"), of("logCalls"), of("headers")].map(median) as [
    number,
    number,
    number,
    number,
  ];
  return {
    name,
    floor: "–",
    ours: `${(ms / 1_000).toFixed(2)} s, ${http} requests of HTTP, ${logCalls} calls for logs, ${headers} for headers`,
    ratio: undefined,
    reach: `<= ${maxMs / 1_000} s, ${MAX_HTTP}, ${MAX_LOG_CALLS}, ${MAX_HEADERS}`,
    passed: ms <= maxMs && http <= MAX_HTTP && logCalls <= MAX_LOG_CALLS && headers <= MAX_HEADERS,
    detail:
      `${grouped(TRANSFERS)} transfers over ${grouped(BLOCKS)} blocks, ${grouped(MAX_BLOCKS)} blocks an answer, ${LATENCY_MS} ms away, ` +
      `a fresh process; ${spread(of("ms"), (value) => `${(value / 1_000).toFixed(2)} s`)}, ${turns} turns`,
  };
}

export const capped: Bench = {
  name: "capped",
  measure: ({ turns }) => measure("Backfill from an endpoint that names its limit of blocks", true, 1_500, turns),
};

export const cappedSilently: Bench = {
  name: "capped-silently",
  measure: ({ turns }) => measure("Backfill from an endpoint that does not name its limit", false, 2_200, turns),
};
