/**
 * The price record as the contract has it: field order, string forms, and the one rounding of each number.
 */
import type { ListedToken } from "../chains/token-list.ts";
import type { Address, Hash } from "../core/hex.ts";
import { decimalsOf, type Market, type Side } from "./market/market.ts";
import type { Observation, Pool } from "./market/pools.ts";
import { confidence, spreadPercent } from "./market/quality.ts";
import type { Quote } from "./market/quote.ts";
import { format, formatDouble, multiply, powerOfTen, type Rational, toDouble, truncate } from "./market/rational.ts";
import type { TokenFacts } from "./search/discovery.ts";

interface NativePriceRecord {
  /** Smallest units of the native coin for one whole token, truncated toward zero. */
  readonly value: string;
  readonly decimals: number;
  readonly name: string;
  readonly symbol: string;
  readonly address: Address;
}

export interface RouteLeg {
  readonly pool: Address;
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
  /** True for a pair on the x³y + y³x curve, whose price is not its reserve ratio. */
  readonly stableCurve?: true;
  /** What the pool really holds, where known: its sides count for depth only as far. */
  readonly balance0?: string;
  readonly balance1?: string;
  readonly block: number;
  readonly blockHash: Hash;
  readonly transactionHash?: Hash;
  readonly logIndex?: number;
}

interface Provenance {
  readonly route: readonly RouteLeg[];
  /** The pool of the native price, where the way to the dollar does not pass it. */
  readonly nativeRoute?: readonly RouteLeg[];
  readonly liquidityUsd: string;
  readonly confidence: string;
  readonly twap30m: string | null;
  readonly spreadPercent: string;
  /** The configured stablecoins that are more than 2 % off a believed one; left out where all agree. */
  readonly disputedStablecoins?: readonly DisputedStablecoin[];
}

interface DisputedStablecoin {
  readonly address: Address;
  readonly symbol: string;
  /** US dollars, by the believed stablecoin that it disagrees with. */
  readonly usdPrice: string;
}

export interface PriceRecord {
  readonly tokenName: string;
  readonly tokenSymbol: string;
  readonly tokenLogo: string;
  readonly tokenDecimals: string;
  /** Null where the token has a dollar price and the native coin none. */
  readonly nativePrice: NativePriceRecord | null;
  readonly usdPrice: number;
  readonly usdPriceFormatted: string;
  readonly "24hrPercentChange"?: string;
  readonly exchangeAddress: string;
  readonly exchangeName: string;
  readonly tokenAddress: Address;
  readonly toBlock: string;
  readonly provenance?: Provenance;
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
    pool: pool.address,
    exchange: pool.exchange,
    factory: pool.factory,
    fee: pool.fee,
    token0: pool.token0,
    token1: pool.token1,
    // A side exists only where both are known.
    ...decimalsOf(market, pool)!,
    ...stateFields(observation),
    ...(pool.stableCurve ? { stableCurve: true } : {}),
    ...(balance0 === undefined ? {} : { balance0: balance0.toString() }),
    ...(balance1 === undefined ? {} : { balance1: balance1.toString() }),
    block: observation.block,
    blockHash: observation.blockHash,
    ...(observation.transactionHash === undefined ? {} : { transactionHash: observation.transactionHash }),
    ...(observation.logIndex === undefined ? {} : { logIndex: observation.logIndex }),
  };
}

/** `twap`: US dollars; undefined where the window could not be seen. */
export function provenanceOf(quote: Quote, twap: Rational | undefined): Provenance {
  const { market, nativeSide } = quote;
  return {
    route: (quote.route?.legs ?? []).map((leg) => legOf(leg, market)),
    ...(nativeSide === undefined ? {} : { nativeRoute: [legOf(nativeSide, market)] }),
    liquidityUsd: quote.route === undefined ? "0" : format(quote.route.depthUsd),
    confidence: format(confidence(quote)),
    twap30m: twap === undefined ? null : format(twap),
    spreadPercent: format(spreadPercent(quote.usable)),
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

interface RecordParts {
  readonly quote: Quote;
  readonly facts: TokenFacts;
  readonly listed: ListedToken | undefined;
  /** The display name of the alias that was asked for. */
  readonly exchangeName: string | undefined;
  /** Per cent. */
  readonly percentChange: Rational | undefined;
  readonly provenance: Provenance | undefined;
}

/** The record in the contract's field order. */
export function recordOf(parts: RecordParts): PriceRecord {
  const { quote, facts, listed } = parts;
  const { chain, block } = quote.market;
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
    ...(parts.provenance === undefined ? {} : { provenance: parts.provenance }),
  };
}
