/**
 * Trades that are computed, against trades that the contracts make: what real pools of every style that has a depth give
 * for random sizes in random states, and where a sale moves the price. `STYLE_MOVES=1000` tries as many states.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import v2Factory from "@uniswap/v2-core/build/UniswapV2Factory.json";
import v2Pair from "@uniswap/v2-core/build/UniswapV2Pair.json";
import v2Router from "@uniswap/v2-periphery/build/UniswapV2Router02.json";
import { id } from "ethers";
import type { Anvil } from "../../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../../scripts/local-chain/compile.ts";
import { contractAt, deploy, read, transact } from "../../../scripts/local-chain/contracts.ts";
import { createRandom } from "../../../scripts/local-chain/random.ts";
import { type Address, toAddress, ZERO_ADDRESS } from "../../../src/core/hex.ts";
import { tradablesOf } from "../../../src/prices/depth/pool-reads.ts";
import { tradablesFromLogs } from "../../../src/prices/depth/positions.ts";
import { rangesAt } from "../../../src/prices/depth/ranges.ts";
import { type Pool, priceOfToken0 } from "../../../src/prices/market/pools.ts";
import { compare, divide, invert, type Rational } from "../../../src/prices/market/rational.ts";
import { STYLES } from "../../../src/prices/styles/styles.ts";
import { DOWN, type Tradable, UnknownTrade } from "../../../src/prices/styles/trade.ts";
import type { Call } from "../../../src/rpc/port.ts";
import type { RpcChainReader } from "../../../src/rpc/reading/reader.ts";
import { newToken, startPoolChain } from "../../support/prices/exchanges.ts";
import {
  EXCHANGES_OF_STYLES,
  type MadeExchange,
  type MadePool,
  type PoolWish,
  uniswapV4,
} from "../../support/prices/styles.ts";

const MOVES = Number(process.env["STYLE_MOVES"] ?? 40);
const SEED = 20261126;
/** For a test of all states, in ms. */
const TIME_MS = Math.max(120_000, MOVES * 1_000);

let anvil: Anvil;
let reader: RpcChainReader;
let wrapped: Address;

beforeAll(async () => {
  ({ anvil, reader, wrapped } = await startPoolChain());
});
afterAll(() => anvil.stop());

const testToken = async (token: string) => contractAt(anvil, token, (await contractArtifact("TestToken")).abi);

/** Uniswap v2, with the amounts of its router. */
async function uniswapV2(): Promise<MadeExchange> {
  const [maker = ""] = anvil.accounts;
  const abi = { abi: v2Factory.abi, bytecode: v2Factory.evm.bytecode.object };
  const { contract: factory, address } = await deploy(anvil, abi, [maker]);
  const { contract: router } = await deploy(anvil, v2Router, [address, address]);
  const style = "v2" as const;
  return {
    venue: { ...{ name: style, rank: 0, style, factory: toAddress(address) }, fees: [3000], spacings: [], wrapped },
    async create({ tokenA, tokenB, liquidity = 10n ** 24n }) {
      await transact(anvil, factory, "createPair", [tokenA, tokenB]);
      const id = toAddress(await read<string>(factory, "getPair", [tokenA, tokenB]));
      const [token0, token1] = tokenA < tokenB ? [tokenA, tokenB] : [tokenB, tokenA];
      const pair = contractAt(anvil, id, v2Pair.abi);
      const pay = async (token: Address, amount: bigint) =>
        transact(anvil, await testToken(token), "mint", [id, amount]);
      await pay(token0, liquidity);
      await pay(token1, liquidity / 3n);
      await transact(anvil, pair, "mint", [maker]);
      const sell = async (token: Address, amount: bigint) => {
        const [reserve0, reserve1] = await read<[bigint, bigint]>(pair, "getReserves");
        const [own, other] = token === token0 ? [reserve0, reserve1] : [reserve1, reserve0];
        const out = await read<bigint>(router, "getAmountOut", [amount, own, other]);
        await pay(token, amount);
        await transact(anvil, pair, "swap", [...(token === token0 ? [0n, out] : [out, 0n]), maker, "0x"]);
      };
      return {
        ...{ id, token0, token1, sell },
        mint: () => Promise.reject(new Error("a pair has no ticks")),
        move: (random) => sell(random.pick([token0, token1]), 10n ** BigInt(15 + random.below(8))),
        async truth() {
          const [reserve0, reserve1] = await read<[bigint, bigint]>(pair, "getReserves");
          return { style: "v2", reserve0, reserve1 };
        },
      };
    },
  };
}

