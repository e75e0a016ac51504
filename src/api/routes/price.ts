/** The price of a token, its series, and the search for tokens. */
import { type Static, Type } from "@sinclair/typebox";
import type { Chain } from "../../chains/chains.ts";
import { EXCHANGES, parseExchange } from "../../chains/exchanges.ts";
import type { ChainTrouble } from "../../chains/trouble.ts";
import type { Clock } from "../../core/clock.ts";
import { invalidParameter, Refusal } from "../../core/errors.ts";
import { address, blockNumber, named, STRICT, text } from "../../core/schema-parts.ts";
import { runInSlices } from "../../core/turns.ts";
import type { Explorer } from "../../nft/explore/readings.ts";
import { compare, parseDecimal, rational } from "../../prices/market/pools.ts";
import { KnownToken, type PriceRecord, SeriesPoint, TokenPrice } from "../../prices/models.ts";
import type { PriceAnswer, PriceRequest } from "../../prices/price-computer.ts";
import type { PriceParameters } from "../../prices/price-record.ts";
import type { Prices } from "../../prices/price-service.ts";
import { exchangesAllowed } from "../../prices/search/pool-lists.ts";
import type { Moment } from "../../prices/series.ts";
import type { TokenIndex } from "../../prices/token-index.ts";
import { inTime, responseHeaders } from "../wire/answered-block.ts";
import { cachedResponse, jsonHeaders } from "../wire/answers.ts";
import { ErrorBody, errorExample } from "../wire/errors.ts";
import { HEADER_EXAMPLES, TOKEN_ADDRESS } from "../wire/examples.ts";
import { type Operation, operationsFor } from "../wire/operation.ts";
import {
  addressOf,
  addressPart,
  anyText,
  chainOrDefault,
  chainPart,
  flag,
  notEnabled,
  type Parameter,
  type ParsedValues,
  pageLimit,
  parsedText,
  wholeNumber,
} from "../wire/parameters.ts";
import { API_PREFIX } from "../wire/paths.ts";

// ── Schemas ──

const Unpriced = named(
  "UnpricedToken",
  Type.Object(
    { tokenAddress: address("The token"), ...ErrorBody.properties },
    { description: "With include=errors: a token without a price, and the error that it gets alone" },
  ),
);

const PriceSeries = named(
  "PriceSeries",
  Type.Object({
    chain: text("Name of the chain"),
    address: address("The token"),
    result: Type.Array(named("SeriesPoint", SeriesPoint), { description: "By block, the oldest first" }),
  }),
);

// ── Examples ──

const USDC = "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48";

/** A token with one pool against a stablecoin: 1,000,000 units against $6,540,000, ether at $2,616. */
const PRICE_EXAMPLE: PriceRecord = {
  tokenName: "Uniswap",
  tokenSymbol: "UNI",
  tokenLogo: "",
  tokenDecimals: "18",
  nativePrice: {
    value: "2500000000000000",
    decimals: 18,
    name: "Ether",
    symbol: "ETH",
    address: "0xc02aaa39b223fe8d0a0e5c4f27ead9083c756cc2",
  },
  usdPrice: 6.54,
  usdPriceFormatted: "6.54",
  "24hrPercentChange": "-1.25",
  exchangeAddress: "0x5c69bee701ef814a2b6a3edd4b1652cb9cc5aa6f",
  exchangeName: "Uniswap v2",
  tokenAddress: TOKEN_ADDRESS,
  toBlock: HEADER_EXAMPLES.block,
  pairAddress: "0x00000000000000000000000000000000000000aa",
  pairTotalLiquidityUsd: "13080000",
  usdPrice24h: 6.62,
  usdPrice24hrUsdChange: -0.08,
  provenance: {
    route: [
      {
        pool: "0x00000000000000000000000000000000000000aa",
        exchange: "Uniswap v2",
        factory: "0x5c69bee701ef814a2b6a3edd4b1652cb9cc5aa6f",
        fee: 3_000,
        token0: TOKEN_ADDRESS,
        token1: USDC,
        decimals0: 18,
        decimals1: 6,
        reserve0: "1000000000000000000000000",
        reserve1: "6540000000000",
        block: 21_000_000,
        blockHash: HEADER_EXAMPLES.hash,
      },
    ],
    liquidityUsd: "6540000",
    confidence: "0.98",
    twap30m: "6.53",
    spreadPercent: "0.4",
  },
  depth: {
    sizeUsd: "1000",
    sell: "996.848034",
    buy: "152.423246792499675508",
    impactPercent: "0.3151966",
    move2PercentUsd: "65173.9914",
    realised: { block: 20_999_998, transactionHash: HEADER_EXAMPLES.hash, price: "6.52" },
    sellable: true,
  },
};

