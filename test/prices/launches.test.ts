/**
 * Launch pools of Uniswap v4: pools of the launchpads in the data of base, found by state alone at a token's first question,
 * and what small trades through a pool's hooks say of its price. The hooks stand at their real addresses, whose lowest bits
 * say what they may do.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import customCurveHook from "@uniswap/v4-core/out/CustomCurveHook.sol/CustomCurveHook.json";
import feeTakingHook from "@uniswap/v4-core/out/FeeTakingHook.sol/FeeTakingHook.json";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, deploy, placeCode, transact } from "../../scripts/local-chain/contracts.ts";
import { type Chain, MULTICALL3, parseChain } from "../../src/chains/chains.ts";
import { launchpadsOf } from "../../src/chains/launchpads.ts";
import { type Address, toAddress, ZERO_ADDRESS } from "../../src/core/hex.ts";
import type { PriceRecord } from "../../src/prices/models.ts";
import type { Prices } from "../../src/prices/price-service.ts";
import HOOK_TRADES from "../../src/prices/styles/hook-trades.txt";
import LAUNCH_FINDER from "../../src/prices/styles/launch-finder.txt";
import { latentProxy } from "../support/latency.ts";
import { HandFollower, pricesOf, unfollowed } from "../support/prices/anvil.ts";
import { newToken } from "../support/prices/exchanges.ts";
import {
  EXCHANGES_OF_STYLES,
  type MadeManager,
  type MadePool,
  uniswapV4,
  type V4Wish,
} from "../support/prices/styles.ts";
import { untilSearched } from "../support/prices/world.ts";
import { codeOf } from "../support/solidity.ts";

const PAIRS = "Solidly 2, as Velodrome and Aerodrome";
const DYNAMIC = 0x800000;
const DEEP = 10n ** 24n;

const base = parseChain("base")!;
const [clanker, liquid, zora, doppler] = ["Clanker", "Liquid", "Zora", "Doppler"].map(
  (name) => launchpadsOf(base).find((one) => one.name === name)!,
);
const [STATIC, MOVING, STATIC_2, MOVING_2] = clanker!.hooks as [Address, Address, Address, Address];

let anvil: Anvil;
let chain: Chain;
let manager: MadeManager;
let native: Address;
let dollar: Address;
let connector: Address;
/** The contracts whose getters name pools. */
const locker = toAddress("0x00000000000000000000000000000000000010c4");
const initializer = toAddress("0x0000000000000000000000000000000000001a17");

beforeAll(async () => {
  anvil = await startAnvil({ chainId: base.chainId });
  const place = async (address: string, name: string) =>
    placeCode(anvil, address, (await contractArtifact(name)).deployedBytecode);
  await place(MULTICALL3, "Multicall");
  [native, dollar, connector] = [await newToken(anvil), await newToken(anvil), await newToken(anvil)];
  manager = await uniswapV4(anvil, native);
  const pairs = await new Map(EXCHANGES_OF_STYLES).get(PAIRS)!(anvil, native);
  await place(clanker!.getters![0]!.to!, "LaunchFactory");
  await place(doppler!.getters![0]!.to!, "LaunchAirlock");
  await place(locker, "LaunchLocker");
  await place(initializer, "LaunchInitializer");
  chain = {
    ...base,
    wrappedNative: { symbol: "WETH", address: native, decimals: 18 },
    stablecoins: [{ symbol: "USDC", address: dollar, decimals: 18 }],
    connectors: [{ symbol: "ZORA", address: connector, decimals: 18 }],
    exchanges: [
      { name: PAIRS, style: pairs.venue.style, factory: pairs.venue.factory },
      { name: "Uniswap v4", style: "v4", factory: toAddress(manager.manager.address) },
    ],
  };
  // The native coin is 2,000 dollars, and the connector half of one.
  await pairs.create({ tokenA: native, tokenB: dollar, price: [2_000n, 1n], liquidity: 10n ** 27n });
  await pairs.create({ tokenA: native, tokenB: connector, price: [4_000n, 1n], liquidity: 10n ** 27n });
});
afterAll(() => anvil.stop());

