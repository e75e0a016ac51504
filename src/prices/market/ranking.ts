/**
 * Chooses the pools that give a token's price. Each pool of the token is either usable, with its price and depth in
 * dollars, or skipped with a reason and its numbers. Of the usable ones the first-ranking wins, directly or over one
 * connector.
 * Deterministic: the same market gives the same route and the same order.
 */
import type { Address } from "../../core/hex.ts";
import { type HookDoubt, hookDoubt } from "./hook-trades.ts";
import {
  byWeight,
  type Dollar,
  dollars,
  type Market,
  type NativePrice,
  type Side,
  sideOf,
  weightOf,
} from "./market.ts";
import { otherToken, type Pool, type PoolId } from "./pools.ts";
import { compare, format, minimum, multiply, type Rational, ZERO } from "./rational.ts";

/** A usable route from the token to the dollar. */
export interface Route {
  /** The first leg's pool; decides ties. */
  readonly pool: Pool;
  /** From the token towards a stablecoin. The product of their prices is `usd`. */
  readonly legs: readonly Side[];
  /** US dollars for one whole token. */
  readonly usd: Rational;
  /** US dollars: the least depth of all pools on the route. */
  readonly depthUsd: Rational;
  /** US dollars that move the price by 2 %, in the pool of the route where it is cheapest; fees aside. */
  readonly moveUsd: Rational;
  /** The depth and the move of the first pool alone, in US dollars. They rank routes that are limited by one pool. */
  readonly own: { readonly depth: Rational; readonly move: Rational };
}

export interface SkippedPool {
  readonly pool: PoolId;
  readonly exchange: string;
  readonly reason: SkipReason;
  readonly [number: string]: string;
}

type SkipReason =
  | "no_state_at_block"
  | "depth_not_measured"
  | "empty"
  | "low_liquidity"
  | "thin_measure"
  | "quote_depegged"
  | "no_usd_price_of_quote"
  | HookDoubt["reason"];

export interface Ranking {
  /** In their order; all at or above the floor. */
  readonly usable: readonly Route[];
  readonly skipped: readonly SkippedPool[];
}

interface RankOptions {
  readonly token: Address;
  /** US dollars. */
  readonly floor: Rational;
  /** Selects the token's own pools that may be used. The rest of the route is the chain's best. */
  readonly accepts: (pool: Pool) => boolean;
  /** Tokens to route through when no direct pool is usable. */
  readonly connectors: readonly Address[];
  /** True if the request names an exchange: then its pools price a stablecoin, thin as they may be. */
  readonly isNamed: boolean;
}

const skip = (pool: Pool, reason: SkipReason, numbers: Record<string, string> = {}): SkippedPool => ({
  pool: pool.id,
  exchange: pool.exchange,
  reason,
  ...numbers,
});

export function rank(market: Market, dollar: Dollar, options: RankOptions): Ranking {
  const skipped: SkippedPool[] = [];
  const direct = measuring(market, dollar, options, directRoutes(market, dollar, options, skipped), skipped);
  if (direct.length > 0) return { usable: direct, skipped };
  const connected = connectedRoutes(market, dollar, options, skipped);
  return { usable: measuring(market, dollar, options, connected, skipped), skipped };
}

/** Drops the routes of a stablecoin that are too thin to measure it. */
function measuring(
  market: Market,
  dollar: Dollar,
  { token, isNamed }: RankOptions,
  routes: Route[],
  skipped: SkippedPool[],
): Route[] {
  if (isNamed) return routes;
  return routes.filter((route) => {
    if (dollar.isMeasuredBy(token, weightOfRoute(market, route))) return true;
    skipped.push(skip(route.pool, "thin_measure", { liquidityUsd: format(route.depthUsd) }));
    return false;
  });
}

const weightOfRoute = (market: Market, { depthUsd, moveUsd }: Route): Rational =>
  weightOf(market, { depth: depthUsd, move: moveUsd });

function directRoutes(market: Market, dollar: Dollar, options: RankOptions, skipped: SkippedPool[]): Route[] {
  const { token, floor } = options;
  const native = market.chain.wrappedNative.address;
  const stablecoins = new Set(dollars(market).map((coin) => coin.address));
  const except = stablecoins.has(token) ? token : undefined;
  const nativePrice = dollar.native(floor, except);
  const routes: Route[] = [];
  for (const pool of poolsOf(market, options)) {
    const quote = otherToken(pool, token);
    if (quote !== native && !stablecoins.has(quote)) continue;
    if (stablecoins.has(quote) && !dollar.isTrusted(quote)) {
      const measured = dollar.measured(quote);
      skipped.push(skip(pool, "quote_depegged", { quote, ...(measured ? { quoteUsd: format(measured) } : {}) }));
      continue;
    }
    const side = sideOrReason(market, pool, token, skipped);
    if (side === undefined) continue;
    if (quote !== native) keepIfDeep(alone(side), floor, routes, skipped);
    else if (nativePrice !== undefined) keepIfDeep(through(side, alone(nativePrice.side)), floor, routes, skipped);
    else skipped.push(skipWithoutNativePrice(side, dollar.native(ZERO, except), floor));
  }
  return inOrder(market, routes);
}