const NO_PRICE_MESSAGE = "No pools found with enough liquidity, to calculate the price";
const NO_PRICE = errorExample("low_liquidity", NO_PRICE_MESSAGE, {
  pools: [
    {
      pool: "0x00000000000000000000000000000000000000aa",
      exchange: "Uniswap v2",
      reason: "low_liquidity",
      liquidityUsd: "12.5",
    },
  ],
});

const TIME = "2026-11-23T09:00:00.000Z";
const POOL = "0x1d42064fc4beb5f8aaf85f4617ae8b3b5b8bd801";

// ── Parameters ──

const EXCHANGE_NAMES = EXCHANGES.map(({ realName }) => realName).join(", ");

/** A list of words, joined by commas. */
function includes<const W extends string>(words: readonly W[]) {
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

export const PRICE_QUERY = {
  chain: chainOrDefault,
  include: includes(["percent_change", "provenance", "pair", "depth"]),
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
    parseExchange,
    { allowed: exchangesAllowed(), schema: { minLength: 1 } },
    {
      description: `${EXCHANGE_NAMES}, a stand-in name such as dexa_v2, or a factory's address`,
      example: "uniswapv3",
    },
  ),
  to_block: parsedText(
    (given) => {
      const block = /^[0-9]{1,16}$/.test(given) ? Number(given) : Number.NaN;
      return Number.isSafeInteger(block) ? block : undefined;
    },
    {
      allowed: "a block number, decimal digits only",
      schema: { type: "integer", format: "int64", minimum: 0 },
    },
    { description: "The price at the end of that block", example: 21_000_000 },
  ),
  min_liquidity_usd: parsedText(
    parseDecimal,
    {
      allowed: "US dollars, a decimal of at least 0",
      schema: { type: "number", format: "double", minimum: 0 },
    },
    { description: "Least depth of a pool's smaller side, in US dollars; plain digits, no exponent", example: 1_000 },
  ),
};

/** The parameters of a price, as the computation takes them. */
export function priceParameters(
  query: Partial<Omit<ParsedValues<typeof PRICE_QUERY>, "include">> & {
    readonly include?: readonly string[] | undefined;
  },
): PriceParameters {
  const { include = [], exchange, to_block: toBlock, min_liquidity_usd: minLiquidityUsd } = query;
  const { size_usd: sizeUsd = DEFAULT_SIZE_USD } = query;
  return {
    ...{ percentChange: include.includes("percent_change"), provenance: include.includes("provenance") },
    ...(include.includes("pair") ? { pair: true } : {}),
    ...(include.includes("depth") ? { depthUsd: sizeUsd } : {}),
    ...(exchange === undefined ? {} : { exchange }),
    ...(toBlock === undefined ? {} : { toBlock }),
    ...(minLiquidityUsd === undefined ? {} : { minLiquidityUsd }),
  };
}

/** Most tokens of one request. */
const MAX_TOKENS = 100;

const TokenToPrice = named(
  "TokenToPrice",
  Type.Object(
    {
      token_address: text("0x and 40 hex digits, in one case or with a valid EIP-55 checksum", {
        pattern: "^0x[0-9a-fA-F]{40}$",
      }),
      exchange: Type.Optional(text(PRICE_QUERY.exchange.description, { minLength: 1, maxLength: 64 })),
      to_block: Type.Optional(blockNumber("a block number, decimal digits only: the price at the end of that block")),
    },
    STRICT,
  ),
);

const TokensToPrice = named(
  "TokensToPrice",
  Type.Object(
    {
      tokens: Type.Array(TokenToPrice, { maxItems: MAX_TOKENS, description: "The tokens, in the order of the answer" }),
    },
    STRICT,
  ),
);