async function found({ venue }: MadeExchange, made: MadePool): Promise<Pool> {
  const plan = STYLES[venue.style].find(venue, made.token0, made.token1);
  return plan.read(await reader.calls(plan.calls, "latest")).find(({ id }) => id === made.id)!;
}

interface Made {
  readonly made: MadePool;
  readonly pool: Pool;
  readonly decimals0: number;
  readonly decimals1: number;
}

async function make(exchange: MadeExchange, wish: Partial<PoolWish> = {}, decimals = [18, 18]): Promise<Made> {
  const tokenA = wish.tokenA ?? (await newToken(anvil, decimals[0]));
  const tokenB = wish.tokenB ?? (await newToken(anvil, decimals[1]));
  const made = await exchange.create({ ...{ price: [3n, 2n], ...wish }, tokenA, tokenB });
  const [first = 18, second = 18] = decimals;
  const [decimals0, decimals1] = made.token0 === tokenA ? [first, second] : [second, first];
  return { made, pool: await found(exchange, made), decimals0, decimals1 };
}

async function tradable({ pool, ...decimals }: Made): Promise<Tradable> {
  const [one] = await tradablesOf([[pool, decimals]], (calls) => reader.calls(calls, "latest"));
  return one!;
}

/** What the pool's contract holds of a token; of the wrapped coin in v4, the coin itself. */
async function held({ pool }: Made, token: Address): Promise<bigint> {
  const holder = pool.key === undefined ? pool.id : pool.factory;
  if (token === wrapped && pool.key?.currency0 === ZERO_ADDRESS) {
    return BigInt((await anvil.send("eth_getBalance", [holder, "latest"])) as string);
  }
  return read<bigint>(await testToken(token), "balanceOf", [holder]);
}

/** Sells for real and returns what the pool gave. */
async function sold(one: Made, amount: bigint, isToken0: boolean): Promise<bigint> {
  const { token0, token1 } = one.pool;
  const [token, other] = isToken0 ? [token0, token1] : [token1, token0];
  const before = await held(one, other);
  await one.made.sell(token, amount);
  return before - (await held(one, other));
}

async function priceOf({ made, pool, ...decimals }: Made, isToken0: boolean): Promise<Rational> {
  const price = priceOfToken0(pool, await made.truth(), decimals)!;
  return isToken0 ? price : invert(price);
}

/** Trades many sizes in many states, and compares each to the last digit. Returns how many were computed. */
async function compareMoves(one: Made, moves: number): Promise<number> {
  const random = createRandom(SEED);
  let computed = 0;
  for (let move = 0; move < moves; move++) {
    await one.made.move(random);
    const isToken0 = random.below(2) === 0;
    const places = (isToken0 ? one.decimals0 : one.decimals1) - 18;
    const amount = 10n ** BigInt(Math.max(0, 9 + random.below(14) + places)) * BigInt(1 + random.below(99));
    const pool = await tradable(one);
    let told: bigint;
    try {
      told = pool.sell(amount, isToken0);
    } catch (error) {
      if (!(error instanceof UnknownTrade)) throw error;
      continue;
    }
    computed++;
    expect([move, amount, told]).toEqual([move, amount, await sold(one, amount, isToken0)]);
  }
  return computed;
}

async function compareMove2(one: Made): Promise<void> {
  const sale = async (isToken0: boolean, less: (paid: bigint) => bigint) => {
    const { paid, given } = (await tradable(one)).sellDownTo(DOWN, isToken0);
    const before = await priceOf(one, isToken0);
    const got = await sold(one, paid - less(paid), isToken0);
    return { given, got, moved: compare(divide(await priceOf(one, isToken0), before), DOWN) };
  };
  for (const isToken0 of [true, false]) {
    const { given, got, moved } = await sale(isToken0, () => 0n);
    expect([isToken0, got]).toEqual([isToken0, given]);
    expect(moved).toBeLessThanOrEqual(0);
    expect((await sale(isToken0, (paid) => paid / 100_000n + 1n)).moved).toBe(1);
  }
}