const launchHook = async (at: string) => contractAt(anvil, at, (await contractArtifact("LaunchHook")).abi);

interface HookSettings {
  /** Millionths: the pool's fee, and what the hook takes of the paired token. */
  readonly fee?: number;
  readonly cut?: number;
  readonly isDynamic?: boolean;
}

/** Puts a launchpad's hook at an address, for a token. */
async function placeHook(
  at: Address,
  token: Address,
  { fee = 10_000, cut = 2_000, isDynamic = false }: HookSettings = {},
) {
  await placeCode(anvil, at, (await contractArtifact("LaunchHook")).deployedBytecode);
  await transact(anvil, await launchHook(at), "set", [manager.manager.address, token, fee, cut, isDynamic]);
}

interface Launch extends HookSettings {
  readonly hooks: Address;
  readonly quote: Address;
  /** Quote tokens for one token, as a fraction. */
  readonly price: readonly [bigint, bigint];
  readonly wish?: Partial<V4Wish>;
  readonly token?: Address;
}

const keyOf = ({ token0, token1 }: MadePool, fee: number, spacing: number, hooks: Address, hasCoin = false) => [
  ...(hasCoin ? [ZERO_ADDRESS, token0 === native ? token1 : token0] : [token0, token1]),
  ...[fee, spacing, hooks],
];

/** Makes a token and its pool with a hook. */
async function launch({ hooks, quote, price, wish = {}, token: given, ...settings }: Launch) {
  const token = given ?? (await newToken(anvil));
  await placeHook(hooks, token, settings);
  const shape = { fee: DYNAMIC, spacing: 200, isWrapped: true, liquidity: DEEP, ...wish };
  const pool = await manager.create({ ...shape, tokenA: token, tokenB: quote, price, hooks });
  return { token, pool, key: keyOf(pool, shape.fee, shape.spacing, hooks, !shape.isWrapped) };
}

const near = (value: number, expected: number) => Math.abs(value / expected - 1) < 1e-6;

const plain = { percentChange: false, provenance: true };
const ask = (prices: Prices, address: Address, more: object = {}): Promise<PriceRecord> =>
  untilSearched(() => prices.price({ address, ...plain, ...more }));
const refusal = (asked: Promise<unknown>) =>
  asked.then(
    () => {
      throw new Error("the request should have been refused");
    },
    ({ code, details }: { code: string; details: { pools: readonly object[] } }) => ({ code, pools: details.pools }),
  );

/** The first price of a new process, which may search through no logs, in at most three round trips. */
async function firstPrice(token: Address, expected: number, more: object = {}): Promise<PriceRecord> {
  const proxy = await latentProxy(anvil.url, 20, ({ method }) =>
    method === "eth_getLogs" ? { error: { code: -32_005, message: "query exceeds max block range 3" } } : undefined,
  );
  const prices = pricesOf(proxy.url, unfollowed, chain);
  const { usdPrice } = await prices.price({ address: token, percentChange: false, provenance: false, ...more });
  expect([near(usdPrice, expected), proxy.count("eth_getLogs")]).toEqual([true, 0]);
  expect(proxy.depth()).toBeLessThanOrEqual(3);
  await proxy.stop();
  return ask(pricesOf(anvil.url, unfollowed, chain), token, more);
}

