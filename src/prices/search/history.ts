/**
 * A market at a past block. If the node still has that block's state, it is read with the token's facts and the pools'
 * balances. Otherwise the facts are the newest ones, and the states come from logs alone: the last event that sets the
 * price, found by searching back in growing ranges, and the liquidity events after it. Both ways give the same reading.
 * Every result is checked against the hash of the requested block and of the blocks that the logs are from.
 */

import type { Chain } from "../../chains/chains.ts";
import { OverBudget } from "../../core/budget.ts";
import { countedCache } from "../../core/counted-cache.ts";
import { AppError } from "../../core/errors.ts";
import type { Address, Hash } from "../../core/hex.ts";
import type { BlockRange } from "../../events/types.ts";
import { addressWord } from "../../rpc/calls.ts";
import type { BlockHeader, ChainLog, ChainReader, LogClaim, LogFilter } from "../../rpc/port.ts";
import { isHistoryPruned } from "../../rpc/rpc-errors.ts";
import type { Market, PricedBlock } from "../market/market.ts";
import type { Observation, Pool, PoolId } from "../market/pools.ts";
import type { PoolRead } from "../styles/style.ts";
import {
  applyLog,
  beginsPool,
  CREATION_TOPICS,
  emitterOf,
  logsOf,
  poolIdOf,
  STATE_TOPICS,
  STYLES,
  setsPrice,
} from "../styles/styles.ts";
import { ArchiveWords, unlessDisproved } from "./archive-words.ts";
import { type MarketRead, planMarket } from "./discovery.ts";

/** Pools remembered: an address and a number each. */
const MAX_POOLS = 20_000;

/**
 * Remembers up to which block a pool is known to have had no state. A pool found through its factory comes without the
 * block of its first event. A search that found nothing back to the chain's first block is not repeated.
 */
export class Origins {
  readonly #emptyThrough = countedCache<PoolId, number>(MAX_POOLS);

  /** Returns the first block in which the pool may have a state. */
  firstBlock(pool: PoolId): number {
    return (this.#emptyThrough.get(pool) ?? -1) + 1;
  }

  /** Records that the pool had no state up to `block`, which must be final. */
  emptyThrough(pool: PoolId, block: number): void {
    if (block >= this.firstBlock(pool)) this.#emptyThrough.set(pool, block);
  }
}

/** A token's market without its block: `pools` are those that exist, with the settings that no log contains. */
export type SeenMarket = Pick<Market, "pools" | "states" | "facts" | "decimals" | "factsOf" | "archive">;

/** A read of a market, with the header that it was read at. */
export interface HeadRead extends MarketRead {
  readonly header: BlockHeader;
}

/** What a read of past blocks asks of a chain. */
export type PastReader = Pick<ChainReader, "calls" | "callsAtHead" | "head" | "header" | "headers" | "logs">;

/** The source for reads of past blocks, and the known limits of the search. */
export interface PastSource {
  readonly chain: Chain;
  readonly reader: PastReader;
  readonly origins: Origins;
  /** The newest final block known; -1 if there is none. */
  readonly finalized: number;
}

/** Blocks in the first range: a busy pool has an event in it, and any provider answers it in one page. */
const FIRST_SPAN = 256;
/** Factor by which the ranges grow: nine of them reach back 22 million blocks. */
const GROWTH = 4;

/**
 * Most logs read for one request: some 80 MB, and more than the busiest pools have in the half hour of an average.
 * Any account can deploy an unlisted factory, and on many chains a log of it costs next to nothing.
 */
export const MAX_LOGS = 100_000;
/** Most requests for logs of one search, where no archive has them. */
export const MAX_LOG_REQUESTS = 64;

export const isTooManyLogs = (error: unknown): boolean =>
  error instanceof OverBudget || (error instanceof AppError && error.code === "too_many_logs");

/** A search back that its question can't pay for. `block` is the lowest one that it has searched. */
export class SearchTooLong extends AppError {
  readonly block: number;