const EXACT: readonly (readonly [string, () => Promise<MadeExchange>])[] = [
  ["Uniswap v2", uniswapV2],
  ...EXCHANGES_OF_STYLES.filter(([name]) => !/Algebra/.test(name)).map(
    ([name, makeOne]) => [name, () => makeOne(anvil, wrapped)] as const,
  ),
];

describe.each(EXACT)("%s", (_, makeExchange) => {
  let one: Made;

  beforeAll(async () => {
    one = await make(await makeExchange());
  });

  test(
    `gives what is computed, to the last digit, in ${MOVES} random states`,
    async () => {
      expect(await compareMoves(one, MOVES)).toBeGreaterThan(MOVES / 2);
    },
    TIME_MS,
  );

  test("moves its price by 2 % for the trade that is computed, and not for a smaller one", () => compareMove2(one));
});

describe.each(EXACT.filter(([name]) => /Uniswap|Pancake/.test(name)))("%s, from logs alone", (_, makeExchange) => {
  test(
    `trades as the state of past blocks tells, in ${MOVES} random states`,
    async () => {
      const one = await make(await makeExchange());
      const random = createRandom(SEED);
      const blocks: number[] = [];
      for (let move = 0; move < MOVES; move++) {
        await one.made.move(random);
        blocks.push(Number(await anvil.send("eth_blockNumber")));
      }
      const { pool, ...decimals } = one;
      let compared = 0;
      for (const number of blocks) {
        const state = STYLES[pool.style].state(pool);
        const { reading } = state.read(await reader.calls(state.calls, number));
        const header = (await reader.header(number))!;
        const [byLogs] = await tradablesFromLogs(reader, [{ pool, reading: reading!, decimals }], header);
        const [byState] = await tradablesOf([[pool, decimals]], (calls) => reader.calls(calls, number));
        const amount = 10n ** BigInt(9 + random.below(16)) * BigInt(1 + random.below(99));
        for (const isToken0 of [true, false]) {
          const expected = soldOrWhy(byState!, amount, isToken0);
          // Logs tell all ticks, the state only those around the price.
          if (expected === undefined) continue;
          compared++;
          expect([number, soldOrWhy(byLogs!, amount, isToken0)]).toEqual([number, expected]);
          expect(byLogs!.sellDownTo(DOWN, isToken0)).toEqual(byState!.sellDownTo(DOWN, isToken0));
        }
      }
      expect(compared).toBeGreaterThan(MOVES);
    },
    TIME_MS,
  );
});

/** Undefined if the trade can't be computed. */
function soldOrWhy(pool: Tradable, amount: bigint, isToken0: boolean): bigint | undefined {
  try {
    return pool.sell(amount, isToken0);
  } catch (error) {
    if (error instanceof UnknownTrade) return undefined;
    throw error;
  }
}

describe("Solidly 2 on the stable curve", () => {
  test.each([18, 6])(
    "gives what is computed for a first token of %i decimals",
    async (decimals) => {
      const [, makeOne] = EXCHANGES_OF_STYLES.find(([name]) => name.startsWith("Solidly 2"))!;
      const tokenA = await newToken(anvil, decimals);
      let tokenB = await newToken(anvil);
      // The pair wants equal amounts to begin with, and the price of only this order has an exact root.
      while (tokenB < tokenA) tokenB = await newToken(anvil);
      const price = [10n ** BigInt(18 - decimals), 1n] as const;
      const liquidity = 10n ** BigInt(15 + decimals / 2);
      const wish = { tokenA, tokenB, stable: true, price, liquidity };
      const one = await make(await makeOne(anvil, wrapped), wish, [decimals, 18]);
      expect(await compareMoves(one, MOVES)).toBeGreaterThan(MOVES / 2);
      await compareMove2(one);
    },
    TIME_MS,
  );
});