describe("a pool of a launchpad prices its token at the first question, without a search through logs", () => {
  test("with the hook and the spacing that Clanker usually has, and with its fee set before each swap", async () => {
    const { token, pool } = await launch({ hooks: STATIC, quote: native, price: [1n, 50n] });
    const { provenance, exchangeName } = await firstPrice(token, 40);
    expect([exchangeName, provenance?.route[0]?.pool]).toEqual(["Uniswap v4", pool.id]);
    // No trade that moves tokens went through its hooks.
    expect(Number(provenance?.confidence)).toBeLessThanOrEqual(0.5);
    expect(provenance?.limitedBy).toContain("hooks");
    // A trade changes the price, and leaves the fee of its direction in the pool's state.
    await pool.sell(token, 10n ** 21n);
    const { usdPrice } = await ask(pricesOf(anvil.url, unfollowed, chain), token);
    const now = await pool.truth();
    const root = now.style === "v3" ? Number(now.sqrtPriceX96) / 2 ** 96 : 0;
    expect(Math.abs(usdPrice / (2_000 * (pool.token0 === token ? root ** 2 : root ** -2)) - 1)).toBeLessThan(1e-9);
  });

  test("with a fork's hook", async () => {
    const { token } = await launch({ hooks: liquid!.hooks[0]!, quote: native, price: [1n, 50n] });
    await firstPrice(token, 40);
  });

  test("with a dynamic fee, another spacing and another quote token, which Clanker's factory and locker name", async () => {
    const made = await launch({
      hooks: MOVING,
      quote: dollar,
      price: [3n, 1n],
      wish: { spacing: 60 },
      isDynamic: true,
    });
    const factory = contractAt(anvil, clanker!.getters![0]!.to!, (await contractArtifact("LaunchFactory")).abi);
    await transact(anvil, factory, "launch", [made.token, MOVING, locker]);
    await transact(anvil, contractAt(anvil, locker, (await contractArtifact("LaunchLocker")).abi), "lock", [
      made.token,
      made.key,
    ]);
    await firstPrice(made.token, 3);
    await firstPrice(made.token, 3, { exchange: { kind: "factory", factory: chain.exchanges[1]!.factory } });
  });

  test("with the coin itself, which Doppler's Airlock and initializer name", async () => {
    const hooks = doppler!.hooks.find((one) => one.endsWith("6544"))!;
    const wish = { isWrapped: false, spacing: 30, fee: 12_000 };
    const made = await launch({ hooks, quote: native, price: [1n, 1_000n], wish });
    const airlock = contractAt(anvil, doppler!.getters![0]!.to!, (await contractArtifact("LaunchAirlock")).abi);
    await transact(anvil, airlock, "launch", [made.token, ZERO_ADDRESS, initializer]);
    const { abi } = await contractArtifact("LaunchInitializer");
    await transact(anvil, contractAt(anvil, initializer, abi), "create", [made.token, made.key]);
    await firstPrice(made.token, 2);
  });

  test("with a connector, which a token of Zora names itself", async () => {
    const artifact = await contractArtifact("NamingToken");
    const token = toAddress((await deploy(anvil, artifact, ["Naming", "NAME", 18])).address);
    const hooks = zora!.hooks.find((one) => one.endsWith("1040"))!;
    const made = await launch({ token, hooks, quote: connector, price: [5n, 1n], wish: { fee: 30_000 } });
    await transact(anvil, contractAt(anvil, token, artifact.abi), "setPoolKey", [made.key]);
    await firstPrice(token, 2.5);
  });

  test("unless the token names a pool with the hooks of another", async () => {
    const artifact = await contractArtifact("NamingToken");
    const token = toAddress((await deploy(anvil, artifact, ["Naming", "NAME", 18])).address);
    const hooks = toAddress("0xabcdabcdabcdabcdabcdabcdabcdabcdabcd1040");
    const made = await launch({ token, hooks, quote: dollar, price: [5n, 1n], wish: { spacing: 40 } });
    await transact(anvil, contractAt(anvil, token, artifact.abi), "setPoolKey", [made.key]);
    const proxy = await latentProxy(anvil.url, 0, ({ method }) =>
      method === "eth_getLogs" ? { error: { code: -32_602, message: "query exceeds max block range 0" } } : undefined,
    );
    expect((await refusal(ask(pricesOf(proxy.url, unfollowed, chain), token))).code).toBe("no_pool");
    await proxy.stop();
  });

  test("also if it is made after the first question, by its log", async () => {
    const token = await newToken(anvil);
    const follower = new HandFollower(anvil.url, chain);
    const prices = pricesOf(anvil.url, follower, chain);
    // Another pool of it gives no price.
    await manager.create({ tokenA: token, tokenB: dollar, price: [9n, 1n], liquidity: 10n ** 12n });
    await follower.poll(prices);
    expect(await refusal(ask(prices, token))).toMatchObject({ code: "low_liquidity" });
    await launch({ token, hooks: STATIC_2, quote: native, price: [1n, 250n] });
    await follower.poll(prices);
    expect(near((await ask(prices, token)).usdPrice, 8)).toBe(true);
  });
});

