/**
 * One block of a chain's market as a value: the relevant pools with their states, and the decimals of their tokens.
 * Also the chain's dollar at that block: the trusted stablecoins, and the native coin's price. Pure.
 */
import { type Chain, dollarsAt, type Stablecoin } from "../../chains/chains.ts";
import type { Address } from "../../core/hex.ts";
import type { HeaderRef } from "../../events/types.ts";
import {
  absolute,
  compare,
  type Decimals,
  depth,
  divide,
  invert,
  minimum,
  multiply,
  type Observation,
  ONE,
  otherToken,
  type Pool,
  type PoolId,
  priceOfToken0,
  type Rational,
  rational,
  subtract,
  tieBreak,
} from "./pools.ts";

export interface TokenFacts {
  readonly name: string;
  readonly symbol: string;
  /** Undefined when the contract doesn't return it, or returns more than any token has. */
  readonly decimals: number | undefined;
  /** `no_decimals`: otherwise an ERC-20; `not_a_token`: a plain address, an NFT or another contract. */
  readonly kind: "erc20" | "no_decimals" | "not_a_token";
  /** Set if the contract says that it is one of NFTs. */
  readonly standard?: "ERC-721" | "ERC-1155";
}

/** A block; `timestamp` is in Unix seconds. */
export type PricedBlock = Pick<HeaderRef, "number" | "hash" | "timestamp">;

export interface Market {
  readonly chain: Chain;
  readonly block: PricedBlock;
  /** Pools among the reference tokens and pools of the requested token. `states` lacks pools without a state. */
  readonly pools: readonly Pool[];
  readonly states: ReadonlyMap<PoolId, Observation>;
  /** Of the requested token. */
  readonly facts: TokenFacts;
  readonly decimals: ReadonlyMap<Address, number>;
  /** The block that facts and decimals are of. Without state of the priced block, only the newest ones are known. */
  readonly factsOf: "block" | "newest";
  /** True if the request names the block by number and it is not the head. */
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
  /** Depth of the smaller side, in whole quote tokens at the pool's own price. */
  readonly depth: Rational;
}

export function decimalsOf(market: Market, pool: Pool): Decimals | undefined {
  const decimals0 = market.decimals.get(pool.token0);
  const decimals1 = market.decimals.get(pool.token1);
  return decimals0 === undefined || decimals1 === undefined ? undefined : { decimals0, decimals1 };
}

