/**
 * The price operation's parameters that do not depend on the chain, from raw strings to typed values. Strict: a
 * parameter given twice, an unknown word or an odd number is a 400 that names the parameter and what is allowed.
 */
import { type ExchangeChoice, KNOWN_EXCHANGES, parseExchange } from "../chains/exchanges.ts";
import { invalidParameter } from "../core/errors.ts";
import { parseDecimal, type Rational } from "./rational.ts";

/** As a query string parses: a list where the parameter was repeated. */
export type RawQuery = Readonly<Record<string, string | readonly string[] | undefined>>;

export interface PriceParameters {
  readonly percentChange: boolean;
  readonly provenance: boolean;
  readonly exchange?: ExchangeChoice;
  readonly toBlock?: number;
  /** US dollars. */
  readonly minLiquidityUsd?: Rational;
}

/** The one value of a parameter; undefined when absent. @throws ApiError 400 when it was repeated */
function single(raw: RawQuery, name: string): string | undefined {
  const value = raw[name];
  if (value === undefined || typeof value === "string") return value;
  if (value.length === 1) return value[0];
  throw invalidParameter(name, "may be given once");
}

function parseInclude(text: string | undefined): { percentChange: boolean; provenance: boolean } {
  const words = text === undefined ? [] : text.split(",");
  for (const word of words) {
    if (word !== "percent_change" && word !== "provenance") {
      throw invalidParameter("include", "percent_change, provenance, or both joined by a comma");
    }
  }
  return { percentChange: words.includes("percent_change"), provenance: words.includes("provenance") };
}

function parseToBlock(text: string): number {
  const value = /^[0-9]{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (!Number.isSafeInteger(value)) throw invalidParameter("to_block", "a block number, decimal digits only");
  return value;
}

/** @throws ApiError 400 `invalid_parameter` naming the parameter; parameters it does not know are ignored */
export function parsePriceQuery(raw: RawQuery): PriceParameters {
  const include = parseInclude(single(raw, "include"));
  const exchangeText = single(raw, "exchange");
  const toBlockText = single(raw, "to_block");
  const floorText = single(raw, "min_liquidity_usd");
  const exchange = exchangeText === undefined ? undefined : parseExchange(exchangeText);
  if (exchangeText !== undefined && exchange === undefined) throw unknownExchange();
  const minLiquidityUsd = floorText === undefined ? undefined : parseDecimal(floorText);
  if (floorText !== undefined && minLiquidityUsd === undefined) {
    throw invalidParameter("min_liquidity_usd", "US dollars, a decimal of at least 0");
  }
  return {
    ...include,
    ...(exchange === undefined ? {} : { exchange }),
    ...(toBlockText === undefined ? {} : { toBlock: parseToBlock(toBlockText) }),
    ...(minLiquidityUsd === undefined ? {} : { minLiquidityUsd }),
  };
}

/** A 400 that lists what `exchange` may be. */
export function unknownExchange(): Error {
  return invalidParameter(
    "exchange",
    `one of ${KNOWN_EXCHANGES.join(", ")}, or the address of a v2- or v3-style factory`,
  );
}
