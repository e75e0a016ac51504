/**
 * The states of pools at a past block, from logs alone: the last event that sets the price, and the liquidity events after
 * it. Checks the hash of the requested block and of each block that the logs are from.
 */
import type { ChainLog, LogClaim } from "../../rpc/port.ts";
import type { Market, PricedBlock } from "../market/market.ts";
import type { Observation, Pool, PoolId } from "../market/pools.ts";
import type { PoolRead } from "../styles/style.ts";
import { applyLog, beginsPool, poolIdOf, setsPrice } from "../styles/styles.ts";
import { ArchiveWords } from "./archive-words.ts";
import {
  chainMoved,
  type HeadRead,
  isTooManyLogs,
  MAX_LOGS,
  type PastReader,
  type PastSource,
  SearchTooLong,
} from "./past-source.ts";
import { byPool, creationLogs, stateLogs, stateLogsOf } from "./state-logs.ts";

/** Blocks in the first range: a busy pool has an event in it, and any provider answers it in one page. */
const FIRST_SPAN = 256;
/** Factor by which the ranges grow: nine of them reach back 22 million blocks. */
const GROWTH = 4;

/**
 * Returns the states of pools at `block` from logs alone, by a search back in growing ranges for the last event that sets
 * each price. Once the way forward to the head is no longer than the next range, the blocks after `block` are read as well.
 * @throws SearchTooLong; AppError `chain_moved` (retryable); ArchiveDisprovedError
 */
export async function statesFromLogs(
  source: PastSource,
  block: PricedBlock,
  newest: HeadRead,
): Promise<Pick<Market, "states" | "archive">> {
  const { reader, origins } = source;
  const words = new ArchiveWords();
  const found = new Map<PoolId, ChainLog[]>();
  let ahead = NOTHING_AHEAD;
  let hasLookedAhead = false;
  // A pool without any state at the head had none before.
  const unseen = new Map(
    newest.reads.flatMap(({ pool, reading }) => (reading === undefined ? [] : [[pool.id, pool] as const])),
  );
  let [to, maxLogs] = [block.number, MAX_LOGS];
  const open = () => [...unseen.values()].filter(({ id }) => origins.firstBlock(id) <= to);
  for (let span = FIRST_SPAN, pools = open(); pools.length > 0; span *= GROWTH, pools = open()) {
    const from = Math.max(Math.min(...pools.map(({ id }) => origins.firstBlock(id))), to - span + 1);
    const range = { fromBlock: from, toBlock: to, maxLogs, onArchived: words.note };
    const logs = await orTooLong(to + 1, stateLogs(reader, pools, range));
    maxLogs -= logs.length;
    for (const [id, own] of byPool(logs)) {
      found.set(id, [...own, ...(found.get(id) ?? [])]);
      if (own.some(setsPrice)) unseen.delete(id);
    }
    to = from - 1;
    const left = open();
    const isNear = newest.header.number - block.number <= span * GROWTH;
    if (hasLookedAhead || left.length === 0 || !isNear) continue;
    hasLookedAhead = true;
    ahead = await orTooLong(to + 1, unmovedSince(reader, left, { block, newest, words }));
    for (const id of ahead.settled) unseen.delete(id);
  }
  const seen = new Map([...ahead.states, ...(await foldedStates(reader, block, found))]);
  const { claims } = ahead;
  return confirmed(source, { block, newest, words, found, seen, claims, unseen: new Set(unseen.keys()) });
}

/** Where a read takes too many logs, throws the error that says down to which block the search has come. */
const orTooLong = <T>(lowest: number, read: Promise<T>): Promise<T> =>
  read.catch((error: unknown) => {
    throw isTooManyLogs(error) ? new SearchTooLong(lowest, error) : error;
  });

/** What the blocks after a block tell of the pools at it. */
interface Ahead {
  readonly states: ReadonlyMap<PoolId, Observation>;
  /** Pools of which no older logs are needed. */
  readonly settled: ReadonlySet<PoolId>;
  /** What the states rest on: that a pool had no events in these blocks. */
  readonly claims: ReadonlyMap<PoolId, LogClaim>;
}

const NOTHING_AHEAD: Ahead = { states: new Map(), settled: new Set(), claims: new Map() };

/** What a search through logs has found. */
interface FoundStates {
  readonly block: PricedBlock;
  readonly newest: HeadRead;
  readonly words: ArchiveWords;
  readonly found: ReadonlyMap<PoolId, readonly ChainLog[]>;
  readonly seen: ReadonlyMap<PoolId, Observation>;
  /** What is concluded from the blocks after the block. */
  readonly claims: ReadonlyMap<PoolId, LogClaim>;
  /** Pools without a state. */
  readonly unseen: ReadonlySet<PoolId>;
}

/**
 * Returns the states, each with what an archive alone says of it: that the pool had no other event since the last one that
 * was found, or after the block, or none at all. @throws ArchiveDisprovedError
 */