/** Parses the tokens of a body. @throws Refusal 400 that names the field */
function tokensOf({ tokens }: Static<typeof TokensToPrice>, common: PriceParameters): PriceRequest[] {
  return tokens.map(({ token_address, exchange, to_block }, at) => {
    const field = <T>(name: "exchange" | "to_block", parameter: Parameter<T>, given: string | number | undefined) =>
      parameter.parse(given === undefined ? [] : [String(given)], `tokens.${at}.${name}`);
    const own = {
      exchange: field("exchange", PRICE_QUERY.exchange, exchange),
      to_block: field("to_block", PRICE_QUERY.to_block, to_block),
    };
    return { ...priceParameters(own), ...common, address: addressOf(token_address, `tokens.${at}.token_address`) };
  });
}

/** Names the token of a refused parameter. */
function inTokens({ message, details }: Refusal, at: number): Refusal {
  const parameter = String(details?.["parameter"]);
  return invalidParameter(`tokens.${at}.${parameter}`, message.slice(parameter.length + 2));
}

const MAX_BLOCK = 999_999_999_999_999;
const ISO = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))?$/;

/** A block or an ISO time. */
const moment = (description: string, example: string) =>
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

// ── Operations ──

export interface PriceDeps {
  readonly clock: Clock;
  readonly explorer: Pick<Explorer, "memory" | "node">;
  pricesOf(chain: Chain): Prices | undefined;
  troubleOf(chain: Chain): ChainTrouble | undefined;
  isStale(): boolean;
  /** The index of the known ERC-20 tokens of enabled chains. */
  tokenIndex(): Promise<TokenIndex>;
}

/** The block of a price, for its headers. */
const blockFacts = ({ asOf, finality }: PriceAnswer) => ({
  ...{ block: asOf.number, hash: asOf.hash, time: asOf.timestamp },
  finalized: finality === "finalized",
});

const { cached, json } = operationsFor<PriceDeps>();

