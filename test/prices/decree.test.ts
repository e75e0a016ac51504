/**
 * When a stablecoin counts as one dollar without a measurement: only if no pool above the chain's liquidity floor
 * measures it. A higher floor in the request is no reason for it, and neither is a block before the stablecoin's first
 * trade.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { DAI, dollarWorld, SUSHI, TOKEN, UNI3, USDC, USDT, WETH, World } from "../support/prices/world.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(300_000);

/** A world in which USDC and USDT agree in their pools with the native coin. */
function twoDollars(): World {
  const world = new World();
  world.pair(WETH, 1_000n, USDC, 2_000_000n);
  world.pair(WETH, 1_000n, USDT, 2_000_000n);
  return world;
}

describe("a stablecoin that pools measure", () => {
  test("is refused, not one dollar, if the request's floor excludes its pools", async () => {
    const world = twoDollars();
    const pool = world.pair(DAI, 1_000_000n, USDC, 500_000n);
    expect((await world.price(DAI)).usdPrice).toBe(0.5);
    expect(await world.refusal(DAI, { min_liquidity_usd: "1000000" })).toMatchObject({
      code: "low_liquidity",
      details: {
        pools: [
          {
            pool: pool.address,
            reason: "low_liquidity",
            liquidityUsd: "500000",
            minLiquidityUsd: "1000000",
          },
        ],
      },
    });
  });

  test("is one dollar if all its pools are below the chain's floor, because any account could make such a pool", async () => {
    const world = twoDollars();
    world.pair(DAI, 900n, USDC, 450n);
    const { usdPrice, provenance } = await world.price(DAI, { include: "provenance" });
    expect([usdPrice, provenance?.confidence]).toEqual([1, "0"]);
    expect((await world.price(DAI, { min_liquidity_usd: "0" })).usdPrice).toBe(0.5);
  });

  test("is refused, not one dollar, on an exchange without own pools that measure it", async () => {
    // Only DAI prices the native coin, besides the coins that are priced through it.
    const world = new World();
    world.pair(DAI, 1_000_000n, USDC, 985_000n);
    world.pair(WETH, 1_000n, DAI, 2_000_000n, SUSHI);
    expect((await world.price(DAI)).usdPrice).toBe(0.985);
    expect(await world.refusal(DAI, { exchange: "sushiswap" })).toMatchObject({ code: "low_liquidity" });
  });

  test("is one dollar if only an untrusted stablecoin measures it", async () => {
    const world = dollarWorld();
    world.pair(DAI, 1_000_000n, USDC, 800_000n);
    expect((await world.price(USDC, { include: "provenance" })).provenance).toMatchObject({ confidence: "0" });
    expect((await world.price(USDC)).usdPrice).toBe(1);
  });

  test("is one dollar if the only pool that could measure it is empty", async () => {
    const world = dollarWorld();
    const pool = world.chain.pool({ factory: UNI3, style: "v3", fee: 500, tokens: [DAI, USDC] });
    world.chain.initialize(pool, 1n << 96n, 0);
    expect((await world.price(USDC)).usdPrice).toBe(1);
    expect((await world.price(USDC, { min_liquidity_usd: "0" })).usdPrice).toBe(1);
  });
});

describe("a stablecoin without a pool", () => {
  test("is one dollar at the head, and has no price at an earlier block", async () => {
    const world = new World();
    world.follower.start();
    world.chain.mine(5);
    await world.follower.poll();
    expect(await world.price(USDC)).toMatchObject({ usdPrice: 1, nativePrice: null });
    expect(await world.price(USDC, { to_block: "5" })).toMatchObject({ usdPrice: 1, toBlock: "5" });
    for (const block of ["0", "4"]) {
      const refused = { code: "no_price_at_block", details: { pools: [] } };
      expect(await world.refusal(USDC, { to_block: block })).toMatchObject(refused);
    }
  });
});

test("never prices the native coin by an empty pool, whatever the floor", async () => {
  const world = new World();
  const empty = world.chain.pool({ factory: UNI3, style: "v3", fee: 500, tokens: [WETH, USDC] });
  world.chain.initialize(empty, 1n << 96n, 0);
  const pool = world.pair(TOKEN, 10_000n, WETH, 100n);
  const asked = { min_liquidity_usd: "0" };
  expect(await world.refusal(TOKEN, asked)).toMatchObject({
    code: "low_liquidity",
    details: { pools: [{ pool: pool.address, reason: "no_usd_price_of_quote" }] },
  });
  expect(await world.refusal(WETH, asked)).toMatchObject({ code: "low_liquidity" });
});