async function confirmed(
  { origins, finalized }: PastSource,
  { block, newest, words, found, seen, claims: ahead, unseen }: FoundStates,
): Promise<Pick<Market, "states" | "archive">> {
  const claims = new Map(ahead);
  for (const { pool } of newest.reads) {
    const logs = found.get(pool.id) ?? [];
    const start = logs.findLastIndex(setsPrice);
    if (claims.has(pool.id) || (start === -1 && !unseen.has(pool.id))) continue;
    const fromBlock = logs[start]?.blockNumber ?? origins.firstBlock(pool.id);
    const own = logs.filter(({ blockNumber }) => blockNumber >= fromBlock);
    claims.set(pool.id, { ...stateLogsOf(pool), fromBlock, toBlock: block.number, logs: own });
  }
  const shown = newest.reads.filter((read) => isShownByState(read, seen.get(read.pool.id), block));
  const word = await words.confirm(claims, new Set(shown.map(({ pool }) => pool.id)));
  const absent = [...unseen].filter((id) => word.get(id)?.alone !== undefined);
  for (const id of unseen) if (!absent.includes(id)) origins.emptyThrough(id, Math.min(block.number, finalized));
  const states = new Map(
    [...seen].map(([id, state]) => {
      const archive = word.get(id);
      return [id, archive === undefined ? state : { ...state, archive }];
    }),
  );
  const { label } = words;
  const isAlone = absent.length > 0 && label !== undefined;
  return { states, ...(isAlone ? { archive: { label, absent, isOfAnnouncements: false } } : {}) };
}

/**
 * True if the pool's contract says at the head that it has not changed since the last event that was found, or since the
 * block if there is none. Then no log of it is missing: its state is the node's.
 */
function isShownByState({ reading, changedAt }: PoolRead, seen: Observation | undefined, block: PricedBlock): boolean {
  if (seen === undefined || changedAt === undefined || changedAt === 0) return false;
  if (!Bun.deepEquals(seen.reading, reading)) return false;
  return seen.transactionHash === undefined ? changedAt <= block.timestamp : changedAt === seen.timestamp;
}

/**
 * Reads the blocks after `block`. Pools without an event in them had the head's state at it, and pools that began in them
 * had none. So a search for a pool that did not exist ends here.
 */
async function unmovedSince(
  reader: PastReader,
  pools: readonly Pool[],
  { block, newest, words }: { readonly block: PricedBlock; readonly newest: HeadRead; readonly words: ArchiveWords },
): Promise<Ahead> {
  const { header, reads } = newest;
  if (header.number < block.number) return NOTHING_AHEAD;
  const states = new Map<PoolId, Observation>();
  const settled = new Set<PoolId>();
  const claims = new Map<PoolId, LogClaim>();
  const range = { fromBlock: block.number + 1, toBlock: header.number };
  const [logs, created] = await Promise.all([
    stateLogs(reader, pools, { ...range, onArchived: words.note }),
    creationLogs(reader, pools, range.fromBlock, range.toBlock),
  ]);
  if ((await reader.header(header.number))?.hash !== header.hash) throw chainMoved(header.number);
  const begun = logs.filter(beginsPool).map(poolIdOf);
  for (const { id } of pools) {
    const isNamedIn = ({ data, topics }: ChainLog) => [data, ...topics].some((hex) => hex.includes(id.slice(2)));
    if (begun.includes(id) || created.some(isNamedIn)) settled.add(id);
  }
  const moved = new Set(logs.map(poolIdOf));
  const readOf = new Map(reads.map((read) => [read.pool.id, read]));
  for (const pool of pools) {
    const { id } = pool;
    const read = readOf.get(id);
    if (moved.has(id) || settled.has(id) || read === undefined) continue;
    settled.add(id);
    claims.set(id, { ...stateLogsOf(pool), ...range, logs: [] });
    if (read.reading === undefined) continue;
    const { number, hash, timestamp } = block;
    states.set(id, { reading: read.reading, block: number, blockHash: hash, timestamp });
  }
  return { states, settled, claims };
}

/** Folds each pool's logs, starting at the last one that set its price. @throws AppError `chain_moved` unless all blocks are canonical */
async function foldedStates(
  reader: PastReader,
  block: PricedBlock,
  found: ReadonlyMap<PoolId, readonly ChainLog[]>,
): Promise<Map<PoolId, Observation>> {
  const folded = new Map<PoolId, Observation>();
  const hashes = new Map<number, string>([[block.number, block.hash]]);
  for (const [id, logs] of found) {
    const start = logs.findLastIndex(setsPrice);
    if (start === -1) continue;
    let observation: Observation | undefined;
    for (const log of logs.slice(start)) {
      observation = applyLog(observation, log, 0);
      hashes.set(log.blockNumber, log.blockHash);
    }
    if (observation !== undefined) folded.set(id, observation);
  }
  const numbers = [...hashes.keys()];
  const headers = await reader.headers(numbers);
  const timestamps = new Map<number, number>();
  for (const [index, number] of numbers.entries()) {
    const header = headers[index];
    if (header?.hash !== hashes.get(number)) throw chainMoved(number);
    timestamps.set(number, header!.timestamp);
  }
  return new Map([...folded].map(([id, one]) => [id, { ...one, timestamp: timestamps.get(one.block)! }]));
}
