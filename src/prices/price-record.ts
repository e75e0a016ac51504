/**
 * The record of a price: the fields of the API from a quote, with the one rounding of each number; and the pools that a
 * request may use.
 */
import type { Chain } from "../chains/chains.ts";
import { type Deployment, deploymentOf, type ExchangeChoice, exchangesOf, isAmongTwelve } from "../chains/exchanges.ts";
import { invalidParameter } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { DepthFields } from "./depth/depth.ts";
import { decimalsOf, type Market, type Side } from "./market/market.ts";
import { depth, type Observation, type Pool } from "./market/pools.ts";
import { isFromArchive, type Quote, spreadPercent } from "./market/quote.ts";
import {
  add,
  compare,
  divide,
  format,
  formatDouble,
  multiply,
  powerOfTen,
  type Rational,
  rational,
  subtract,
  toDouble,
  truncate,
} from "./market/rational.ts";
import type { PriceProvenance, PriceRecord, RouteLeg, UnconfirmedFigure } from "./models.ts";
import type { Redemption } from "./redemption.ts";
import type { ListedToken } from "./token-list.ts";

export interface PriceParameters {
  readonly percentChange: boolean;
  readonly provenance: boolean;
  readonly pair?: boolean;
  /** The size of the trade whose depth is wanted, in US dollars. */
  readonly depthUsd?: Rational;
  readonly exchange?: ExchangeChoice;
  readonly toBlock?: number;
  /** US dollars. */
  readonly minLiquidityUsd?: Rational;
  /** Most hours between the last trade in the token's pool and the priced block. */
  readonly maxIdleHours?: number;
}

/** The pools that a request may use by its `exchange` parameter, and the exchange name in its response. */
export interface Selection {
  readonly accepts: (pool: Pick<Pool, "factory">) => boolean;
  /** Display name of the requested alias. */
  readonly exchangeName: string | undefined;
  /** The requested factory, if its pools don't rank here. */
  readonly unlisted: Address | undefined;
}

/** The deployments on a chain whose pools rank: all, or those of the contract's twelve exchanges. */
export const rankedExchanges = (chain: Chain, pools: "all" | "contract" = "all"): readonly Deployment[] =>
  exchangesOf(chain).filter(({ exchange }) => pools === "all" || isAmongTwelve(exchange));

/**
 * @param ranked the chain's deployments whose pools rank; another one is used for the request only
 * @throws Refusal `invalid_parameter` when a listed exchange is not on this chain
 */
export function selectPools(
  chain: Chain,
  choice: ExchangeChoice | undefined,
  ranked: readonly Deployment[],
): Selection {
  if (choice === undefined) return { accepts: () => true, exchangeName: undefined, unlisted: undefined };
  if (choice.kind === "listed") {
    const deployment = deploymentOf(choice.exchange, chain);
    if (deployment === undefined) throw notHere(choice.exchange.realName, chain);
    return of(deployment.factory, choice.exchange.displayName, ranked);
  }
  return of(choice.factory, undefined, ranked);
}

const of = (factory: Address, exchangeName: string | undefined, ranked: readonly Deployment[]): Selection => ({
  accepts: (pool) => pool.factory === factory,
  exchangeName,
  unlisted: ranked.some((entry) => entry.factory === factory) ? undefined : factory,
});

function notHere(name: string, chain: Chain): Error {
  const here = exchangesOf(chain).map((entry) => entry.exchange.realName);
  const there = here.length === 0 ? "the chain has no exchange" : `there are ${here.join(", ")}`;
  return invalidParameter("exchange", `${name} is not on ${chain.name}; ${there}`);
}

/** The pool of a price, and the price 24 hours before, in the names of the hosted service. */
type PairFacts = Pick<PriceRecord, "pairAddress" | "pairTotalLiquidityUsd" | "usdPrice24h" | "usdPrice24hrUsdChange">;

function stateFields(observation: Observation): Partial<RouteLeg> {
  const { reading } = observation;
  return reading.style === "v2"
    ? { reserve0: reading.reserve0.toString(), reserve1: reading.reserve1.toString() }
    : { sqrtPriceX96: reading.sqrtPriceX96.toString(), liquidity: reading.liquidity.toString() };
}

function legOf({ pool, observation }: Side, market: Market): RouteLeg {
  const { balance0, balance1 } = observation;
  return {
    pool: pool.id,
    exchange: pool.exchange,
    factory: pool.factory,
    fee: pool.fee,
    token0: pool.token0,
    token1: pool.token1,
    // A `Side` exists only if the decimals of both tokens are known.
    ...decimalsOf(market, pool)!,
    ...stateFields(observation),
    ...(pool.key === undefined ? {} : { key: pool.key }),
    ...(pool.stableCurve ? { stableCurve: true } : {}),
    ...(balance0 === undefined ? {} : { balance0: balance0.toString() }),
    ...(balance1 === undefined ? {} : { balance1: balance1.toString() }),
    block: observation.block,
    blockHash: observation.blockHash,
    ...(observation.transactionHash === undefined ? {} : { transactionHash: observation.transactionHash }),
    ...(observation.logIndex === undefined ? {} : { logIndex: observation.logIndex }),
  };
}

