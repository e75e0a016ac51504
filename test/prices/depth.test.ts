/**
 * The depth of a price: what its route gives for a size, against sales through the same pools; the last trade; and the
 * reasons where there is none.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, deploy, placeCode, read, transact } from "../../scripts/local-chain/contracts.ts";
import { createRandom } from "../../scripts/local-chain/random.ts";
import { type Chain, DEFAULT_CHAIN, MULTICALL3 } from "../../src/chains/chains.ts";
import { Budget } from "../../src/core/budget.ts";
import { type Address, type Hash, toAddress } from "../../src/core/hex.ts";
import { type Decimals, priceOfToken0 } from "../../src/prices/market/pools.ts";
import { divide, format, multiply, type Rational, rational, truncate } from "../../src/prices/market/rational.ts";
import { HandFollower, pricesOf } from "../support/prices/anvil.ts";
import { newToken } from "../support/prices/exchanges.ts";
import { parsePriceQuery, type RawPriceQuery } from "../support/prices/query.ts";
import { EXCHANGES_OF_STYLES, type MadeExchange, type MadePool } from "../support/prices/styles.ts";
import { untilSearched } from "../support/prices/world.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";

const SOLIDLY = "Solidly 2, as Velodrome and Aerodrome";

let anvil: Anvil;
let chain: Chain;
let native: Address;
let dollar: Address;
let coin: MadePool;
const made = new Map<string, MadeExchange>();

beforeAll(async () => {
  anvil = await startAnvil();
  await placeCode(anvil, MULTICALL3, (await contractArtifact("Multicall")).deployedBytecode);
  [native, dollar] = [await deployed("WrappedCoin"), await newToken(anvil, 6)];
  // The wrapped coin's own contract pays out what a pool of the coin itself is paid with.
  await anvil.send("anvil_setBalance", [native, "0xffffffffffffffffffffffff"]);
  for (const [name, make] of EXCHANGES_OF_STYLES) made.set(name, await make(anvil, native));
  chain = {
    ...DEFAULT_CHAIN,
    wrappedNative: { symbol: "WETH", address: native, decimals: 18 },
    stablecoins: [{ symbol: "USDC", address: dollar, decimals: 6 }],
    connectors: [],
    exchanges: [...made].map(([name, { venue }]) => {
      const { style, factory, fees, spacings } = venue;
      return { name, style, factory, fees: [...fees], spacings: [...spacings] };
    }),
  };
  // The native coin is 2,000 dollars.
  coin = await pool(SOLIDLY, native, dollar, [2n, 10n ** 9n], 10n ** 19n);
});
afterAll(() => anvil.stop());

async function deployed(name: string, args: readonly unknown[] = []): Promise<Address> {
  return toAddress((await deploy(anvil, await contractArtifact(name), args)).address);
}

const pool = (
  exchange: string,
  tokenA: Address,
  tokenB: Address,
  price: readonly [bigint, bigint],
  liquidity = 10n ** 23n,
): Promise<MadePool> => made.get(exchange)!.create({ tokenA, tokenB, price, liquidity });

const pricesAt = (url = anvil.url) => pricesOf(url, undefined, chain);

const ask = (address: Address, query: RawPriceQuery = {}, prices = pricesAt()) =>
  untilSearched(() => prices.price({ address, ...parsePriceQuery({ include: "depth", ...query }) }));

/** Sells for real, and returns what left `holder`, which holds the pool's tokens. */
async function sold(at: MadePool, token: Address, amount: bigint, holder: string): Promise<bigint> {
  const other = token === at.token0 ? at.token1 : at.token0;
  const held = async () =>
    other === native && holder === made.get("Uniswap v4")!.venue.factory
      ? BigInt((await anvil.send("eth_getBalance", [holder, "latest"])) as string)
      : read<bigint>(contractAt(anvil, other, (await contractArtifact("TestToken")).abi), "balanceOf", [holder]);
  const before = await held();
  await at.sell(token, amount);
  return before - (await held());
}

async function priceIn(at: MadePool, decimals: Decimals, base: Address): Promise<Rational> {
  const price = priceOfToken0({ stableCurve: false }, await at.truth(), decimals)!;
  return at.token0 === base ? price : { n: price.d, d: price.n };
}

