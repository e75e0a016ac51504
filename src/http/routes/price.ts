/** The price of a token, its series, and the search for tokens. */
import { type Static, Type } from "@sinclair/typebox";
import type { Chain, ChainTrouble } from "../../chains/chains.ts";
import { EXCHANGES, parseExchange } from "../../chains/exchanges.ts";
import type { Clock } from "../../core/clock.ts";
import {
  address,
  blockHash,
  decimal,
  digits,
  double,
  int32,
  int64,
  named,
  nullable,
  nullableText,
  oneOf,
  poolId,
  text,
  time,
} from "../../core/schema-parts.ts";
import type { Explorer } from "../../explore/readings.ts";
import type { KnownToken as FoundToken } from "../../prices/known-tokens.ts";
import { parseDecimal } from "../../prices/market/pools.ts";
import type { Prices } from "../../prices/price-service.ts";
import { exchangesAllowed } from "../../prices/search/pool-lists.ts";
import type { Moment } from "../../prices/series.ts";
import { inTime, responseHeaders } from "../api/answered-block.ts";
import { cachedResponse, jsonHeaders } from "../api/answers.ts";
import { errorExample } from "../api/errors.ts";
import { HEADER_EXAMPLES, TOKEN_ADDRESS } from "../api/examples.ts";
import { type Operation, operationsFor } from "../api/operation.ts";
import {
  addressPart,
  anyText,
  chainOrDefault,
  chainPart,
  flag,
  notEnabled,
  type ParsedValues,
  pageLimit,
  parsedText,
  wholeNumber,
} from "../api/parameters.ts";
import { API_PREFIX } from "../api/paths.ts";

// ── Schemas ──

const NativePrice = Type.Object(
  {
    value: digits("Price of one whole token in the smallest unit of the native coin, truncated"),
    decimals: int32("Decimals of the native coin"),
    name: text("Name of the native coin"),
    symbol: text("Symbol of the native coin"),
    address: address("The wrapped native coin"),
  },
  { description: "Null if the token has a dollar price but the native coin has none" },
);

const PoolState = named(
  "PoolState",
  Type.Object(
    {
      pool: poolId("The pool; of Uniswap v4 its id inside the factory's contract"),
      exchange: text("Display name of the exchange"),
      factory: address("The pool's factory"),
      fee: int32("Hundredths of a basis point"),
      token0: address("First token"),
      token1: address("Second token"),
      decimals0: int32("Decimals of the first token"),
      decimals1: int32("Decimals of the second token"),
      reserve0: Type.Optional(digits("Pairs of reserves only: v2, Solidly")),
      reserve1: Type.Optional(digits("Pairs of reserves only")),
      sqrtPriceX96: Type.Optional(digits("Concentrated liquidity only: v3, Slipstream, Algebra, v4")),
      liquidity: Type.Optional(digits("Concentrated liquidity only: what is in range")),
      key: Type.Optional(
        Type.Object(
          {
            currency0: address("First currency; zero for the coin itself, for which token0 is the wrapped one"),
            fee: int32("Fee as the id has it; 8388608 if hooks set it"),
            spacing: int32("Tick spacing"),
            hooks: address("Hooks; zero for none"),
          },
          { description: "Uniswap v4 only: what the pool's id is of, besides its second token" },
        ),
      ),
      stableCurve: Type.Optional(Type.Boolean({ description: "true for a pair on the curve of x³y + y³x" })),
      balance0: Type.Optional(
        digits(
          "The pool's balance of the first token, if known (v4: what its positions hold near the price); caps its depth",
        ),
      ),
      balance1: Type.Optional(digits("The pool's balance of the second token, likewise")),
      block: int64("Block of the state"),
      blockHash: blockHash("Hash of that block"),
      transactionHash: Type.Optional(blockHash("Transaction that set the state, if it comes from a log")),
      logIndex: Type.Optional(int32("Index of that log in its block")),
    },
    { description: "State of one pool: enough to recompute its price to the last digit" },
  ),
);

