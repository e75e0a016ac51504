import { describe, expect, test } from "bun:test";
import { Refusal } from "../../src/core/errors.ts";
import { parsePriceQuery, type RawPriceQuery } from "../support/prices/query.ts";

const refused = (raw: RawPriceQuery): unknown => {
  try {
    parsePriceQuery(raw);
  } catch (error) {
    if (error instanceof Refusal) return [error.code, error.message.split(":")[0]];
    throw error;
  }
  return undefined;
};

describe("the price query", () => {
  test("has defaults and ignores unknown parameters", () => {
    expect(parsePriceQuery({ chain: "eth", foo: ["1", "2"] })).toEqual({ percentChange: false, provenance: false });
  });

  test("accepts each parameter", () => {
    expect(
      parsePriceQuery({
        include: "provenance,percent_change,pair",
        exchange: "dexa_v2",
        to_block: "17",
        min_liquidity_usd: "0.5",
      }),
    ).toMatchObject({
      percentChange: true,
      provenance: true,
      pair: true,
      toBlock: 17,
      minLiquidityUsd: { n: 5n, d: 10n },
    });
  });

  test("sizes a depth at 1,000 dollars unless the request has another size", () => {
    expect(parsePriceQuery({ include: "depth" }).depthUsd).toEqual({ n: 1_000n, d: 1n });
    expect(parsePriceQuery({ include: "depth", size_usd: "0.5" }).depthUsd).toEqual({ n: 5n, d: 10n });
    expect(parsePriceQuery({ size_usd: "5" }).depthUsd).toBeUndefined();
    for (const size of ["0", "0.009", "-1", "1e3", "1000000001", ""]) {
      expect(refused({ include: "depth", size_usd: size })).toEqual(["invalid_parameter", "size_usd"]);
    }
  });

  test.each(["1e9", "-0", "-1", "0x10", "１", "", " 1", "1.0", "9007199254740992", "99999999999999999999", "NaN"])(
    "refuses to_block=%s",
    (text) => {
      expect(refused({ to_block: text })).toEqual(["invalid_parameter", "to_block"]);
    },
  );

  test("refuses unknown words, names and numbers, and repeated parameters, by the parameter's name", () => {
    expect(refused({ include: "percent_change,all" })).toEqual(["invalid_parameter", "include"]);
    expect(refused({ include: "" })).toEqual(["invalid_parameter", "include"]);
    expect(refused({ exchange: "uniswap" })).toEqual(["invalid_parameter", "exchange"]);
    expect(refused({ min_liquidity_usd: "-1" })).toEqual(["invalid_parameter", "min_liquidity_usd"]);
    for (const name of ["include", "exchange", "to_block", "min_liquidity_usd"]) {
      expect(refused({ [name]: ["1", "1"] })).toEqual(["invalid_parameter", name]);
    }
    expect(() => parsePriceQuery({ exchange: "uniswap" })).toThrow(/uniswapv2, uniswapv3/);
  });
});
