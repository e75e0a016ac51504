/**
 * The average of a token's price over the 30 minutes before a block. At each moment it is the price that a question about
 * that moment would get from the same pools: the first-ranking one with enough liquidity then. Pure.
 */
import { isMoney } from "../../chains/tokens.ts";
import type { Address } from "../../core/hex.ts";
import { type Dollar, dollarOf, type Market, type Side, sideOf } from "./market.ts";
import type { Observation, Pool, PoolId } from "./pools.ts";
import { floorOf, type Quote, type QuoteOptions } from "./quote.ts";
import { rank } from "./ranking.ts";
import {
  add,
  compare,
  divide,
  maximum,
  multiply,
  type Rational,
  rational,
  shorten,
  truncate,
  ZERO,
} from "./rational.ts";

/** Seconds. */
export const TWAP_WINDOW = 1_800;
/** Bits kept of each price in the average: a relative error below 10^-75. */
const TWAP_BITS = 256;
/** Moments that are ranked in one slice: some 50 microseconds for each pool of the token. */
const PER_SLICE = 16;

/** The states of each pool in a stretch of time, in their order. */
export type SeriesOfPools = ReadonlyMap<PoolId, readonly Observation[]>;

/** The pools of an average: the token's own ones, and those by which their quote tokens are priced today. */
export interface AveragedPools {
  readonly own: readonly Pool[];
  readonly onward: readonly Pool[];
}

/**
 * Returns the pools that the average of a quote needs. Money has too many pools with too many trades: the route alone
 * tells its average.
 */
export function averagedPools({ market, token, route, nativeSide }: Quote, { accepts }: QuoteOptions): AveragedPools {
  if (route === undefined) return { own: [], onward: [] };
  const [first, ...rest] = route.legs;
  const onward = [...rest, ...(nativeSide === undefined ? [] : [nativeSide])].map(({ pool }) => pool);
  if (isMoney(market.chain, token)) return { own: [first!.pool], onward };
  const own = market.pools.filter(
    (pool) => (pool.token0 === token || pool.token1 === token) && accepts(pool) && market.states.has(pool.id),
  );
  return { own, onward };
}

/** The dollar of the quote's block, `now`, with the native coin by the same pool as there, in the state of another moment. */
function dollarThen(now: Dollar, { market, route, nativeSide }: Quote, then: Market): Dollar {
  const native = market.chain.wrappedNative.address;
  const by = (route?.legs.find(({ base }) => base === native) ?? nativeSide)?.pool;
  return {
    ...now,
    native(least) {
      const side: Side | undefined = by && sideOf(then, by, native);
      if (side === undefined || side.depth.n === 0n || compare(side.depth, least) < 0) return undefined;
      return { usd: side.price, side };
    },
  };
}

/**
 * Caps concentrated liquidity by the balances at either end of the window, so that a sliver can't pose as deep in it. Today's
 * trade with a pool that has hooks stands in for one then.
 */
function cappedBy(ends: readonly (Observation | undefined)[], state: Observation): Observation {
  const most = (side: "balance0" | "balance1"): bigint | undefined => {
    const known = ends.flatMap((end) => end?.[side] ?? []);
    return known.length === 0 ? undefined : truncate(known.map((balance) => rational(balance)).reduce(maximum));
  };
  if (state.reading.style !== "v3") return state;
  const traded = ends.at(-1)?.traded;
  const [balance0, balance1] = [most("balance0"), most("balance1")];
  return {
    ...state,
    ...(balance0 === undefined ? {} : { balance0 }),
    ...(balance1 === undefined ? {} : { balance1 }),
    ...(traded === undefined ? {} : { traded }),
  };
}

/**
 * Returns the time-weighted average in US dollars of a quote's price over the window that ends at `end` (Unix seconds).
 * Each state's weight is the seconds from its block to the next change, so a state that lasts one block has the weight of
 * that block's time. Seconds without a price have no weight; undefined if there are no others. Yields between slices.
 */
export function* timeWeighted(
  priced: Quote,
  options: QuoteOptions,
  { own, onward }: AveragedPools,
  series: SeriesOfPools,
  end: number,
): Generator<void, Rational | undefined> {
  const { market, token, route } = priced;
  const pools = [...own, ...onward];
  const start = end - TWAP_WINDOW;
  const times = new Set<number>([start]);
  for (const { id } of pools) {
    for (const { timestamp } of series.get(id) ?? []) if (timestamp > start && timestamp < end) times.add(timestamp);
  }
  const sorted = [...times].sort((a, b) => a - b);
  const stateFrom = statesOverTime(market, series);
  const connector = route?.legs[0]?.quote;
  const connectors: readonly Address[] = connector === undefined || isMoney(market.chain, connector) ? [] : [connector];
  const now = dollarOf(market, floorOf(market));
  let sum = ZERO;
  let weight = 0n;
  for (const [index, from] of sorted.entries()) {
    if (index % PER_SLICE === PER_SLICE - 1) yield;
    const states = new Map(
      pools.flatMap(({ id }) => {
        const state = stateFrom(id, from);
        return state === undefined ? [] : [[id, state] as const];
      }),
    );
    const then: Market = { ...market, pools, states, isPast: true };
    const usd = rank(then, dollarThen(now, priced, then), { ...options, token, connectors }).usable[0]?.usd;
    if (usd === undefined) continue;
    const seconds = BigInt((sorted[index + 1] ?? end) - from);
    sum = shorten(add(sum, multiply(shorten(usd, TWAP_BITS), rational(seconds))), TWAP_BITS * 2);
    weight += seconds;
  }
  return weight === 0n ? undefined : divide(sum, rational(weight));
}

/** Returns what tells the state of a pool at a time, if it is asked in the order of time. */
function statesOverTime(
  market: Market,
  series: SeriesOfPools,
): (pool: PoolId, time: number) => Observation | undefined {
  const cursors = new Map<PoolId, number>();
  return (pool, time) => {
    const states = series.get(pool) ?? [];
    let at = cursors.get(pool) ?? -1;
    while (at + 1 < states.length && states[at + 1]!.timestamp <= time) at++;
    cursors.set(pool, at);
    const state = states[at];
    return state && cappedBy([states[0], market.states.get(pool)], state);
  };
}
