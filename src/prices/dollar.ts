/**
 * The dollar of a chain at a block: which configured stablecoins are believed, and what the native coin is worth. A
 * stablecoin is measured by the others (directly, or over the native coin) and is not believed as a quote when it is
 * more than 2 % off; no stablecoin is ever measured by a pool or a native price it quotes itself.
 */
import type { Stablecoin } from "../chains/chains.ts";
import type { Address } from "../core/hex.ts";
import { byDepth, dollars, type Market, type Side, sidesOf } from "./market.ts";
import { absolute, compare, divide, minimum, multiply, ONE, type Rational, rational, subtract } from "./rational.ts";

/** Two per cent. */
const PEG_TOLERANCE = rational(2n, 100n);

export interface NativePrice {
  /** US dollars for one whole native coin. */
  readonly usd: Rational;
  readonly side: Side;
}

/** A configured stablecoin that measurably disagrees with a believed one. */
export interface DisputedCoin {
  readonly coin: Stablecoin;
  /** US dollars, by the deepest way to price it in a believed coin that it disagrees with. */
  readonly usd: Rational;
}

export interface Dollar {
  /** Whether a stablecoin counts as one dollar here. */
  believes(token: Address): boolean;
  /** A disbelieved stablecoin's measured price in dollars, for messages. */
  measured(token: Address): Rational | undefined;
  /**
   * The stablecoins that are more than 2 % off a believed one. While there are any, no measure says which side is the
   * dollar: two that fall together outvote the third.
   */
  readonly disputed: readonly DisputedCoin[];
  /**
   * The native coin by its deepest pool with a believed stablecoin other than `except`, that pool's smaller side
   * being worth at least `floor` dollars, and more than nothing; undefined when there is none.
   */
  native(floor: Rational, except?: Address): NativePrice | undefined;
}

interface Measure {
  readonly by: Address;
  readonly ratio: Rational;
  readonly depth: Rational;
}

/** The deepest way to price `coin` in `other`: a pool of the two, or each one's pool with the native coin. */
function measure(market: Market, coin: Address, other: Address, floor: Rational): Measure | undefined {
  const native = market.chain.wrappedNative.address;
  const deepest = (base: Address, quote: Address): Side | undefined =>
    sidesOf(market, base, (token) => token === quote).sort(byDepth((side) => side.depth))[0];
  const ways: Measure[] = [];
  const direct = deepest(coin, other);
  if (direct !== undefined) ways.push({ by: other, ratio: direct.price, depth: direct.depth });
  const ours = deepest(native, coin);
  const theirs = deepest(native, other);
  if (ours !== undefined && theirs !== undefined) {
    ways.push({ by: other, ratio: divide(theirs.price, ours.price), depth: minimum(ours.depth, theirs.depth) });
  }
  return ways.filter((way) => compare(way.depth, floor) >= 0).sort((a, b) => compare(b.depth, a.depth))[0];
}

const offPeg = (ratio: Rational): boolean => compare(absolute(subtract(ratio, ONE)), PEG_TOLERANCE) > 0;

/**
 * Judges the stablecoins of a market. One is believed when any other agrees with it within 2 %, or when nothing
 * measures it; when all disagree with each other, the one with the deepest native pool is, and the others are not.
 * `floor`: the chain's least depth in US dollars, under which a pool measures nothing.
 */
export function dollarOf(market: Market, floor: Rational): Dollar {
  const configured = dollars(market);
  const coins = configured.map((coin) => coin.address);
  const native = market.chain.wrappedNative.address;
  const measures = new Map<Address, Measure[]>(
    coins.map((coin) => [
      coin,
      coins.flatMap((other) => (other === coin ? [] : (measure(market, coin, other, floor) ?? []))),
    ]),
  );
  const supported = (coin: Address): boolean => (measures.get(coin) ?? []).some((way) => !offPeg(way.ratio));
  const measurable = coins.filter((coin) => (measures.get(coin) ?? []).length > 0);
  const believed = new Set(coins.filter((coin) => !measurable.includes(coin) || supported(coin)));
  if (measurable.length > 0 && !measurable.some(supported)) believed.add(anchor(market, native, measurable));

  const inBelieved = (coin: Address): Measure[] =>
    (measures.get(coin) ?? []).filter((way) => believed.has(way.by)).sort((a, b) => compare(b.depth, a.depth));

  return {
    believes: (token) => believed.has(token),
    measured: (token) => inBelieved(token)[0]?.ratio,
    disputed: configured.flatMap((coin) => {
      const off = inBelieved(coin.address).find((way) => offPeg(way.ratio));
      return off === undefined ? [] : [{ coin, usd: off.ratio }];
    }),
    native(least, except) {
      const sides = sidesOf(market, native, (quote) => believed.has(quote) && quote !== except)
        .filter((side) => compare(side.depth, least) >= 0 && side.depth.n > 0n)
        .sort(byDepth((side) => side.depth));
      const [side] = sides;
      return side === undefined ? undefined : { usd: side.price, side };
    },
  };
}

/** Among coins that all disagree: the one whose deepest pool with the native coin is worth most in native coin. */
function anchor(market: Market, native: Address, coins: readonly Address[]): Address {
  let best: { coin: Address; depth: Rational } | undefined;
  for (const coin of coins) {
    for (const side of sidesOf(market, native, (quote) => quote === coin)) {
      // In native coin, since the coins' dollars are what is in doubt.
      const depth = multiply(side.depth, divide(ONE, side.price));
      if (best === undefined || compare(depth, best.depth) > 0) best = { coin, depth };
    }
  }
  return best?.coin ?? coins[0]!;
}