/** The best route by the contract's exchanges, if another exchange's has another price. */
function contractPrice({ usable: [best, ...others] }: Quote): PriceProvenance["contractPools"] {
  if (best === undefined || isAmongTwelve(best.pool)) return undefined;
  const own = others.find(({ pool }) => isAmongTwelve(pool));
  if (own === undefined || compare(own.usd, best.usd) === 0) return undefined;
  const { id: pool, exchange } = own.pool;
  return { pool, exchange, usdPrice: format(own.usd), liquidityUsd: format(own.depthUsd) };
}

const redemptionFacts = ({ standard, asset, assets, usd }: Redemption): NonNullable<PriceProvenance["redemption"]> => ({
  ...{ standard, asset, assetsPerToken: format(assets) },
  ...(usd === undefined ? {} : { usdPrice: format(usd) }),
});

/** @param twap US dollars; undefined when the states in the window are not known */
export function provenanceOf(
  quote: Quote,
  {
    confidence,
    twap,
    redemption,
    limitedBy,
    unconfirmed,
  }: {
    readonly confidence: Rational;
    readonly twap: Rational | undefined;
    readonly redemption: Redemption | undefined;
    readonly limitedBy: string | undefined;
    /** Figures that rest on an archive's word alone. */
    readonly unconfirmed: readonly UnconfirmedFigure[];
  },
): PriceProvenance {
  const byContract = contractPrice(quote);
  const { market, nativeSide } = quote;
  return {
    route: (quote.route?.legs ?? []).map((leg) => legOf(leg, market)),
    ...(nativeSide === undefined ? {} : { nativeRoute: [legOf(nativeSide, market)] }),
    liquidityUsd: quote.route === undefined ? "0" : format(quote.route.depthUsd),
    confidence: format(confidence),
    ...(limitedBy === undefined ? {} : { limitedBy }),
    twap30m: twap === undefined ? null : format(twap),
    spreadPercent: format(spreadPercent(quote.usable)),
    ...(market.factsOf === "newest" ? { factsOf: "newest" } : {}),
    ...(isFromArchive(quote) ? { source: "archive" } : {}),
    ...(unconfirmed.length === 0 ? {} : { unconfirmed: [...unconfirmed] }),
    ...(byContract === undefined ? {} : { contractPools: byContract }),
    ...(redemption === undefined ? {} : { redemption: redemptionFacts(redemption) }),
    ...(quote.disputed.length === 0
      ? {}
      : {
          disputedStablecoins: quote.disputed.map(({ coin, usd }) => ({
            address: coin.address,
            symbol: coin.symbol,
            usdPrice: format(usd),
          })),
        }),
  };
}

/** Returns the change of a price in per cent. */
export const percentBetween = (before: Rational, now: Rational): Rational =>
  multiply(divide(subtract(now, before), before), rational(100n));

/** @param dayBefore US dollars; undefined without a price then */
export function pairOf({ market, route, usd }: Quote, dayBefore: Rational | undefined): PairFacts {
  const leg = route?.legs[0];
  return {
    pairAddress: leg?.pool.id ?? null,
    pairTotalLiquidityUsd: leg === undefined ? null : format(multiply(usd, heldBy(leg, market))),
    usdPrice24h: dayBefore === undefined ? null : toDouble(dayBefore),
    usdPrice24hrUsdChange: dayBefore === undefined ? null : toDouble(subtract(usd, dayBefore)),
  };
}

/** Returns both sides of a pool in whole base tokens. A pair on the stable curve counts with all its reserves. */
function heldBy({ pool, observation, base, price }: Side, market: Market): Rational {
  const { side0, side1 } = depth({ stableCurve: false }, observation, decimalsOf(market, pool)!)!;
  const [own, other] = pool.token0 === base ? [side0, side1] : [side1, side0];
  return add(own, divide(other, price));
}

interface PriceRecordParts {
  readonly quote: Quote;
  readonly listed: ListedToken | undefined;
  readonly exchangeName: string | undefined;
  /** Per cent. */
  readonly percentChange: Rational | undefined;
  readonly pair: PairFacts | undefined;
  readonly provenance: PriceProvenance | undefined;
  readonly depth: DepthFields | undefined;
}

/** Returns the record, in the API's field order. */
export function recordOf(parts: PriceRecordParts): PriceRecord {
  const { quote, listed } = parts;
  const { chain, block, facts } = quote.market;
  const usdPrice = toDouble(quote.usd);
  const pool: Pool | undefined = quote.route?.pool ?? quote.nativeSide?.pool;
  const { name, symbol, decimals } = chain.native;
  return {
    tokenName: facts.name || (listed?.name ?? ""),
    tokenSymbol: facts.symbol || (listed?.symbol ?? ""),
    tokenLogo: listed?.logo ?? "",
    tokenDecimals: String(facts.decimals),
    nativePrice:
      quote.native === undefined
        ? null
        : {
            value: truncate(multiply(quote.native, powerOfTen(decimals))).toString(),
            decimals,
            name,
            symbol,
            address: chain.wrappedNative.address,
          },
    usdPrice,
    usdPriceFormatted: formatDouble(usdPrice),
    ...(parts.percentChange === undefined ? {} : { "24hrPercentChange": format(parts.percentChange) }),
    exchangeAddress: pool?.factory ?? "",
    exchangeName: parts.exchangeName ?? pool?.exchange ?? "",
    tokenAddress: quote.token,
    toBlock: String(block.number),
    ...parts.pair,
    ...(parts.provenance === undefined ? {} : { provenance: parts.provenance }),
    ...parts.depth,
  };
}
