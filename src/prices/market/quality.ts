/**
 * Measures of a price's reliability: confidence from the price impact of a $100,000 trade along the route, the spread
 * over the token's usable pools, and the time-weighted average over the 30 minutes before the block. Pure functions.
 */
import type { Address } from "../../core/hex.ts";
import { decimalsOf, type Market } from "./market.ts";
import { isCapped, type Observation, type Pool, priceOfToken0 } from "./pools.ts";
import type { Quote } from "./quote.ts";
import type { Route } from "./ranking.ts";
import {
  add,
  compare,
  divide,
  invert,
  minimum,
  multiply,
  ONE,
  type Rational,
  rational,
  shorten,
  subtract,
  ZERO,
} from "./rational.ts";

/** US dollars. */
const TRADE_USD = rational(100_000n);
/** Upper limit of the confidence if pool balances are unknown or the dollar is disputed. */
const DOUBT_LIMIT = rational(1n, 2n);
/** Seconds. */
export const TWAP_WINDOW = 1_800;
/** Bits kept of each price in the average: a relative error below 10^-75. */
const TWAP_BITS = 256;

/**
 * Returns a number from 0 to 1: the share of the marginal price that a trade of $100,000 gets on a constant-product
 * pool of this depth, D / (D + 100,000). At most 0.5 when the depth of a pool on the route could not be capped by its
 * balances, or when a configured stablecoin disagrees with a trusted one.
 */
export function confidence({ route, disputed }: Pick<Quote, "route" | "disputed">): Rational {
  if (route === undefined) return ZERO;
  const share = divide(route.depthUsd, add(route.depthUsd, TRADE_USD));
  const isCertain = disputed.length === 0 && route.legs.every((leg) => isCapped(leg.observation));
  return isCertain ? share : minimum(share, DOUBT_LIMIT);
}

/** Spread from the cheapest to the dearest usable route, in per cent of the best route's price; zero with one route. */
export function spreadPercent(usable: readonly Route[]): Rational {
  const [best] = usable;
  if (best === undefined) return ZERO;
  let low = best.usd;
  let high = best.usd;
  for (const { usd } of usable) {
    if (compare(usd, low) < 0) low = usd;
    if (compare(usd, high) > 0) high = usd;
  }
  return multiply(divide(subtract(high, low), best.usd), rational(100n));
}

/** Returns the route's price in dollars with other pool states; undefined when a pool has none. */
export function repriced(
  market: Market,
  route: Route,
  stateOf: (pool: Pool) => Observation | undefined,
): Rational | undefined {
  let usd = ONE;
  for (const { pool, base } of route.legs) {
    const observation = stateOf(pool);
    const decimals = decimalsOf(market, pool);
    if (observation === undefined || decimals === undefined) return undefined;
    const price0 = priceOfToken0(pool, observation.reading, decimals);
    if (price0 === undefined) return undefined;
    usd = multiply(usd, pool.token0 === base ? price0 : invert(price0));
  }
  return usd;
}

/**
 * Returns the average of the route's price over the window that ends at `end` (Unix seconds). Each state's weight is
 * the seconds from its block to the next change, so a state that lasts one block has the weight of that block's time.
 * Undefined when the route had no price in the window.
 */
export function timeWeighted(
  market: Market,
  route: Route,
  series: ReadonlyMap<Address, readonly Observation[]>,
  end: number,
): Rational | undefined {
  const start = end - TWAP_WINDOW;
  const times = new Set<number>([start]);
  for (const { pool } of route.legs) {
    for (const { timestamp } of series.get(pool.address) ?? []) {
      if (timestamp > start && timestamp < end) times.add(timestamp);
    }
  }
  const sorted = [...times].sort((a, b) => a - b);
  const cursors = new Map<Address, number>();
  const stateFrom = (pool: Address, time: number): Observation | undefined => {
    const states = series.get(pool) ?? [];
    let at = cursors.get(pool) ?? -1;
    while (at + 1 < states.length && states[at + 1]!.timestamp <= time) at++;
    cursors.set(pool, at);
    return states[at];
  };
  let sum = ZERO;
  let weight = 0n;
  for (const [index, from] of sorted.entries()) {
    const usd = repriced(market, route, (pool) => stateFrom(pool.address, from));
    if (usd === undefined) continue;
    const seconds = BigInt((sorted[index + 1] ?? end) - from);
    sum = shorten(add(sum, multiply(shorten(usd, TWAP_BITS), rational(seconds))), TWAP_BITS * 2);
    weight += seconds;
  }
  return weight === 0n ? undefined : divide(sum, rational(weight));
}
