/**
 * The meter of concentrated liquidity, for real pools of every style that has ranges: what it tells is what the positions
 * made here hold, to a few units of rounding. Also its gas, and its code.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Anvil } from "../../../scripts/local-chain/anvil.ts";
import { placeCode } from "../../../scripts/local-chain/contracts.ts";
import { createRandom } from "../../../scripts/local-chain/random.ts";
import { type Address, ZERO_ADDRESS } from "../../../src/core/hex.ts";
import { MOVED, type Pool, squareRoot } from "../../../src/prices/market/pools.ts";
import { planLiquidity } from "../../../src/prices/styles/liquidity.ts";
import LIQUIDITY_METER from "../../../src/prices/styles/liquidity-meter.txt";
import { STYLES } from "../../../src/prices/styles/styles.ts";
import { sqrtPriceAt } from "../../../src/prices/styles/ticks.ts";
import type { Call } from "../../../src/rpc/port.ts";
import type { RpcChainReader } from "../../../src/rpc/reading/reader.ts";
import { newToken, startPoolChain } from "../../support/prices/exchanges.ts";
import { EXCHANGES_OF_STYLES, type MadeExchange, type MadePool, uniswapV4 } from "../../support/prices/styles.ts";
import { codeOf } from "../../support/solidity.ts";

/** Nodes refuse a contract with more code, and the meter's answer counts as one. */
const MAX_CODE_BYTES = 24_576;

let anvil: Anvil;
let reader: RpcChainReader;
let wrapped: Address;

beforeAll(async () => {
  ({ anvil, reader, wrapped } = await startPoolChain());
});
afterAll(() => anvil.stop());

async function found({ venue }: MadeExchange, { id, token0, token1 }: MadePool): Promise<Pool> {
  const plan = STYLES[venue.style].find(venue, token0, token1);
  return plan.read(await reader.calls(plan.calls, "latest")).find((pool) => pool.id === id)!;
}

async function measured(pool: Pool) {
  const plan = planLiquidity([pool]);
  return plan.read(await reader.calls(plan.calls, "latest")).get(pool.id);
}

type Position = readonly [lower: number, upper: number, liquidity: bigint];

const Q96 = 1n << 96n;
const least = (a: bigint, b: bigint) => (a < b ? a : b);
const most = (a: bigint, b: bigint) => (a > b ? a : b);

/** What positions hold of token0 between a root of the price and another above it. */
const above = (positions: readonly Position[], from: bigint, to: bigint): bigint =>
  positions.reduce((sum, [lower, upper, liquidity]) => {
    const [low, high] = [most(from, sqrtPriceAt(lower)), least(to, sqrtPriceAt(upper))];
    return low < high ? sum + (liquidity * Q96 * (high - low)) / (low * high) : sum;
  }, 0n);

/** What positions hold of token1 between a root of the price and another below it. */
const below = (positions: readonly Position[], from: bigint, to: bigint): bigint =>
  positions.reduce((sum, [lower, upper, liquidity]) => {
    const [low, high] = [most(to, sqrtPriceAt(lower)), least(from, sqrtPriceAt(upper))];
    return low < high ? sum + (liquidity * (high - low)) / Q96 : sum;
  }, 0n);

const far = 880_000;
const CONCENTRATED = EXCHANGES_OF_STYLES.filter(([name]) => !name.startsWith("Solidly"));