  constructor(block: number, cause: unknown) {
    super("the search takes more requests for logs than the question may make", { code: "too_many_logs", cause });
    this.block = block;
  }
}

/** Resolves to undefined where `reading` takes too many logs, or the endpoints have pruned what it needs. */
export async function undefinedIfUnreadable<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (isTooManyLogs(error) || isHistoryPruned(error)) return undefined;
    throw error;
  }
}

/** The chain was reorganised during the read. A retry is right. */
const chainMoved = (block: number): AppError =>
  new AppError(`block ${block} was replaced by a reorg while it was read`, {
    code: "chain_moved",
    retryable: true,
    meta: { block },
  });

/** No endpoint tells a block that the chain has. A retry is right: they may be behind. */
export const blockUnavailable = (chain: Chain, block: number): AppError =>
  new AppError(`no endpoint of ${chain.name} tells block ${block}, which the chain has`, {
    code: "chain_unavailable",
    retryable: true,
    meta: { chain: chain.name, block },
  });

/** Returns a pool read as an observation; undefined when the pool had no state. */
export function observed(
  { reading, balance0, balance1, given, traded }: PoolRead,
  header: PricedBlock,
): Observation | undefined {
  if (reading === undefined) return undefined;
  return {
    reading,
    ...(balance0 === undefined ? {} : { balance0 }),
    ...(balance1 === undefined ? {} : { balance1 }),
    ...(given === undefined ? {} : { given }),
    ...(traded === undefined ? {} : { traded }),
    block: header.number,
    blockHash: header.hash,
    timestamp: header.timestamp,
  };
}

/** A token, and the pools that its price depends on. */
interface Sought {
  readonly token: Address;
  readonly pools: readonly Pool[];
}

/** Returns what a read shows of one token. `header`: the block that was read. */
export function seenIn(read: MarketRead, token: Address, header: PricedBlock): SeenMarket {
  const states = new Map<PoolId, Observation>();
  for (const one of read.reads) {
    const state = observed(one, header);
    if (state !== undefined) states.set(one.pool.id, state);
  }
  const pools = read.reads.map(({ pool }) => pool);
  return { states, pools, facts: read.facts.get(token)!, decimals: read.decimals, factsOf: "block" };
}

/**
 * Returns a token's market at the end of `block`. The newest facts stand in for those of the block if the node lacks that
 * state, or if the contract was no token then.
 * @throws AppError `chain_moved` (retryable) when the block or a log's block is no longer canonical, `too_many_logs`
 */
export async function seenAt(source: PastSource, { token, pools }: Sought, block: PricedBlock): Promise<SeenMarket> {
  const { chain, reader } = source;
  const plan = planMarket(chain, [token], pools, block.hash);
  const then = await archived(reader, token, plan, block);
  if (then?.facts.kind === "erc20") return then;
  const { header, results } = await reader.callsAtHead(plan.calls);
  const newest: HeadRead = { header, ...plan.read(results) };
  const now: SeenMarket = { ...seenIn(newest, token, header), factsOf: "newest" };
  if (then !== undefined) return { ...now, states: then.states };
  const { states, archive } = await unlessDisproved(() => fromLogs(source, block, newest));
  return { ...now, states: tradedNow(states, newest), ...(archive === undefined ? {} : { archive }) };
}

/** Trades with hooks need the block's state. Without it those of today stand in: their pools' confidence is limited anyway. */
function tradedNow(states: SeenMarket["states"], { reads }: MarketRead): SeenMarket["states"] {
  const trades = new Map(
    reads.flatMap(({ pool, traded }) => (traded === undefined ? [] : [[pool.id, traded] as const])),
  );
  return new Map(
    [...states].map(([id, state]) => {
      const traded = trades.get(id);
      return [id, traded === undefined ? state : { ...state, traded }];
    }),
  );
}

/** True for a pair that never had liquidity. Logs give no state for it either. */
const isUnused = ({ reading }: Observation): boolean =>
  reading.style === "v2" && reading.reserve0 === 0n && reading.reserve1 === 0n;

