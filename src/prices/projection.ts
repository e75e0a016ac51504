/**
 * The price stream's read model: a pure fold over its events. What the token said of itself, its pools, and each
 * pool's recent states in block order, so that a revert finds the state before it.
 */
import type { Address } from "../core/hex.ts";
import type { PoolDiscovered, PriceEvent, PriceObserved, TokenIdentified } from "../events/types.ts";

export interface KnownPool {
  readonly discovered: PoolDiscovered;
  /** Ascending by block, at most one per block. */
  readonly observations: readonly PriceObserved[];
}

export interface PriceState {
  readonly token: TokenIdentified | undefined;
  readonly pools: ReadonlyMap<Address, KnownPool>;
}

/** States kept of one pool; a revert below all of them leaves the pool without one until it is read again. */
const MAX_OBSERVATIONS = 32;

export const initialState: PriceState = { token: undefined, pools: new Map() };

/** The state after one more event. */
export function evolve(state: PriceState, event: PriceEvent): PriceState {
  switch (event.type) {
    case "TokenIdentified":
      return { ...state, token: event };
    case "PoolDiscovered": {
      const observations = state.pools.get(event.pool)?.observations ?? [];
      return withPool(state, event.pool, { discovered: event, observations });
    }
    case "PriceObserved": {
      const known = state.pools.get(event.pool);
      return known === undefined ? state : withPool(state, event.pool, observe(known, event));
    }
    case "BlocksReverted": {
      const pools = new Map<Address, KnownPool>();
      for (const [address, known] of state.pools) {
        const observations = known.observations.filter(({ block }) => block <= event.ancestor.number);
        pools.set(address, { ...known, observations });
      }
      return { ...state, pools };
    }
    default:
      return event satisfies never;
  }
}

/** A later reading of the same block replaces the earlier; one of an older block than the newest is not news. */
function observe(known: KnownPool, event: PriceObserved): KnownPool {
  const last = known.observations.at(-1);
  if (last !== undefined && event.block < last.block) return known;
  const before = last?.block === event.block ? known.observations.slice(0, -1) : known.observations;
  return { ...known, observations: [...before, event].slice(-MAX_OBSERVATIONS) };
}

function withPool(state: PriceState, address: Address, pool: KnownPool): PriceState {
  return { ...state, pools: new Map(state.pools).set(address, pool) };
}

/** The newest state of a pool the stream holds. */
export const latest = (state: PriceState, pool: Address): PriceObserved | undefined =>
  state.pools.get(pool)?.observations.at(-1);
