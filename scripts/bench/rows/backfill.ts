/**
 * Backfills of a synthetic chain, from the subscription that requests a collection to `indexed`, beside a bare loop
 * that fetches, parses and folds exactly the ranges that the service got. Both have read other data before.
 */
import { NFT_TOPICS } from "../../../src/rpc/decode/transfers.ts";
import { startPostgres } from "../../../test/support/postgres.ts";
import type { CollectionOptions } from "../chain/options.ts";
import { type SyntheticChain, startChain } from "../chain/start.ts";
import { runChild } from "../children.ts";
import { median } from "../load.ts";
import { historyTime, listingHash } from "../log-facts.ts";
import type { FoldResult, FoldTask } from "../parts/fetch-fold.ts";
import { type Bench, byTurns, grouped, type Row, type Scale, spread } from "../row.ts";
import { startBenchService, temporaryFolder, untilIndexed } from "../service.ts";
import { startWarmService, warmUpCollection } from "../warm-service.ts";

export const BENCH_ADDRESS = `0x${"be".repeat(20)}`;
/** Ranges that the service keeps ready per collection (`READ_AHEAD` of the backfill). */
const IN_FLIGHT = 8;
export const PER_BLOCK = 50;
const FAULTY_SHARE = 0.02;
/** Ranges that the floor reads before the measured ones. */
const WARM_UP_RANGES = 10;

type Range = readonly [number, number];

interface Run {
  readonly ms: number;
  readonly total: number;
  readonly ranges: readonly (readonly [number, number])[];
  readonly requests: number;
  readonly logs: number;
  readonly faults: number;
  /** By the log's own times, from identification to completion. */
  readonly historyMs: number;
  /** Hash of the listing in the log; undefined unless requested. */
  readonly hash: string | undefined;
}

export const denseCollection = (transfers: number): CollectionOptions => ({
  address: BENCH_ADDRESS,
  standard: "erc721",
  transfers,
  layout: { perBlock: PER_BLOCK },
});

/** A chain with the collection, and with the warm-up collection if the scale has one. */
export async function startWithWarmUp(
  collection: CollectionOptions,
  { warmUp }: Pick<Scale, "warmUp">,
): Promise<{ chain: SyntheticChain; isWarm: boolean }> {
  const isWarm = warmUp > 0;
  const chain = await startChain({ collections: [collection, ...(isWarm ? [warmUpCollection(warmUp)] : [])] });
  return { chain, isWarm };
}

interface BackfillOptions {
  readonly address?: string;
  /** A fresh log; by default SQLite in a temporary folder. */
  readonly logUrl?: string | undefined;
  readonly hashed?: boolean;
  /** True if the chain has the warm-up collection, with which the service begins. */
  readonly isWarm?: boolean;
  /** Called once the service is up and warm. */
  readonly prepare?: () => Promise<void>;
}

/** One backfill into a fresh log. */
export async function backfillOnce(chain: SyntheticChain, options: BackfillOptions = {}): Promise<Run> {
  const { address = BENCH_ADDRESS, logUrl, hashed = false, isWarm = false } = options;
  const folder = temporaryFolder();
  const url = logUrl ?? folder.logUrl;
  const service = await (isWarm ? startWarmService : startBenchService)({ rpcUrl: chain.url, logUrl: url });
  try {
    await options.prepare?.();
    await chain.reset();
    const { ms, total } = await untilIndexed(service, address);
    const stats = await chain.stats();
    await service.stop();
    const hash = hashed ? await listingHash(url, address) : undefined;
    const historyMs = await historyTime(url, address);
    const requests = Object.values(stats.requests).reduce((sum, count) => sum + count, 0);
    // The join reads above the final block, and the floor only the history below it. A look at the first block alone is
    // none of the history.
    const below = stats.ranges.filter(([, to]) => to <= chain.final).sort(([a], [b]) => a - b);
    const isWithin = ([from, to]: Range, other: Range) =>
      other[0] <= from && to <= other[1] && to - from < other[1] - other[0];
    const ranges = below.filter((range) => !below.some((other) => isWithin(range, other)));
    return { ms, total, historyMs, ranges, requests, logs: stats.logs, faults: stats.faults, hash };
  } finally {
    await service.stop();
    folder.remove();
  }
}

