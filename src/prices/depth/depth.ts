/**
 * What trading a size through a price's route gives at its block, to the last digit, and what it costs to move the price.
 * Where this can't be computed exactly, the reason stands in its place.
 */
import { AppError } from "../../core/errors.ts";
import type { ChainReader } from "../../rpc/port.ts";
import { decimalsOf, type Side } from "../market/market.ts";
import {
  divide,
  format,
  minimum,
  multiply,
  ONE,
  powerOfTen,
  type Rational,
  rational,
  subtract,
  truncate,
} from "../market/pools.ts";
import type { Quote } from "../market/quote.ts";
import { type LastTrade, lastTrade } from "./last-trade.ts";
import { tradablesOf } from "./pool-reads.ts";
import { tradablesFromLogs } from "./positions.ts";
import { limitOf, type Sale, saleOf } from "./sale.ts";
import { DOWN, UnknownTrade, UP } from "./trade.ts";

interface Depth {
  readonly sizeUsd: string;
  /** Whole units of the route's last quote token for as many tokens as the size is worth at the price. */
  readonly sell: string;
  /** Whole tokens for as many of the last quote token as the size. */
  readonly buy: string;
  /** How much less `sell` is than the tokens are worth at the price, in per cent; fees included. */
  readonly impactPercent: string;
  /** US dollars that go into or out of the route's first pool until the price has moved by 2 %, the easier way. */
  readonly move2PercentUsd: string;
  readonly realised: LastTrade | null;
}

/** The fields of a record. */
export type DepthFields =
  | { readonly depth: Depth & Pick<Sale, "sellable" | "why"> }
  | { readonly depth: null; readonly why: string };

interface DepthOptions {
  readonly reader: ChainReader;
  readonly quote: Quote;
  /** US dollars. */
  readonly sizeUsd: Rational;
}

const STATELESS = "the node has no state of this block";

/**
 * Returns the depth of a quote, or the reason why there is none, and the simulated sale beside it.
 * @throws AppError `chain_unavailable`
 */
export async function depthOf(options: DepthOptions): Promise<{ readonly fields: DepthFields; readonly sale: Sale }> {
  const [own, sale] = await Promise.all([computedOrNot(options), saleOf(options.reader, options.quote)]);
  if (own.depth !== null) {
    const { sellable, why } = sale;
    return { fields: { depth: { ...own.depth, sellable, ...(why === undefined ? {} : { why }) } }, sale };
  }
  // A token that can't be sold is named also where its depth can't be computed.
  const why = [own.why, limitOf(sale)].filter((reason) => reason !== undefined).join("; ");
  return { fields: { depth: null, why }, sale };
}

async function computedOrNot(options: DepthOptions): Promise<{ depth: Depth } | { depth: null; why: string }> {
  try {
    return { depth: await computed(options) };
  } catch (error) {
    if (error instanceof UnknownTrade) return { depth: null, why: error.message };
    if (error instanceof AppError && error.code === "state_unavailable") return { depth: null, why: STATELESS };
    throw error;
  }
}

/** An amount of a token's smallest units in whole tokens, exactly. */
function inWhole(amount: bigint, decimals: number): string {
  const digits = amount.toString().padStart(decimals + 1, "0");
  const places = decimals === 0 ? "" : digits.slice(-decimals).replace(/0+$/, "");
  return `${digits.slice(0, digits.length - decimals)}${places === "" ? "" : `.${places}`}`;
}

async function computed({ reader, quote, sizeUsd }: DepthOptions): Promise<Depth> {
  const { market, route, usd } = quote;
  const { block } = market;
  if (route === undefined) throw new UnknownTrade("no pool measures the price");
  const { legs } = route;
  // A `Side` exists only if the decimals of both tokens are known.
  const pools = legs.map(({ pool }) => [pool, decimalsOf(market, pool)!] as const);
  const pastPoolOf = ({ pool, observation: { reading } }: Side, at: number) => ({
    pool,
    reading,
    decimals: pools[at]![1],
  });
  const [first, last] = [legs[0]!, legs.at(-1)!];
  const [tradables, realised] = await Promise.all([
    market.factsOf === "block"
      ? tradablesOf(pools, async (calls) => (await reader.callsAtBlock(calls, block)).results)
      : tradablesFromLogs(reader, legs.map(pastPoolOf), block),
    lastTrade(reader, first, pools[0]![1], block.number),
  ]);
  const [unit, quoteUnit] = [market.decimals.get(first.base)!, market.decimals.get(last.quote)!];
  const tokens = amountOf(divide(sizeUsd, usd), unit);
  const dollars = amountOf(sizeUsd, quoteUnit);
  const hops = legs.map(({ pool, base }, at) => ({ tradable: tradables[at]!, isToken0: pool.token0 === base }));
  const sold = hops.reduce((amount, { tradable, isToken0 }) => tradable.sell(amount, isToken0), tokens);
  const bought = hops.reduceRight((amount, { tradable, isToken0 }) => tradable.sell(amount, !isToken0), dollars);
  const worth = multiply(rational(tokens), multiply(usd, powerOfTen(quoteUnit - unit)));
  const { tradable, isToken0 } = hops[0]!;
  const moves = [tradable.sellDownTo(DOWN, isToken0).given, tradable.sellDownTo(UP, !isToken0).paid];
  const [out, paid] = moves.map((amount) => divide(rational(amount), powerOfTen(market.decimals.get(first.quote)!)));
  return {
    sizeUsd: format(sizeUsd),
    sell: inWhole(sold, quoteUnit),
    buy: inWhole(bought, unit),
    impactPercent: format(multiply(subtract(ONE, divide(rational(sold), worth)), rational(100n))),
    move2PercentUsd: format(multiply(minimum(out!, paid!), divide(usd, first.price))),
    realised,
  };
}

/** Whole units in the smallest ones, rounded down. @throws UnknownTrade for less than one of them */
function amountOf(whole: Rational, decimals: number): bigint {
  const amount = truncate(multiply(whole, powerOfTen(decimals)));
  if (amount === 0n) throw new UnknownTrade("the size is less than the smallest unit of a token");
  return amount;
}
