/** Simulated swaps beside the exact arithmetic of the styles that have one, and beside real swaps of those that have none. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import feeHook from "@uniswap/v4-core/out/DynamicReturnFeeTestHook.sol/DynamicReturnFeeTestHook.json";
import type { Anvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, placeCode, read, transact } from "../../scripts/local-chain/contracts.ts";
import { createRandom } from "../../scripts/local-chain/random.ts";
import { type Chain, DEFAULT_CHAIN } from "../../src/chains/chains.ts";
import { type Address, ZERO_ADDRESS } from "../../src/core/hex.ts";
import { tradablesOf } from "../../src/prices/depth/pool-reads.ts";
import { type SwapAmounts, simulatedSwaps } from "../../src/prices/depth/simulated-swaps.ts";
import SWAP_QUOTER from "../../src/prices/depth/swap-quoter.txt";
import type { Pool } from "../../src/prices/market/pools.ts";
import { STYLES } from "../../src/prices/styles/styles.ts";
import { DOWN, UP } from "../../src/prices/styles/trade.ts";
import type { RpcChainReader } from "../../src/rpc/reading/reader.ts";
import { newToken, startPoolChain } from "../support/prices/exchanges.ts";
import { quotedOver } from "../support/prices/quoted.ts";
import { EXCHANGES_OF_STYLES, type MadeExchange, type MadeManager, type MadePool } from "../support/prices/styles.ts";
import { codeOf } from "../support/solidity.ts";

const SEED = 20261127;
const STATES = 12;
const DECIMALS = { decimals0: 18, decimals1: 18 };

let anvil: Anvil;
let reader: RpcChainReader;
let wrapped: Address;
let chain: Chain;
let coin: Pool;
const exchanges = new Map<string, MadeExchange>();

beforeAll(async () => {
  ({ anvil, reader, wrapped } = await startPoolChain());
  for (const [name, make] of EXCHANGES_OF_STYLES) exchanges.set(name, await make(anvil, wrapped));
  const dollar = await newToken(anvil);
  chain = {
    ...DEFAULT_CHAIN,
    wrappedNative: { symbol: "WCOIN", address: wrapped, decimals: 18 },
    stablecoins: [{ symbol: "USD", address: dollar, decimals: 18 }],
    connectors: [],
  };
  coin = (await poolOf("Uniswap v3 and SushiSwap v3", dollar)).pool;
});
afterAll(() => anvil.stop());

interface Made {
  readonly made: MadePool;
  readonly pool: Pool;
}

/** A pool of the token and the chain's coin. */
async function poolOf(style: string, token: Address): Promise<Made> {
  const { create, venue } = exchanges.get(style)!;
  const made = await create({ tokenA: token, tokenB: wrapped, price: [2n, 3n] });
  const plan = STYLES[venue.style].find(venue, token, wrapped);
  const pool = plan.read(await reader.calls(plan.calls, "latest")).find(({ id }) => id === made.id)!;
  return { made, pool };
}

/** The amounts of a token over one pool and that of the coin, simulated. */
async function simulated(token: Address, pool: Pool, size: { tokens: bigint; dollars: bigint }) {
  return simulatedSwaps(reader, await quotedOver(reader, chain, token, [pool, coin]), size);
}

async function computed(token: Address, pool: Pool, size: { tokens: bigint; dollars: bigint }): Promise<SwapAmounts> {
  const own = [[pool, DECIMALS] as const];
  const [first] = await tradablesOf(own, async (calls) => reader.calls(calls, "latest"));
  const isToken0 = pool.token0 === token;
  return {
    sold: first!.sell(size.tokens, isToken0),
    bought: first!.sell(size.dollars, !isToken0),
    given: first!.sellDownTo(DOWN, isToken0).given,
    paid: first!.sellDownTo(UP, !isToken0).paid,
  };
}

test("compiles the quoter to the code that the program has", async () => {
  expect(await codeOf("prices/depth/swap-quoter.sol", "SwapQuoter", "deployedBytecode")).toBe(SWAP_QUOTER);
});

describe.each(["Uniswap v3 and SushiSwap v3", "PancakeSwap v3", "Slipstream", "Uniswap v4"])("on %s", (style) => {
  test(`simulated amounts are the computed ones, to the last digit, in ${STATES} random states`, async () => {
    const token = await newToken(anvil);
    const { made, pool } = await poolOf(style, token);
    const random = createRandom(SEED);
    // The token's own pool alone is compared, so the route ends at the coin.
    for (let state = 0; state < STATES; state++) {
      await made.move(random);
      const size = { tokens: 10n ** BigInt(12 + random.below(9)), dollars: 10n ** BigInt(12 + random.below(9)) };
      const priced = await quotedOver(reader, chain, token, [pool, coin]);
      const alone = { ...priced, route: { ...priced.route!, legs: priced.route!.legs.slice(0, 1) } };
      expect(await simulatedSwaps(reader, alone, size)).toEqual(await computed(token, pool, size));
    }
  });
});

describe.each(["Algebra 1", "Algebra Integral 1.2.10", "Algebra Integral 1.2.5"])("on %s", (style) => {
  test("simulated amounts are those of real swaps", async () => {
    const token = await newToken(anvil);
    const { made, pool } = await poolOf(style, token);
    const { abi } = await contractArtifact("TestToken");
    const held = async (of: Address) => read<bigint>(contractAt(anvil, of, abi), "balanceOf", [pool.id]);
    for (const tokens of [10n ** 15n, 10n ** 19n, 7n * 10n ** 21n]) {
      const priced = await quotedOver(reader, chain, token, [pool, coin]);
      const alone = { ...priced, route: { ...priced.route!, legs: priced.route!.legs.slice(0, 1) } };
      const told = await simulatedSwaps(reader, alone, { tokens, dollars: tokens });
      const before = await held(wrapped);
      await made.sell(token, tokens);
      expect([tokens, before - (await held(wrapped))]).toEqual([tokens, told!.sold]);
    }
  });
});

test("a hook that sets the fee before a swap is part of what the swap gives", async () => {
  const hooks = "0xb000000000000000000000000000000000000080" as Address;
  await placeCode(anvil, hooks, feeHook.deployedBytecode.object);
  const token = await newToken(anvil);
  const exchange = exchanges.get("Uniswap v4") as MadeManager;
  const fee = 0x800000;
  const made = await exchange.create({ tokenA: token, tokenB: wrapped, hooks, fee });
  const key = { currency0: ZERO_ADDRESS, fee, spacing: 10, hooks };
  const { name, ...venue } = exchange.venue;
  const { id, token0, token1 } = made;
  const pool: Pool = { ...venue, exchange: name, id, key, token0, token1, fee, stableCurve: false };
  const size = { tokens: 10n ** 15n, dollars: 10n ** 15n };
  const free = (await simulated(token, pool, size))!.sold;
  await transact(anvil, contractAt(anvil, hooks, feeHook.abi), "setFee", [100_000]);
  const { sold } = (await simulated(token, pool, size))!;
  expect(Number((sold * 10_000n) / free)).toBeCloseTo(9_000, -1);
});