/** Fetches, parses and folds ranges in a process of its own. */
export async function foldOnce(chain: SyntheticChain, part: Pick<FoldTask, "ranges" | "unread">): Promise<FoldResult> {
  const folder = temporaryFolder();
  const common = { url: chain.url, address: BENCH_ADDRESS, topics: NFT_TOPICS, inFlight: IN_FLIGHT };
  const task: FoldTask = { ...common, warmUp: part.ranges.slice(0, WARM_UP_RANGES), ...part };
  const path = `${folder.path}/task.json`;
  await Bun.write(path, JSON.stringify(task));
  try {
    return await runChild<FoldResult>({ script: "parts/fetch-fold.ts", args: [path] });
  } finally {
    folder.remove();
  }
}

interface Comparison {
  readonly name: string;
  readonly collection: CollectionOptions;
  readonly reach: number;
  readonly scale: Scale;
  /** A fresh log per backfill; by default SQLite in a temporary folder. */
  readonly logUrl?: () => Promise<string>;
}

async function compare({ name, collection, reach, scale, logUrl }: Comparison): Promise<Row> {
  const { turns } = scale;
  const { chain, isWarm } = await startWithWarmUp(collection, scale);
  try {
    let ranges: FoldTask["ranges"] = [];
    const run = async () => {
      const one = await backfillOnce(chain, { logUrl: await logUrl?.(), isWarm });
      ranges = one.ranges;
      return one;
    };
    await run();
    const { ours, floor } = await byTurns(turns, run, () => foldOnce(chain, { ranges }));
    const { transfers } = collection;
    if (floor.some(({ logs }) => logs !== transfers)) throw new Error(`${name}: the floor did not see every transfer`);
    const rate = (ms: number) => (transfers * 1_000) / ms;
    const [us, them] = [ours, floor].map((list) => list.map(({ ms }) => rate(ms))) as [number[], number[]];
    const ratio = median(us) / median(them);
    const last = ours.at(-1) as Run;
    return {
      name,
      floor: `${spread(them, grouped)} transfers/s`,
      ours: `${spread(us, grouped)} transfers/s`,
      ratio,
      reach: `>= ${reach}`,
      passed: ratio >= reach,
      detail: `${grouped(transfers)} transfers in ${last.ranges.length} ranges, ${last.requests} requests, ${turns} turns`,
    };
  } finally {
    await chain.stop();
  }
}

export const backfill: Bench = {
  name: "backfill",
  measure: (scale) => {
    const collection = denseCollection(scale.transfers);
    return compare({ name: "Backfill into SQLite, to `indexed`", collection, reach: 0.6, scale });
  },
};

export const sparse: Bench = {
  name: "sparse",
  measure: (scale) => {
    const { transfers, blocks } = scale.sparse;
    const collection = { ...denseCollection(transfers), layout: { overBlocks: blocks } };
    const name = `Backfill of ${grouped(transfers)} transfers spread over ${grouped(blocks)} blocks`;
    return compare({ name, collection, reach: 0.5, scale });
  },
};

export const postgres: Bench = {
  name: "postgres",
  measure: async (scale) => {
    const cluster = await startPostgres({ durable: true });
    try {
      const collection = denseCollection(scale.postgresTransfers);
      const logUrl = () => cluster.createDatabase();
      return await compare({ name: "Backfill into PostgreSQL", collection, reach: 0.4, scale, logUrl });
    } finally {
      await cluster.stop();
    }
  },
};

export const faulty: Bench = {
  name: "faulty",
  measure: async (scale) => {
    const { transfers, turns } = scale;
    const { chain, isWarm } = await startWithWarmUp(denseCollection(transfers), scale);
    try {
      const run = async (share: number, turn: number) => {
        await chain.setFaults(0, 0);
        return backfillOnce(chain, { hashed: true, isWarm, prepare: () => chain.setFaults(share, turn + 1) });
      };
      await run(0, 0);
      const { ours, floor } = await byTurns(
        turns,
        (turn) => run(FAULTY_SHARE, turn),
        (turn) => run(0, turn),
      );
      const exact = new Set([...ours, ...floor].map(({ hash }) => hash)).size === 1;
      const rate = ({ ms }: Run) => (transfers * 1_000) / ms;
      const [us, them] = [ours.map(rate), floor.map(rate)];
      const ratio = median(us) / median(them);
      const faults = ours.map((one) => one.faults);
      return {
        name: `Backfill with ${FAULTY_SHARE * 100} % of answers faulty`,
        floor: `${spread(them, grouped)} transfers/s`,
        ours: `${spread(us, grouped)} transfers/s`,
        ratio,
        reach: "exact, >= 0.5",
        passed: exact && ratio >= 0.5,
        detail: `${exact ? "the same listing in every turn" : "LISTINGS DIFFER"}; ${spread(faults, String)} faulty answers a turn: 429, 500, cut-off JSON, dropped connection`,
      };
    } finally {
      await chain.stop();
    }
  },
};
