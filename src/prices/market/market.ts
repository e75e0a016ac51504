/**
 * One block of a chain's market as a value: the relevant pools with their states, and the decimals of their tokens.
 * Also the chain's dollar at that block: the trusted stablecoins, and the native coin's price. Pure.
 */
import { type Chain, dollarsAt, type Stablecoin } from "../../chains/chains.ts";
import type { Address } from "../../core/hex.ts";
import type { HeaderRef } from "../../events/types.ts";
import { hookDoubt } from "./hook-trades.ts";
import {
  type Decimals,
  depth,
  givenByMove,
  type Observation,
  otherToken,
  type Pool,
  type PoolId,
  priceOfToken0,
  tieBreak,
} from "./pools.ts";
import {
  absolute,
  compare,
  divide,
  invert,
  maximum,
  minimum,
  multiply,
  ONE,
  type Rational,
  rational,
  subtract,
  ZERO,
} from "./rational.ts";

export interface TokenFacts {
  readonly name: string;
  readonly symbol: string;
  /** Undefined when the contract doesn't return it, or returns more than any token has. */
  readonly decimals: number | undefined;
  /** `no_decimals`: otherwise an ERC-20; `not_a_token`: a plain address, an NFT or another contract. */
  readonly kind: "erc20" | "no_decimals" | "not_a_token";
  /** Set if the contract says that it is one of NFTs. Of kind `erc20` it is a token, too, if it has a pool. */
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
  /** What an archive alone says of the token's pools; absent if it says nothing. */
  readonly archive?: ArchiveAlone;
}

/** What an archive says of a market, and neither the node nor another archive confirms. */
export interface ArchiveAlone {
  readonly label: string;
  /** Pools that had no state at the block, as the archive says. */
  readonly absent: readonly PoolId[];
  /** True if the archive says which pools were announced. */
  readonly isOfAnnouncements: boolean;
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
  /** Whole quote tokens that move the price by 2 %, the easier way; the fee aside. */
  readonly move: Rational;
}

export function decimalsOf(market: Market, pool: Pool): Decimals | undefined {
  const decimals0 = market.decimals.get(pool.token0);
  const decimals1 = market.decimals.get(pool.token1);
  return decimals0 === undefined || decimals1 === undefined ? undefined : { decimals0, decimals1 };
}

/**
 * Returns a pool as seen from `base`; undefined when it has no state at the block, is empty, or trades through its hooks
 * don't give its price.
 */
export function sideOf(market: Market, pool: Pool, base: Address): Side | undefined {
  const observation = market.states.get(pool.id);
  const decimals = decimalsOf(market, pool);
  if (observation === undefined || decimals === undefined || hookDoubt(observation) !== undefined) return undefined;
  const price0 = priceOfToken0(pool, observation.reading, decimals);
  const sides = depth(pool, observation, decimals);
  if (price0 === undefined || sides === undefined) return undefined;
  const [given0, given1] = givenByMove(observation, sides, decimals);
  const [price, baseSide, quoteSide, baseGiven, quoteGiven] =
    pool.token0 === base
      ? [price0, sides.side0, sides.side1, given0, given1]
      : [invert(price0), sides.side1, sides.side0, given1, given0];
  return {
    pool,
    observation,
    base,
    quote: otherToken(pool, base),
    price,
    depth: minimum(multiply(baseSide, price), quoteSide),
    move: minimum(multiply(baseGiven, price), quoteGiven),
  };
}

/** Returns all sides of a token against tokens that satisfy `wanted`. */
export function sidesOf(market: Market, base: Address, wanted: (quote: Address) => boolean): Side[] {
  return market.pools.flatMap((pool) => {
    const isWanted = (pool.token0 === base || pool.token1 === base) && wanted(otherToken(pool, base));
    return isWanted ? (sideOf(market, pool, base) ?? []) : [];
  });
}

