/**
 * The parameters of prices, in the query and in the body for many tokens. In: what the client sent. Out: the request as
 * the computation takes it, or a 400 that names the parameter.
 */

import { type Static, Type } from "@sinclair/typebox";
import { EXCHANGES, parseExchange } from "../../chains/exchanges.ts";
import { invalidParameter, type Refusal } from "../../core/errors.ts";
import { TOKEN_ADDRESS, USDC_ADDRESS } from "../../core/examples.ts";
import { blockNumber, exampleOf, givenAddress, named, STRICT, text, withExample } from "../../core/schema-parts.ts";
import { compare, parseDecimal, rational } from "../../prices/market/rational.ts";
import type { PriceRequest } from "../../prices/price-computer.ts";
import type { PriceParameters } from "../../prices/price-record.ts";
import { exchangesAllowed } from "../../prices/search/pool-lists.ts";
import type { Moment } from "../../prices/series.ts";
import type { KnownChains } from "../wire/parameters.ts";
import {
  addressOf,
  blockParameter,
  chainOrDefault,
  type Parameter,
  type ParsedValues,
  parsedText,
  timeParameter,
  wholeNumber,
} from "../wire/parameters.ts";

const EXCHANGE_NAMES = EXCHANGES.map(({ realName }) => realName).join(", ");

/** A list of words, joined by commas. */
export function includeParameter<const W extends string>(words: readonly W[]) {
  const names = words.join(", ");
  const either = words.join("|");
  return parsedText(
    (given) => {
      const asked = given.split(",");
      return asked.every((one) => words.includes(one as W)) ? (asked as W[]) : undefined;
    },
    {
      allowed: `${names}, or several of them joined by commas`,
      schema: { pattern: `^(${either})(,(${either}))*$` },
    },
    { description: `Fields to add: ${names}, or several of them joined by commas; not empty`, example: words[0] },
  );
}

const MIN_SIZE_USD = rational(1n, 100n);
const MAX_SIZE_USD = rational(1_000_000_000n);
const DEFAULT_SIZE_USD = rational(1_000n);

/** Eleven years: longer than there have been exchanges on chains. */
const MAX_INACTIVE_HOURS = 100_000;

export const PRICE_QUERY = {
  chain: chainOrDefault,
  include: includeParameter(["percent_change", "provenance", "pair", "depth", "info", "proof"]),
  size_usd: parsedText(
    (given) => {
      const size = parseDecimal(given);
      return size !== undefined && compare(size, MIN_SIZE_USD) >= 0 && compare(size, MAX_SIZE_USD) <= 0
        ? size
        : undefined;
    },
    {
      allowed: "US dollars, a decimal from 0.01 to 1000000000",
      schema: { type: "number", format: "double", minimum: 0.01, maximum: 1_000_000_000 },
    },
    { description: "With include=depth: the size of the trade, in US dollars; 1000 by default", example: 1_000 },
  ),
  exchange: parsedText(
    (text, { all }) => parseExchange(text, all),
    { allowed: ({ all }) => exchangesAllowed(all), schema: { minLength: 1 } },
    {
      description: `${EXCHANGE_NAMES}, a stand-in name such as dexa_v2, or a factory's address`,
      example: "uniswapv3",
    },
  ),
  to_block: blockParameter("The price at the end of that block; latest is the default"),
  min_liquidity_usd: parsedText(
    parseDecimal,
    {
      allowed: "US dollars, a decimal of at least 0",
      schema: { type: "number", format: "double", minimum: 0 },
    },
    { description: "Least depth of a pool's smaller side, in US dollars; plain digits, no exponent", example: 1_000 },
  ),
  to_time: timeParameter("The price at the last block at or before that time, in place of to_block"),
  min_pair_side_liquidity_usd: parsedText(
    parseDecimal,
    {
      allowed: "US dollars, a decimal of at least 0",
      schema: { type: "number", format: "double", minimum: 0 },
    },
    { description: "The same as min_liquidity_usd, by the name that the hosted service has for it", example: 1_000 },
  ),
  max_token_inactivity: wholeNumber(
    { min: 0, max: MAX_INACTIVE_HOURS },
    {
      description:
        "Most hours between the last trade in the token's own pool of the route and the priced block; beyond it there is no price",
      example: 24,
    },
  ),
};

