/** The schemas of what clients receive about prices, with the example of a token without one. */
import { Type } from "@sinclair/typebox";
import { EXAMPLE_BLOCK, POOL_EXAMPLE, TOKEN_ADDRESS, USDC_ADDRESS } from "../../core/examples.ts";
import { address, exampleOf, int64, named, seldom, text, withExample } from "../../core/schema-parts.ts";
import { PriceGap, SeriesPoint, TokenPrice } from "../../prices/models.ts";
import { ErrorBody, errorExample } from "../wire/errors.ts";
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
  Type.Object({ ...TokenPrice.properties, proof: seldom(ProofAnswer) }),
);

const NO_PRICE_MESSAGE = "No pools found with enough liquidity, to calculate the price";

export const TokenPriceList = withExample(named("TokenPrices", Type.Array(Type.Union([PriceAnswerModel, Unpriced]))), [
  exampleOf(PriceAnswerModel),
  { tokenAddress: USDC_ADDRESS, ...errorExample("no_pool", NO_PRICE_MESSAGE, { pools: [] }) },
]);

export const PriceSeriesModel = named(
  "PriceSeries",
  Type.Object({
    chain: text("Name of the chain", "eth"),
    address: address("The token", TOKEN_ADDRESS),
    result: Type.Array(named("SeriesPoint", SeriesPoint), { description: "By block, the oldest first" }),
    fromBlock: Type.Optional(int64("With stored=true: the first block of the range", EXAMPLE_BLOCK - 1_000)),
    toBlock: Type.Optional(int64("With stored=true: the last block of the range", EXAMPLE_BLOCK)),
    gaps: Type.Optional(
      Type.Array(named("PriceGap", PriceGap), {
        description: "With stored=true: where nobody read the price, the oldest first, at most 200",
      }),
    ),
  }),
);

export const NO_PRICE = errorExample("low_liquidity", NO_PRICE_MESSAGE, {
  pools: [
    {
      pool: POOL_EXAMPLE,
      exchange: "Uniswap v2",
      reason: "low_liquidity",
      liquidityUsd: "12.5",
    },
  ],
});
