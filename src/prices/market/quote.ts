/**
 * Turns a market into a quote: the token's route, its price in dollars and in the native coin, or a refusal with the
 * reason. Measures a price's reliability: confidence and spread. Pure.
 */
import { NO_TOKEN } from "../../chains/addresses.ts";
import type { Chain } from "../../chains/chains.ts";
import { Refusal } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import { agreementOf } from "./hook-trades.ts";
import {
  type DisputedCoin,
  type Dollar,
  dollarOf,
  dollars,
  type Market,
  ranked,
  type Side,
  sidesOf,
  type TokenFacts,
} from "./market.ts";
import { depthByMove, isCapped, type Observation, type Pool } from "./pools.ts";
import { poolsOf, type Ranking, type Route, rank, type SkippedPool } from "./ranking.ts";
import {
  add,
  compare,
  divide,
  invert,
  minimum,
  multiply,
  ONE,
  powerOfTen,
  type Rational,
  rational,
  subtract,
  truncate,
  ZERO,
} from "./rational.ts";

type RefusalCode = "no_pool" | "low_liquidity" | "not_a_token" | "unknown_decimals" | "no_price_at_block" | "no_dollar";

export interface Quote {
  readonly market: Market;
  readonly token: Address;
  /** US dollars for one whole token. */
  readonly usd: Rational;
  /** Whole native coins for one whole token; undefined when the native coin has no price to compare with. */
  readonly native: Rational | undefined;
  /** Undefined for a stablecoin without any measure: it counts as one dollar. */
  readonly route: Route | undefined;
  /** The pool of the native price, if it is not on the route. */
  readonly nativeSide: Side | undefined;
  /** Every usable route, the chosen one first. */
  readonly usable: readonly Route[];
  /** Stablecoins that disagree with a trusted one. If there are any, the dollar itself is in doubt. */
  readonly disputed: readonly DisputedCoin[];
  /** The coin's first-ranking pool with a dollar: the same for all tokens of a block. Undefined if it has none. */
  readonly coin: Side | undefined;
}

export interface QuoteOptions {
  readonly token: Address;
  /** US dollars; the chain's own floor when the request has none. */
  readonly floor: Rational;
  readonly accepts: (pool: Pool) => boolean;
  /** True if the request names an exchange. A token that is not traded there has no price. */
  readonly isNamed: boolean;
  /** True if the block is not the head. A pool without a state had no trades yet at that block. */
  readonly isPast: boolean;
}

const MESSAGE = "No pools found with enough liquidity, to calculate the price";

export const refusal = (
  code: RefusalCode,
  pools: readonly SkippedPool[] = [],
  details: Readonly<Record<string, unknown>> = {},
): Refusal => new Refusal(code, MESSAGE, { details: { pools, ...details } });

/** What a request without parameters lets a quote use. */
export const plainOptions = (token: Address, market: Market): QuoteOptions => ({
  ...{ token, floor: floorOf(market), accepts: () => true, isNamed: false, isPast: market.isPast },
});

/** True if the address is a token that pools can price. */
export const isPriceable = ({ kind }: TokenFacts): boolean => kind === "erc20";

/** The refusal of an address that is no token. It says what the address is instead. */
export function notAToken(address: Address, { name }: Chain, { standard }: TokenFacts, isAccount: boolean): Refusal {
  const listing = `its listing is GET /api/v2/nft/${address}?chain=${encodeURIComponent(name)}`;
  const what =
    standard !== undefined ? `${NO_TOKEN.nft} (${standard}); ${listing}` : NO_TOKEN[isAccount ? "account" : "contract"];
  return new Refusal("not_a_token", `${address} is ${what}`, { details: { pools: [] } });
}

/** The least depth in US dollars: $500 on eth, $150 elsewhere. */
export const floorOf = (market: Pick<Market, "chain">): Rational => rational(market.chain.name === "eth" ? 500n : 150n);

/**
 * @throws Refusal `no_pool`, `low_liquidity` or `no_price_at_block`, with every pool and the reason to skip it;
 * `no_dollar`, with the native price, on a chain without a stablecoin
 */
