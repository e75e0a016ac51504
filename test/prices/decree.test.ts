/**
 * When a stablecoin is one dollar by decree: only where nothing measures it that reaches the chain's floor. A request's
 * floor that shuts out what does is no reason to believe it, and neither is a block at which it did not trade yet.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { DAI, dollarWorld, SUSHI, TOKEN, UNI3, USDC, USDT, WETH, World } from "./support/world.ts";

// Real parts, on machines that have others to serve: the runner's five seconds would kill them in the middle.
setDefaultTimeout(30_000);

/** USDC and USDT agree over the native coin. */
function twoDollars(): World {
  const world = new World();
  world.pair(WETH, 1_000n, USDC, 2_000_000n);
  world.pair(WETH, 1_000n, USDT, 2_000_000n);
  return world;
}

describe("a stablecoin that pools measure", () => {
  test("is not one dollar because the request's floor shuts them out", async () => {
    const world = twoDollars();
    const pool = world.pair(DAI, 1_000_000n, USDC, 500_000n);
    expect((await world.price(DAI)).usdPrice).toBe(0.5);
    expect(await world.refusal(DAI, { min_liquidity_usd: "1000000" })).toMatchObject({
      status: 404,
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

  test("is one dollar where they all lie under the chain's floor: anybody could make one", async () => {
    const world = twoDollars();
    world.pair(DAI, 900n, USDC, 450n);
    const { usdPrice, provenance } = await world.price(DAI, { include: "provenance" });
    expect([usdPrice, provenance?.confidence]).toEqual([1, "0"]);
    expect((await world.price(DAI, { min_liquidity_usd: "0" })).usdPrice).toBe(0.5);
  });

  test("is not one dollar on an exchange whose own pools say nothing of it", async () => {
    // DAI is all that the native coin is priced by, besides what it quotes itself.
    const world = new World();
    world.pair(DAI, 1_000_000n, USDC, 985_000n);
    world.pair(WETH, 1_000n, DAI, 2_000_000n, SUSHI);
    expect((await world.price(DAI)).usdPrice).toBe(0.985);
    expect(await world.refusal(DAI, { exchange: "sushiswap" })).toMatchObject({ status: 404, code: "low_liquidity" });
  });

  test("is one dollar where only a coin that is not believed measures it", async () => {
    const world = dollarWorld();
    world.pair(DAI, 1_000_000n, USDC, 800_000n);
    expect((await world.price(USDC, { include: "provenance" })).provenance).toMatchObject({ confidence: "0" });
    expect((await world.price(USDC)).usdPrice).toBe(1);
  });

  test("is one dollar where the only pool that could is empty", async () => {
    const world = dollarWorld();
    const pool = world.chain.pool({ factory: UNI3, style: "v3", fee: 500, tokens: [DAI, USDC] });
    world.chain.initialize(pool, 1n << 96n, 0);
    expect((await world.price(USDC)).usdPrice).toBe(1);
    expect((await world.price(USDC, { min_liquidity_usd: "0" })).usdPrice).toBe(1);
  });
});

describe("a stablecoin without a pool", () => {
  test("is one dollar at the head, and has no price at a block before that", async () => {
    const world = new World();
    world.follower.start();
    world.chain.mine(5);
    await world.follower.poll();
    expect(await world.price(USDC)).toMatchObject({ usdPrice: 1, nativePrice: null });
    expect(await world.price(USDC, { to_block: "5" })).toMatchObject({ usdPrice: 1, toBlock: "5" });
    for (const block of ["0", "4"]) {
      const refused = { status: 404, code: "no_price_at_block", details: { pools: [] } };
      expect(await world.refusal(USDC, { to_block: block })).toMatchObject(refused);
    }
  });
});

test("an empty pool prices no native coin, whatever the floor", async () => {
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
