/**
 * The price streams: a pure fold over their events into a token's facts, its pools and the pools' recent states; the
 * conversion of reads to events; and the journal, which appends what has changed. Nothing is priced from a stream: it
 * tells operators and auditors what was read, and when.
 */
import { LRUCache } from "lru-cache";
import type { ChainView } from "../../chain/consumer.ts";
import { secondsIn } from "../../core/block-time.ts";
import type { Clock } from "../../core/clock.ts";
import type { Address } from "../../core/hex.ts";
import { TokenBuckets } from "../../core/rate.ts";
import { Semaphore } from "../../core/semaphore.ts";
import {
  type BlockRef,
  type PoolDiscovered,
  type PoolState,
  type PriceEvent,
  type PriceObserved,
  priceStream,
  type StreamName,
  type TokenIdentified,
} from "../../events/types.ts";
import { appendWithRetry, type EventLog } from "../../log/event-log.ts";
import type { PricedBlock, TokenFacts } from "../market/market.ts";
import type { Pool, PoolId, Reading } from "../market/pools.ts";
import type { MarketRead } from "./discovery.ts";
import { observed } from "./history.ts";

interface KnownPool {
  readonly discovered: PoolDiscovered;
  /** Ascending by block, at most one per block. */
  readonly observations: readonly PriceObserved[];
}

export interface PriceState {
  readonly token: TokenIdentified | undefined;
  readonly pools: ReadonlyMap<PoolId, KnownPool>;
}

/** States kept per pool. A revert below all of them leaves the pool without a state until it is read again. */
const MAX_OBSERVATIONS = 32;

export const initialPriceState: PriceState = { token: undefined, pools: new Map() };

export function evolvePrice(state: PriceState, event: PriceEvent): PriceState {
  switch (event.type) {
    case "TokenIdentified":
      return { ...state, token: event };
    case "PoolDiscovered": {
      const { observations = [] } = state.pools.get(event.pool) ?? {};
      return withPool(state, event.pool, { discovered: event, observations });
    }
    case "PriceObserved": {
      const known = state.pools.get(event.pool);
      if (known === undefined) return state;
      // Older releases recorded the times of some nodes in their own units.
      const timestamp = secondsIn(event.timestamp) ?? event.timestamp;
      const observations = insertByBlock(known.observations, { ...event, timestamp }).slice(-MAX_OBSERVATIONS);
      return withPool(state, event.pool, { ...known, observations });
    }
    case "BlocksReverted": {
      const pools = [...state.pools].map(([id, { discovered, observations }]) => {
        const kept = observations.filter(({ block }) => block <= event.ancestor.number);
        return [id, { discovered, observations: kept }] as const;
      });
      return { ...state, pools: new Map(pools) };
    }
    default:
      return event satisfies never;
  }
}

const withPool = (state: PriceState, id: PoolId, pool: KnownPool): PriceState => ({
  ...state,
  pools: new Map(state.pools).set(id, pool),
});

/** Inserts a state in block order; of two for one block the later entry wins. A process may write an older block late. */
function insertByBlock(entries: readonly PriceObserved[], entry: PriceObserved): PriceObserved[] {
  const after = entries.findLastIndex(({ block }) => block <= entry.block) + 1;
  const replaced = after > 0 && entries[after - 1]!.block === entry.block ? 1 : 0;
  return entries.toSpliced(after - replaced, replaced, entry);
}

/** Returns the newest state of a pool in the stream at or before a block. */
export const latest = (state: PriceState, pool: PoolId, block = Number.POSITIVE_INFINITY): PriceObserved | undefined =>
  state.pools.get(pool)?.observations.findLast((entry) => entry.block <= block);

const identifiedEvent = (facts: TokenFacts, block: number): TokenIdentified => ({
  type: "TokenIdentified",
  name: facts.name,
  symbol: facts.symbol,
  ...(facts.decimals === undefined ? {} : { decimals: facts.decimals }),
  isContract: facts.kind !== "not_a_token",
  block,
});

const discoveredEvent = (pool: Pool, block: number): PoolDiscovered => ({
  type: "PoolDiscovered",
  pool: pool.id,
  factory: pool.factory,
  style: pool.style,
  fee: pool.fee,
  token0: pool.token0,
  token1: pool.token1,
  ...(pool.stableCurve ? { stableCurve: true } : {}),
  ...(pool.key === undefined ? {} : { key: pool.key }),
  block,
});

/** Converts a reading to its form in the event log. */
function toPoolState(reading: Reading): PoolState {
  return reading.style === "v2"
    ? { style: "v2", reserve0: reading.reserve0.toString(), reserve1: reading.reserve1.toString() }
    : {
        style: "v3",
        sqrtPriceX96: reading.sqrtPriceX96.toString(),
        liquidity: reading.liquidity.toString(),
        tick: reading.tick,
      };
}

/** What a read can say. */
type ReadEvent = TokenIdentified | PoolDiscovered | PriceObserved;

/** Returns a read of pools as events: that a pool exists, and its state if it has one. */
function poolEvents(reads: MarketRead["reads"], header: PricedBlock): ReadEvent[] {
  return reads.flatMap((read): ReadEvent[] => {
    const { pool } = read;
    const discovered = discoveredEvent(pool, header.number);
    const state = observed(read, header);
    if (state === undefined) return [discovered];
    const { reading, balance0, balance1, block, blockHash, timestamp } = state;
    const balances = {
      ...(balance0 === undefined ? {} : { balance0: balance0.toString() }),
      ...(balance1 === undefined ? {} : { balance1: balance1.toString() }),
    };
    const said = { type: "PriceObserved", pool: pool.id, state: toPoolState(reading) } as const;
    return [discovered, { ...said, ...balances, block, blockHash, timestamp }];
  });
}