/** Dollars for one whole token, by its pool with the native coin. */
async function usdOf(token: Address, first: MadePool): Promise<Rational> {
  const coinDecimals = coin.token0 === native ? { decimals0: 18, decimals1: 6 } : { decimals0: 6, decimals1: 18 };
  return multiply(
    await priceIn(first, { decimals0: 18, decimals1: 18 }, token),
    await priceIn(coin, coinDecimals, native),
  );
}

const inUnits = (text: string, decimals: number): bigint => {
  const [whole = "", places = ""] = text.split(".");
  return BigInt(whole + places.padEnd(decimals, "0"));
};

for (const name of ["Uniswap v4", "Uniswap v3 and SushiSwap v3", "Slipstream"]) {
  test(`is what two pools give one after the other, to the last digit: ${name} and a pair`, async () => {
    const token = await newToken(anvil);
    const first = await pool(name, token, native, [1n, 50n]);
    const holder = name === "Uniswap v4" ? made.get(name)!.venue.factory : first.id;
    const random = createRandom(3);
    for (let move = 0; move < 12; move++) {
      await first.mint(-100 * (move + 50), 100 * (move + 2), 10n ** 22n);
      const sizeUsd = BigInt(1 + random.below(50_000));
      const asked = () => ask(token, { size_usd: String(sizeUsd) });
      const { depth } = await asked();
      const tokens = truncate(multiply(divide(rational(sizeUsd), await usdOf(token, first)), rational(10n ** 18n)));
      const coins = await sold(first, token, tokens, holder);
      expect(inUnits(depth!.sell!, 6)).toBe(await sold(coin, native, coins, coin.id));
      const later = await asked();
      const bought = await sold(coin, dollar, sizeUsd * 10n ** 6n, coin.id);
      expect(inUnits(later.depth!.buy!, 18)).toBe(await sold(first, native, bought, holder));
    }
  });
}

test("tells what a sale loses against the price, what 2 % cost, and the last trade", async () => {
  const token = await newToken(anvil);
  const first = await pool("Uniswap v3 and SushiSwap v3", token, native, [1n, 50n]);
  expect((await ask(token)).depth!.realised).toBeNull();
  const got = await sold(first, token, 5n * 10n ** 20n, first.id);
  const header = (await anvil.send("eth_getBlockByNumber", ["latest", false])) as {
    number: string;
    transactions: string[];
  };
  const { depth, why } = await ask(token);
  expect(why).toBeUndefined();
  expect(depth).toMatchObject({ sizeUsd: "1000", sellable: true });
  expect(depth).not.toHaveProperty("why");
  expect(depth!.realised).toEqual({
    block: Number(header.number),
    transactionHash: header.transactions[0] as Hash,
    price: format(rational(got, 5n * 10n ** 20n)),
  });
  // The fees of both pools, 0.05 % and 0.3 %, and a little of the price: a thousand dollars are 25 tokens of 14,000.
  const { sell, impactPercent, move2PercentUsd } = depth!;
  expect(Number(impactPercent)).toBeCloseTo(100 - Number(sell) / 10, 4);
  expect(Number(impactPercent)).toBeGreaterThan(0.05);
  // Constant product: about a hundredth of the pool's native coin comes while the price rises by 2 %.
  const state = await first.truth();
  const root = state.style === "v3" ? Number(state.sqrtPriceX96) / 2 ** 96 : 0;
  const coins = 1e23 * (first.token1 === native ? root : 1 / root) * 1e-18;
  expect(Number(move2PercentUsd)).toBeCloseTo(coins * ((Math.sqrt(1.02) - 1) / 0.9995) * 2_000, -3);
});