const DisputedStablecoin = Type.Object({
  address: address("The stablecoin, lower case"),
  symbol: text("Symbol of the stablecoin"),
  usdPrice: decimal("Its measured price in US dollars"),
});

const Provenance = Type.Object(
  {
    route: Type.Array(PoolState, { description: "From the token to the dollar" }),
    nativeRoute: Type.Optional(
      Type.Array(PoolState, { description: "Pool of the native price, if it is not on the route" }),
    ),
    liquidityUsd: decimal("Smaller side of the shallowest pool on the route, in US dollars"),
    confidence: decimal("From 0 to 1; at most 0.5 while stablecoins are in dispute"),
    disputedStablecoins: Type.Optional(
      Type.Array(named("DisputedStablecoin", DisputedStablecoin), {
        description: "Configured stablecoins that are more than 2 % off a trusted one; absent while all agree",
      }),
    ),
    twap30m: nullableText("30-minute average in US dollars; null if it cannot be computed"),
    spreadPercent: decimal("Spread between the usable routes, in per cent"),
    contractPools: Type.Optional(
      Type.Object(
        {
          pool: poolId("The deepest pool among the twelve exchanges"),
          exchange: text("Display name of its exchange"),
          usdPrice: decimal("US dollars by that pool"),
          liquidityUsd: decimal("Its smaller side, in US dollars"),
        },
        { description: "Set if a deeper pool of another exchange gives a different price than the twelve exchanges" },
      ),
    ),
    redemption: Type.Optional(
      Type.Object(
        {
          standard: oneOf(["ERC-4626", "wstETH", "rETH"], "How the token is redeemed"),
          asset: address("What it is redeemed for"),
          assetsPerToken: decimal("Whole units of the asset for one whole token"),
          usdPrice: Type.Optional(
            decimal("US dollars for one whole token, if the asset is the native coin or a dollar"),
          ),
        },
        { description: "What the token's own contract gives for it. Never part of the price" },
      ),
    ),
    factsOf: Type.Optional(
      oneOf(
        ["newest"],
        "Set if the node lacks the block's state: name, symbol and decimals are those of its newest block",
      ),
    ),
  },
  { description: "With include=provenance: the pool states that the price is computed from" },
);

const TokenPrice = named(
  "TokenPrice",
  Type.Object({
    tokenName: text("Name of the token"),
    tokenSymbol: text("Symbol of the token"),
    tokenLogo: text('URL, or ""'),
    tokenDecimals: digits("Decimals of the token"),
    nativePrice: nullable(NativePrice),
    usdPrice: double("US dollars for one whole token"),
    usdPriceFormatted: decimal("The shortest decimal that parses back to usdPrice"),
    "24hrPercentChange": Type.Optional(decimal("With include=percent_change, if there was a price 24 hours earlier")),
    exchangeAddress: text('The factory; "" if no pool measures the price'),
    exchangeName: text("Display name of the exchange"),
    tokenAddress: address("The token"),
    toBlock: digits("Block of the price"),
    provenance: Type.Optional(named("Provenance", Provenance)),
  }),
);

const SeriesPoint = Type.Object({
  block: int64("Block"),
  time: time("Time of the block"),
  usdPrice: nullable(double("US dollars for one whole token, as the price at that block has it; null without one")),
  pool: nullable(poolId("The first pool of the price's route")),
});

const PriceSeries = named(
  "PriceSeries",
  Type.Object({
    chain: text("Name of the chain"),
    address: address("The token"),
    result: Type.Array(named("SeriesPoint", SeriesPoint), { description: "By block, the oldest first" }),
  }),
);

const KnownToken = Type.Object({
  chain: text("Name of the chain"),
  address: address("The token"),
  symbol: text("Symbol, as the chain's entry or the operator's list has it"),
  name: nullableText("Name, as the operator's list has it; null if no list names the token"),
});

