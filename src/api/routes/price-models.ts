/** The schemas of what clients receive about prices, with the examples of a price and of a token without one. */
import { Type } from "@sinclair/typebox";
import { address, int64, named, text } from "../../core/schema-parts.ts";
import { PriceGap, type PriceRecord, SeriesPoint, TokenPrice } from "../../prices/models.ts";
import { ErrorBody, errorExample } from "../wire/errors.ts";
import { HEADER_EXAMPLES, TOKEN_ADDRESS } from "../wire/examples.ts";
import { ProofAnswer } from "./proof-models.ts";

export const Unpriced = named(
  "UnpricedToken",
  Type.Object(
    { tokenAddress: address("The token"), ...ErrorBody.properties },
    { description: "With include=errors: a token without a price, and the error that it gets alone" },
  ),
);

/** A price as the routes answer it: what the computation tells, and its proof. */
export const PriceAnswerModel = named(
  "TokenPrice",
  Type.Object({ ...TokenPrice.properties, proof: Type.Optional(ProofAnswer) }),
);

export const PriceSeriesModel = named(
  "PriceSeries",
  Type.Object({
    chain: text("Name of the chain"),
    address: address("The token"),
    result: Type.Array(named("SeriesPoint", SeriesPoint), { description: "By block, the oldest first" }),
    fromBlock: Type.Optional(int64("With stored=true: the first block of the range")),
    toBlock: Type.Optional(int64("With stored=true: the last block of the range")),
    gaps: Type.Optional(
      Type.Array(named("PriceGap", PriceGap), {
        description: "With stored=true: where nobody read the price, the oldest first, at most 200",
      }),
    ),
  }),
);

export const USDC = "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48";

/** A token with one pool against a stablecoin: 1,000,000 units against $6,540,000, ether at $2,616. */
export const PRICE_EXAMPLE: PriceRecord = {
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
  possibleSpam: false,
  verifiedContract: true,
  blockTimestamp: "1729325567000",
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

export const NO_PRICE_MESSAGE = "No pools found with enough liquidity, to calculate the price";
export const NO_PRICE = errorExample("low_liquidity", NO_PRICE_MESSAGE, {
  pools: [
    {
      pool: "0x00000000000000000000000000000000000000aa",
      exchange: "Uniswap v2",
      reason: "low_liquidity",
      liquidityUsd: "12.5",
    },
  ],
});