async function archived(
  reader: PastReader,
  token: Address,
  plan: ReturnType<typeof planMarket>,
  block: PricedBlock,
): Promise<SeenMarket | undefined> {
  try {
    const seen = seenIn(plan.read(await reader.calls(plan.calls, block.number)), token, block);
    const now = await reader.header(block.number);
    if (now?.hash !== block.hash) throw chainMoved(block.number);
    return { ...seen, states: new Map([...seen.states].filter(([, state]) => !isUnused(state))) };
  } catch (error) {
    if (error instanceof AppError && error.code === "state_unavailable") return undefined;
    throw error;
  }
}

async function fromLogs(
  source: PastSource,
  block: PricedBlock,
  newest: HeadRead,
): Promise<Pick<SeenMarket, "states" | "archive">> {
  const { reader, origins } = source;
  const words = new ArchiveWords();
  const found = new Map<PoolId, ChainLog[]>();
  const states = new Map<PoolId, Observation>();
  const mayBeBelow = ({ id }: Pool): boolean => origins.firstBlock(id) <= to;
  // A pool without any state by now had none before.
  const unseen = new Map(
    newest.reads.flatMap(({ pool, reading }) => (reading === undefined ? [] : [[pool.id, pool] as const])),
  );
  let to = block.number;
  let open = [...unseen.values()].filter(mayBeBelow);
  /** What the states rest on: that a pool had no other events in these blocks. */
  const claims = new Map<PoolId, LogClaim>();
  let checkedForward = false;
  let most = MAX_LOGS;
  for (let span = FIRST_SPAN; open.length > 0 && to >= 0; span *= GROWTH) {
    const from = Math.max(Math.min(...open.map(({ id }) => origins.firstBlock(id))), to - span + 1);
    const range = { fromBlock: from, toBlock: to, maxLogs: most, onArchived: words.note };
    const logs = await stateLogs(reader, open, range).catch((error: unknown) => {
      throw isTooManyLogs(error) ? new SearchTooLong(to + 1, error) : error;
    });
    most -= logs.length;
    for (const [id, own] of byPool(logs)) found.set(id, [...own, ...(found.get(id) ?? [])]);
    for (const { id } of open) if (found.get(id)?.some(setsPrice)) unseen.delete(id);
    to = from - 1;
    open = open.filter((pool) => unseen.has(pool.id) && mayBeBelow(pool));
    // Do this as soon as the way forward to the head is no longer than the next range back.
    const isNear = newest.header.number - block.number <= span * GROWTH;
    if (!checkedForward && open.length > 0 && to >= 0 && isNear) {
      checkedForward = true;
      const unmoved = await unmovedSince(reader, open, { block, newest, words }).catch((error: unknown) => {
        throw isTooManyLogs(error) ? new SearchTooLong(to + 1, error) : error;
      });
      for (const [id, observation] of unmoved.states) states.set(id, observation);
      for (const [id, claim] of unmoved.claims) claims.set(id, claim);
      for (const id of unmoved.settled) unseen.delete(id);
      open = open.filter(({ id }) => unseen.has(id));
    }
  }
  const seen = await verified(reader, block, found, states);
  return confirmed(source, { block, newest, words, found, seen, claims, unseen: new Set(unseen.keys()) });
}

/** What a search through logs has found. */
interface SwapSearch {
  readonly block: PricedBlock;
  readonly newest: HeadRead;
  readonly words: ArchiveWords;
  readonly found: ReadonlyMap<PoolId, readonly ChainLog[]>;
  readonly seen: Map<PoolId, Observation>;
  /** What is concluded from the blocks after the block. */
  readonly claims: Map<PoolId, LogClaim>;
  /** Pools without a state. */
  readonly unseen: ReadonlySet<PoolId>;
}

/**
 * Returns the states with what archives alone say of them: that a pool had no other event since the last one that was
 * told, or after the block, or none at all. @throws ArchiveDisprovedError
 */
