/**
 * Fee tiers and tick spacings that factories got after the data were written: a pool at one prices its token at the first
 * question, by name and by the address of an unlisted factory, and so does one that is added while the service runs.
 */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, placeCode, transact } from "../../scripts/local-chain/contracts.ts";
import { type Chain, DEFAULT_CHAIN, MULTICALL3 } from "../../src/chains/chains.ts";
import { deploymentOf, parseExchange } from "../../src/chains/exchanges.ts";
import type { Address } from "../../src/core/hex.ts";
import type { Prices } from "../../src/prices/price-service.ts";
import TIER_FINDER from "../../src/prices/styles/tier-finder.txt";
import { feesReader, readSpacings } from "../../src/prices/styles/tiers.ts";
import { KNOWN } from "../support/known-chains.ts";
import { latentProxy, roundProxy } from "../support/latency.ts";
import { HandFollower, pricesOf, readerOf, unfollowed } from "../support/prices/anvil.ts";
import { newToken } from "../support/prices/exchanges.ts";
import { EXCHANGES_OF_STYLES, type MadeExchange } from "../support/prices/styles.ts";
import { codeOf } from "../support/solidity.ts";

const V3 = "Uniswap v3 and SushiSwap v3";
const PAIRS = "Solidly 2, as Velodrome and Aerodrome";

let anvil: Anvil;
let chain: Chain;
let native: Address;
let dollar: Address;
/** The listed exchanges, and the same again that no list has. */
const listed = new Map<string, MadeExchange>();
const unlisted = new Map<string, MadeExchange>();

beforeAll(async () => {
  anvil = await startAnvil();
  await placeCode(anvil, MULTICALL3, (await contractArtifact("Multicall")).deployedBytecode);
  [native, dollar] = [await newToken(anvil), await newToken(anvil)];
  const makers = new Map(EXCHANGES_OF_STYLES);
  for (const name of [V3, "PancakeSwap v3", "Slipstream", PAIRS]) {
    listed.set(name, await makers.get(name)!(anvil, native));
    if (name !== PAIRS) unlisted.set(name, await makers.get(name)!(anvil, native));
  }
  chain = {
    ...DEFAULT_CHAIN,
    wrappedNative: { symbol: "WETH", address: native, decimals: 18 },
    stablecoins: [{ symbol: "USDC", address: dollar, decimals: 18 }],
    connectors: [],
    exchanges: [...listed].map(
      ([
        name,
        {
          venue: { style, factory, fees, spacings },
        },
      ]) => ({
        ...{ name, style, factory, fees: [...fees], spacings: [...spacings] },
      }),
    ),
  };
  // The native coin is 2,000 dollars.
  await listed.get(PAIRS)!.create({ tokenA: native, tokenB: dollar, price: [2_000n, 1n], liquidity: 10n ** 27n });
});
afterAll(() => anvil.stop());

const near = (value: number, expected: number) => Math.abs(value / expected - 1) < 1e-6;

const plain = { percentChange: false, provenance: false };
const priceOf = async (prices: Prices, address: Address, more: object = {}): Promise<number> =>
  (await prices.price({ address, ...plain, ...more })).usdPrice;
const named = ({ venue: { factory } }: MadeExchange) => ({ exchange: { kind: "factory", factory } as const });

/** Adds a tier to a factory: a fee with its spacing, or a spacing with its fee. */
async function enable({ venue }: MadeExchange, tier: number, other: number): Promise<void> {
  const isByFee = venue.style === "v3";
  const method = `function ${isByFee ? "enableFeeAmount(uint24,int24)" : "enableTickSpacing(int24,uint24)"}`;
  await transact(anvil, contractAt(anvil, venue.factory, [method]), isByFee ? "enableFeeAmount" : "enableTickSpacing", [
    tier,
    other,
  ]);
}

async function tokenAt(exchange: MadeExchange, tier: number, spacing: number, dollars: bigint, liquidity = 10n ** 23n) {
  const token = await newToken(anvil);
  await exchange.create({
    ...{ tokenA: token, tokenB: dollar, price: [dollars, 1n], liquidity },
    tier: { named: tier, spacing },
  });
  return token;
}

test("base's Uniswap v3 is asked for the three tiers that it got in 2025", () => {
  const uniswap = parseExchange("uniswapv3", KNOWN.all);
  if (uniswap?.kind !== "listed") throw new Error("Uniswap v3 is listed");
  expect(deploymentOf(uniswap.exchange, KNOWN.parse("base")!)?.fees).toEqual([100, 200, 300, 400, 500, 3000, 10_000]);
});