/** The parameters of a price, as the computation takes them. */
export function priceParameters(
  query: Partial<Omit<ParsedValues<typeof PRICE_QUERY>, "include">> & {
    readonly include?: readonly string[] | undefined;
  },
): PriceParameters {
  const { include = [], exchange, to_block: toBlock, max_token_inactivity: maxIdleHours } = query;
  const { size_usd: sizeUsd = DEFAULT_SIZE_USD } = query;
  const minLiquidityUsd = floorOf(query);
  return {
    ...{
      percentChange: include.includes("percent_change"),
      provenance: ["provenance", "proof"].some((one) => include.includes(one)),
    },
    ...(include.includes("pair") ? { pair: true } : {}),
    ...(include.includes("depth") ? { depthUsd: sizeUsd } : {}),
    ...(exchange === undefined ? {} : { exchange }),
    ...(typeof toBlock === "number" ? { toBlock } : {}),
    ...(minLiquidityUsd === undefined ? {} : { minLiquidityUsd }),
    ...(maxIdleHours === undefined ? {} : { maxIdleHours }),
  };
}

/** The floor by either of its names. @throws Refusal 400 if they say different things */
function floorOf({
  min_liquidity_usd: own,
  min_pair_side_liquidity_usd: hosted,
}: Partial<Pick<ParsedValues<typeof PRICE_QUERY>, "min_liquidity_usd" | "min_pair_side_liquidity_usd">>) {
  if (own === undefined || hosted === undefined || compare(own, hosted) === 0) return own ?? hosted;
  throw invalidParameter("min_pair_side_liquidity_usd", "is the same as min_liquidity_usd, so give one of them");
}

/** The parameters of a price at a block or a time, once the block is known. @throws Refusal as `blockAt` */
export async function priceParametersAt(
  query: ParsedValues<typeof PRICE_QUERY>,
  blockAt: (time: number) => Promise<number>,
): Promise<PriceParameters> {
  const { to_time: time } = query;
  if (time === undefined) return priceParameters(query);
  if (query.to_block !== undefined) throw invalidParameter("to_time", "is in place of to_block, so give one of them");
  return { ...priceParameters(query), toBlock: await blockAt(time) };
}

/** Most tokens of one request. */
const MAX_TOKENS = 100;

const TokenToPrice = named(
  "TokenToPrice",
  Type.Object(
    {
      token_address: givenAddress("0x and 40 hex digits, in one case or with a valid EIP-55 checksum", TOKEN_ADDRESS),
      exchange: Type.Optional(text(PRICE_QUERY.exchange.description, undefined, { minLength: 1, maxLength: 64 })),
      to_block: Type.Optional(
        blockNumber("a block number, decimal or as 0x…, or latest: the price at the end of that block"),
      ),
    },
    STRICT,
  ),
);

export const TokensToPrice = named(
  "TokensToPrice",
  Type.Object(
    {
      tokens: withExample(
        Type.Array(TokenToPrice, { maxItems: MAX_TOKENS, description: "The tokens, in the order of the answer" }),
        [exampleOf(TokenToPrice), { token_address: USDC_ADDRESS, exchange: "uniswapv2" }],
      ),
    },
    STRICT,
  ),
);

/** Parses the tokens of a body. @throws Refusal 400 that names the field */
export function tokensOfBody(
  { tokens }: Static<typeof TokensToPrice>,
  common: PriceParameters,
  { chains }: KnownChains,
): PriceRequest[] {
  return tokens.map(({ token_address, exchange, to_block }, at) => {
    const field = <T>(name: "exchange" | "to_block", parameter: Parameter<T>, given: string | number | undefined) =>
      parameter.parse(given === undefined ? [] : [String(given)], `tokens.${at}.${name}`, chains);
    const own = {
      exchange: field("exchange", PRICE_QUERY.exchange, exchange),
      to_block: field("to_block", PRICE_QUERY.to_block, to_block),
    };
    return { ...priceParameters(own), ...common, address: addressOf(token_address, `tokens.${at}.token_address`) };
  });
}

/** Names the token of a refused parameter. */
export function inTokens({ message, details }: Refusal, at: number): Refusal {
  const parameter = String(details?.["parameter"]);
  return invalidParameter(`tokens.${at}.${parameter}`, message.slice(parameter.length + 2));
}

const MAX_BLOCK = 999_999_999_999_999;
const ISO = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))?$/;

/** A block or an ISO time. */
export const momentParameter = (description: string, example: string) =>
  parsedText(
    (given): Moment | undefined => {
      if (/^\d{1,15}$/.test(given)) return { block: Math.min(Number(given), MAX_BLOCK) };
      const ms = ISO.test(given) ? Date.parse(given) : Number.NaN;
      return Number.isFinite(ms) && ms >= 0 ? { time: Math.floor(ms / 1_000) } : undefined;
    },
    {
      allowed: "must be a block, or an ISO time such as 2026-01-31 or 2026-01-31T12:00:00Z",
      schema: { pattern: "^(?:[0-9]{1,15}|[0-9]{4}-.+)$" },
    },
    { description, example },
  );