/**
 * What ranks a pool, the larger the better: at the head the cost of moving its price. At a past block a node may lack the
 * ticks that tell it, so there the depth ranks.
 */
export const weightOf = ({ isPast }: Market, { depth, move }: Pick<Side, "depth" | "move">): Rational =>
  isPast ? depth : move;

/** Compares by `value`, the largest first. Equals are in the API's order, see `tieBreak`. */
export function byWeight<T extends { readonly pool: Pool }>(value: (entry: T) => Rational): (a: T, b: T) => number {
  return (a, b) => compare(value(b), value(a)) || tieBreak(a.pool, b.pool);
}

/** Sorts sides, the one that ranks first in front. */
export const ranked = (market: Market, sides: readonly Side[]): Side[] =>
  sides.toSorted(byWeight((side) => weightOf(market, side)));

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
  /** US dollars, by the first-ranking measure in a trusted coin that it disagrees with. */
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
  /**
   * True if a route of this weight, in dollars, is heavy enough to measure a stablecoin that trades in heavier pools. True
   * for any other token.
   */
  isMeasuredBy(token: Address, weight: Rational): boolean;
  /** Returns the measured price of a distrusted stablecoin in dollars, for messages. */
  measured(token: Address): Rational | undefined;
  /**
   * Stablecoins that are more than 2 % off a trusted one. While there are any, no measure can decide which side is the
   * dollar: two coins that fall together outvote the third.
   */
  readonly disputed: readonly DisputedCoin[];
  /**
   * Returns the native coin's price by its first-ranking pool with a trusted stablecoin other than `except`. The pool's
   * smaller side must be worth at least `floor` dollars and more than zero; undefined when there is no such pool.
   */
  native(floor: Rational, except?: Address): NativePrice | undefined;
}

interface Measure {
  readonly coin: Address;
  readonly by: Address;
  readonly ratio: Rational;
  readonly depth: Rational;
  readonly weight: Rational;
}

/** Returns the first-ranking measure of `coin` in `other`: by a pool of the two, or by their pools with the native coin. */
function measure(market: Market, coin: Address, other: Address, floor: Rational): Measure | undefined {
  const native = market.chain.wrappedNative.address;
  const first = (base: Address, quote: Address): Side | undefined =>
    ranked(
      market,
      sidesOf(market, base, (token) => token === quote),
    )[0];
  const ways: Omit<Measure, "coin" | "by">[] = [];
  const direct = first(coin, other);
  if (direct !== undefined) {
    ways.push({ ratio: direct.price, depth: direct.depth, weight: weightOf(market, direct) });
  }
  const ours = first(native, coin);
  const theirs = first(native, other);
  if (ours !== undefined && theirs !== undefined) {
    const weight = minimum(weightOf(market, ours), weightOf(market, theirs));
    ways.push({ ratio: divide(theirs.price, ours.price), depth: minimum(ours.depth, theirs.depth), weight });
  }
  const [best] = ways.filter((way) => compare(way.depth, floor) >= 0).sort(heaviestFirst);
  return best && { coin, by: other, ...best };
}

const heaviestFirst = (a: { readonly weight: Rational }, b: { readonly weight: Rational }): number =>
  compare(b.weight, a.weight);

const offPeg = (ratio: Rational): boolean => compare(absolute(subtract(ratio, ONE)), PEG_TOLERANCE) > 0;

/** The part of a coin's heaviest pool from which on a measure counts. A thinner pool lags, or is moved for a few dollars. */
const COUNTING = rational(1n, 150n);
/**
 * The part of a coin's heaviest measure from which on another one can vouch for it, or dispute it: it is measured against what
 * it trades with most deeply. A pool with a huge fee is never drained, and a small one is moved for a few hundred dollars.
 */
const WEIGHTY = rational(1n, 10n);