export const PRICE_OPERATIONS: readonly Operation<PriceDeps>[] = [
  cached({
    method: "GET",
    path: `${API_PREFIX}/erc20/:address/price`,
    scope: "read",
    id: "getTokenPrice",
    summary: "Get ERC20 token price",
    description: "The price of one token, in the native coin and in US dollars, now or at the end of a block.",
    tag: "Token",
    parts: {
      address: addressPart(TOKEN_ADDRESS, "20-byte hex; a mixed-case address must have a valid EIP-55 checksum"),
    },
    query: PRICE_QUERY,
    answer: TokenPrice,
    example: PRICE_EXAMPLE,
    hasBlock: true,
    errors: [400, 404, 409],
    errorExamples: { 404: NO_PRICE },
    handle: async ({ path, query, requester }, deps) => {
      const { chain } = query;
      const request = { address: path.address, ...priceParameters(query) };
      const prices = deps.pricesOf(chain);
      if (prices === undefined) throw notEnabled(chain);
      const priced = await inTime(prices.answer(request, requester), chain, deps);
      const [trouble, isStale] = [deps.troubleOf(chain), deps.isStale()];
      const headers = jsonHeaders(responseHeaders(blockFacts(priced), { trouble, isStale }));
      const answer = cachedResponse(priced.body, 200, headers);
      const still = prices.stillCurrent(request, priced.asOf);
      const isCurrent = still && (() => deps.troubleOf(chain) === trouble && deps.isStale() === isStale && still());
      return { answer, isCurrent };
    },
  }),
  json({
    method: "POST",
    path: `${API_PREFIX}/erc20/prices`,
    scope: "read",
    id: "getMultipleTokenPrices",
    summary: "Get the prices of up to 100 ERC20 tokens",
    description:
      "Records in the order of the tokens. Tokens without a price are left out; with include=errors an error stands in their place. All tokens without to_block are priced at one block.",
    tag: "Token",
    query: {
      chain: chainOrDefault,
      include: includes(["percent_change", "provenance", "pair", "depth", "errors"]),
      size_usd: PRICE_QUERY.size_usd,
      min_liquidity_usd: PRICE_QUERY.min_liquidity_usd,
    },
    body: TokensToPrice,
    bodyExample: { tokens: [{ token_address: TOKEN_ADDRESS }, { token_address: USDC, exchange: "uniswapv2" }] },
    answer: named("TokenPrices", Type.Array(Type.Union([TokenPrice, Unpriced]))),
    example: [PRICE_EXAMPLE, { tokenAddress: USDC, ...errorExample("no_pool", NO_PRICE_MESSAGE, { pools: [] }) }],
    hasBlock: true,
    errors: [400],
    handle: async ({ query, body, requester, question }, deps) => {
      const { chain, include = [], min_liquidity_usd, size_usd } = query;
      const prices = deps.pricesOf(chain);
      if (prices === undefined) throw notEnabled(chain);
      const requests = tokensOf(body, priceParameters({ include, min_liquidity_usd, size_usd }));
      question.asksFor(requests.length);
      const answers = await inTime(prices.answers(requests, requester), chain, deps);
      answers.forEach((answer, at) => {
        if (answer instanceof Refusal && answer.code === "invalid_parameter") throw inTokens(answer, at);
      });
      const records = answers.flatMap((answer, at) => {
        if (!(answer instanceof Refusal)) return answer.record;
        const { code, message, details } = answer;
        const refused = { tokenAddress: requests[at]!.address, code, message, ...(details && { details }) };
        return include.includes("errors") ? refused : [];
      });
      const priced = answers.flatMap((answer) => (answer instanceof Refusal ? [] : answer));
      const [first] = priced;
      const isOneBlock = priced.every(({ asOf }) => asOf.hash === first?.asOf.hash);
      const facts = first !== undefined && isOneBlock ? blockFacts(first) : undefined;
      const state = { trouble: deps.troubleOf(chain), isStale: deps.isStale() };
      return { body: records, headers: responseHeaders(facts, state) };
    },
  }),
  json({
    method: "GET",
    path: "/api/prices/:chain/:address/series",
    scope: "read",
    id: "listPrices",
    summary: "Prices at evenly spaced blocks, each equal to the price at that block. At most 64 requests for logs",
    tag: "Operators",
    parts: { chain: chainPart, address: addressPart(TOKEN_ADDRESS, "Token address") },
    query: {
      from: moment("First block, or an ISO time; 24 hours before the end by default", "2026-11-22T00:00:00Z"),
      to: moment("Last block, or an ISO time; the newest block by default", "21000000"),
      points: wholeNumber({ min: 1, max: 200, default: 50 }, { description: "Number of blocks", example: 50 }),
      stored: flag(false, {
        description: "true: prices that are stored only, at once; other points have none",
        example: false,
      }),
    },
    answer: PriceSeries,
    example: {
      chain: "eth",
      address: TOKEN_ADDRESS,
      result: [{ block: 21_000_000, time: TIME, usdPrice: 7.25, pool: POOL }],
    },
    errors: [400, 404, 409],
    handle: async ({ path, query, requester, question }, deps) => {
      const { from, to, points, stored } = query;
      // Each point has a block of its own, with a header and perhaps a state. It pays by these calls.
      question.budget.grow(points);
      const prices = deps.pricesOf(path.chain);
      if (prices === undefined) throw notEnabled(path.chain);
      // A reading of stored prices waits for no node.
      const queue = stored ? deps.explorer.memory : deps.explorer.node;
      const range = { from, to, points, isStoredOnly: stored };
      const reading = queue.run(requester, () => prices.series(path.address, range, requester));
      const result = await inTime(reading, path.chain, deps);
      return { body: { chain: path.chain.name, address: path.address, result } };
    },
  }),
  json({
    method: "GET",
    path: "/api/tokens",
    scope: "read",
    id: "findErc20Tokens",
    summary:
      "ERC-20 tokens whose address, symbol or name has a text: well-known ones, and those of the operator's lists",
    tag: "Operators",
    query: {
      text: anyText({
        description: "Part of the address, the symbol or the name, any case; all tokens by default",
        example: "uni",
      }),
      limit: pageLimit("Most tokens"),
    },
    answer: named("KnownTokenList", Type.Object({ result: Type.Array(named("KnownToken", KnownToken)) })),
    example: { result: [{ chain: "eth", address: TOKEN_ADDRESS, symbol: "UNI", name: "Uniswap" }] },
    errors: [400],
    handle: async ({ query, requester }, { tokenIndex, explorer }) => {
      const wanted = query.text?.trim().toLowerCase().slice(0, 100) ?? "";
      const search = (await tokenIndex()).search(wanted, query.limit);
      // Nearly every search ends in its first slice, and then waits for no other reading.
      const { done, value } = search.next();
      if (done === true) return { body: { result: value } };
      const result = await explorer.memory.run(requester, () => runInSlices(search));
      return { body: { result } };
    },
  }),
];