/** Consecutive conflicts before giving up. Each one means that another process made progress. */
const MAX_CONFLICTS = 16;
/** Newest events read of a stream before its first append: some states of each pool. */
const TAIL = 256;
/** Streams whose tails are kept: some 10 KB each. */
const MAX_TAILS = 2_000;

interface StreamTail {
  readonly version: number;
  readonly state: PriceState;
}

/** Facts and pools of one stream. */
interface Recorded {
  readonly token: Address;
  readonly facts: TokenFacts | undefined;
  readonly reads: MarketRead["reads"];
  /** The keys that want the token: one of them bears the states. "" for the service itself. */
  readonly keys: Iterable<string>;
}

const HOUR_MS = 3_600_000;

interface JournalOptions {
  readonly chainId: number;
  readonly log: EventLog;
  readonly view: ChainView;
  readonly clock: Clock;
  /** States that a key may have recorded in an hour. Beyond it, prices are given without a record. */
  readonly statesPerHour: number;
}

export class Journal {
  readonly #options: JournalOptions;
  readonly #tails = new LRUCache<StreamName, StreamTail>({ max: MAX_TAILS });
  /** Appends of this process wait for each other. One append alone would conflict with the next. */
  readonly #turns = new LRUCache<StreamName, Semaphore>({ max: MAX_TAILS });

  readonly #states: TokenBuckets;

  constructor(options: JournalOptions) {
    this.#options = options;
    this.#states = new TokenBuckets(options.clock);
  }

  /** Appends what a read at `header` changed in a token's stream. Resolves once it is durable. */
  record({ token, facts, reads, keys }: Recorded, header: PricedBlock): Promise<void> {
    const stream = priceStream(this.#options.chainId, token);
    const identified = facts === undefined ? [] : [identifiedEvent(facts, header.number)];
    const turn = this.#turns.get(stream) ?? new Semaphore(1);
    this.#turns.set(stream, turn);
    return turn.run(() => this.#append(stream, [...identified, ...poolEvents(reads, header)], keys));
  }

  /** True if one of the keys may have one more state recorded. */
  #mayObserve(keys: Iterable<string>): boolean {
    const capacity = this.#options.statesPerHour;
    for (const key of keys) {
      if (this.#states.take(key, { capacity, fillMs: HOUR_MS }) === 0) return true;
    }
    return false;
  }

  async #append(stream: StreamName, events: readonly ReadEvent[], keys: Iterable<string>): Promise<void> {
    let after = initialPriceState;
    const version = await appendWithRetry(this.#options.log, MAX_CONFLICTS, async (attempt) => {
      const tail = await this.#tail(stream, attempt > 1);
      const fresh: PriceEvent[] = this.#reverted(tail.state);
      after = fresh.reduce(evolvePrice, tail.state);
      for (const event of events) {
        if (!isNews(after, event)) continue;
        if (event.type === "PriceObserved" && !this.#mayObserve(keys)) continue;
        fresh.push(event);
        after = evolvePrice(after, event);
      }
      return fresh.length === 0 ? undefined : { stream, events: fresh, expectedVersion: tail.version };
    });
    if (version !== undefined) this.#tails.set(stream, { version, state: after });
  }

  /** Returns what the stream says. @param isMoved true if another process has written to it */
  async #tail(stream: StreamName, isMoved: boolean): Promise<StreamTail> {
    const { log } = this.#options;
    const kept = this.#tails.get(stream);
    if (kept !== undefined && !isMoved) return kept;
    const { version, state } = kept ?? { version: 0, state: initialPriceState };
    const read =
      kept === undefined
        ? (await log.readBackwards(stream, { limit: TAIL })).reverse()
        : await log.read(stream, { from: version + 1 });
    const tail = {
      version: read.at(-1)?.version ?? version,
      state: read.reduce((folded, { event }) => evolvePrice(folded, event as PriceEvent), state),
    };
    this.#tails.set(stream, tail);
    return tail;
  }

  /** Returns the revert of the recorded states whose blocks have left the chain; none if all are still on it. */
  #reverted({ pools }: PriceState): PriceEvent[] {
    const { view } = this.#options;
    const orphaned = [...pools.values()]
      .flatMap(({ observations }) => observations)
      .filter(({ block: number, blockHash: hash }) => !view.isCanonical({ number, hash }));
    if (orphaned.length === 0) return [];
    const below = view.header(Math.min(...orphaned.map(({ block }) => block)) - 1);
    if (below === undefined) return [];
    const ancestor: BlockRef = { number: below.number, hash: below.hash };
    return [{ type: "BlocksReverted", ancestor }];
  }
}

/** True if the stream does not say this yet. */
function isNews(state: PriceState, event: ReadEvent): boolean {
  switch (event.type) {
    case "TokenIdentified": {
      const { token } = state;
      return token?.name !== event.name || token.symbol !== event.symbol || token.decimals !== event.decimals;
    }
    case "PoolDiscovered": {
      const known = state.pools.get(event.pool)?.discovered;
      return known === undefined || known.stableCurve !== event.stableCurve;
    }
    case "PriceObserved":
      return textOf(latest(state, event.pool, event.block)) !== textOf(event);
    default:
      return event satisfies never;
  }
}

const textOf = (event: PriceObserved | undefined): string =>
  JSON.stringify([event?.state, event?.balance0, event?.balance1]);