describe("a pool whose hooks may change the amounts", () => {
  test("is named with what a trade gets of the price if that is far off", async () => {
    const { token, pool } = await launch({ hooks: MOVING_2, quote: native, price: [1n, 50n], cut: 300_000 });
    const refused = await refusal(ask(pricesOf(anvil.url, unfollowed, chain), token));
    expect(refused).toMatchObject({ code: "low_liquidity", pools: [{ pool: pool.id, reason: "hooks_change_price" }] });
    expect(Number((refused.pools[0] as { tradeOverPrice: string }).tradeOverPrice)).toBeCloseTo(0.7, 3);
    // It does not keep another pool from giving a price.
    await manager.create({ tokenA: token, tokenB: dollar, price: [42n, 1n], liquidity: 10n ** 22n });
    expect(near((await ask(pricesOf(anvil.url, unfollowed, chain), token)).usdPrice, 42)).toBe(true);
  });

  test("prices with a confidence that falls with what the hooks take", async () => {
    const confidences: number[] = [];
    for (const cut of [0, 40_000]) {
      const { token } = await launch({
        hooks: STATIC,
        quote: native,
        price: [1n, 50n],
        cut,
        wish: { liquidity: 10n ** 19n },
      });
      const { provenance, usdPrice } = await ask(pricesOf(anvil.url, unfollowed, chain), token);
      expect(near(usdPrice, 40)).toBe(true);
      confidences.push(Number(provenance?.confidence));
    }
    expect(confidences[0]).toBeLessThan(0.5);
    expect(confidences[1]! / confidences[0]!).toBeCloseTo(0.96, 3);
  });

  test("counts a fee that is set for one direction as a fee", async () => {
    const { token } = await launch({ hooks: STATIC, quote: native, price: [1n, 50n], fee: 200_000 });
    expect(near((await ask(pricesOf(anvil.url, unfollowed, chain), token)).usdPrice, 40)).toBe(true);
  });

  test("is named if it refuses the caller", async () => {
    const { token, pool } = await launch({ hooks: MOVING_2, quote: native, price: [1n, 50n] });
    await transact(anvil, await launchHook(MOVING_2), "setOnly", [anvil.accounts[0]]);
    expect(await refusal(ask(pricesOf(anvil.url, unfollowed, chain), token))).toMatchObject({
      code: "low_liquidity",
      pools: [{ pool: pool.id, exchange: "Uniswap v4", reason: "hooks_refuse_trades" }],
    });
  });

  test("is named if a curve of its own holds the tokens, so that its state tells nothing", async () => {
    const token = await newToken(anvil);
    const hooks = "0x7777777777777777777777777777777777770488";
    const { address } = await deploy(anvil, { abi: customCurveHook.abi, bytecode: customCurveHook.bytecode.object }, [
      manager.manager.address,
    ]);
    await placeCode(anvil, hooks, (await anvil.send("eth_getCode", [address, "latest"])) as string);
    const { abi } = await contractArtifact("TestToken");
    for (const held of [token, dollar]) {
      for (const to of [hooks, manager.manager.address])
        await transact(anvil, contractAt(anvil, held, abi), "mint", [to, 10n ** 24n]);
    }
    const pool = await manager.create({ tokenA: token, tokenB: dollar, price: [7n, 1n], hooks, liquidity: 0n });
    expect(await refusal(ask(pricesOf(anvil.url, unfollowed, chain), token))).toMatchObject({
      code: "low_liquidity",
      pools: [{ pool: pool.id, reason: "hooks_have_own_curve" }],
    });
  });

  test("prices its token after a search through logs if no launchpad names it", async () => {
    const token = await newToken(anvil);
    const hooks = "0x5555555555555555555555555555555555550044";
    const { address } = await deploy(anvil, { abi: feeTakingHook.abi, bytecode: feeTakingHook.bytecode.object }, [
      manager.manager.address,
    ]);
    await placeCode(anvil, hooks, (await anvil.send("eth_getCode", [address, "latest"])) as string);
    const pool = await manager.create({ tokenA: token, tokenB: dollar, price: [7n, 1n], hooks, liquidity: DEEP });
    const { usdPrice, provenance } = await ask(pricesOf(anvil.url, unfollowed, chain), token, {
      depthUsd: { n: 10n, d: 1n },
    });
    expect([near(usdPrice, 7), provenance?.route[0]?.pool]).toEqual([true, pool.id]);
    expect(Number(provenance?.confidence)).toBeLessThanOrEqual(0.5);
  });

  test("has its price at a past block by a trade there, or by today's where the node has no old state", async () => {
    const { token, pool } = await launch({ hooks: STATIC, quote: native, price: [1n, 50n] });
    const toBlock = Number(await anvil.send("eth_blockNumber"));
    await anvil.mine(3);
    await pool.sell(token, 10n ** 22n);
    await anvil.mine(3);
    const proxy = await latentProxy(anvil.url, 0, ({ method, params }) =>
      method === "eth_call" && Number(params[1]) <= toBlock
        ? { error: { code: -32_000, message: "missing trie node 0abc (path ) state is not available" } }
        : undefined,
    );
    for (const url of [anvil.url, proxy.url]) {
      const { usdPrice, provenance } = await ask(pricesOf(url, unfollowed, chain), token, { toBlock });
      expect(near(usdPrice, 40)).toBe(true);
      expect(Number(provenance?.confidence)).toBeLessThanOrEqual(0.5);
    }
    // Hooks that have changed since then: a node with the state runs the trades of that block, and today's speak against it.
    await transact(anvil, await launchHook(STATIC), "set", [manager.manager.address, token, 10_000, 400_000, false]);
    await anvil.mine(3);
    expect(near((await ask(pricesOf(anvil.url, unfollowed, chain), token, { toBlock })).usdPrice, 40)).toBe(true);
    const refused = await refusal(ask(pricesOf(proxy.url, unfollowed, chain), token, { toBlock }));
    expect(refused).toMatchObject({ pools: [{ pool: pool.id, reason: "hooks_change_price" }] });
    await proxy.stop();
  });
});

