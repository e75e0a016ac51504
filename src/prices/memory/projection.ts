/**
 * The price stream's read model: a pure fold over its events. What the token said of itself, its pools, and each
 * pool's recent states in block order, so that a revert finds the state before it.
 */
import type { Address } from "../../core/hex.ts";
import type { PoolDiscovered, PriceEvent, PriceObserved, TokenIdentified } from "../../events/types.ts";
import type { Headline } from "../../log/event-log.ts";

export interface KnownPool {
  readonly discovered: PoolDiscovered;
  /** Ascending by block, at most one per block. */
  readonly observations: readonly PriceObserved[];
  /** Block from which `observations` are all the stream has; infinite when even the newest may be missing. */
  readonly knownFrom: number;
}

export interface PriceState {
  readonly token: TokenIdentified | undefined;
  readonly pools: ReadonlyMap<Address, KnownPool>;
}

/** States kept of one pool; a revert below all of them leaves the pool without one until it is read again. */
const MAX_OBSERVATIONS = 32;

export const initialPriceState: PriceState = { token: undefined, pools: new Map() };

/** The state after one more event. */
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
    case "BlocksReverted": {
      const pools = new Map<Address, KnownPool>();
      for (const [address, known] of state.pools) {
        const observations = known.observations.filter(({ block }) => block <= event.ancestor.number);
        const knownFrom = known.knownFrom > event.ancestor.number ? Number.POSITIVE_INFINITY : known.knownFrom;
        pools.set(address, { ...known, observations, knownFrom });
      }
      return { ...state, pools };
    }
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

/** The state of a stream of which events from here on were left unread: facts stay, states are forgotten. */
export function skipped(state: PriceState): PriceState {
  const pools = [...state.pools].map(
    ([address, known]) => [address, { ...known, observations: [], knownFrom: Number.POSITIVE_INFINITY }] as const,
  );
  return { ...state, pools: new Map(pools) };
}

/**
 * Entries in order of block, one per block, the later word winning. One may come late: a process that asks the node is
 * ahead of the one that follows.
 */
export function insertByBlock<T extends { readonly block: number }>(entries: readonly T[], entry: T): T[] {
  const after = entries.findLastIndex(({ block }) => block <= entry.block) + 1;
  const replaced = after > 0 && entries[after - 1]!.block === entry.block ? 1 : 0;
  return entries.toSpliced(after - replaced, replaced, entry);
}

function withPool(state: PriceState, address: Address, pool: KnownPool): PriceState {
  return { ...state, pools: new Map(state.pools).set(address, pool) };
}

/** The newest state of a pool the stream holds at or before a block. */
export const latest = (state: PriceState, pool: Address, block = Number.POSITIVE_INFINITY): PriceObserved | undefined =>
  state.pools.get(pool)?.observations.findLast((entry) => entry.block <= block);

// What a price stream's headline says of its being followed, so that a process that only reads the log knows which of
// its pools are kept true by another. A session is one unbroken stretch of following by one process; the reference
// stream's headline names the one under way, and any other stream's words count only while its session is that one. Its
// name begins with a fingerprint of the factories and reference tokens that its process goes by.

export interface Coverage {
  readonly session: string | undefined;
  /**
   * Every change of the stream's pools at or after this block is in the stream before a head beyond it is shown, and so
   * is what they were at the block before it. Undefined: not followed.
   */
  readonly from: number | undefined;
  /** Pools the stream had when this was written: one added since, by somebody else, is not followed yet. */
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