test("tells what the simulated sale met, and limits the confidence", async () => {
  const { abi } = await contractArtifact("TaxedToken");
  // Such a pool wants its due whole, so no router sells a token that keeps a part.
  const unsold = await deployed("TaxedToken", [100, 600]);
  const wanting = await pool("Uniswap v3 and SushiSwap v3", unsold, native, [1n, 50n]);
  await transact(anvil, contractAt(anvil, unsold, abi), "arm", [wanting.id]);
  const refused = await ask(unsold, { include: "provenance,depth" });
  expect([refused.depth?.sellable, refused.provenance!.confidence]).toEqual([false, "0.1"]);
  const token = await deployed("TaxedToken", [100, 600]);
  await pool("Uniswap v4", token, native, [1n, 50n]);
  await transact(anvil, contractAt(anvil, token, abi), "arm", [made.get("Uniswap v4")!.venue.factory]);
  const { depth, provenance } = await ask(token, { include: "provenance,depth" });
  expect([depth?.sellable, depth?.why]).toEqual([true, "the token keeps 1 % of a purchase and 6 % of a sale"]);
  expect(provenance!.confidence).toBe("0.1");
  // The confidence is the same without the depth, and says why.
  const alone = await ask(token, { include: "provenance" });
  expect(alone.provenance).toMatchObject({ confidence: "0.1", limitedBy: depth!.why });
  const ordinary = await newToken(anvil);
  await pool("Uniswap v3 and SushiSwap v3", ordinary, native, [1n, 50n]);
  expect((await ask(ordinary, { include: "provenance" })).provenance).not.toHaveProperty("limitedBy");
});

/** A node that takes no state overrides in calls, so that no swap can be simulated there. */
const startWithoutOverrides = () =>
  startRpcProxy(anvil.url, {
    onRequest: ({ method, params }) =>
      method === "eth_call" && params.length === 3
        ? { error: { code: -32602, message: "too many arguments, want at most 2" } }
        : undefined,
  });

test("names a token that can't be sold also where the depth is not computed", async () => {
  const token = await deployed("HoneypotToken");
  const first = await pool("Algebra 1", token, native, [1n, 50n]);
  const { abi } = await contractArtifact("HoneypotToken");
  await transact(anvil, contractAt(anvil, token, abi), "arm", [first.id]);
  const node = await startWithoutOverrides();
  const { depth, why, provenance } = await ask(token, { include: "provenance,depth" }, pricesAt(node.url));
  await node.stop();
  expect([depth, provenance!.confidence]).toEqual([null, "0.1"]);
  expect(why).toStartWith("the depth of algebra-v1 pools is not computed; ");
});

test("is the same at a past block, from its state or from logs; else null with the reason", async () => {
  const routes = [
    ["Uniswap v4", native],
    ["Uniswap v3 and SushiSwap v3", dollar],
    ["Slipstream", dollar],
  ] as const;
  const asked = new Map<Address, Awaited<ReturnType<typeof ask>>>();
  for (const [exchange, quote] of routes) {
    const token = await newToken(anvil);
    const first = await pool(exchange, token, quote, [1n, 50n]);
    await first.sell(token, 10n ** 19n);
    asked.set(token, await ask(token));
  }
  const block = Number(await anvil.send("eth_blockNumber"));
  await anvil.mine(2);
  const query = { to_block: String(block) };
  const why = "sales are simulated at the head only";
  const proxy = await startRpcProxy(anvil.url, {
    onRequest: ({ method, params }) =>
      method === "eth_call" && Number(params[1]) <= block
        ? { error: { code: -32_000, message: "missing trie node 0abc (path ) state is not available" } }
        : undefined,
  });
  // The native coin's own pool is a pair of Solidly, of which no log tells the fee.
  const fees = ["the fee of a solidly-v2 pair", undefined, "the fee of the pool"];
  for (const [at, [token, now]] of [...asked].entries()) {
    expect((await ask(token, query)).depth).toEqual({ ...now.depth!, sellable: null, why });
    const stateless = await ask(token, query, pricesAt(proxy.url));
    expect(stateless.usdPrice).toBe(now.usdPrice);
    if (fees[at] === undefined) expect(stateless.depth).toEqual({ ...now.depth!, sellable: null, why });
    else expect([stateless.depth, stateless.why]).toEqual([null, `no log tells ${fees[at]} at the block`]);
  }
  await proxy.stop();
  // A node that gives few blocks at once, and no archive.
  const [, [token = native, now]] = [...asked] as [unknown, [Address, Awaited<ReturnType<typeof ask>>]];
  const narrow = await startRpcProxy(anvil.url, {
    onRequest: ({ method, params }) => {
      if (method === "eth_call" && Number(params[1]) <= block)
        return { error: { code: -32_000, message: "missing trie node 0abc (path ) state is not available" } };
      const { fromBlock, toBlock } = (params[0] ?? {}) as { fromBlock?: string; toBlock?: string };
      const isWide = method === "eth_getLogs" && Number(toBlock) - Number(fromBlock) >= 2;
      return isWide
        ? { error: { code: -32_000, message: "block range is too large, the limit is 2 blocks" } }
        : undefined;
    },
  });
  const searched = await ask(token, query, pricesAt(narrow.url));
  expect([searched.usdPrice, searched.depth]).toEqual([now.usdPrice, null]);
  expect(searched.why).toBe("the node has no state of this block, and the pool's positions have too many logs");
  await narrow.stop();
});