/** Returns a pool as seen from `base`; undefined when it has no state at the block, or is empty. */
export function sideOf(market: Market, pool: Pool, base: Address): Side | undefined {
  const observation = market.states.get(pool.id);
  const decimals = decimalsOf(market, pool);
  if (observation === undefined || decimals === undefined) return undefined;
  const price0 = priceOfToken0(pool, observation.reading, decimals);
  const sides = depth(pool, observation, decimals);
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

/** Returns all sides of a token against tokens that satisfy `wanted`. */
export function sidesOf(market: Market, base: Address, wanted: (quote: Address) => boolean): Side[] {
  return market.pools.flatMap((pool) => {
    const isWanted = (pool.token0 === base || pool.token1 === base) && wanted(otherToken(pool, base));
    return isWanted ? (sideOf(market, pool, base) ?? []) : [];
  });
}

/** Compares by `value`, deepest first. Equals are in the API's order, see `tieBreak`. */
export function byDepth<T extends { readonly pool: Pool }>(value: (entry: T) => Rational): (a: T, b: T) => number {
  return (a, b) => compare(value(b), value(a)) || tieBreak(a.pool, b.pool);
}

/** The stablecoins that are configured to count as one dollar at the market's block. */
export const dollars = (market: Market): readonly Stablecoin[] => dollarsAt(market.chain, market.block.timestamp);

const PEG_TOLERANCE = rational(2n, 100n);

export interface NativePrice {
  /** US dollars for one whole native coin. */
  readonly usd: Rational;
  readonly side: Side;
}

/** A configured stablecoin with a measured price that disagrees with a trusted one. */
export interface DisputedCoin {
  readonly coin: Stablecoin;
  /** US dollars, by the deepest measure in a trusted coin that it disagrees with. */
  readonly usd: Rational;
}

/**
 * The dollar of a chain at a block: which configured stablecoins are trusted, and the native coin's price. A stablecoin
 * is measured by the other ones, directly or over the native coin, but never by a pool or a native price that it quotes
 * itself.
 */
export interface Dollar {
  /** True if a stablecoin counts as one dollar here. */
  isTrusted(token: Address): boolean;
  /** Returns the measured price of a distrusted stablecoin in dollars, for messages. */
  measured(token: Address): Rational | undefined;
  /**
   * Stablecoins that are more than 2 % off a trusted one. While there are any, no measure can decide which side is the
   * dollar: two coins that fall together outvote the third.
   */
  readonly disputed: readonly DisputedCoin[];
  /**
   * Returns the native coin's price by its deepest pool with a trusted stablecoin other than `except`. The pool's
   * smaller side must be worth at least `floor` dollars and more than zero; undefined when there is no such pool.
   */
  native(floor: Rational, except?: Address): NativePrice | undefined;
}

interface Measure {
  readonly coin: Address;
  readonly by: Address;
  readonly ratio: Rational;
  readonly depth: Rational;
}

/** Returns the deepest measure of `coin` in `other`: by a pool of the two, or by their pools with the native coin. */
function measure(market: Market, coin: Address, other: Address, floor: Rational): Measure | undefined {
  const native = market.chain.wrappedNative.address;
  const deepest = (base: Address, quote: Address): Side | undefined =>
    sidesOf(market, base, (token) => token === quote).sort(byDepth((side) => side.depth))[0];
  const ways: Measure[] = [];
  const direct = deepest(coin, other);
  if (direct !== undefined) ways.push({ coin, by: other, ratio: direct.price, depth: direct.depth });
  const ours = deepest(native, coin);
  const theirs = deepest(native, other);
  if (ours !== undefined && theirs !== undefined) {
    ways.push({ coin, by: other, ratio: divide(theirs.price, ours.price), depth: minimum(ours.depth, theirs.depth) });
  }
  return ways.filter((way) => compare(way.depth, floor) >= 0).sort((a, b) => compare(b.depth, a.depth))[0];
}

const offPeg = (ratio: Rational): boolean => compare(absolute(subtract(ratio, ONE)), PEG_TOLERANCE) > 0;

/**
 * Decides which stablecoins of a market are trusted. A coin is trusted when another one agrees with it within 2 %, or
 * when nothing measures it. When all disagree with each other, only the one with the deepest native pool is trusted.
 * `floor`: the chain's least depth in US dollars. Pools below it measure nothing.
 */
export function dollarOf(market: Market, floor: Rational): Dollar {
  const configured = dollars(market);
  const coins = configured.map((coin) => coin.address);
  const native = market.chain.wrappedNative.address;
  const measures = coins
    .flatMap((coin) => coins.flatMap((other) => (other === coin ? [] : (measure(market, coin, other, floor) ?? []))))
    .sort((a, b) => compare(b.depth, a.depth));
  const supported = (coin: Address): boolean => measures.some((way) => way.coin === coin && !offPeg(way.ratio));
  const measurable = coins.filter((coin) => measures.some((way) => way.coin === coin));
  const believed = new Set(coins.filter((coin) => !measurable.includes(coin) || supported(coin)));
  if (measurable.length > 0 && !measurable.some(supported)) believed.add(anchor(market, native, measurable));
  const inBelieved = (coin: Address): Measure[] => measures.filter((way) => way.coin === coin && believed.has(way.by));
  return {
    isTrusted: (token) => believed.has(token),
    measured: (token) => inBelieved(token)[0]?.ratio,
    disputed: configured.flatMap((coin) => {
      const off = inBelieved(coin.address).find((way) => offPeg(way.ratio));
      return off === undefined ? [] : [{ coin, usd: off.ratio }];
    }),
    native(least, except) {
      const [side] = sidesOf(market, native, (quote) => believed.has(quote) && quote !== except)
        .filter((entry) => compare(entry.depth, least) >= 0 && entry.depth.n > 0n)
        .sort(byDepth((entry) => entry.depth));
      return side === undefined ? undefined : { usd: side.price, side };
    },
  };
}

/** Among coins that all disagree, returns the one with the deepest native pool, compared in native coin. */
function anchor(market: Market, native: Address, coins: readonly Address[]): Address {
  // In native coin, because the coins' dollar values are in doubt.
  const [best] = coins
    .flatMap((coin) => sidesOf(market, native, (quote) => quote === coin))
    .map(({ quote: coin, depth, price }) => ({ coin, depth: divide(depth, price) }))
    .sort((a, b) => compare(b.depth, a.depth));
  return best?.coin ?? coins[0]!;
}