test.each([
  [V3, 300, 6, 300],
  [V3, 1_750, 35, 1_750],
  ["PancakeSwap v3", 20_000, 400, 20_000],
  ["Slipstream", 31, 31, 900],
] as const)(
  "a pool of %s at the new tier %d prices its token at the first question",
  async (name, tier, spacing, fee) => {
    for (const [exchange, more] of [
      [listed.get(name)!, {}],
      [listed.get(name)!, named(listed.get(name)!)],
      [unlisted.get(name)!, named(unlisted.get(name)!)],
    ] as const) {
      if (more === undefined || exchange === unlisted.get(name) || !("exchange" in more))
        await enable(exchange, tier, name === "Slipstream" ? fee : spacing);
      const token = await tokenAt(exchange, tier, spacing, 7n);
      const proxy = await roundProxy(anvil.url, 20);
      const prices = pricesOf(proxy.url, unfollowed, chain);
      expect(near(await priceOf(prices, token, more), 7)).toBe(true);
      expect(proxy.depth()).toBeLessThanOrEqual(3);
      await proxy.stop();
    }
  },
);

test("a tier that the data lack takes no further round trip once it was read", async () => {
  await enable(listed.get(V3)!, 1_850, 37);
  const [first, second] = [
    await tokenAt(listed.get(V3)!, 1_850, 37, 7n),
    await tokenAt(listed.get(V3)!, 1_850, 37, 9n),
  ];
  const proxy = await roundProxy(anvil.url, 20);
  const prices = pricesOf(proxy.url, unfollowed, chain);
  expect(near(await priceOf(prices, first), 7)).toBe(true);
  proxy.reset();
  expect(near(await priceOf(prices, second), 9)).toBe(true);
  expect(proxy.depth()).toBe(2);
  await proxy.stop();
});

test("the deepest pool prices a token, also at a tier that the data lack", async () => {
  const token = await tokenAt(listed.get(V3)!, 500, 10, 3n, 2n * 10n ** 21n);
  await enable(listed.get(V3)!, 400, 8);
  await listed.get(V3)!.create({
    ...{ tokenA: token, tokenB: dollar, price: [3n, 2n], liquidity: 10n ** 24n },
    tier: { named: 400, spacing: 8 },
  });
  expect(near(await priceOf(pricesOf(anvil.url, unfollowed, chain), token), 1.5)).toBe(true);
});

test.each([
  [V3, 2_050, 41, 2_050],
  // A fee that no read by state tries.
  [V3, 4_321, 77, 4_321],
  ["Slipstream", 43, 43, 700],
] as const)("a tier that %s adds while the service runs is known by its log", async (name, tier, spacing, fee) => {
  const follower = new HandFollower(anvil.url);
  const prices = pricesOf(anvil.url, follower, chain);
  const exchange = listed.get(name)!;
  const before = await tokenAt(exchange, name === V3 ? 500 : 50, name === V3 ? 10 : 50, 5n);
  await follower.poll(prices);
  expect(near(await priceOf(prices, before), 5)).toBe(true);
  await anvil.mine();
  await follower.poll(prices);
  await enable(exchange, tier, name === V3 ? spacing : fee);
  await anvil.mine();
  await follower.poll(prices);
  const token = await tokenAt(exchange, tier, spacing, 11n);
  await follower.poll(prices);
  expect(near(await priceOf(prices, token), 11)).toBe(true);
});

test("a node that runs no call without a target gives the tiers of the data and the usual ones", async () => {
  const proxy = await latentProxy(anvil.url, 0, ({ method, params }) =>
    method === "eth_call" && (params[0] as { to?: string }).to === undefined
      ? { error: { code: -32_602, message: "missing field `to`" } }
      : undefined,
  );
  await enable(listed.get(V3)!, 200, 4);
  const token = await tokenAt(listed.get(V3)!, 200, 4, 7n);
  expect(near(await priceOf(pricesOf(proxy.url, unfollowed, chain), token), 7)).toBe(true);
  await proxy.stop();
});

test("a factory tells its tiers by state, in bounded gas, and another contract tells none", async () => {
  const reader = readerOf(anvil.url, chain);
  const told = async (plan: ReturnType<typeof readSpacings>) =>
    plan.read(await reader.calls(plan.calls, "latest"))?.tiers;
  const fees = (factory: Address) => feesReader([500])({ factory, known: [], pairs: [] });
  const spacings = (factory: Address) => readSpacings({ factory, known: [], pairs: [] });
  const { factory } = unlisted.get(V3)!.venue;
  expect(await told(fees(factory))).toEqual([300, 500, 1_750, 3_000, 10_000]);
  expect(await told(spacings(unlisted.get("Slipstream")!.venue.factory))).toEqual([1, 50, 100, 200, 2_000, 31]);
  for (const address of [dollar, anvil.accounts[5] as Address])
    expect([await told(fees(address)), await told(spacings(address))]).toEqual([undefined, undefined]);
  const [{ data } = { data: "" }] = fees(factory).calls;
  expect(Number(await anvil.send("eth_estimateGas", [{ data }]))).toBeLessThan(7_000_000);
});

test("compiles the finder of tiers to the code that the program has", async () => {
  expect(await codeOf("prices/styles/tier-finder.sol", "TierFinder", "bytecode")).toBe(TIER_FINDER);
});
