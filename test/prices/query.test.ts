import { describe, expect, test } from "bun:test";
import { parseTime } from "../../src/api/wire/parameters.ts";
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

  test("takes a block in decimal, in hex, or the newest one by its name", () => {
    expect(parsePriceQuery({ to_block: "0x10" }).toBlock).toBe(16);
    expect(parsePriceQuery({ to_block: "0XfF".toLowerCase() }).toBlock).toBe(255);
    expect(parsePriceQuery({ to_block: "latest" }).toBlock).toBeUndefined();
  });

  test("takes the floor by either of its names, and refuses two that differ", () => {
    expect(parsePriceQuery({ min_pair_side_liquidity_usd: "0.5" }).minLiquidityUsd).toEqual({ n: 5n, d: 10n });
    const same = parsePriceQuery({ min_liquidity_usd: "2", min_pair_side_liquidity_usd: "2.0" });
    expect(Number(same.minLiquidityUsd!.n / same.minLiquidityUsd!.d)).toBe(2);
    const other = { min_liquidity_usd: "1", min_pair_side_liquidity_usd: "2" };
    expect(refused(other)).toEqual(["invalid_parameter", "min_pair_side_liquidity_usd"]);
  });

  test("reads a time in ISO 8601, in Unix seconds and in milliseconds as the same moment", () => {
    const texts = [
      "2026-01-31T12:00:00Z",
      "2026-01-31T13:00:00+01:00",
      "2026-01-31T12:00",
      "1769860800",
      "1769860800000",
    ];
    for (const text of texts) expect([text, parseTime(text)]).toEqual([text, 1_769_860_800]);
    expect(parseTime("2026-01-31")).toBe(1_769_860_800 - 12 * 3_600);
    expect(parseTime("0")).toBe(0);
  });

  test("sizes a depth at 1,000 dollars unless the request has another size", () => {
    expect(parsePriceQuery({ include: "depth" }).depthUsd).toEqual({ n: 1_000n, d: 1n });
    expect(parsePriceQuery({ include: "depth", size_usd: "0.5" }).depthUsd).toEqual({ n: 5n, d: 10n });
    expect(parsePriceQuery({ size_usd: "5" }).depthUsd).toBeUndefined();
    for (const size of ["0", "0.009", "-1", "1e3", "1000000001", ""]) {
      expect(refused({ include: "depth", size_usd: size })).toEqual(["invalid_parameter", "size_usd"]);
    }
  });

  test.each([
    "1e9",
    "-0",
    "-1",
    "0x",
    "0xg",
    "LATEST",
    "１",
    "",
    " 1",
    "1.0",
    "9007199254740992",
    "99999999999999999999",
    "NaN",
  ])("refuses to_block=%s", (text) => {
    expect(refused({ to_block: text })).toEqual(["invalid_parameter", "to_block"]);
  });

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