export function quote(market: Market, options: QuoteOptions): Quote {
  const { token } = options;
  if (market.chain.stablecoins.length === 0) throw withoutDollar(market, options);
  const dollar = dollarOf(market, floorOf(market));
  const connectors = connectorsIn(market);
  const ranking = rank(market, dollar, { ...options, connectors });
  const [route] = ranking.usable;
  if (route !== undefined) return routed(market, dollar, options, ranking, route);
  if (isDollar(market, token)) {
    // Pools that the request excludes still measure the coin: a request's floor or exchange must not make it a dollar.
    // Pools under the chain's floor measure nothing, or a pool of a few dollars could unseat any stablecoin.
    const measures = rank(market, dollar, {
      ...{ token, floor: floorOf(market), accepts: () => true, connectors, isNamed: false },
    });
    const byDecree = measures.usable.length === 0 ? oneDollarQuote(market, dollar, options) : undefined;
    if (byDecree !== undefined) return byDecree;
  }
  throw refused(market, options, ranking);
}

/** No stablecoin says what a dollar is. The token's first-ranking pool with the native coin still has a price in that. */
function withoutDollar(market: Market, options: QuoteOptions): Refusal {
  const { token, accepts } = options;
  const { chain } = market;
  const native = chain.wrappedNative.address;
  const sides = sidesOf(market, token, (quoteToken) => quoteToken === native);
  const [side] = ranked(
    market,
    sides.filter(({ pool, depth }) => accepts(pool) && depth.n > 0n),
  );
  const price = token === native ? ONE : side?.price;
  const ranking = rank(market, dollarOf(market, ZERO), { ...options, floor: ZERO, connectors: [] });
  if (price === undefined) return refused(market, options, ranking);
  const { name, symbol, decimals } = chain.native;
  const value = truncate(multiply(price, powerOfTen(decimals))).toString();
  const pool = side === undefined ? {} : { pool: side.pool.id, exchange: side.pool.exchange };
  return new Refusal("no_dollar", `no stablecoin is known on ${chain.name}, so there is a price in ${symbol} only`, {
    details: { nativePrice: { value, decimals, name, symbol, address: native }, ...pool, pools: ranking.skipped },
  });
}

/** True if the token has a price without a connector. Then the connectors' pools need not be read. */
export function isPricedDirectly(market: Market, options: QuoteOptions): boolean {
  if (market.chain.stablecoins.length === 0) return true;
  return rank(market, dollarOf(market, floorOf(market)), { ...options, connectors: [] }).usable.length > 0;
}

const connectorsIn = ({ chain }: Market): Address[] =>
  [...chain.connectors, ...chain.stablecoins].map((entry) => entry.address);

const isDollar = (market: Market, token: Address): boolean => dollars(market).some((coin) => coin.address === token);

function routed(market: Market, dollar: Dollar, options: QuoteOptions, ranking: Ranking, route: Route): Quote {
  const { token, floor } = options;
  const native = market.chain.wrappedNative.address;
  const { disputed } = dollar;
  const coin = dollar.native(floorOf(market))?.side;
  const common = { market, token, usd: route.usd, route, usable: ranking.usable, disputed, coin } as const;
  if (token === native) return { ...common, native: ONE, nativeSide: undefined };
  const onTheWay = route.legs.find((leg) => leg.base === native);
  if (onTheWay !== undefined) return { ...common, native: divide(route.usd, onTheWay.price), nativeSide: undefined };
  // A stablecoin's own pool with the native coin may tell this: only its price in dollars must not rest on itself.
  const price = dollar.native(floor);
  return { ...common, native: price && divide(route.usd, price.usd), nativeSide: price?.side };
}

/**
 * Quotes a stablecoin at one dollar. Its native price comes from its own first-ranking native pool, which needs no dollar.
 * Undefined when the coin did not trade yet, or not on the requested exchange.
 */
function oneDollarQuote(market: Market, dollar: Dollar, options: QuoteOptions): Quote | undefined {
  const { token, floor, isNamed, isPast, accepts } = options;
  const native = market.chain.wrappedNative.address;
  const pools = poolsOf(market, options);
  if (isPast && isStateless(market, pools)) return undefined;
  const sides = sidesOf(market, native, (entry) => entry === token);
  const [side] = ranked(
    market,
    sides.filter(({ pool, depth }) => accepts(pool) && compare(depth, floor) >= 0 && depth.n > 0n),
  );
  if (isNamed && side === undefined) return undefined;
  return {
    market,
    token,
    usd: ONE,
    native: side === undefined ? undefined : invert(side.price),
    route: undefined,
    nativeSide: side,
    usable: [],
    disputed: dollar.disputed,
    coin: dollar.native(floorOf(market))?.side,
  };
}

