/**
 * One block of a chain's market as a value: the pools that matter with their states, and the decimals of their tokens.
 * `dollar.ts` and `ranking.ts` are pure functions of it, so a price is the same whether the states came from the
 * node, from the followed log or from history.
 */
import { type Chain, dollarsAt, type Stablecoin } from "../chains/chains.ts";
import type { Address, Hash } from "../core/hex.ts";
import { type Decimals, depth, type Observation, otherToken, type Pool, priceOfToken0, tieBreak } from "./pools.ts";
import { compare, invert, minimum, multiply, type Rational } from "./rational.ts";

export interface PricedBlock {
  readonly number: number;
  readonly hash: Hash;
  /** Unix seconds. */
  readonly timestamp: number;
}

export interface Market {
  readonly chain: Chain;
  readonly block: PricedBlock;
  /** Pools among the reference tokens and pools of the asked token; states by pool, absent where there was none. */
  readonly pools: readonly Pool[];
  readonly states: ReadonlyMap<Address, Observation>;
  readonly decimals: ReadonlyMap<Address, number>;
  /** Whether the block was asked for by its number, and is not the head. */
  readonly isPast: boolean;
}

/** A pool seen from one of its tokens. */
export interface Side {
  readonly pool: Pool;
  readonly observation: Observation;
  readonly base: Address;
  readonly quote: Address;
  /** Whole quote tokens for one whole base token. */
  readonly price: Rational;
  /** The smaller side, in whole quote tokens at the pool's own price. */
  readonly depth: Rational;
}

export function decimalsOf(market: Market, pool: Pool): Decimals | undefined {
  const decimals0 = market.decimals.get(pool.token0);
  const decimals1 = market.decimals.get(pool.token1);
  return decimals0 === undefined || decimals1 === undefined ? undefined : { decimals0, decimals1 };
}

/** A pool seen from `base`; undefined when it has no state at the block, or an empty one. */
export function sideOf(market: Market, pool: Pool, base: Address): Side | undefined {
  const observation = market.states.get(pool.address);
  const decimals = decimalsOf(market, pool);
  if (observation === undefined || decimals === undefined) return undefined;
  const price0 = priceOfToken0(pool, observation.reading, decimals);
  const sides = depth(observation, decimals);
  if (price0 === undefined || sides === undefined) return undefined;
  const [price, baseSide, quoteSide] =
    pool.token0 === base ? [price0, sides.side0, sides.side1] : [invert(price0), sides.side1, sides.side0];
  return {
    pool,
    observation,
    base,
    quote: otherToken(pool, base),
    price,
    depth: minimum(multiply(baseSide, price), quoteSide),
  };
}

/** All sides of a token against tokens that satisfy `wanted`. */
export function sidesOf(market: Market, base: Address, wanted: (quote: Address) => boolean): Side[] {
  return market.pools.flatMap((pool) => {
    if (pool.token0 !== base && pool.token1 !== base) return [];
    if (!wanted(otherToken(pool, base))) return [];
    const side = sideOf(market, pool, base);
    return side === undefined ? [] : [side];
  });
}

/** Deepest first by `value`; equals in the contract's order. */
export function byDepth<T extends { readonly pool: Pool }>(value: (entry: T) => Rational): (a: T, b: T) => number {
  return (a, b) => compare(value(b), value(a)) || tieBreak(a.pool, b.pool);
}

/** The stablecoins that count as one dollar at the market's block, by configuration. */
export const dollars = (market: Market): readonly Stablecoin[] => dollarsAt(market.chain, market.block.timestamp);