describe("Uniswap v4", () => {
  test("gives what is computed for the coin itself", async () => {
    const one = await make(await uniswapV4(anvil, wrapped), { tokenA: wrapped, liquidity: 10n ** 21n });
    expect(one.pool.key?.currency0).toBe(ZERO_ADDRESS);
    const amount = 123_456_789_012_345_678_901n;
    for (const isToken0 of [false, true]) {
      expect((await tradable(one)).sell(amount, isToken0)).toBe(await sold(one, amount, isToken0));
    }
  });

  test("counts the fee of the protocol, which differs by direction", async () => {
    const exchange = await uniswapV4(anvil, wrapped);
    const one = await make(exchange);
    const { contract } = exchange.manager;
    await transact(anvil, contract, "setProtocolFeeController", [anvil.accounts[0]]);
    const { currency0, fee, spacing, hooks } = one.pool.key!;
    const key = [currency0, one.pool.token1, fee, spacing, hooks];
    await transact(anvil, contract, "setProtocolFee", [key, (250 << 12) | 1_000]);
    expect(await compareMoves(one, 10)).toBeGreaterThan(5);
    // Logs tell it, too.
    const header = (await reader.header(Number(await anvil.send("eth_blockNumber"))))!;
    const reading = await one.made.truth();
    const [byLogs] = await tradablesFromLogs(reader, [{ pool: one.pool, reading, decimals: one }], header);
    for (const isToken0 of [true, false])
      expect(byLogs!.sell(10n ** 18n, isToken0)).toBe((await tradable(one)).sell(10n ** 18n, isToken0));
  });

  test("crosses ticks, one after another", async () => {
    const one = await make(await uniswapV4(anvil, wrapped), { price: [1n, 1n] });
    for (let at = 1; at <= 30; at++) await one.made.mint(-at * 40, at * 30, 10n ** 24n);
    const amount = 9n * 10n ** 23n;
    for (const isToken0 of [true, false]) {
      expect((await tradable(one)).sell(amount, isToken0)).toBe(await sold(one, amount, isToken0));
    }
  });
});

describe("a size that can't be computed", () => {
  test("runs beyond the ticks that are read", async () => {
    const [, makeOne] = EXCHANGES_OF_STYLES[0]!;
    const pool = await tradable(await make(await makeOne(anvil, wrapped)));
    expect(() => pool.sell(10n ** 26n, true)).toThrow("the size runs beyond the ticks that are read");
  });

  test("crosses a tick that contradicts the liquidity", () => {
    const pool = rangesAt({
      reading: { style: "v3", sqrtPriceX96: 1n << 96n, liquidity: 1_000n, tick: 0 },
      ...{
        spacing: 10,
        fees: [500n, 500n],
        bitmap: new Map([
          [-1, 1n << 255n],
          [0, 0n],
        ]),
      },
      nets: new Map([[-10, 1_001n]]),
    });
    expect(() => pool.sell(10n ** 20n, true)).toThrow("the pool's ticks contradict its liquidity");
  });

  test("is more than a v2 pair can hold", async () => {
    const pool = await tradable(await make(await uniswapV2()));
    expect(() => pool.sell(1n << 112n, true)).toThrow("the pair can't hold so much of the token");
  });

  test("is one in a pair of Solidly 1 whose answers no fee explains", async () => {
    const [, makeOne] = EXCHANGES_OF_STYLES.find(([name]) => name === "Solidly 1")!;
    const { pool, ...decimals } = await make(await makeOne(anvil, wrapped));
    const isQuote = (data: string) => data.startsWith(id("getAmountOut(uint256,address)").slice(0, 10));
    const read = async (calls: readonly Call[]) => {
      const results = await reader.calls(calls, "latest");
      const oneMore = (data: string) => `0x${(BigInt(data) + 1n).toString(16).padStart(64, "0")}`;
      return results.map(({ ok, data }, at) => ({ ok, data: isQuote(calls[at]!.data) ? oneMore(data) : data }));
    };
    await expect(tradablesOf([[pool, decimals]], read)).rejects.toThrow(
      "no fee explains what the solidly-v1 pair says",
    );
  });

  test("is one in a v2 pair of an exchange whose fee is not among those of the contract", async () => {
    const one = await make(await uniswapV2());
    const pool = { ...one.pool, exchange: "Elsewhere", rank: 12 };
    await expect(tradable({ ...one, pool })).rejects.toThrow("the fee of pairs of Elsewhere is not verified");
  });

  test.each(EXCHANGES_OF_STYLES.filter(([name]) => /Algebra/.test(name)))("is one in %s", async (_, makeOne) => {
    const one = await make(await makeOne(anvil, wrapped));
    await expect(tradable(one)).rejects.toThrow(`the depth of ${one.pool.style} pools is not computed`);
  });
});
