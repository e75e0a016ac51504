/**
 * Launch pools of Uniswap v4: pools of the launchpads in the data of base, found by state alone at a token's first question,
 * and what small trades through a pool's hooks say of its price. The hooks stand at their real addresses, whose lowest bits
 * say what they may do.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import customCurveHook from "@uniswap/v4-core/out/CustomCurveHook.sol/CustomCurveHook.json";
import feeTakingHook from "@uniswap/v4-core/out/FeeTakingHook.sol/FeeTakingHook.json";
import { getCreate2Address, getCreateAddress, keccak256 } from "ethers";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { launchpadsOf } from "../../src/chains/launchpads.ts";
import { type Address, type Hash, toAddress, ZERO_ADDRESS } from "../../src/core/hex.ts";
import { rational, toDouble } from "../../src/prices/market/rational.ts";
import type { PriceRecord } from "../../src/prices/models.ts";
import type { Prices } from "../../src/prices/price-service.ts";
import { planHookTrades } from "../../src/prices/styles/hook-trades.ts";
import HOOK_TRADES from "../../src/prices/styles/hook-trades.txt";
import LAUNCH_FINDER from "../../src/prices/styles/launch-finder.txt";
import { V4 } from "../../src/prices/styles/v4.ts";
import { latentProxy, roundProxy } from "../support/latency.ts";
import { HandFollower, pricesOf, readerOf, unfollowed } from "../support/prices/anvil.ts";
import { newToken } from "../support/prices/exchanges.ts";
import { LAUNCHPADS, LaunchMarket, PAIRS } from "../support/prices/launches.ts";
import { untilSearched } from "../support/prices/world.ts";
import { codeOf } from "../support/solidity.ts";

const { clanker, liquid, zora, doppler } = LAUNCHPADS;
const [STATIC, MOVING, STATIC_2, MOVING_2] = clanker.hooks as [Address, Address, Address, Address];
const DEEP = 10n ** 24n;

let market: LaunchMarket;
beforeAll(async () => {
  market = await LaunchMarket.start();
});
afterAll(() => market.anvil.stop());

const pricesAt = (url = market.anvil.url, view = unfollowed): Prices => pricesOf(url, view, market.chain);

async function namingToken(): Promise<Address> {
  const artifact = await contractArtifact("NamingToken");
  return toAddress((await deploy(market.anvil, artifact, ["Naming", "NAME", 18])).address);
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
  const proxy = await roundProxy(market.anvil.url, 20, ({ method }) =>
    method === "eth_getLogs" ? { error: { code: -32_005, message: "query exceeds max block range 3" } } : undefined,
  );
  const prices = pricesAt(proxy.url);
  const { usdPrice } = await prices.price({ address: token, percentChange: false, provenance: false, ...more });
  expect([near(usdPrice, expected), proxy.count("eth_getLogs")]).toEqual([true, 0]);
  expect(proxy.depth()).toBeLessThanOrEqual(3);
  await proxy.stop();
  return ask(pricesAt(), token, more);
}

describe("a pool of a launchpad prices its token at the first question, without a search through logs", () => {
  test("with the hook and the spacing that Clanker usually has, and with its fee set before each swap", async () => {
    const { token, pool } = await market.launch({ hooks: STATIC, quote: market.native, price: [1n, 50n] });
    const { provenance, exchangeName } = await firstPrice(token, 40);
    expect([exchangeName, provenance?.route[0]?.pool]).toEqual(["Uniswap v4", pool.id]);
    // A wallet bought and sold through its hooks.
    expect(provenance?.limitedBy).toBeUndefined();
    expect(Number(provenance?.confidence)).toBeGreaterThan(0.99);
    const { depth } = await ask(pricesAt(), token, { depthUsd: rational(1_000n) });
    expect(depth).toMatchObject({ sellable: true });
    // Where no trade that moves tokens can be simulated, that is not known.
    const node = await latentProxy(market.anvil.url, 0, ({ method, params }) =>
      method === "eth_simulateV1" || params.length > 2 ? { error: { code: -32_601, message: "no" } } : undefined,
    );
    const untried = await ask(pricesAt(node.url), token);
    await node.stop();
    expect(Number(untried.provenance?.confidence)).toBeLessThanOrEqual(0.5);
    expect(untried.provenance?.limitedBy).toContain("hooks");
    // A trade changes the price, and leaves the fee of its direction in the pool's state.
    await pool.sell(token, 10n ** 21n);
    const { usdPrice } = await ask(pricesAt(), token);
    const now = await pool.truth();
    const root = now.style === "v3" ? Number(now.sqrtPriceX96) / 2 ** 96 : 0;
    expect(Math.abs(usdPrice / (2_000 * (pool.token0 === token ? root ** 2 : root ** -2)) - 1)).toBeLessThan(1e-9);
  });

  test("with a fork's hook", async () => {
    const { token } = await market.launch({ hooks: liquid.hooks[0]!, quote: market.native, price: [1n, 50n] });
    await firstPrice(token, 40);
  });

  test("with a dynamic fee, another spacing and another quote token, which Clanker's factory and locker name", async () => {
    const made = await market.launch({
      ...{ hooks: MOVING, quote: market.dollar, price: [3n, 1n], wish: { spacing: 60 }, isDynamic: true },
    });
    await market.named(made, "clanker");
    await firstPrice(made.token, 3);
    await firstPrice(made.token, 3, { exchange: { kind: "factory", factory: market.chain.exchanges[1]!.factory } });
  });

  test("with the coin itself, which Doppler's Airlock and initializer name", async () => {
    const hooks = doppler.hooks.find((one) => one.endsWith("6544"))!;
    const wish = { isWrapped: false, spacing: 30, fee: 12_000 };
    const made = await market.launch({ hooks, quote: market.native, price: [1n, 1_000n], wish });
    await market.named(made, "doppler");
    await firstPrice(made.token, 2);
  });

  test("with a market.connector, which a token of Zora names itself", async () => {
    const hooks = zora.hooks.find((one) => one.endsWith("1040"))!;
    const token = await namingToken();
    const launched = { token, hooks, quote: market.connector, price: [5n, 1n], wish: { fee: 30_000 } } as const;
    await market.named(await market.launch(launched), "zora");
    await firstPrice(token, 2.5);
  });

  test("unless the token names a pool with the hooks of another", async () => {
    const token = await namingToken();
    const hooks = toAddress("0xabcdabcdabcdabcdabcdabcdabcdabcdabcd1040");
    const launched = { token, hooks, quote: market.dollar, price: [5n, 1n], wish: { spacing: 40 } } as const;
    await market.named(await market.launch(launched), "zora");
    const proxy = await latentProxy(market.anvil.url, 0, ({ method }) =>
      method === "eth_getLogs" ? { error: { code: -32_602, message: "query exceeds max block range 0" } } : undefined,
    );
    expect((await refusal(ask(pricesAt(proxy.url), token))).code).toBe("no_pool");
    await proxy.stop();
  });

  test("also if it is made after the first question, by its log", async () => {
    const token = await newToken(market.anvil);
    const follower = new HandFollower(market.anvil.url, market.chain);
    const prices = pricesAt(market.anvil.url, follower);
    // Another pool of it gives no price.
    await market.manager.create({ tokenA: token, tokenB: market.dollar, price: [9n, 1n], liquidity: 10n ** 12n });
    await follower.poll(prices);
    expect(await refusal(ask(prices, token))).toMatchObject({ code: "low_liquidity" });
    await market.launch({ token, hooks: STATIC_2, quote: market.native, price: [1n, 250n] });
    await follower.poll(prices);
    expect(near((await ask(prices, token)).usdPrice, 8)).toBe(true);
  });
});

describe("a pool whose hooks may change the amounts", () => {
  test("is named with what a trade gets of the price if that is far off", async () => {
    const { token, pool } = await market.launch({
      hooks: MOVING_2,
      quote: market.native,
      price: [1n, 50n],
      cut: 300_000,
    });
    const refused = await refusal(ask(pricesAt(), token));
    expect(refused).toMatchObject({ code: "low_liquidity", pools: [{ pool: pool.id, reason: "hooks_change_price" }] });
    expect(Number((refused.pools[0] as { tradeOverPrice: string }).tradeOverPrice)).toBeCloseTo(0.7, 3);
    // It does not keep another pool from giving a price.
    await market.manager.create({ tokenA: token, tokenB: market.dollar, price: [42n, 1n], liquidity: 10n ** 22n });
    expect(near((await ask(pricesAt(), token)).usdPrice, 42)).toBe(true);
  });

  test("prices with a confidence that falls with what the hooks take", async () => {
    const confidences: number[] = [];
    for (const cut of [0, 40_000]) {
      const { token } = await market.launch({
        hooks: STATIC,
        quote: market.native,
        price: [1n, 50n],
        cut,
        wish: { liquidity: 10n ** 19n },
      });
      const { provenance, usdPrice } = await ask(pricesAt(), token);
      expect(near(usdPrice, 40)).toBe(true);
      confidences.push(Number(provenance?.confidence));
    }
    expect(confidences[0]).toBeLessThan(0.5);
    expect(confidences[1]! / confidences[0]!).toBeCloseTo(0.96, 3);
  });

  test("can't know the address that tries it, nor the hash of its code", async () => {
    const { token, pool } = await market.launch({
      hooks: MOVING_2,
      quote: market.native,
      price: [1n, 50n],
      cut: 300_000,
    });
    // Where the trader would be if nothing in the call depended on the block.
    const maker = getCreateAddress({ from: ZERO_ADDRESS, nonce: 0 });
    const partOf = (part: "bytecode" | "deployedBytecode") => codeOf("prices/styles/hook-trades.sol", "Trader", part);
    const noSalt = "0".repeat(64);
    const friend = getCreate2Address(maker, `0x${noSalt}`, keccak256(`0x${await partOf("bytecode")}${noSalt}`));
    const hook = await market.hookAt(MOVING_2);
    const find = V4.find({ ...market.manager.venue, launchpads: launchpadsOf(market.chain) }, token, market.native);
    const reader = readerOf(market.anvil.url, market.chain);
    const found = find.read(await reader.calls(find.calls, "latest")).find(({ id }) => id === pool.id)!;
    const tried = async (at: Hash | undefined) => {
      const plan = planHookTrades(market.chain, [found], at);
      const trade = plan.read(await reader.calls(plan.calls, "latest")).get(pool.id);
      return trade?.kind === "made" ? trade.parts.map((part) => toDouble(part).toFixed(2)) : trade;
    };
    for (const [setter, known] of [
      ["setFriend", friend],
      ["setFriendlyCode", keccak256(`0x${await partOf("deployedBytecode")}`)],
    ] as const) {
      await transact(market.anvil, hook, "setFriend", [ZERO_ADDRESS]);
      await transact(market.anvil, hook, setter, [known]);
      expect(await tried(undefined)).toEqual(["1.00", "1.00"]);
      expect(await tried((await reader.head()).hash)).toEqual(["0.70", "0.70"]);
    }
    expect(await refusal(ask(pricesAt(), token))).toMatchObject({ pools: [{ reason: "hooks_change_price" }] });
  });

  test("counts a fee that is set for one direction as a fee", async () => {
    const { token } = await market.launch({ hooks: STATIC, quote: market.native, price: [1n, 50n], fee: 200_000 });
    expect(near((await ask(pricesAt(), token)).usdPrice, 40)).toBe(true);
  });

  test("is named if it refuses the caller", async () => {
    const { token, pool } = await market.launch({ hooks: MOVING_2, quote: market.native, price: [1n, 50n] });
    await transact(market.anvil, await market.hookAt(MOVING_2), "setOnly", [market.anvil.accounts[0]]);
    expect(await refusal(ask(pricesAt(), token))).toMatchObject({
      code: "low_liquidity",
      pools: [{ pool: pool.id, exchange: "Uniswap v4", reason: "hooks_refuse_trades" }],
    });
  });

  test("is named if a curve of its own holds the tokens, so that its state tells nothing", async () => {
    const token = await newToken(market.anvil);
    const hooks = toAddress("0x7777777777777777777777777777777777770488");
    await market.place(hooks, customCurveHook);
    const { abi } = await contractArtifact("TestToken");
    for (const held of [token, market.dollar]) {
      for (const to of [hooks, market.manager.manager.address])
        await transact(market.anvil, contractAt(market.anvil, held, abi), "mint", [to, 10n ** 24n]);
    }
    const pool = await market.manager.create({
      tokenA: token,
      tokenB: market.dollar,
      price: [7n, 1n],
      hooks,
      liquidity: 0n,
    });
    expect(await refusal(ask(pricesAt(), token))).toMatchObject({
      code: "low_liquidity",
      pools: [{ pool: pool.id, reason: "hooks_have_own_curve" }],
    });
  });

  test("prices its token after a search through logs if no launchpad names it", async () => {
    const token = await newToken(market.anvil);
    const hooks = toAddress("0x5555555555555555555555555555555555550044");
    await market.place(hooks, feeTakingHook);
    const pool = await market.manager.create({
      tokenA: token,
      tokenB: market.dollar,
      price: [7n, 1n],
      hooks,
      liquidity: DEEP,
    });
    const { usdPrice, provenance } = await ask(pricesAt(), token, {
      depthUsd: { n: 10n, d: 1n },
    });
    expect([near(usdPrice, 7), provenance?.route[0]?.pool]).toEqual([true, pool.id]);
    // The trade got the price but for the hook's part, and a wallet bought and sold.
    expect(Number(provenance?.confidence)).toBeGreaterThan(0.9);
    expect(Number(provenance?.confidence)).toBeLessThan(0.999);
  });

  test("prices its token after a search also if it is with a connector that no other pool of the token has", async () => {
    const hooks = toAddress("0x6666666666666666666666666666666666660044");
    const { token } = await market.launch({ hooks, quote: market.connector, price: [80n, 1n], wish: { spacing: 77 } });
    expect(near((await ask(pricesAt(), token)).usdPrice, 40)).toBe(true);
  });

  test("has its price at a past block by a trade there, or by today's where the node has no old state", async () => {
    const { token, pool } = await market.launch({ hooks: STATIC, quote: market.native, price: [1n, 50n] });
    const toBlock = Number(await market.anvil.send("eth_blockNumber"));
    await market.anvil.mine(3);
    await pool.sell(token, 10n ** 22n);
    await market.anvil.mine(3);
    const proxy = await latentProxy(market.anvil.url, 0, ({ method, params }) =>
      method === "eth_call" && Number(params[1]) <= toBlock
        ? { error: { code: -32_000, message: "missing trie node 0abc (path ) state is not available" } }
        : undefined,
    );
    for (const url of [market.anvil.url, proxy.url]) {
      const { usdPrice, provenance } = await ask(pricesAt(url), token, { toBlock });
      expect(near(usdPrice, 40)).toBe(true);
      expect(Number(provenance?.confidence)).toBeLessThanOrEqual(0.5);
    }
    // Hooks that have changed since then: a node with the state runs the trades of that block, and today's speak against it.
    await market.settings(STATIC, token, { cut: 400_000 });
    await market.anvil.mine(3);
    expect(near((await ask(pricesAt(), token, { toBlock })).usdPrice, 40)).toBe(true);
    const refused = await refusal(ask(pricesAt(proxy.url), token, { toBlock }));
    expect(refused).toMatchObject({ pools: [{ pool: pool.id, reason: "hooks_change_price" }] });
    await proxy.stop();
  });
});

test("a pool that another token gets leaves the prices of all others warm", async () => {
  const proxy = await latentProxy(market.anvil.url, 0);
  const follower = new HandFollower(proxy.url, market.chain);
  const prices = pricesAt(proxy.url, follower);
  const { token } = await market.launch({ hooks: STATIC, quote: market.native, price: [1n, 50n] });
  await follower.poll(prices);
  await ask(prices, token);
  await market.anvil.mine();
  await follower.poll(prices);
  await market.launch({ hooks: STATIC_2, quote: market.native, price: [1n, 50n] });
  await market.exchanges.get(PAIRS)!.create({ tokenA: await newToken(market.anvil), tokenB: market.native });
  await follower.poll(prices);
  proxy.reset();
  expect(near((await prices.price({ address: token, percentChange: false, provenance: false })).usdPrice, 40)).toBe(
    true,
  );
  expect(proxy.count()).toBe(0);
  await proxy.stop();
});

test("a warm price takes one call more for all launch pools that are read ahead together, and waits for no node", async () => {
  const counted: number[] = [];
  const proxy = await latentProxy(market.anvil.url, 0);
  const follower = new HandFollower(proxy.url, market.chain);
  const prices = pricesAt(proxy.url, follower);
  const ordinary = await newToken(market.anvil);
  await market.manager.create({ tokenA: ordinary, tokenB: market.dollar, price: [9n, 1n], liquidity: DEEP });
  const made = [];
  for (const hooks of [STATIC, STATIC_2, MOVING_2]) {
    made.push((await market.launch({ hooks, quote: market.native, price: [1n, 50n] })).token);
  }
  await follower.poll(prices);
  for (const tokens of [[ordinary], [ordinary, ...made]]) {
    for (const token of tokens) await ask(prices, token);
    await market.anvil.mine();
    await follower.poll(prices);
    proxy.reset();
    await market.anvil.mine();
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