/** Returns routes over a connector: the token's pool with it, then the connector's best direct route, in their order. */
function connectedRoutes(market: Market, dollar: Dollar, options: RankOptions, skipped: SkippedPool[]): Route[] {
  const { token, floor } = options;
  const routes: Route[] = [];
  for (const connector of options.connectors) {
    if (connector === token || connector === market.chain.wrappedNative.address || dollar.isTrusted(connector))
      continue;
    const pools = poolsOf(market, options).filter((pool) => otherToken(pool, token) === connector);
    if (pools.length === 0) continue;
    const [onward] = directRoutes(market, dollar, { ...options, token: connector, accepts: () => true }, []).filter(
      (route) => route.legs.every((leg) => leg.quote !== token),
    );
    for (const pool of pools) {
      const side = sideOrReason(market, pool, token, skipped);
      if (side === undefined) continue;
      if (onward === undefined) {
        skipped.push(skip(pool, "no_usd_price_of_quote", { quote: connector }));
        continue;
      }
      keepIfDeep(through(side, onward), floor, routes, skipped);
    }
  }
  return inOrder(market, routes);
}

/** Returns the token's own pools that a request may use. */
export const poolsOf = (market: Market, options: Pick<RankOptions, "token" | "accepts">): readonly Pool[] =>
  market.pools.filter(
    (pool) => (pool.token0 === options.token || pool.token1 === options.token) && options.accepts(pool),
  );

/** Sorts routes. Those that share their thinnest pool weigh the same, so their own pools decide. */
const inOrder = (market: Market, routes: Route[]): Route[] => {
  const byOwn = byWeight<Route>(({ own }) => weightOf(market, own));
  return routes.sort((a, b) => compare(weightOfRoute(market, b), weightOfRoute(market, a)) || byOwn(a, b));
};

/** A route of one pool with a trusted stablecoin. */
export const alone = (side: Side): Route => ({
  ...{ pool: side.pool, legs: [side], usd: side.price },
  ...{ depthUsd: side.depth, moveUsd: side.move, own: side },
});

/** The route over one pool, and then on. It is as deep, and as hard to move, as the thinnest pool on it. */
export function through(side: Side, onward: Route): Route {
  const own = { depth: multiply(side.depth, onward.usd), move: multiply(side.move, onward.usd) };
  return {
    ...{ pool: side.pool, legs: [side, ...onward.legs], own },
    usd: multiply(side.price, onward.usd),
    depthUsd: minimum(own.depth, onward.depthUsd),
    moveUsd: minimum(own.move, onward.moveUsd),
  };
}

/** Skips a pool with the native coin when that has no price above the floor. `thin`: its best price below the floor. */
function skipWithoutNativePrice(
  { pool, quote, depth }: Side,
  thin: NativePrice | undefined,
  floor: Rational,
): SkippedPool {
  if (thin === undefined) return skip(pool, "no_usd_price_of_quote", { quote });
  const depthUsd = multiply(depth, thin.usd);
  const numbers = { liquidityUsd: format(depthUsd), minLiquidityUsd: format(floor) };
  if (compare(depthUsd, floor) < 0) return skip(pool, "low_liquidity", numbers);
  return skip(pool, "no_usd_price_of_quote", { quote, ...numbers, quoteLiquidityUsd: format(thin.side.depth) });
}

function sideOrReason(market: Market, pool: Pool, token: Address, skipped: SkippedPool[]): Side | undefined {
  const observation = market.states.get(pool.id);
  if (observation === undefined) {
    // A pool inside a manager was found by its state. At the head only the measure of its positions can be missing.
    const isUnmeasured = pool.key !== undefined && !market.isPast && market.factsOf === "block";
    skipped.push(skip(pool, isUnmeasured ? "depth_not_measured" : "no_state_at_block"));
    return undefined;
  }
  const side = sideOf(market, pool, token);
  const { reason = "empty", numbers } = hookDoubt(observation) ?? {};
  if (side === undefined) skipped.push(skip(pool, reason, numbers));
  return side;
}

function keepIfDeep(route: Route, floor: Rational, routes: Route[], skipped: SkippedPool[]): void {
  // An empty pool has no price, even if the floor is zero.
  if (compare(route.depthUsd, floor) >= 0 && route.depthUsd.n > 0n) {
    routes.push(route);
    return;
  }
  skipped.push(
    skip(route.pool, "low_liquidity", { liquidityUsd: format(route.depthUsd), minLiquidityUsd: format(floor) }),
  );
}