// ── Examples ──

/** A token with one pool against a stablecoin: 1,000,000 units against $6,540,000, ether at $2,616. */
const PRICE_EXAMPLE: Static<typeof TokenPrice> = {
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
  provenance: {
    route: [
      {
        pool: "0x00000000000000000000000000000000000000aa",
        exchange: "Uniswap v2",
        factory: "0x5c69bee701ef814a2b6a3edd4b1652cb9cc5aa6f",
        fee: 3_000,
        token0: TOKEN_ADDRESS,
        token1: "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48",
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
};

const NO_PRICE = errorExample("low_liquidity", "No pools found with enough liquidity, to calculate the price", {
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

const INCLUDES = ["percent_change", "provenance", "percent_change,provenance", "provenance,percent_change"];
const EXCHANGE_NAMES = EXCHANGES.map(({ realName }) => realName).join(", ");

function includesOf(given: string) {
  const words = given.split(",");
  const isKnown = words.every((one) => one === "percent_change" || one === "provenance");
  return isKnown
    ? { percentChange: words.includes("percent_change"), provenance: words.includes("provenance") }
    : undefined;
}

export const PRICE_QUERY = {
  chain: chainOrDefault,
  include: parsedText(
    includesOf,
    { allowed: "percent_change, provenance, or both joined by a comma", schema: { enum: INCLUDES } },
    {
      description: "Fields to add: percent_change, provenance, or both joined by a comma; not empty",
      example: "percent_change",
    },
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
export function priceParameters(query: ParsedValues<typeof PRICE_QUERY>) {
  const { include, exchange, to_block: toBlock, min_liquidity_usd: minLiquidityUsd } = query;
  return {
    ...(include ?? { percentChange: false, provenance: false }),
    ...(exchange === undefined ? {} : { exchange }),
    ...(toBlock === undefined ? {} : { toBlock }),
    ...(minLiquidityUsd === undefined ? {} : { minLiquidityUsd }),
  };
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
  /** Finds ERC-20 tokens of enabled chains by a text in lower case. */
  findTokens(text: string, limit: number): readonly FoundToken[];
}

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
    errors: [400, 404],
    errorExamples: { 404: NO_PRICE },
    handle: async ({ path, query, requester }, deps) => {
      const { chain } = query;
      const request = { address: path.address, ...priceParameters(query) };
      const prices = deps.pricesOf(chain);
      if (prices === undefined) throw notEnabled(chain);
      const { body, asOf, finality } = await inTime(prices.answer(request, requester), chain, deps.clock);
      const facts = {
        block: asOf.number,
        hash: asOf.hash,
        time: asOf.timestamp,
        finalized: finality === "finalized",
      };
      const [trouble, isStale] = [deps.troubleOf(chain), deps.isStale()];
      const answer = cachedResponse(body, 200, jsonHeaders(responseHeaders(facts, { trouble, isStale })));
      const still = prices.stillCurrent(request, asOf);
      const isCurrent = still && (() => deps.troubleOf(chain) === trouble && deps.isStale() === isStale && still());
      return { answer, isCurrent };
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
    errors: [400, 404],
    handle: async ({ path, query, requester }, deps) => {
      const { from, to, points, stored } = query;
      const prices = deps.pricesOf(path.chain);
      if (prices === undefined) throw notEnabled(path.chain);
      // A reading of stored prices waits for no node.
      const queue = stored ? deps.explorer.memory : deps.explorer.node;
      const range = { from, to, points, isStoredOnly: stored };
      const reading = queue.run(requester, () => prices.series(path.address, range, requester));
      const result = await inTime(reading, path.chain, deps.clock);
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
    handle: async ({ query }, { findTokens }) => {
      const wanted = query.text?.trim().toLowerCase().slice(0, 100) ?? "";
      return { body: { result: findTokens(wanted, query.limit) } };
    },
  }),
];