test("is what the pool itself says for a style that is not computed, if the node takes state overrides", async () => {
  const token = await newToken(anvil);
  const first = await pool("Algebra 1", token, native, [1n, 50n]);
  const price = await usdOf(token, first);
  const { depth } = await ask(token);
  const tokens = truncate(divide(rational(1_000n * 10n ** 18n), price));
  const coins = await sold(first, token, tokens, first.id);
  expect(await sold(coin, native, coins, coin.id)).toBe(inUnits(depth!.sell!, 6));
  expect([depth!.sellable, depth!.why]).toEqual([true, undefined]);
  expect(Number(depth!.impactPercent)).toBeGreaterThan(0.05);
  const small = await ask(token, { size_usd: "10" });
  expect(Number(small.depth!.impactPercent)).toBeLessThan(Number(depth!.impactPercent));
});

test("is null with the reason for a size that such a pool doesn't give", async () => {
  const token = await newToken(anvil);
  const first = await pool("Algebra 1", token, native, [1n, 50n], 0n);
  const { tick } = (await first.truth()) as { readonly tick: number };
  const middle = Math.floor(tick / 60) * 60;
  await first.mint(middle - 600, middle + 600, 10n ** 23n);
  const { depth, why } = await ask(token, { size_usd: "1000000000" });
  expect([depth, why]).toEqual([
    null,
    "the depth of algebra-v1 pools is not computed, and a simulated swap of the size did not go through",
  ]);
});

test("is null with the reason for a style that is not computed without overrides", async () => {
  const onAlgebra = await newToken(anvil);
  await pool("Algebra 1", onAlgebra, native, [1n, 50n]);
  const node = await startWithoutOverrides();
  const { depth, why } = await ask(onAlgebra, {}, pricesAt(node.url));
  await node.stop();
  expect([depth, why]).toEqual([null, "the depth of algebra-v1 pools is not computed"]);
});

const LITTLE = 10n ** 21n;

for (const name of ["Uniswap v4", "Uniswap v3 and SushiSwap v3", "PancakeSwap v3"]) {
  test(`is read on for a size beyond the ticks near the price: ${name}`, async () => {
    const token = await newToken(anvil);
    const first = await pool(name, token, native, [1n, 50n], LITTLE);
    const holder = name === "Uniswap v4" ? made.get(name)!.venue.factory : first.id;
    for (let at = 1; at <= 12; at++) await first.mint(-1_200 * at - 60_000, 1_200 * at + 30_000, LITTLE);
    // A sale of this size moves the price by a factor of a hundred.
    const sizeUsd = 10_000_000n;
    const { depth } = await ask(token, { size_usd: String(sizeUsd) });
    const tokens = truncate(multiply(divide(rational(sizeUsd), await usdOf(token, first)), rational(10n ** 18n)));
    const coins = await sold(first, token, tokens, holder);
    expect(inUnits(depth!.sell!, 6)).toBe(await sold(coin, native, coins, coin.id));
  });
}

for (const name of ["Uniswap v4", "PancakeSwap v3"]) {
  test(`is read on to the last tick at a spacing of 1: ${name}`, async () => {
    const token = await newToken(anvil);
    const isKeyed = name === "Uniswap v4";
    const tier = isKeyed ? { fee: 100, spacing: 1 } : { tier: { named: 100, spacing: 1 } };
    const wish = { tokenA: token, tokenB: native, price: [1n, 50n] as const, liquidity: 10n ** 20n, ...tier };
    const first = await made.get(name)!.create(wish);
    const holder = isKeyed ? made.get(name)!.venue.factory : first.id;
    const { tick } = (await first.truth()) as { readonly tick: number };
    for (let at = 1; at <= 20; at++) await first.mint(tick - 30 * at, tick + 40 * at, 10n ** 20n);
    const { depth } = await ask(token, { size_usd: "10000000" });
    const tokens = truncate(multiply(divide(rational(10_000_000n), await usdOf(token, first)), rational(10n ** 18n)));
    const coins = await sold(first, token, tokens, holder);
    expect(inUnits(depth!.sell!, 6)).toBe(await sold(coin, native, coins, coin.id));
  });
}

