/**
 * A market of all styles on one chain: the deepest pool prices a token whatever its style, at the head, at a past block
 * and from logs alone; pools that pose as deep do not; and what only announcements tell comes last.
 */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import feeTakingHook from "@uniswap/v4-core/out/FeeTakingHook.sol/FeeTakingHook.json";
import { type Anvil, startAnvil } from "../../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../../scripts/local-chain/compile.ts";
import { deploy, placeCode } from "../../../scripts/local-chain/contracts.ts";
import { type Chain, DEFAULT_CHAIN, MULTICALL3 } from "../../../src/chains/chains.ts";
import { parseExchange } from "../../../src/chains/exchanges.ts";
import { systemClock } from "../../../src/core/clock.ts";
import type { Address } from "../../../src/core/hex.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { rational } from "../../../src/prices/market/rational.ts";
import type { PriceRecord } from "../../../src/prices/models.ts";
import { createPrices, type Prices } from "../../../src/prices/price-service.ts";
import { Archives, readerWithArchives } from "../../../src/rpc/archive/archives.ts";
import { Portal } from "../../../src/rpc/archive/portal.ts";
import type { EndpointStatus } from "../../../src/rpc/endpoint/endpoint-pool.ts";
import type { ChainReader } from "../../../src/rpc/port.ts";
import { type ArchiveOptions, archiveOfNode, startArchive } from "../../support/archive.ts";
import { KNOWN } from "../../support/known-chains.ts";
import { roundProxy } from "../../support/latency.ts";
import { MemoryLog } from "../../support/memory-log.ts";
import { HandFollower, readerOf, unfollowed } from "../../support/prices/anvil.ts";
import { newToken } from "../../support/prices/exchanges.ts";
import {
  EXCHANGES_OF_STYLES,
  type MadeExchange,
  type MadeManager,
  type MadePool,
} from "../../support/prices/styles.ts";
import { untilSearched } from "../../support/prices/world.ts";
import { type Intervention, startRpcProxy } from "../../support/rpc-proxy.ts";

const ETHER = 10n ** 18n;

let anvil: Anvil;
let chain: Chain;
let native: Address;
let dollar: Address;
const made = new Map<string, MadeExchange>();

