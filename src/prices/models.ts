/**
 * What clients see of prices. The schemas are those of the API's answers, and the static types are theirs. Decimals are
 * strings of their exact value.
 */
import { Type } from "@sinclair/typebox";
import { EXAMPLE_BLOCK, EXAMPLE_TIME, FACTORY_EXAMPLE, TOKEN_ADDRESS, USDC_ADDRESS } from "../core/examples.ts";
import {
  address,
  blockHash,
  boolean,
  decimal,
  digits,
  double,
  int32,
  int64,
  named,
  nativePrice,
  nullable,
  nullableText,
  oneOf,
  poolId,
  type Sent,
  seldom,
  text,
  time,
} from "../core/schema-parts.ts";

const PoolState = named(
  "PoolState",
  Type.Object(
    {
      pool: poolId("The pool; of Uniswap v4 its id inside the factory's contract"),
      exchange: text("Display name of the exchange", "Uniswap v2"),
      factory: address("The pool's factory", FACTORY_EXAMPLE),
      fee: int32("Hundredths of a basis point", 3_000),
      token0: address("First token", TOKEN_ADDRESS),
      token1: address("Second token", USDC_ADDRESS),
      decimals0: int32("Decimals of the first token", 18),
      decimals1: int32("Decimals of the second token", 6),
      reserve0: Type.Optional(digits("Pairs of reserves only: v2, Solidly", "1000000000000000000000000")),
      reserve1: Type.Optional(digits("Pairs of reserves only", "6540000000000")),
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
      stableCurve: Type.Optional(boolean("true for a pair on the curve of x³y + y³x")),
      balance0: Type.Optional(
        digits(
          "The pool's balance of the first token, if known (v4: what its positions hold near the price); caps its depth",
        ),
      ),
      balance1: Type.Optional(digits("The pool's balance of the second token, likewise")),
      block: int64("Block of the state", EXAMPLE_BLOCK),
      blockHash: blockHash("Hash of that block"),
      transactionHash: seldom(blockHash("Transaction that set the state, if it comes from a log")),
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

/** Figures that may rest on an archive's word. */
const UNCONFIRMED_FIGURES = ["usdPrice", "24hrPercentChange", "usdPrice24h", "twap30m"] as const;
export type UnconfirmedFigure = (typeof UNCONFIRMED_FIGURES)[number];

const Provenance = Type.Object(
  {
    pricedAs: seldom(
      address("Set if the token asked for stands for the native coin: the wrapped coin, by which it is priced"),
    ),
    route: Type.Array(PoolState, { description: "From the token to the dollar" }),
    nativeRoute: seldom(Type.Array(PoolState, { description: "Pool of the native price, if it is not on the route" })),
    liquidityUsd: decimal("Smaller side of the shallowest pool on the route, in US dollars", "6540000"),
    confidence: decimal(
      "From 0 to 1, by the thinnest pool that the dollar price and the native price depend on; at most 0.5 while stablecoins are in dispute, at most 0.25 while an archive alone says what the price rests on, at most 0.1 if a sale that is simulated at the head fails or the token keeps more than 5 % of a transfer",
      "0.98",
    ),
    limitedBy: Type.Optional(
      text("What the simulated sale met, or what an archive alone says, if that limits the confidence"),
    ),
    disputedStablecoins: seldom(
      Type.Array(named("DisputedStablecoin", DisputedStablecoin), {
        description: "Configured stablecoins that are more than 2 % off a trusted one; absent while all agree",
      }),
    ),
    twap30m: nullableText("30-minute average in US dollars; null if it cannot be computed", "6.53"),
    spreadPercent: decimal("Spread between the usable routes, in per cent", "0.4"),
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
    source: seldom(
      oneOf(
        ["archive"],
        "Set if an archive told a state of the route, because the node has neither that block's state nor, within a question's calls, its logs. What is not confirmed by the node or by a second archive stands in limitedBy",
      ),
    ),
    unconfirmed: seldom(
      Type.Array(oneOf(UNCONFIRMED_FIGURES, "A figure"), {
        description:
          "Figures for which an archive alone says that the pools had no other trade; absent if the node, or a second archive, confirms all",
      }),
    ),
    factsOf: seldom(
      oneOf(
        ["newest"],
        "Set if the node lacks the block's state: name, symbol and decimals are those of its newest block",
      ),
    ),
  },
  { description: "With include=provenance: the pool states that the price is computed from" },
);

const Depth = Type.Object(
  {
    sizeUsd: decimal("The size, in US dollars", "1000"),
    sell: nullable(
      decimal(
        "Whole units of the route's last quote token, which counts as a dollar, for as many tokens as the size is worth at the price; null if a pool's liquidity ends before",
        "996.848034",
      ),
    ),
    buy: nullable(
      decimal(
        "Whole tokens for as many units of the route's last quote token as the size; null if a pool's liquidity ends before",
        "152.423246792499675508",
      ),
    ),
    impactPercent: nullable(
      decimal(
        "How much less sell is than the tokens are worth at the price, in per cent; fees included; null without sell",
        "0.3151966",
      ),
    ),
    move2PercentUsd: decimal(
      "US dollars that move the answer by 2 %: those that go into or out of the pool of the route where that is cheapest, in the cheaper direction",
      "65173.9914",
    ),
    realised: nullable(
      Type.Object(
        {
          block: int64("Block of the trade", EXAMPLE_BLOCK - 2),
          transactionHash: blockHash("Its transaction"),
          price: decimal("Whole quote tokens of that pool for one whole token, fees included", "6.52"),
        },
        { description: "The last trade in the route's first pool; null if the last 1,000 blocks show none" },
      ),
    ),
    sellable: nullable(
      boolean("Whether a purchase and a sale, simulated at the head, go through; null if that is not known", true),
    ),
    why: Type.Optional(
      text(
        "Why sell or buy is null; what the simulation met: why sellable is false or null, or what the token keeps of a purchase and a sale; how far the last trade was off the price, if by more than 5 %; and that an archive alone says which trades and positions there were",
      ),
    ),
  },
  {
    description:
      "With include=depth: what trading the size through the route gives at the block, to the last digit, and what it costs to move the price. A fee that the token itself takes is not counted. A token that can't be sold, or keeps more than 5 % of a transfer, has a confidence of 0.1 at most. A last trade that is more than 5 % off the price lowers the confidence. Null if neither direction can be computed exactly",
  },
);

export const TokenPrice = named(
  "TokenPrice",
  Type.Object({
    tokenName: text("Name of the token", "Uniswap"),
    tokenSymbol: text("Symbol of the token", "UNI"),
    tokenLogo: text('URL, or ""', ""),
    tokenDecimals: digits("Decimals of the token", "18"),
    nativePrice: nullable(nativePrice("Null if the token has a dollar price but the native coin has none")),
    usdPrice: double("US dollars for one whole token", 6.54),
    usdPriceFormatted: decimal("The shortest decimal that parses back to usdPrice", "6.54"),
    "24hrPercentChange": Type.Optional(
      decimal("With include=percent_change, if there was a price 24 hours earlier", "-1.25"),
    ),
    exchangeAddress: text('The factory; "" if no pool measures the price', FACTORY_EXAMPLE),
    exchangeName: text("Display name of the exchange", "Uniswap v2"),
    tokenAddress: address("The token", TOKEN_ADDRESS),
    toBlock: digits("Block of the price", String(EXAMPLE_BLOCK)),
    pairAddress: Type.Optional(
      nullable(
        poolId(
          "With include=pair: the first pool of the route, of Uniswap v4 its id. Null if no pool measures the price",
        ),
      ),
    ),
    pairTotalLiquidityUsd: Type.Optional(
      nullable(
        decimal(
          "With include=pair: both sides of that pool in US dollars; concentrated liquidity as far as it is in range",
          "13080000",
        ),
      ),
    ),
    usdPrice24h: Type.Optional(
      nullable(
        double("With include=pair: US dollars for one whole token 24 hours earlier; null without a price then", 6.62),
      ),
    ),
    usdPrice24hrUsdChange: Type.Optional(
      nullable(double("With include=pair: usdPrice less usdPrice24h, in US dollars", -0.08)),
    ),
    possibleSpam: Type.Optional(
      boolean("With include=info: the operator's spam list names the token, or its name or symbol lures", false),
    ),
    verifiedContract: Type.Optional(
      boolean(
        "With include=info: the token is in the operator's list of verified contracts or token lists, or in this program's own data",
        true,
      ),
    ),
    blockTimestamp: Type.Optional(
      digits(
        "With include=info: time of the priced block, in milliseconds since the epoch",
        String(Date.parse(EXAMPLE_TIME)),
      ),
    ),
    provenance: Type.Optional(named("Provenance", Provenance)),
    depth: Type.Optional(nullable(named("Depth", Depth))),
    why: Type.Optional(text("Why depth is null")),
  }),
);

export const SeriesPoint = Type.Object({
  block: int64("Block", EXAMPLE_BLOCK),
  time: time("Time of the block"),
  usdPrice: nullable(
    double("US dollars for one whole token, as the price at that block has it; null without one", 6.54),
  ),
  pool: nullable(poolId("The first pool of the price's route")),
  origin: Type.Optional(
    oneOf(["stored", "read"], "Whether the price is one that the log has, or was read from the chain now"),
  ),
  source: seldom(oneOf(["archive"], "Set if an archive told a state of the route, in place of the node")),
  limitedBy: Type.Optional(
    text(
      "What an archive alone says of the price, or of its absence, and neither the node nor a second archive confirms",
    ),
  ),
});

export const KnownToken = Type.Object({
  chain: text("Name of the chain", "eth"),
  address: address("The token", TOKEN_ADDRESS),
  symbol: text("Symbol, as the chain's entry, the operator's list or the token itself has it", "UNI"),
  name: nullableText("Name, as the operator's list or the token itself has it; null if neither names it", "Uniswap"),
});

/** Blocks at which nobody read a price. */
export const PriceGap = Type.Object({
  fromBlock: int64("First block without a stored price", EXAMPLE_BLOCK - 1_000),
  toBlock: int64("Last block without a stored price", EXAMPLE_BLOCK - 1),
});

export type PriceGap = Sent<typeof PriceGap>;
export type PriceRecord = Sent<typeof TokenPrice>;
export type PriceProvenance = Sent<typeof Provenance>;
export type RouteLeg = Sent<typeof PoolState>;
export type SeriesPoint = Sent<typeof SeriesPoint>;
export type KnownToken = Sent<typeof KnownToken>;