test("gives the other direction if one runs out, at the head as at a past block", async () => {
  const token = await newToken(anvil);
  const name = "Uniswap v3 and SushiSwap v3";
  const first = await pool(name, token, native, [1n, 50n], 0n);
  const state = await first.truth();
  const tick = state.style === "v3" ? Math.floor(state.tick / 10) * 10 : 0;
  await first.mint(tick - 100, tick + 100, 10n ** 23n);
  // The rest is on the side of the native coin: sales of the token end, purchases go on.
  const [lower, upper] = first.token0 === token ? [tick + 100, 887_270] : [-887_270, tick - 100];
  await first.mint(lower, upper, 10n ** 23n);
  const now = await ask(token, { size_usd: "1000000" });
  expect(now.depth).toMatchObject({ sell: null, impactPercent: null });
  expect(now.depth!.why).toStartWith("no sale: the pool's liquidity ends before the size is traded");
  expect(now.depth!.move2PercentUsd).toMatch(/^\d/);
  const bought = await sold(coin, dollar, 1_000_000n * 10n ** 6n, coin.id);
  expect(inUnits(now.depth!.buy!, 18)).toBe(await sold(first, native, bought, first.id));
});

test("lowers the confidence if the last trade was off the price, and says so", async () => {
  const token = await newToken(anvil);
  const pair = await pool(SOLIDLY, token, native, [1n, 50n]);
  await pair.sell(token, 10n ** 17n);
  const before = await ask(token, { include: "provenance,depth" });
  expect(before.depth).toMatchObject({ sellable: true });
  expect(before.depth!.why).toBeUndefined();
  // A gift of a third of the reserve lowers the price without a trade.
  const [held] = [(await pair.truth()) as { reserve0: bigint; reserve1: bigint }];
  const gift = (pair.token0 === token ? held.reserve0 : held.reserve1) / 3n;
  const { abi } = await contractArtifact("TestToken");
  await transact(anvil, contractAt(anvil, token, abi), "mint", [pair.id, gift]);
  await transact(anvil, contractAt(anvil, pair.id as Address, ["function sync()"]), "sync", []);
  const after = await ask(token, { include: "provenance,depth" });
  expect(after.depth!.why).toMatch(/^the last trade was at 3\d\.\d % above the price$/);
  const share = Number(after.provenance!.confidence) / Number(before.provenance!.confidence);
  expect(share).toBeGreaterThan(0.7);
  expect(share).toBeLessThan(0.8);
});

test("is whole although another question could pay for a part of it only", async () => {
  const token = await newToken(anvil);
  await (await pool("Uniswap v3 and SushiSwap v3", token, native, [1n, 50n])).sell(token, 10n ** 18n);
  const request = { address: token, ...parsePriceQuery({ include: "depth" }) };
  for (let calls = 5; calls < 40; calls++) {
    await anvil.mine(1);
    const follower = new HandFollower(anvil.url);
    const prices = pricesOf(anvil.url, follower, chain);
    await follower.poll(prices);
    const poor = new Budget({ bounds: { calls, logs: 64 }, isQuestion: true });
    await poor.run(() => prices.price(request)).catch(() => undefined);
    const { depth } = await ask(token, {}, prices);
    expect({ calls, depth }).toMatchObject({ calls, depth: { realised: { price: expect.any(String) } } });
  }
});