beforeAll(async () => {
  anvil = await startAnvil();
  await placeCode(anvil, MULTICALL3, (await contractArtifact("Multicall")).deployedBytecode);
  [native, dollar] = [await newToken(anvil), await newToken(anvil)];
  for (const [name, make] of EXCHANGES_OF_STYLES) made.set(name, await make(anvil, native));
  chain = {
    ...DEFAULT_CHAIN,
    wrappedNative: { symbol: "WETH", address: native, decimals: 18 },
    stablecoins: [{ symbol: "USDC", address: dollar, decimals: 18 }],
    connectors: [],
    exchanges: [...made].map(
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
  // The native coin is 2,000 dollars, by a pair that is far deeper than any other pool.
  await pool("Solidly 2, as Velodrome and Aerodrome", native, dollar, [2_000n, 1n], 10n ** 27n);
});
afterAll(() => anvil.stop());

const pool = (
  exchange: string,
  tokenA: Address,
  tokenB: Address,
  price: readonly [bigint, bigint],
  liquidity: bigint,
): Promise<MadePool> => made.get(exchange)!.create({ tokenA, tokenB, price, liquidity });

const pricesOn = (
  pools: "all" | "contract" = "all",
  url = anvil.url,
  reader: ChainReader = readerOf(url, chain),
): Prices =>
  createPrices({
    chain,
    reader,
    log: new MemoryLog(),
    view: unfollowed,
    clock: systemClock,
    pools,
  });

const ask = (prices: Prices, address: Address, more: object = {}) =>
  untilSearched(() => prices.price({ address, percentChange: false, provenance: true, ...more }));

const refusal = (asked: Promise<unknown>) =>
  asked.then(
    (record) => record,
    ({ code, details, message }) => ({ code, details, message }),
  );

const near = (value: number, expected: number) => Math.abs(value / expected - 1) < 1e-6;

describe.each(EXCHANGES_OF_STYLES)("%s", (name) => {
  test("prices a token if its pool is the deepest, at the head and at a past block", async () => {
    const token = await newToken(anvil);
    const other = name === "PancakeSwap v3" ? "Uniswap v3 and SushiSwap v3" : "PancakeSwap v3";
    await pool(other, token, native, [1n, 40n], 10n ** 21n);
    const deep = await pool(name, token, native, [1n, 50n], 10n ** 23n);
    const block = Number(await anvil.send("eth_blockNumber"));
    const now = await ask(pricesOn(), token);
    expect([now.exchangeName, near(now.usdPrice, 40)]).toEqual([name, true]);
    expect(now.provenance?.route[0]?.pool).toBe(deep.id);
    const { pairAddress, pairTotalLiquidityUsd } = await ask(pricesOn(), token, { pair: true });
    expect(pairAddress).toBe(deep.id);
    expect(Number(pairTotalLiquidityUsd)).toBeGreaterThanOrEqual(2 * Number(now.provenance?.liquidityUsd) * (1 - 1e-9));
    expect(Number(now.provenance?.confidence)).toBeGreaterThan(0.5);
    // The price moves on; the past one stays.
    await deep.sell(token, 10n ** 22n);
    await anvil.mine(3);
    const later = await ask(pricesOn(), token);
    expect(later.usdPrice).toBeLessThan(now.usdPrice);
    const then = await ask(pricesOn(), token, { toBlock: block });
    expect(then.usdPrice).toBe(now.usdPrice);
    // By name, in any spelling.
    const exchange = parseExchange(name, KNOWN.all) ?? { kind: "factory", factory: made.get(name)!.venue.factory };
    expect((await ask(pricesOn(), token, { exchange })).usdPrice).toBe(later.usdPrice);
  });

  test("does not count a sliver of liquidity, or an imbalance, as depth", async () => {
    const token = await newToken(anvil);
    const other = name === "PancakeSwap v3" ? "Uniswap v3 and SushiSwap v3" : "PancakeSwap v3";
    await pool(other, token, native, [1n, 50n], 10n ** 22n);
    const exchange = made.get(name)!;
    if (name.startsWith("Solidly")) {
      const lopsided = await exchange.create({ tokenA: token, tokenB: native, liquidity: 10n ** 21n, stable: true });
      await lopsided.sell(token, 10n ** 24n);
    } else {
      const wish = { tokenA: token, tokenB: native, price: [1n, 2n] as const, liquidity: 0n };
      const sliver = await exchange.create(wish);
      const now = await sliver.truth();
      const width = name === "Slipstream" ? 50 : 60;
      const tick = now.style === "v3" ? Math.floor(now.tick / width) * width : 0;
      // Twice as deep as the other pool by its virtual reserves. Less than half as much moves its price by 2 %, because
      // it leaves the range.
      await sliver.mint(tick, tick + width, 5n * 10n ** 21n);
    }
    const { exchangeName, usdPrice } = await ask(pricesOn(), token);
    expect([exchangeName, near(usdPrice, 40)]).toEqual([other, true]);
  });
});

describe("an endpoint that refuses calls without a contract", () => {
  /** The dialects of nodes, and texts that no list has. */
  const DIALECTS = [
    ...[
      { code: -32_603, message: "Internal error" },
      { code: -32_000, message: "nuqneH" },
    ],
    ...[{ code: -32_000, message: "contract creation is not allowed in eth_call" }],
    ...[
      { code: -32_602, message: "missing to" },
      { code: 3, message: "execution reverted" },
    ],
  ];

  test.each(DIALECTS)("gives every price in two concurrent questions, at once: %o", async (error) => {
    const token = await newToken(anvil);
    await pool("Uniswap v3 and SushiSwap v3", token, native, [1n, 50n], 10n ** 23n);
    await pool("Solidly 2, as Velodrome and Aerodrome", token, dollar, [40n, 1n], 10n ** 23n);
    const faults: EndpointStatus[] = [];
    const proxy = await startRpcProxy(anvil.url, {
      onRequest({ method, params }) {
        const [call, , overrides] = params as [{ to?: string }?, unknown?, object?];
        return method === "eth_call" && (call?.to === undefined || overrides !== undefined) ? { error } : undefined;
      },
    });
    const prices = pricesOn("all", proxy.url, readerOf(proxy.url, chain, { onState: (state) => faults.push(state) }));
    for (const { usdPrice } of await Promise.all([ask(prices, token), ask(prices, native)])) {
      expect(usdPrice).toBeGreaterThan(39);
    }
    const [before, record] = [proxy.count("eth_call"), await ask(prices, token, { depthUsd: rational(1_000n) })];
    expect(near(record.usdPrice, 40)).toBe(true);
    expect(Number(record.depth?.sell)).toBeGreaterThan(990);
    expect(record.depth).toMatchObject({ sellable: null });
    expect(proxy.count("eth_call") - before).toBeLessThan(20);
    expect(faults).toEqual([]);
    await proxy.stop();
  });
});

test("an endpoint that refuses calls without a contract by a status or an odd answer gives prices", async () => {
  const token = await newToken(anvil);
  await pool("Uniswap v3 and SushiSwap v3", token, native, [1n, 50n], 10n ** 23n);
  for (const refused of [
    ...[{ status: 403 }, { status: 413 }, { status: 200, body: "<html></html>" }, { result: null }, { result: 7 }],
    ...[{ drop: true as const }, { error: { code: -32_000, message: "header not found" } }],
    ...[{ error: { code: -32_000, message: "Archive requests are not available on your current plan" } }],
  ] as Intervention[]) {
    const proxy = await startRpcProxy(anvil.url, {
      onRequest({ method, params }) {
        return method === "eth_call" && (params[0] as { to?: string }).to === undefined ? refused : undefined;
      },
    });
    const { usdPrice, provenance } = await ask(pricesOn("all", proxy.url), token);
    expect([refused, near(usdPrice, 40)]).toEqual([refused, true]);
    // What moves the price is not measured.
    expect(Number(provenance?.confidence)).toBeLessThanOrEqual(0.5);
    await proxy.stop();
  }
});

test("the endpoint that runs calls without a contract is asked, if another one doesn't", async () => {
  const token = await newToken(anvil);
  const deep = await pool("Uniswap v4", token, native, [1n, 50n], 10n ** 23n);
  const lacking = await startRpcProxy(anvil.url, {
    onRequest({ method, params }) {
      const isCreation = method === "eth_call" && (params[0] as { to?: string }).to === undefined;
      return isCreation ? { error: { code: -32_603, message: "Internal error" } } : undefined;
    },
  });
  const prices = pricesOn("all", lacking.url, readerOf([lacking.url, anvil.url], chain));
  for (let at = 0; at < 8; at++) {
    const { usdPrice, provenance } = await ask(prices, token);
    expect([near(usdPrice, 40), provenance?.route[0]?.pool]).toEqual([true, deep.id]);
    expect(Number(provenance?.confidence)).toBeGreaterThan(0.5);
    await anvil.mine(1);
  }
  // Alone it can't tell the depth, and says so.
  expect(await refusal(ask(pricesOn("all", lacking.url), token))).toMatchObject({
    details: { pools: [{ pool: deep.id, reason: "depth_not_measured" }] },
  });
  await lacking.stop();
});

describe("wrong prices that other services gave", () => {
  const withDepth = { depthUsd: rational(10n) };
  const costOf = ({ depth }: PriceRecord): number => Number(depth?.move2PercentUsd);

  test("360,000 dollars for a token of 0.84, as an average with a thin pool has it", async () => {
    const token = await newToken(anvil);
    await pool("Uniswap v3 and SushiSwap v3", token, dollar, [84n, 100n], 10n ** 24n);
    await pool("Solidly 2, as Velodrome and Aerodrome", token, dollar, [360_000n, 1n], 2n * 10n ** 18n);
    const right = await ask(pricesOn(), token, withDepth);
    expect(near(right.usdPrice, 0.84)).toBe(true);
    const { factory } = made.get("Solidly 2, as Velodrome and Aerodrome")!.venue;
    const thin = { kind: "factory", factory } as const;
    const wrong = await ask(pricesOn(), token, { ...withDepth, exchange: thin });
    expect(near(wrong.usdPrice, 360_000)).toBe(true);
    // What 2 % takes of the two pools, in dollars.
    expect([Math.round(costOf(right) / 100), Math.round(costOf(wrong))]).toEqual([91, 12]);
    expect(Number(wrong.provenance?.confidence)).toBeLessThan(0.02);
  });

  test("9.77 dollars for a token of 1.30, from a pool whose liquidity is not around its price", async () => {
    const token = await newToken(anvil);
    await pool("PancakeSwap v3", token, dollar, [13n, 10n], 10n ** 23n);
    const exchange = made.get("Uniswap v3 and SushiSwap v3")!;
    const posing = await exchange.create({ tokenA: token, tokenB: dollar, price: [977n, 100n], liquidity: 0n });
    const now = await posing.truth();
    const tick = now.style === "v3" ? Math.floor(now.tick / 10) * 10 : 0;
    await posing.mint(tick, tick + 10, 10n ** 24n);
    // Both balances are large, far from the price on both sides.
    await posing.mint(tick + 30_000, tick + 40_000, 10n ** 25n);
    await posing.mint(tick - 40_000, tick - 30_000, 10n ** 25n);
    const right = await ask(pricesOn(), token, withDepth);
    expect([right.exchangeName, near(right.usdPrice, 1.3)]).toEqual(["PancakeSwap v3", true]);
    const named = { kind: "factory", factory: exchange.venue.factory } as const;
    const wrong = await ask(pricesOn(), token, { ...withDepth, exchange: named });
    expect(near(wrong.usdPrice, 9.77)).toBe(true);
    // By the capped virtual reserves the wrong one is the deeper.
    expect(Number(wrong.provenance?.liquidityUsd)).toBeGreaterThan(20 * Number(right.provenance?.liquidityUsd));
    expect(costOf(wrong)).toBeLessThan(costOf(right));
    expect(Number(wrong.provenance?.confidence)).toBeLessThan(Number(right.provenance?.confidence));
    // Where each block is final at once, the answer of a head is not kept as that of the past block.
    const toBlock = Number(await anvil.send("eth_blockNumber"));
    const follower = new HandFollower(anvil.url);
    const view = { ...follower, head: () => follower.head(), finalized: () => follower.head() };
    const followed = createPrices({
      ...{ chain, reader: readerOf(anvil.url, chain), log: new MemoryLog(), view, clock: systemClock },
    });
    await follower.poll(followed);
    await ask(followed, token, { toBlock });
    await anvil.mine(1);
    await follower.poll(followed);
    expect((await ask(followed, token, { toBlock })).usdPrice).toBe(
      (await ask(pricesOn(), token, { toBlock })).usdPrice,
    );
  });
});

test("POOLS=contract prices by the contract's exchanges alone, which a deeper pool of another shows beside its own price", async () => {
  const contract = { ...chain, exchanges: chain.exchanges.map((one) => ({ ...one, name: renamed(one.name) })) };
  const prices = (pools: "all" | "contract") =>
    createPrices({
      ...{ chain: contract, reader: readerOf(anvil.url, contract), log: new MemoryLog(), pools },
      view: unfollowed,
      clock: systemClock,
    });
  const token = await newToken(anvil);
  await pool("Uniswap v3 and SushiSwap v3", token, dollar, [40n, 1n], 10n ** 23n);
  const deeper = await pool("Slipstream", token, dollar, [41n, 1n], 10n ** 25n);
  const all = await ask(prices("all"), token);
  expect([all.exchangeName, near(all.usdPrice, 41)]).toEqual(["Slipstream", true]);
  expect(all.provenance?.contractPools).toMatchObject({ exchange: "Uniswap v3" });
  expect(near(Number(all.provenance?.contractPools?.usdPrice), 40)).toBe(true);
  const own = await ask(prices("contract"), token);
  expect([own.exchangeName, near(own.usdPrice, 40)]).toEqual(["Uniswap v3", true]);
  expect(own.provenance?.contractPools).toBeUndefined();
  // Named by the request, another exchange is used all the same.
  const exchange = { kind: "factory", factory: made.get("Slipstream")!.venue.factory } as const;
  const named = await ask(prices("contract"), token, { exchange });
  expect([named.provenance?.route[0]?.pool, near(named.usdPrice, 41)]).toEqual([deeper.id, true]);
});

const renamed = (name: string): string => (name === "Uniswap v3 and SushiSwap v3" ? "Uniswap v3" : name);

describe("a v4 pool that only its announcement tells", () => {
  const manager = () => made.get("Uniswap v4") as MadeManager;

  test("prices a token that has no other pool, and none that has one above the floor", async () => {
    const token = await newToken(anvil);
    const odd = await manager().create({
      tokenA: token,
      tokenB: dollar,
      price: [7n, 1n],
      fee: 777,
      spacing: 13,
      liquidity: 10n ** 25n,
    });
    const prices = pricesOn();
    const { usdPrice, provenance } = await ask(prices, token);
    expect([near(usdPrice, 7), provenance?.route[0]?.pool]).toEqual([true, odd.id]);
    expect(provenance?.route[0]?.key).toMatchObject({ fee: 777, spacing: 13 });
    const shallow = await pool("PancakeSwap v3", token, dollar, [6n, 1n], 10n ** 22n);
    const again = await ask(pricesOn(), token);
    expect([near(again.usdPrice, 6), again.provenance?.route[0]?.pool]).toEqual([true, shallow.id]);
  });

  test("is named, and gives no price, if it is empty and its hooks may give other amounts than its curve", async () => {
    const token = await newToken(anvil);
    // The lowest bits of a hook's address say what it may do: here take a part after a swap.
    const hooks = `0x${"5".repeat(36)}0044`;
    const { address } = await deploy(anvil, { abi: feeTakingHook.abi, bytecode: feeTakingHook.bytecode.object }, [
      manager().manager.address,
    ]);
    await placeCode(anvil, hooks, (await anvil.send("eth_getCode", [address, "latest"])) as string);
    const { id } = await manager().create({ tokenA: token, tokenB: dollar, price: [7n, 1n], hooks, liquidity: 0n });
    expect(await refusal(ask(pricesOn(), token))).toMatchObject({
      code: "low_liquidity",
      details: { pools: [{ pool: id, reason: "low_liquidity", liquidityUsd: "0" }] },
    });
  });
});

describe("the search for pools that only announcements tell", () => {
  const manager = () => made.get("Uniswap v4") as MadeManager;
  const odd = async () => {
    const token = await newToken(anvil);
    await manager().create({
      tokenA: token,
      tokenB: dollar,
      price: [7n, 1n],
      fee: 777,
      spacing: 13,
      liquidity: 10n ** 25n,
    });
    return token;
  };
  const plain = { percentChange: false, provenance: false };

  test("is told of until it is complete, and goes on without its client", async () => {
    const token = await odd();
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const proxy = await startRpcProxy(anvil.url, {
      onRequest: async ({ method }) => {
        if (method === "eth_getLogs") await released;
        return undefined;
      },
    });
    const prices = pricesOn("all", proxy.url);
    const told = await refusal(prices.price({ address: token, ...plain }));
    expect(told).toMatchObject({ code: "searching", details: { percent: 0 } });
    release();
    expect(near((await untilSearched(() => prices.price({ address: token, ...plain }))).usdPrice, 7)).toBe(true);
    await proxy.stop();
  });

  test("gives no price if it would take too many requests", async () => {
    const token = await odd();
    const proxy = await startRpcProxy(anvil.url, {
      onRequest: async ({ method, params }) => {
        const { fromBlock, toBlock } = (params[0] ?? {}) as { fromBlock?: string; toBlock?: string };
        const isWide = method === "eth_getLogs" && Number(toBlock) - Number(fromBlock) >= 3;
        return isWide ? { error: { code: -32602, message: "query exceeds max block range 3" } } : undefined;
      },
    });
    const prices = pricesOn("all", proxy.url);
    const refused = await refusal(untilSearched(() => prices.price({ address: token, ...plain })));
    expect(refused).toMatchObject({
      code: "no_pool",
      message: "No pools found with enough liquidity, to calculate the price",
      details: { pools: [], searched: { byState: true, byAnnouncement: false } },
    });
    await proxy.stop();
  });

  test("is completed by an archive where the node would take too many requests", async () => {
    const token = await odd();
    await anvil.mine(400);
    const proxy = await startRpcProxy(anvil.url, {
      onRequest: async ({ method, params }) => {
        const { fromBlock, toBlock } = (params[0] ?? {}) as { fromBlock?: string; toBlock?: string };
        const isWide = method === "eth_getLogs" && Number(toBlock) - Number(fromBlock) >= 3;
        return isWide ? { error: { code: -32602, message: "query exceeds max block range 3" } } : undefined;
      },
    });
    const { archive, reader } = await behindArchive(proxy.url);
    const prices = pricesOn("all", proxy.url, reader);
    const record = await untilSearched(() => prices.price({ address: token, ...plain, provenance: true }));
    expect(near(record.usdPrice, 7)).toBe(true);
    expect(archive.queries.length).toBeGreaterThan(0);
    const limitedBy = "only the archive eth#1 says which pools were announced";
    expect(record.provenance).toMatchObject({ source: "archive", limitedBy });
    expect(record.provenance?.unconfirmed).toContain("usdPrice");
    expect(Number(record.provenance?.confidence)).toBeLessThanOrEqual(0.25);
    await archive.stop();
    const lying = await behindArchive(proxy.url, { omits: () => true });
    const others = pricesOn("all", proxy.url, lying.reader);
    expect(await refusal(untilSearched(() => others.price({ address: token, ...plain })))).toMatchObject({
      code: "no_pool",
      details: { source: "archive", searched: { why: limitedBy } },
    });
    await Promise.all([proxy.stop(), lying.archive.stop()]);
  });
});

/** A reader of a node, with an archive of the whole chain. */
async function behindArchive(url: string, options: ArchiveOptions = {}) {
  const archive = await startArchive(archiveOfNode(anvil.url), options);
  const source = new Portal({
    ...{ url: archive.url, label: "archive eth#1", per10s: 1_000, clock: systemClock },
    decoder: { decode: () => Promise.reject(new Error("logs are decoded here")) },
  });
  const node = readerOf(url, chain);
  const archives = new Archives({
    ...{ sources: [source], isGiven: true, clock: systemClock, logger: silentLogger, chain: chain.name },
    maxBlocks: () => node.historyLimits().maxBlocks,
    historyStart: () => undefined,
  });
  return { archive, reader: readerWithArchives(node, archives, systemClock) };
}

test("a past depth comes from an archive's logs, where the node has neither the state nor so many logs", async () => {
  const token = await newToken(anvil);
  const first = await pool("Uniswap v3 and SushiSwap v3", token, dollar, [7n, 1n], 10n ** 24n);
  const query = { depthUsd: rational(1_000n), toBlock: Number(await anvil.send("eth_blockNumber")) };
  await anvil.mine(2);
  const { depth } = await ask(pricesOn(), token, query);
  await first.sell(token, 10n ** 20n);
  await anvil.mine(2);
  const proxy = await startRpcProxy(anvil.url, {
    onRequest: ({ method, params }) => {
      if (method === "eth_call" && Number(params[1]) <= query.toBlock)
        return { error: { code: -32_000, message: "missing trie node 0abc (path ) state is not available" } };
      const { fromBlock, toBlock } = (params[0] ?? {}) as { fromBlock?: string; toBlock?: string };
      const isWide = method === "eth_getLogs" && Number(toBlock) - Number(fromBlock) >= 3;
      return isWide ? { error: { code: -32602, message: "query exceeds max block range 3" } } : undefined;
    },
  });
  const { archive, reader } = await behindArchive(proxy.url);
  const told = await ask(pricesOn("all", proxy.url, reader), token, query);
  expect(told.depth).toMatchObject({ sell: depth!.sell, buy: depth!.buy, move2PercentUsd: depth!.move2PercentUsd });
  expect(told.depth?.why).toContain("only the archive eth#1 says which trades and positions the pools had");
  expect(archive.queries.length).toBeGreaterThan(0);
  await Promise.all([proxy.stop(), archive.stop()]);
});

test("a share of a vault shows what it is redeemed for, beside the market's price, whatever its decimals", async () => {
  const six = await newToken(anvil, 6);
  for (const [asset, places, decimals] of [
    [dollar, 18, 18],
    [dollar, 18, 6],
    [six, 6, 6],
    [six, 6, 24],
  ] as const) {
    // Raw assets for a raw share, times 10^18: three whole assets for a whole share.
    const rate = (3n * ETHER * 10n ** BigInt(places)) / 10n ** BigInt(decimals);
    const vault = await deploy(anvil, await contractArtifact("TestVault"), [asset, rate, decimals]);
    const token = vault.address.toLowerCase() as Address;
    const raw = [25n * 10n ** 18n, 10n ** BigInt(decimals + 1)] as const;
    await pool("PancakeSwap v3", token, dollar, raw, 10n ** BigInt(15 + (decimals >> 1)));
    const { usdPrice, provenance } = await ask(pricesOn(), token);
    expect(near(usdPrice, 2.5)).toBe(true);
    expect(provenance?.redemption).toEqual({
      ...{ standard: "ERC-4626", asset, assetsPerToken: "3" },
      ...(asset === dollar ? { usdPrice: "3" } : {}),
    });
  }
});

test("a first price takes three sequential round trips at most, with all styles to ask", async () => {
  const token = await newToken(anvil);
  for (const name of made.keys())
    if (!name.startsWith("Solidly")) await pool(name, token, native, [1n, 50n], 10n ** 23n);
  const proxy = await roundProxy(anvil.url, 20);
  const prices = pricesOn("all", proxy.url);
  const { usdPrice } = await prices.price({ address: token, percentChange: false, provenance: false });
  expect(near(usdPrice, 40)).toBe(true);
  expect(proxy.depth()).toBeLessThanOrEqual(3);
  await proxy.stop();
});