/** The weight of the pool in which a coin trades most deeply, in whole coins, which are dollars as nearly as matters. */
function heaviestPool(market: Market, coin: Address): Rational {
  const partners = new Set([market.chain.wrappedNative.address, ...dollars(market).map(({ address }) => address)]);
  return [...partners]
    .flatMap((partner) => sidesOf(market, partner, (quote) => quote === coin))
    .map((side) => weightOf(market, side))
    .reduce(maximum, ZERO);
}

/**
 * Decides which stablecoins of a market are trusted. A coin is trusted when another one agrees with it within 2 %, or
 * when nothing measures it. When all disagree with each other, only the one with the first-ranking native pool is trusted.
 * `floor`: the chain's least depth in US dollars. Pools below it measure nothing, and neither do pools that are thin beside
 * the coin's other ones.
 */
export function dollarOf(market: Market, floor: Rational): Dollar {
  const configured = dollars(market);
  const coins = configured.map((coin) => coin.address);
  const native = market.chain.wrappedNative.address;
  const all = coins.flatMap((coin) =>
    coins.flatMap((other) => (other === coin ? [] : (measure(market, coin, other, floor) ?? []))),
  );
  const pools = new Map(coins.map((coin) => [coin, heaviestPool(market, coin)]));
  const counts = (coin: Address, weight: Rational): boolean =>
    compare(weight, multiply(pools.get(coin) ?? ZERO, COUNTING)) >= 0;
  const measures = all.filter((way) => counts(way.coin, way.weight)).sort(heaviestFirst);
  const isWeighty = (way: Measure, coin: Address): boolean => {
    const heaviest = measures.find((other) => other.coin === coin)?.weight ?? ZERO;
    return compare(way.weight, multiply(heaviest, WEIGHTY)) >= 0;
  };
  const supported = (coin: Address): boolean =>
    measures.some((way) => way.coin === coin && !offPeg(way.ratio) && isWeighty(way, coin));
  const measurable = coins.filter((coin) => measures.some((way) => way.coin === coin));
  const believed = new Set(coins.filter((coin) => !measurable.includes(coin) || supported(coin)));
  if (measurable.length > 0 && !measurable.some(supported)) {
    const first = anchor(market, native, measurable);
    // A coin that no pool measures is the dollar if it trades more deeply.
    const isOutweighed = [...believed].some((coin) => compare(pools.get(coin)!, pools.get(first)!) > 0);
    if (!isOutweighed) believed.add(first);
  }
  const inBelieved = (coin: Address): Measure[] => measures.filter((way) => way.coin === coin && believed.has(way.by));
  return {
    isTrusted: (token) => believed.has(token),
    isMeasuredBy: counts,
    measured: (token) => inBelieved(token)[0]?.ratio,
    disputed: configured.flatMap((coin) => {
      // A coin that hardly trades with the trusted one tells nothing about the dollar.
      const disputes = (way: Measure) =>
        offPeg(way.ratio) && counts(way.by, way.weight) && isWeighty(way, way.coin) && isWeighty(way, way.by);
      const off = inBelieved(coin.address).find(disputes);
      return off === undefined ? [] : [{ coin, usd: off.ratio }];
    }),
    native(least, except) {
      const sides = sidesOf(market, native, (quote) => believed.has(quote) && quote !== except);
      const [side] = ranked(
        market,
        sides.filter(({ depth }) => compare(depth, least) >= 0 && depth.n > 0n),
      );
      return side === undefined ? undefined : { usd: side.price, side };
    },
  };
}

/** Among coins that all disagree, returns the one whose native pool ranks first, compared in native coin. */
function anchor(market: Market, native: Address, coins: readonly Address[]): Address {
  // In native coin, because the coins' dollar values are in doubt.
  const [best] = coins
    .flatMap((coin) => sidesOf(market, native, (quote) => quote === coin))
    .map((side) => ({ coin: side.quote, weight: divide(weightOf(market, side), side.price) }))
    .sort(heaviestFirst);
  return best?.coin ?? coins[0]!;
}