test("is whole beside a question of another key that can pay for a part of it only", async () => {
  const token = await newToken(anvil);
  await (await pool("Uniswap v3 and SushiSwap v3", token, native, [1n, 50n])).sell(token, 10n ** 18n);
  const request = { address: token, ...parsePriceQuery({ include: "depth" }) };
  await anvil.mine(1);
  const follower = new HandFollower(anvil.url);
  const prices = pricesOf(anvil.url, follower, chain);
  await follower.poll(prices);
  await ask(token, { include: "percent_change" }, prices);
  const poor = new Budget({ bounds: { calls: 100, logs: 0 }, isQuestion: true });
  const rich = new Budget({ isQuestion: true });
  const asKey = (key: string) => prices.answer(request, { key, isOperator: false });
  const [, answer] = await Promise.all([
    poor.run(() => asKey("poor")).catch(() => undefined),
    rich.run(() => asKey("rich")),
  ]);
  const { depth } = answer.record;
  expect(depth).toMatchObject({ realised: { price: expect.any(String) } });
});

test("is read once for a head, whatever the size, and again after a failed read", async () => {
  const token = await newToken(anvil);
  await (await pool("Uniswap v3 and SushiSwap v3", token, native, [1n, 50n])).sell(token, 10n ** 18n);
  let requests = 0;
  let fails = true;
  const proxy = await startRpcProxy(anvil.url, {
    onRequest: ({ method }) => {
      requests++;
      return fails && method === "eth_getLogs" ? { drop: true } : undefined;
    },
  });
  const follower = new HandFollower(anvil.url);
  const prices = pricesOf(proxy.url, follower, chain);
  await ask(token, { include: "percent_change" }, prices).catch(() => undefined);
  await anvil.mine(1);
  await follower.poll(prices);
  // A trade that was not found for a fault of the endpoint is no answer.
  await expect(ask(token, {}, prices)).rejects.toThrow();
  fails = false;
  const first = await ask(token, {}, prices);
  expect(first.depth?.realised).not.toBeNull();
  requests = 0;
  const more = await ask(token, { size_usd: "7" }, prices);
  expect([requests, more.depth?.sizeUsd, more.depth?.realised]).toEqual([0, "7", first.depth!.realised]);
  await proxy.stop();
});

test("simulates a sale of its own for a floor under which the coin has no price", async () => {
  const token = await newToken(anvil);
  await pool("Uniswap v3 and SushiSwap v3", token, dollar, [1n, 10n ** 12n], 10n ** 24n);
  const follower = new HandFollower(anvil.url);
  const prices = pricesOf(anvil.url, follower, chain);
  await ask(token, {}, prices);
  await anvil.mine(1);
  await follower.poll(prices);
  const { depth } = await ask(token, { min_liquidity_usd: "1000000000" }, prices);
  expect([depth?.sellable, depth?.why]).toEqual([null, "the chain's coin has no price"]);
  expect((await ask(token, {}, prices)).depth?.sellable).toBe(true);
});

test("costs a price without it no request", async () => {
  const token = await newToken(anvil);
  await pool("Uniswap v4", token, native, [1n, 50n]);
  let requests = 0;
  const proxy = await startRpcProxy(anvil.url, {
    onRequest: () => {
      requests++;
      return undefined;
    },
  });
  const follower = new HandFollower(anvil.url);
  const prices = pricesOf(proxy.url, follower, chain);
  await ask(token, { include: "percent_change" }, prices);
  await anvil.mine(1);
  await follower.poll(prices);
  requests = 0;
  const plain = await prices.price({ address: token, ...parsePriceQuery({}) });
  expect([plain.depth, plain.why, requests]).toEqual([undefined, undefined, 0]);
  expect((await ask(token, {}, prices)).depth).not.toBeNull();
  expect(requests).toBeGreaterThan(0);
  await proxy.stop();
});

// Last: its pool becomes the coin's first-ranking one.
test("is told by the pools themselves where a pair comes before one that decides its fee", async () => {
  const [token, between] = [await newToken(anvil), native];
  const first = await pool(SOLIDLY, token, between, [1n, 50n]);
  await pool("Algebra 1", native, dollar, [2_000n, 10n ** 12n], 10n ** 24n);
  const { depth, provenance } = await ask(token, { include: "depth,provenance" });
  expect(provenance!.route.map(({ exchange }) => exchange)).toEqual([SOLIDLY, "Algebra 1"]);
  const price = Number(depth!.sell) / 1_000;
  expect([first.token0 === token || first.token1 === token, price > 0.98 && price < 1]).toEqual([true, true]);
  expect(Number(depth!.move2PercentUsd)).toBeGreaterThan(0);
});