async function confirmed(
  { origins, finalized }: PastSource,
  { block, newest, words, found, seen, claims, unseen }: SwapSearch,
): Promise<Pick<SeenMarket, "states" | "archive">> {
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
 * True if the pool's contract says at the head that it has not changed since the event that was told last, or since the
 * block if none was. Then no log of it is missing: its state is the node's.
 */
function isShownByState({ reading, changedAt }: PoolRead, seen: Observation | undefined, block: PricedBlock): boolean {
  if (seen === undefined || changedAt === undefined || changedAt === 0) return false;
  if (!Bun.deepEquals(seen.reading, reading)) return false;
  return seen.transactionHash === undefined ? changedAt <= block.timestamp : changedAt === seen.timestamp;
}

/**
 * Returns the pools whose state at `block` the blocks after it tell: those without an event had the head's state, and
 * those that began after it had none. So a search for a pool that did not exist ends here.
 */
async function unmovedSince(
  reader: PastReader,
  pools: readonly Pool[],
  { block, newest, words }: { readonly block: PricedBlock; readonly newest: HeadRead; readonly words: ArchiveWords },
): Promise<{ states: Map<PoolId, Observation>; settled: Set<PoolId>; claims: Map<PoolId, LogClaim> }> {
  const { header, reads } = newest;
  const states = new Map<PoolId, Observation>();
  const settled = new Set<PoolId>();
  const claims = new Map<PoolId, LogClaim>();
  const range = { fromBlock: block.number + 1, toBlock: header.number };
  if (header.number < block.number) return { states, settled, claims };
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

/** Folds each pool's logs, starting at the last one that set its price. Checks the hash of every block involved. */
async function verified(
  reader: PastReader,
  block: PricedBlock,
  found: ReadonlyMap<PoolId, readonly ChainLog[]>,
  states: Map<PoolId, Observation>,
): Promise<Map<PoolId, Observation>> {
  const folded = new Map<PoolId, Observation>();
  const hashes = new Map<number, string>([[block.number, block.hash]]);
  for (const [id, logs] of found) {
    if (states.has(id)) continue;
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
  for (const [id, observation] of folded) {
    states.set(id, { ...observation, timestamp: timestamps.get(observation.block)! });
  }
  return states;
}

/** Which logs change a pool's state. */
const stateLogsOf = (pool: Pool) =>
  logsOf(pool, pool.key === undefined ? STATE_TOPICS.ofContracts : STATE_TOPICS.ofKeyed);

/** Reads the logs that change pools' states. No request if the range is empty. @throws AppError `too_many_logs` */
async function stateLogs(
  reader: PastReader,
  pools: readonly Pool[],
  { maxLogs = MAX_LOGS, ...given }: BlockRange & Pick<LogFilter, "maxLogs" | "onArchived">,
): Promise<ChainLog[]> {
  if (given.fromBlock > given.toBlock) return [];
  const range = { ...given, maxLogs };
  const own = pools.filter(({ key }) => key === undefined).map(emitterOf);
  const inside = Map.groupBy(
    pools.filter(({ key }) => key !== undefined),
    emitterOf,
  );
  const reads = [...inside].map(([emitter, some]) =>
    reader.logs({
      ...{ ...range, addresses: [emitter], topics: STATE_TOPICS.ofKeyed },
      moreTopics: [some.map(({ id }) => id as Hash)],
    }),
  );
  if (own.length > 0) reads.push(reader.logs({ ...range, addresses: own, topics: STATE_TOPICS.ofContracts }));
  return (await Promise.all(reads)).flat();
}

/** Reads the logs in which factories announce these pools. Pools whose own logs tell their beginning need none. */
async function creationLogs(
  reader: PastReader,
  pools: readonly Pool[],
  fromBlock: number,
  toBlock: number,
): Promise<ChainLog[]> {
  const silent = pools.filter(
    ({ style }) => STYLES[style].begins === undefined && STYLES[style].created.tokensAt === 1,
  );
  if (silent.length === 0 || fromBlock > toBlock) return [];
  const words = (token: "token0" | "token1") =>
    [...new Set(silent.map((pool) => pool[token]))].map((address) => `0x${addressWord(address)}` as Hash);
  return reader.logs({
    ...{ fromBlock, toBlock, maxLogs: MAX_LOGS, topics: CREATION_TOPICS },
    addresses: [...new Set(silent.map(({ factory }) => factory))],
    moreTopics: [words("token0"), words("token1")],
  });
}

/** Groups logs by pool, each group in chain order. */
const byPool = (logs: readonly ChainLog[]): Map<PoolId, ChainLog[]> => Map.groupBy(logs, poolIdOf);

/** Most headers fetched for timestamps. The times of the blocks between them are interpolated by number. */
const MAX_DATED_BLOCKS = 12;

/** The states of pools in a range of blocks. */
export interface StateSeries {
  readonly states: ReadonlyMap<PoolId, readonly Observation[]>;
  /** True if an archive alone says that nothing else happened to a pool. */
  readonly isArchivesAlone: boolean;
}

/**
 * Returns the states of pools after each block that changed them, from the state at `start` up to and including `end`.
 * @throws AppError `chain_moved` (retryable), `too_many_logs`
 */
export const seriesBetween = (...asked: Parameters<typeof readSeries>): Promise<StateSeries> =>
  unlessDisproved(() => readSeries(...asked));

async function readSeries(
  source: PastSource,
  sought: Sought,
  start: PricedBlock,
  end: PricedBlock,
): Promise<StateSeries> {
  const { reader } = source;
  const words = new ArchiveWords();
  const range = { fromBlock: start.number + 1, toBlock: end.number };
  const [before, logs] = await Promise.all([
    seenAt(source, sought, start),
    stateLogs(reader, sought.pools, { ...range, onArchived: words.note }),
  ]);
  if ((await reader.header(end.number))?.hash !== end.hash) throw chainMoved(end.number);
  const timestampOf = await dated(reader, logs, start, end);
  const groups = byPool(logs);
  const claims = new Map(
    sought.pools.map((pool) => [pool.id, { ...stateLogsOf(pool), ...range, logs: groups.get(pool.id) ?? [] }]),
  );
  const word = [
    ...(await words.confirm(claims)).values(),
    ...[...before.states.values()].map(({ archive }) => archive),
  ];
  const states = new Map(
    sought.pools.map(({ id }) => {
      const first = before.states.get(id);
      const series = first === undefined ? [] : [{ ...first, block: start.number, timestamp: start.timestamp }];
      let last: Observation | undefined = first;
      for (const log of groups.get(id) ?? []) {
        const next = applyLog(last, log, timestampOf(log.blockNumber));
        if (next === undefined || next === last) continue;
        if (series.at(-1)?.block === next.block) series.pop();
        series.push(next);
        last = next;
      }
      return [id, series] as const;
    }),
  );
  return { states, isArchivesAlone: word.some((one) => one?.alone !== undefined) };
}

async function dated(
  reader: PastReader,
  logs: readonly ChainLog[],
  start: PricedBlock,
  end: PricedBlock,
): Promise<(block: number) => number> {
  const numbers = [...new Set(logs.map((log) => log.blockNumber))];
  const step = Math.ceil(numbers.length / MAX_DATED_BLOCKS);
  const headers = await reader.headers(numbers.filter((_, at) => at % step === 0));
  const known = [start, ...headers.filter((header) => header !== undefined), end].sort((a, b) => a.number - b.number);
  return (block) => {
    const next = known.findIndex(({ number }) => number >= block);
    const after = known[next] ?? end;
    const before = known[next - 1] ?? start;
    if (after.number === block || after.number === before.number) return after.timestamp;
    const share = (block - before.number) / (after.number - before.number);
    return before.timestamp + Math.round((after.timestamp - before.timestamp) * share);
  };
}