function refused(market: Market, options: QuoteOptions, ranking: Ranking): Refusal {
  const pools = poolsOf(market, options);
  // At the head a stablecoin needs no pool. At a past block only a pool shows that the coin existed.
  const isLone = isDollar(market, options.token) && !options.isNamed;
  if (pools.length === 0 && !(options.isPast && isLone)) return refusal("no_pool");
  const stateless = options.isPast && isStateless(market, pools);
  return refusal(stateless ? "no_price_at_block" : "low_liquidity", ranking.skipped);
}

const isStateless = (market: Market, pools: readonly Pool[]): boolean =>
  pools.every((pool) => !market.states.has(pool.id));

/** US dollars. */
const TRADE_USD = rational(100_000n);
/** Upper limit of the confidence if pool balances or the decimals then are unknown, or the dollar is disputed. */
const DOUBT_LIMIT = rational(1n, 2n);
/** Upper limit of the confidence if an archive's word alone stands for a pool's state, or for which pools there were. */
const ARCHIVE_LIMIT = rational(1n, 4n);

/**
 * Returns a number from 0 to 1: the share of the marginal price that a trade of $100,000 gets on a constant-product
 * pool of the depth of the thinnest pool that the answer depends on, D / (D + 100,000). At the head the depth is at most that of such a pool
 * whose price is as cheap to move: liquidity that is not around the price makes it no surer. At most 0.5 when the depth of a pool on the route could
 * not be capped by its balances, when the decimals are not those of the block, or when a configured stablecoin disagrees
 * with a trusted one. A pool with hooks leaves the part of it that a trade got of the price. At most 0.25 while an archive
 * alone says what the price rests on.
 */
export function confidence(quote: Pick<Quote, "route" | "disputed" | "market" | "nativeSide">): Rational {
  const { route, disputed, market, nativeSide } = quote;
  if (route === undefined) return ZERO;
  const sureDepth = (depth: Rational, move: Rational) => (market.isPast ? depth : minimum(depth, depthByMove(move)));
  const ofRoute = sureDepth(route.depthUsd, route.moveUsd);
  const depthUsd = nativeSide ? minimum(ofRoute, sureDepth(nativeSide.depth, nativeSide.move)) : ofRoute;
  const agreement = route.legs.map(({ observation }) => agreementOf(observation)).reduce(minimum);
  const share = multiply(divide(depthUsd, add(depthUsd, TRADE_USD)), agreement);
  const isMeasured = market.factsOf === "block" && route.legs.every(({ observation }) => isSure(market, observation));
  const limit = archiveLimitOf(quote) === undefined ? DOUBT_LIMIT : ARCHIVE_LIMIT;
  return isMeasured && disputed.length === 0 && limit === DOUBT_LIMIT ? share : minimum(share, limit);
}

/** True if what can be taken out of the pool is known: its balances, and at the head what moves a concentrated price. */
const isSure = ({ isPast }: Market, observation: Observation): boolean =>
  isCapped(observation) && (isPast || observation.reading.style === "v2" || observation.given !== undefined);

/** True if an archive told a state on the way to the dollar, or which pools there were. */
export const isFromArchive = ({ route, nativeSide, market }: Pick<Quote, "route" | "nativeSide" | "market">): boolean =>
  market.archive !== undefined ||
  [...(route?.legs ?? []), nativeSide].some((side) => side?.observation.archive !== undefined);

/** Says what an archive alone says of a price; undefined if the node, or another archive, confirms all of it. */
export function archiveLimitOf({
  route,
  nativeSide,
  market,
}: Pick<Quote, "route" | "nativeSide"> & { readonly market: Pick<Market, "archive"> }): string | undefined {
  for (const side of [...(route?.legs ?? []), nativeSide]) {
    const { label, alone } = side?.observation.archive ?? {};
    if (side === undefined || alone === undefined) continue;
    const blocks = `blocks ${alone.fromBlock} to ${alone.toBlock}`;
    return `only the ${label} says that the pool ${side.pool.id} had no other trade in ${blocks}`;
  }
  const { archive } = market;
  if (archive?.isOfAnnouncements === true) return `only the ${archive.label} says which pools were announced`;
  if (archive === undefined) return undefined;
  return `only the ${archive.label} says that other pools, ${archive.absent.length} in all, had no state at the block`;
}

/** Spread from the cheapest to the dearest usable route, in per cent of the best route's price; zero with one route. */
export function spreadPercent(usable: readonly Route[]): Rational {
  const [best] = usable;
  if (best === undefined) return ZERO;
  const prices = usable.map(({ usd }) => usd).sort(compare);
  return multiply(divide(subtract(prices.at(-1)!, prices[0]!), best.usd), rational(100n));
}