test("a warm price takes one call more for all launch pools that are read ahead together, and waits for no node", async () => {
  const counted: number[] = [];
  const proxy = await latentProxy(anvil.url, 0);
  const follower = new HandFollower(proxy.url, chain);
  const prices = pricesOf(proxy.url, follower, chain);
  const ordinary = await newToken(anvil);
  await manager.create({ tokenA: ordinary, tokenB: dollar, price: [9n, 1n], liquidity: DEEP });
  const made = [];
  for (const hooks of [STATIC, STATIC_2, MOVING_2]) {
    made.push((await launch({ hooks, quote: native, price: [1n, 50n] })).token);
  }
  await follower.poll(prices);
  for (const tokens of [[ordinary], [ordinary, ...made]]) {
    for (const token of tokens) await ask(prices, token);
    await anvil.mine();
    await follower.poll(prices);
    proxy.reset();
    await anvil.mine();
    await follower.poll(prices);
    counted.push(proxy.count("eth_call"));
    proxy.reset();
    for (const token of tokens) await prices.price({ address: token, percentChange: false, provenance: false });
    expect(proxy.count()).toBe(0);
  }
  expect(counted[1]! - counted[0]!).toBe(1);
  await proxy.stop();
});

test("compiles the contracts to the code that the program has", async () => {
  expect(await codeOf("prices/styles/hook-trades.sol", "HookTrades", "bytecode")).toBe(HOOK_TRADES);
  expect(await codeOf("prices/styles/launch-finder.sol", "LaunchFinder", "bytecode")).toBe(LAUNCH_FINDER);
});