describe.each(CONCENTRATED)("%s", (_, makeExchange) => {
  test("gives while its price moves by 2 % what its positions hold there", async () => {
    const exchange = await makeExchange(anvil, wrapped);
    const wish = { tokenA: await newToken(anvil), tokenB: await newToken(anvil), price: [3n, 2n] as const };
    const made = await exchange.create({ ...wish, liquidity: 10n ** 20n });
    const pool = await found(exchange, made);
    const positions: Position[] = [[-far, far, 10n ** 20n]];
    const random = createRandom(7);
    const { tick: first } = (await made.truth()) as { readonly tick: number };
    for (let round = 0; round < 12; round++) {
      // A multiple of all spacings that are made here.
      const middle = Math.round(first / 300) * 300;
      const lower = middle - 300 * (1 + random.below(3));
      const position = [lower, lower + 300 * (1 + random.below(5)), 10n ** BigInt(20 + random.below(4))] as const;
      await made.mint(...position);
      positions.push(position);
      await made.sell(random.pick([made.token0, made.token1]), 10n ** BigInt(18 + random.below(3)));
      const { sqrtPriceX96: root } = (await made.truth()) as { readonly sqrtPriceX96: bigint };
      const told = (await measured(pool))!;
      const [up, down] = [
        squareRoot((root * root * MOVED.n) / MOVED.d),
        squareRoot((root * root * MOVED.d) / MOVED.n),
      ] as const;
      const expected = [above(positions, root, up), below(positions, root, down)];
      // The meter's root of 1.02 has 64 binary places.
      for (const at of [0, 1]) expect(Number(told.given[at]) / Number(expected[at])).toBeCloseTo(1, 12);
    }
  });

  test("gives nothing where it has no liquidity, and is unknown before its first price", async () => {
    const exchange = await makeExchange(anvil, wrapped);
    const wish = { tokenA: await newToken(anvil), tokenB: await newToken(anvil) };
    const made = await exchange.create({ ...wish, liquidity: 0n });
    await made.mint(300, 600, 10n ** 24n);
    const pool = await found(exchange, made);
    expect(await measured(pool)).toMatchObject({ given: [0n, 0n] });
    const isKeyed = pool.key !== undefined;
    const other = isKeyed ? { ...pool, id: `0x${"11".repeat(32)}` } : { ...pool, id: wish.tokenA };
    expect(await measured(other as Pool)).toBeUndefined();
  });
});

test("takes less gas than nodes give, and answers in less than a contract's code, however many ticks there are", async () => {
  const [v3, v4] = [CONCENTRATED[0]![1], (a: Anvil) => uniswapV4(a, wrapped)];
  const pools: Pool[] = [];
  for (const make of [v3, v4]) {
    const exchange = await make(anvil, wrapped);
    const made = await exchange.create({
      ...{ tokenA: await newToken(anvil), tokenB: await newToken(anvil) },
      ...(exchange.venue.style === "v4" ? { fee: 100, spacing: 1 } : {}),
    });
    const spacing = exchange.venue.style === "v4" ? 1 : 10;
    for (let at = 1; at <= 130; at++) await made.mint(-at * spacing, at * spacing, 10n ** 20n);
    pools.push(await found(exchange, made));
  }
  const { calls } = planLiquidity(pools.flatMap((pool) => Array.from({ length: 20 }, () => pool)));
  expect(calls.length).toBeLessThan(8);
  for (const { data } of calls) {
    const answer = await callWithGas({ data, to: undefined }, 30_000_000);
    expect(answer).toMatch(/^0x/);
    expect(answer.length / 2 - 1).toBeLessThan(MAX_CODE_BYTES);
  }
});

async function callWithGas({ data }: Call, gas: number): Promise<string> {
  return (await anvil.send("eth_call", [{ data, gas: `0x${gas.toString(16)}` }, "latest"])) as string;
}

test("measures the others if one of the pools fails with all of its gas", async () => {
  const exchange = await CONCENTRATED[0]![1](anvil, wrapped);
  const made = await exchange.create({ tokenA: await newToken(anvil), tokenB: await newToken(anvil) });
  const pool = await found(exchange, made);
  const burner = `0x${"22".repeat(20)}` as Address;
  // `invalid` takes all the gas that a call has.
  await placeCode(anvil, burner, "0xfe");
  const plan = planLiquidity([{ ...pool, id: burner }, pool, { ...pool, id: ZERO_ADDRESS }]);
  const told = plan.read(await reader.calls(plan.calls, "latest"));
  expect([...told.keys()]).toEqual([pool.id]);
});

test("compiles the meter to the code that the program has", async () => {
  const code = await codeOf("prices/styles/liquidity-meter.sol", "LiquidityMeter", "bytecode");
  expect(code).toBe(LIQUIDITY_METER);
});
