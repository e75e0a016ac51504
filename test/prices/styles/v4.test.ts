/** Uniswap v4 beyond what all styles share: what its positions hold, the coin itself, and hooks. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Anvil } from "../../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../../scripts/local-chain/compile.ts";
import { contractAt, read } from "../../../scripts/local-chain/contracts.ts";
import { createRandom } from "../../../scripts/local-chain/random.ts";
import { CHAINS } from "../../../src/chains/chains.ts";
import { type Address, ZERO_ADDRESS } from "../../../src/core/hex.ts";
import { planMarket } from "../../../src/prices/search/discovery.ts";
import { sqrtPriceAt } from "../../../src/prices/styles/ticks.ts";
import { V4 } from "../../../src/prices/styles/v4.ts";
import type { RpcChainReader } from "../../../src/rpc/reading/reader.ts";
import { newToken, startPoolChain } from "../../support/prices/exchanges.ts";
import { type MadeManager, type MadePool, uniswapV4 } from "../../support/prices/styles.ts";

let anvil: Anvil;
let reader: RpcChainReader;
let wrapped: Address;
let exchange: MadeManager;

beforeAll(async () => {
  ({ anvil, reader, wrapped } = await startPoolChain());
  exchange = await uniswapV4(anvil, wrapped);
});

afterAll(() => anvil.stop());

const pair = async () => ({ tokenA: await newToken(anvil), tokenB: await newToken(anvil) });

async function readOf({ id, token0, token1 }: MadePool) {
  const find = V4.find(exchange.venue, token0, token1);
  const pool = find.read(await reader.calls(find.calls, "latest")).find((one) => one.id === id)!;
  const plan = planMarket(CHAINS[0]!, [], [pool]);
  return plan.read((await reader.callsAtHead(plan.calls)).results).reads[0]!;
}

async function heldBy(manager: string, { token0, token1 }: MadePool): Promise<[bigint, bigint]> {
  const { abi } = await contractArtifact("TestToken");
  const held = (token: string) => read<bigint>(contractAt(anvil, token, abi), "balanceOf", [manager]);
  return [await held(token0), await held(token1)];
}

test("has the contract's price at every tick that is tried", async () => {
  // The ends of TickMath, and what Uniswap's own tests have (v3-core, TickMath.spec).
  expect([sqrtPriceAt(-887_272), sqrtPriceAt(0), sqrtPriceAt(887_272)]).toEqual([
    4295128739n,
    1n << 96n,
    1461446703485210103287273052203988822378723970342n,
  ]);
  expect([sqrtPriceAt(50), sqrtPriceAt(-50), sqrtPriceAt(250_000), sqrtPriceAt(-738_203)]).toEqual([
    79426470787362580746886972461n,
    79030349367926598376800521322n,
    21246587762933397357449903968194344n,
    7409801140451n,
  ]);
});

test("knows what the positions hold, as the contract's balance shows for the only pool of its tokens", async () => {
  const pool = await exchange.create({ ...(await pair()), price: [7n, 3n] });
  await pool.mint(-40_000, 60_000, 5n * 10n ** 23n);
  await pool.mint(8_000, 9_000, 10n ** 25n);
  await pool.mint(20_000, 21_000, 10n ** 24n);
  await pool.mint(-21_000, -20_000, 10n ** 24n);
  const told = await readOf(pool);
  const [held0, held1] = await heldBy(exchange.manager.address, pool);
  for (const [amount, held] of [
    [told.balance0!, held0],
    [told.balance1!, held1],
  ] as const) {
    // Positions over all prices hold a little beyond the ticks that are read.
    expect(Number(amount) / Number(held)).toBeGreaterThan(0.9);
    expect(amount).toBeLessThanOrEqual(held);
  }
});

test("counts a sliver around the price for what it holds", async () => {
  const pool = await exchange.create({ ...(await pair()), liquidity: 0n });
  await pool.mint(-10, 10, 10n ** 30n);
  const { balance0, balance1, reading } = await readOf(pool);
  const [held0, held1] = await heldBy(exchange.manager.address, pool);
  expect(Number(balance0) / Number(held0)).toBeCloseTo(1, 6);
  expect(Number(balance1) / Number(held1)).toBeCloseTo(1, 6);
  // By its liquidity alone it would seem two thousand times as deep.
  expect(Number((reading as { liquidity: bigint }).liquidity) / Number(balance0)).toBeGreaterThan(1_900);
});

test("counts positions beyond the ticks that are read for nothing", async () => {
  const pool = await exchange.create({ ...(await pair()), fee: 100, spacing: 1 });
  for (let at = 1; at <= 130; at++) await pool.mint(-at * 300, at * 300, 10n ** 20n);
  const { balance0, balance1 } = await readOf(pool);
  const [held0, held1] = await heldBy(exchange.manager.address, pool);
  expect([balance0! > held0 / 2n, balance0! <= held0]).toEqual([true, true]);
  expect([balance1! > held1 / 2n, balance1! <= held1]).toEqual([true, true]);
});

test("follows what the positions hold through random moves", async () => {
  const pool = await exchange.create({ ...(await pair()), fee: 100, spacing: 1 });
  const random = createRandom(7);
  for (let move = 0; move < 40; move++) {
    await pool.move(random);
    const { balance0, balance1 } = await readOf(pool);
    const [held0, held1] = await heldBy(exchange.manager.address, pool);
    // The balance also has the fees, and liquidity over all prices far beyond the ticks that are read at a spacing of 1.
    expect(balance0!).toBeLessThanOrEqual(held0);
    expect(balance1!).toBeLessThanOrEqual(held1);
    expect(balance0! + balance1!).toBeGreaterThan(0n);
  }
});

test("finds a pool of the coin itself, with the wrapped coin in its place", async () => {
  const token = await newToken(anvil);
  const pool = await exchange.create({ tokenA: wrapped, tokenB: token, price: [2_000n, 1n] });
  const { pool: found, reading } = await readOf(pool);
  expect(found).toMatchObject({ token0: wrapped, token1: token, key: { currency0: ZERO_ADDRESS } });
  expect(reading).toEqual(await pool.truth());
});

test("does not look for pools of other fees and spacings", async () => {
  const { tokenA, tokenB } = await pair();
  await exchange.create({ tokenA, tokenB, fee: 777, spacing: 10 });
  await exchange.create({ tokenA, tokenB, fee: 500, spacing: 25 });
  const plan = V4.find(exchange.venue, tokenA, tokenB);
  expect(plan.read(await reader.calls(plan.calls, "latest"))).toEqual([]);
});
