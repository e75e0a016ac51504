/**
 * The record of a price: the fields of the API from a quote, with the one rounding of each number; and the pools that a
 * request may use.
 */
import type { Chain } from "../chains/chains.ts";
import { type Deployment, deploymentOf, type ExchangeChoice, exchangesOf, isAmongTwelve } from "../chains/exchanges.ts";
import { invalidParameter } from "../core/errors.ts";
import type { Address, Hash } from "../core/hex.ts";
import type { DepthFields } from "./depth/depth.ts";
import { decimalsOf, type Market, type Side } from "./market/market.ts";
import {
  add,
  compare,
  depth,
  divide,
  format,
  formatDouble,
  multiply,
  type Observation,
  type Pool,
  type PoolId,
  type PoolKey,
  powerOfTen,
  type Rational,
  rational,
  subtract,
  toDouble,
  truncate,
} from "./market/pools.ts";
import { type Quote, spreadPercent } from "./market/quote.ts";
import type { Redemption } from "./redemption.ts";
import type { ListedToken } from "./token-lists.ts";

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

interface NativePriceRecord {
  /** Smallest units of the native coin for one whole token, truncated toward zero. */
  readonly value: string;
  readonly decimals: number;
  readonly name: string;
  readonly symbol: string;
  readonly address: Address;
}

export interface RouteLeg {
  readonly pool: PoolId;
  readonly exchange: string;
  readonly factory: Address;
  readonly fee: number;
  readonly token0: Address;
  readonly token1: Address;
  readonly decimals0: number;
  readonly decimals1: number;
  readonly reserve0?: string;
  readonly reserve1?: string;
  readonly sqrtPriceX96?: string;
  readonly liquidity?: string;
  /** For a pool inside its factory's contract. */
  readonly key?: PoolKey;
  /** True for a pair on the x³y + y³x curve. Its price is not its reserve ratio. */
  readonly stableCurve?: true;
  /** The pool's real token balances, where known. They cap the pool's depth. */
  readonly balance0?: string;
  readonly balance1?: string;
  readonly block: number;
  readonly blockHash: Hash;
  readonly transactionHash?: Hash;
  readonly logIndex?: number;
}

interface Provenance {
  readonly route: readonly RouteLeg[];
  /** The pool of the native price, if it is not on the route. */
  readonly nativeRoute?: readonly RouteLeg[];
  readonly liquidityUsd: string;
  readonly confidence: string;
  readonly twap30m: string | null;
  readonly spreadPercent: string;
  /** Set if the node lacks the state of the block: name, symbol and decimals are those of the newest block. */
  readonly factsOf?: "newest";
  /** What a simulated sale met, if that limits the confidence. */
  readonly limitedBy?: string;
  /** The best price by the contract's twelve exchanges, if a pool of another one ranks before it and gives a different one. */
  readonly contractPools?: ContractPrice;
  /** What the token's own contract redeems it for, if it is a vault's share or a staked coin. */
  readonly redemption?: RedemptionFacts;
  /** Configured stablecoins that are more than 2 % off a trusted one; absent when all agree. */
  readonly disputedStablecoins?: readonly DisputedStablecoin[];
}

interface ContractPrice {
  readonly pool: PoolId;
  readonly exchange: string;
  readonly usdPrice: string;
  readonly liquidityUsd: string;
}

interface RedemptionFacts {
  readonly standard: Redemption["standard"];
  readonly asset: Address;
  /** Whole units of the asset for one whole token. */
  readonly assetsPerToken: string;
  readonly usdPrice?: string;
}

interface DisputedStablecoin {
  readonly address: Address;
  readonly symbol: string;
  /** US dollars, measured by the trusted stablecoin that it disagrees with. */
  readonly usdPrice: string;
}

/** The pool of a price, and the price 24 hours before, in the names of the hosted service. */
interface PairFacts {
  /** The first pool of the route; null if no pool measures the price. */
  readonly pairAddress: PoolId | null;
  /** US dollars of both its sides. */
  readonly pairTotalLiquidityUsd: string | null;
  readonly usdPrice24h: number | null;
  readonly usdPrice24hrUsdChange: number | null;
}

export interface PriceRecord extends Partial<PairFacts> {
  readonly tokenName: string;
  readonly tokenSymbol: string;
  readonly tokenLogo: string;
  readonly tokenDecimals: string;
  /** Null when the token has a dollar price but the native coin has none. */
  readonly nativePrice: NativePriceRecord | null;
  readonly usdPrice: number;
  readonly usdPriceFormatted: string;
  readonly "24hrPercentChange"?: string;
  readonly exchangeAddress: string;
  readonly exchangeName: string;
  readonly tokenAddress: Address;
  readonly toBlock: string;
  readonly provenance?: Provenance;
  readonly depth?: DepthFields["depth"];
  /** Why `depth` is null. */
  readonly why?: string;
}

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
function contractPrice({ usable: [best, ...others] }: Quote): ContractPrice | undefined {
  if (best === undefined || isAmongTwelve(best.pool)) return undefined;
  const own = others.find(({ pool }) => isAmongTwelve(pool));
  if (own === undefined || compare(own.usd, best.usd) === 0) return undefined;
  const { id: pool, exchange } = own.pool;
  return { pool, exchange, usdPrice: format(own.usd), liquidityUsd: format(own.depthUsd) };
}

const redemptionFacts = ({ standard, asset, assets, usd }: Redemption): RedemptionFacts => ({
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
  }: {
    readonly confidence: Rational;
    readonly twap: Rational | undefined;
    readonly redemption: Redemption | undefined;
    readonly limitedBy: string | undefined;
  },
): Provenance {
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

interface RecordParts {
  readonly quote: Quote;
  readonly listed: ListedToken | undefined;
  readonly exchangeName: string | undefined;
  /** Per cent. */
  readonly percentChange: Rational | undefined;
  readonly pair: PairFacts | undefined;
  readonly provenance: Provenance | undefined;
  readonly depth: DepthFields | undefined;
}

/** Returns the record, in the API's field order. */
export function recordOf(parts: RecordParts): PriceRecord {
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
