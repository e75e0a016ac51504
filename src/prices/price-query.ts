/**
 * Parses the price operation's query parameters that do not depend on the chain, from raw strings to typed values.
 * Strict: a repeated parameter, an unknown word or a malformed number is a 400 that names the parameter and the allowed
 * values.
 */
import type { Chain } from "../chains/chains.ts";
import { deploymentOf, type ExchangeChoice, exchangesOf, KNOWN_EXCHANGES, parseExchange } from "../chains/exchanges.ts";
import { invalidParameter } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { Pool } from "./market/pools.ts";
import { parseDecimal, type Rational } from "./market/rational.ts";

/** A parsed query string. A repeated parameter is a list. */
export type RawPriceQuery = Readonly<Record<string, string | readonly string[] | undefined>>;

export interface PriceParameters {
  readonly percentChange: boolean;
  readonly provenance: boolean;
  readonly exchange?: ExchangeChoice;
  readonly toBlock?: number;
  /** US dollars. */
  readonly minLiquidityUsd?: Rational;
}

/** Returns a parameter's only value; undefined when absent. @throws ApiError 400 when it is repeated */
function single(raw: RawPriceQuery, name: string): string | undefined {
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

/** Ignores unknown parameters. @throws ApiError 400 `invalid_parameter`, which names the parameter */
export function parsePriceQuery(raw: RawPriceQuery): PriceParameters {
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

/** Returns a 400 that lists the allowed values of `exchange`. */
export function unknownExchange(): Error {
  return invalidParameter(
    "exchange",
    `one of ${KNOWN_EXCHANGES.join(", ")}, or the address of a v2- or v3-style factory`,
  );
}

/** The pools that a request may use by its `exchange` parameter, and the exchange name in its response. */
export interface Selection {
  readonly accepts: (pool: Pool) => boolean;
  /** Display name of the requested alias. */
  readonly exchangeName: string | undefined;
  /** The requested factory, if it is not in this chain's list. */
  readonly unlisted: Address | undefined;
}

/** @throws ApiError 400 when a listed exchange is not on this chain */
export function selectPools(chain: Chain, choice: ExchangeChoice | undefined): Selection {
  if (choice === undefined) return { accepts: () => true, exchangeName: undefined, unlisted: undefined };
  if (choice.kind === "listed") {
    const deployment = deploymentOf(choice.exchange, chain);
    if (deployment === undefined) throw notHere(choice.exchange.realName, chain);
    return of(deployment.factory, choice.exchange.displayName, undefined);
  }
  const { factory } = choice;
  const listed = exchangesOf(chain).some((entry) => entry.factory === factory);
  return of(factory, undefined, listed ? undefined : factory);
}

const of = (factory: Address, exchangeName: string | undefined, unlisted: Address | undefined): Selection => ({
  accepts: (pool) => pool.factory === factory,
  exchangeName,
  unlisted,
});

function notHere(name: string, chain: Chain): Error {
  const here = exchangesOf(chain).map((entry) => entry.exchange.realName);
  const there = here.length === 0 ? "the chain has no exchange" : `there are ${here.join(", ")}`;
  return invalidParameter("exchange", `${name} is not on ${chain.name}; ${there}`);
}
