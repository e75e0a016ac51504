/**
 * The projection of a price stream: a pure fold over its events into the token's facts, its pools, and each pool's
 * recent states in block order; its headline, which says from which block on a process follows the pools; and the
 * conversions between the events and the types of the prices.
 */
import type { Address } from "../../core/hex.ts";
import type { PoolDiscovered, PriceEvent, PriceObserved, TokenIdentified } from "../../events/types.ts";
import type { Headline } from "../../log/event-log.ts";
import { fromPoolState, type Observation, type Pool, toPoolState } from "../market/pools.ts";
import type { TokenFacts } from "../search/discovery.ts";

export interface KnownPool {
  readonly discovered: PoolDiscovered;
  /** Ascending by block, at most one per block. */
  readonly observations: readonly PriceObserved[];
  /** From this block on `observations` is complete; infinite when even the newest state may be missing. */
  readonly knownFrom: number;
}

export interface PriceState {
  readonly token: TokenIdentified | undefined;
  readonly pools: ReadonlyMap<Address, KnownPool>;
}

/** States kept per pool. A revert below all of them leaves the pool without a state until it is read again. */
const MAX_OBSERVATIONS = 32;

export const initialPriceState: PriceState = { token: undefined, pools: new Map() };

export function evolvePrice(state: PriceState, event: PriceEvent): PriceState {
  switch (event.type) {
    case "TokenIdentified":
      return { ...state, token: event };
    case "PoolDiscovered": {
      const { observations = [], knownFrom = -1 } = state.pools.get(event.pool) ?? {};
      return withPool(state, event.pool, { discovered: event, observations, knownFrom });
    }
    case "PriceObserved": {
      const known = state.pools.get(event.pool);
      if (known === undefined) return state;
      return withPool(state, event.pool, observe(known, event));
    }
    case "BlocksReverted":
      return revertedTo(state, event.ancestor.number);
    default:
      return event satisfies never;
  }
}

function observe(known: KnownPool, event: PriceObserved): KnownPool {
  const all = insertByBlock(known.observations, event);
  const observations = all.slice(-MAX_OBSERVATIONS);
  const first = known.knownFrom === Number.POSITIVE_INFINITY ? event.block : known.knownFrom;
  const knownFrom = all.length > observations.length ? Math.max(first, observations[0]!.block) : first;
  return { ...known, observations, knownFrom };
}

/** Drops the pool states above a block. */
function revertedTo(state: PriceState, block: number): PriceState {
  const pools = new Map<Address, KnownPool>();
  for (const [address, known] of state.pools) {
    const observations = known.observations.filter((entry) => entry.block <= block);
    const knownFrom = known.knownFrom > block ? Number.POSITIVE_INFINITY : known.knownFrom;
    pools.set(address, { ...known, observations, knownFrom });
  }
  return { ...state, pools };
}

/** Returns the state of a stream after a gap in reading: facts stay, pool states are dropped. */
export const afterGap = (state: PriceState): PriceState => revertedTo(state, Number.NEGATIVE_INFINITY);

/**
 * Inserts an entry in block order, one per block; the later entry wins. An entry can arrive late, since a process that
 * asks the node is ahead of the process that follows.
 */
export function insertByBlock<T extends { readonly block: number }>(entries: readonly T[], entry: T): T[] {
  const after = entries.findLastIndex(({ block }) => block <= entry.block) + 1;
  const replaced = after > 0 && entries[after - 1]!.block === entry.block ? 1 : 0;
  return entries.toSpliced(after - replaced, replaced, entry);
}

function withPool(state: PriceState, address: Address, pool: KnownPool): PriceState {
  return { ...state, pools: new Map(state.pools).set(address, pool) };
}

/** Returns the newest state of a pool in the stream at or before a block. */
export const latest = (state: PriceState, pool: Address, block = Number.POSITIVE_INFINITY): PriceObserved | undefined =>
  state.pools.get(pool)?.observations.findLast((entry) => entry.block <= block);

/**
 * The headline of a price stream, by which a replica that only reads the log knows the pools that another process keeps
 * current. A session is one unbroken stretch of following by one process. The reference stream's headline names the
 * current session; the headline of any other stream counts only if it names the same one. A session's name begins with
 * a fingerprint of the process's factories and reference tokens.
 */
export interface Coverage {
  readonly session: string | undefined;
  /**
   * The stream has the state of its pools at the end of the block before this one, and every change from this block on.
   * Each change is in the stream before its block is published as the head. Undefined: not followed.
   */
  readonly from: number | undefined;
  /** Number of the stream's pools when this was written. A pool that another process added later is not followed. */
  readonly pools: number;
}

export const UNCOVERED: Coverage = { session: undefined, from: undefined, pools: 0 };

export const headlineOf = ({ session, from, pools }: Coverage): Headline => ({
  session: session ?? null,
  from: from ?? null,
  pools,
});

export function coverageOf(headline: Headline | undefined): Coverage {
  const { session, from, pools } = headline ?? {};
  return {
    session: typeof session === "string" ? session : undefined,
    from: typeof from === "number" ? from : undefined,
    pools: typeof pools === "number" ? pools : 0,
  };
}

export const sameCoverage = (a: Coverage, b: Coverage): boolean =>
  a.session === b.session && a.from === b.from && a.pools === b.pools;

export const identifiedEvent = (facts: TokenFacts, block: number): TokenIdentified => ({
  type: "TokenIdentified",
  name: facts.name,
  symbol: facts.symbol,
  ...(facts.decimals === undefined ? {} : { decimals: facts.decimals }),
  isContract: facts.kind !== "not_a_token",
  block,
});

export const discoveredEvent = (pool: Pool, block: number): PoolDiscovered => ({
  type: "PoolDiscovered",
  pool: pool.address,
  factory: pool.factory,
  style: pool.style,
  fee: pool.fee,
  token0: pool.token0,
  token1: pool.token1,
  ...(pool.stableCurve ? { stableCurve: true } : {}),
  block,
});

export const observedEvent = (
  pool: Address,
  { reading, balance0, balance1, ...source }: Observation,
): PriceObserved => ({
  type: "PriceObserved",
  pool,
  state: toPoolState(reading),
  ...(balance0 === undefined ? {} : { balance0: balance0.toString() }),
  ...(balance1 === undefined ? {} : { balance1: balance1.toString() }),
  ...source,
});

export function observationOf(event: PriceObserved): Observation {
  const { type: _type, pool: _pool, state, balance0, balance1, ...source } = event;
  return {
    reading: fromPoolState(state),
    ...(balance0 === undefined ? {} : { balance0: BigInt(balance0) }),
    ...(balance1 === undefined ? {} : { balance1: BigInt(balance1) }),
    ...source,
  };
}

/** Returns the facts of a token that has a price; else undefined. */
export function factsOf({ token }: PriceState): TokenFacts | undefined {
  if (token?.decimals === undefined || !token.isContract) return undefined;
  const { name, symbol, decimals } = token;
  return { name, symbol, decimals, kind: "erc20" };
}
