/**
 * Liquidity depth is capped by the balances that a pool really holds. A sliver of concentrated liquidity moves no
 * price, however the v3 pool's state came into memory, and a state without balances is never used as if it had them.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { decodePrice } from "../../src/events/price-columns.ts";
import { type PriceEvent, priceStream } from "../../src/events/types.ts";
import type { PriceRecord } from "../../src/prices/models.ts";
import { createPrices, type Prices } from "../../src/prices/price-service.ts";
import type { Call, CallResult } from "../../src/rpc/port.ts";
import { MemoryLog } from "../support/memory-log.ts";
import { Process } from "../support/prices/cluster.ts";
import { FakeChain, type FakePool } from "../support/prices/fake-chain.ts";
import { parsePriceQuery } from "../support/prices/query.ts";
import { dollarWorld, eth, placeTokens, TOKEN, UNI2, UNI3, USDC, WETH, type World } from "../support/prices/world.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(300_000);

const Q96 = 1n << 96n;
/** Ten cents of either token. */
const DUST = 5n * 10n ** 13n;

const priced = (prices: Prices): Promise<PriceRecord> =>
  prices.price({ address: TOKEN, ...parsePriceQuery({ include: "provenance" }) });

/** Prices of a new process, with nothing in memory or in the log. */
const fresh = ({ chain, follower: view, clock }: World): Prices =>
  createPrices({ chain: eth, reader: chain, log: new MemoryLog(), view, clock });

/** TOKEN at $20 in a pool of $200,000, and a v3 pool that is not initialised. */
function scene(): { world: World; sliver: () => FakePool; step: (change?: () => void) => Promise<void> } {
  const world = dollarWorld();
  world.pair(TOKEN, 10_000n, WETH, 100n);
  world.follower.start();
  return {
    world,
    sliver: () => world.chain.pool({ factory: UNI3, style: "v3", fee: 100, tokens: [TOKEN, WETH] }),
    async step(change) {
      world.chain.mine();
      change?.();
      await world.follower.poll();
    },
  };
}

/** Sets the v3 pool to one to one, so $2,000 for TOKEN, with a sliver of liquidity that seems to be millions. */
function fill({ chain }: { readonly chain: FakeChain }, pool: FakePool): void {
  chain.initialize(pool, Q96, 0);
  chain.mint(pool, [-1, 1], 10n ** 24n, [DUST, DUST]);
}

async function expectHonest(world: World): Promise<void> {
  const said = async (prices: Prices) => {
    const { usdPrice, exchangeName, provenance } = await priced(prices);
    return { usdPrice, exchangeName, liquidityUsd: provenance!.liquidityUsd, confidence: provenance!.confidence };
  };
  const answer = await said(world.prices);
  expect(answer).toMatchObject({ usdPrice: 20, exchangeName: "Uniswap v2" });
  expect(answer).toEqual(await said(fresh(world)));
}

describe("a v3 pool that was first read before its initialisation", () => {
  test("is capped after liquidity is added, in one block or over several", async () => {
    const { world, sliver, step } = scene();
    const pool = sliver();
    await priced(world.prices);
    await step();
    await step(() => fill(world, pool));
    await step();
    await expectHonest(world);
    await step(() => world.chain.swap(pool, Q96, 10n ** 24n, 0, [1n, -1n]));
    await expectHonest(world);
  });

  test("is capped if it was created while followed", async () => {
    const { world, sliver, step } = scene();
    await priced(world.prices);
    await step();
    let pool: FakePool | undefined;
    await step(() => {
      pool = sliver();
    });
    await step(() => world.chain.initialize(pool!, Q96, 0));
    await step(() => world.chain.mint(pool!, [-1, 1], 10n ** 24n, [DUST, DUST]));
    await step();
    await expectHonest(world);
  });

  test("costs a question no request, neither unchanged nor after liquidity is added", async () => {
    const { world, sliver, step } = scene();
    const pool = sliver();
    await priced(world.prices);
    await step();
    const asked = async (change?: () => void): Promise<string[]> => {
      await step(change);
      world.chain.requests.length = 0;
      await world.price(TOKEN);
      return world.chain.requests;
    };
    expect(await asked()).toEqual([]);
    expect(await asked(() => fill(world, pool))).toEqual([]);
    expect(await asked()).toEqual([]);
    expect(await asked(() => world.chain.swap(pool, Q96, 10n ** 24n, 0, [1n, -1n]))).toEqual([]);
  });

  test("is read by the next request if it could not be read ahead", async () => {
    const { world, sliver, step } = scene();
    const pool = sliver();
    await priced(world.prices);
    await step();
    world.chain.archive = false;
    // One more block arrives before the read, so the node has lost the state of the block that is about to be shown.
    const readAhead = world.prices.readAhead.bind(world.prices);
    world.prices.readAhead = (head) => {
      world.chain.mine();
      return readAhead(head);
    };
    await step(() => fill(world, pool));
    world.prices.readAhead = readAhead;
    await expectHonest(world);
    world.chain.archive = true;
    await world.follower.poll();
    await expectHonest(world);
  });

  test("leaves no state without balances in the log for processes that only read it", async () => {
    const chain = new FakeChain();
    placeTokens(chain);
    const log = new MemoryLog();
    const make = (style: "v2" | "v3", a: typeof WETH, b: typeof WETH): FakePool =>
      chain.pool({ factory: style === "v2" ? UNI2 : UNI3, style, fee: style === "v2" ? 3000 : 100, tokens: [a, b] });
    const dollar = make("v2", WETH, USDC);
    const [ether, dollars] = [10n ** 21n, 2n * 10n ** 12n];
    chain.sync(dollar, ...((dollar.token0 === WETH ? [ether, dollars] : [dollars, ether]) as [bigint, bigint]));
    const deep = make("v2", TOKEN, WETH);
    const [own, other] = [10n ** 22n, 10n ** 20n];
    chain.sync(deep, ...((deep.token0 === TOKEN ? [own, other] : [other, own]) as [bigint, bigint]));
    const pool = make("v3", TOKEN, WETH);
    const a = new Process(chain, log);
    await a.follow();
    await a.start();
    const b = await new Process(chain, log).start();
    const step = async (change?: () => void): Promise<void> => {
      chain.mine();
      change?.();
      await a.follow();
      await Promise.all([a.show(), b.show()]);
    };
    await a.ask(TOKEN);
    await b.ask(TOKEN);
    await step();
    await step(() => fill({ chain }, pool));
    await step();
    chain.requests.length = 0;
    for (const process of [a, b]) expect((await process.ask(TOKEN)).record.usdPrice).toBe(20);
    expect(chain.requests).toEqual([]);
    const prices = (await a.events(TOKEN)).flatMap((event) => (event.type === "TokenPriced" ? event.price : []));
    const legs = prices.flatMap((price) => decodePrice(price).legs);
    expect(legs.length).toBeGreaterThan(0);
    expect(legs.every(({ balance0, balance1 }) => balance0 !== undefined && balance1 !== undefined)).toBe(true);
  });
});

describe("a state without balances in a log of an earlier release", () => {
  test("prices nothing, in the process that asked and in a new one", async () => {
    const { world, sliver, step } = scene();
    const pool = sliver();
    fill(world, pool);
    await priced(world.prices);
    await step();
    await step();
    const stream = priceStream(1, TOKEN);
    // An event as that release wrote it: the pool's own state, at the newest block, from the event that set it.
    const { number: block, hash: blockHash, timestamp } = world.chain.tip;
    const { version } = await world.log.head(stream);
    const state = { style: "v3", sqrtPriceX96: String(1n << 90n), liquidity: String(10n ** 30n), tick: 0 } as const;
    const said = { type: "PriceObserved", pool: pool.address, state } as const;
    const event: PriceEvent = { ...said, block, blockHash, timestamp, logIndex: 0 };
    await world.log.append({ stream, events: [event], expectedVersion: version });
    expect(await priced(world.prices)).toMatchObject({ usdPrice: 20 });
    const again = world.restarted();
    expect(await priced(again)).toMatchObject({ usdPrice: 20 });
    await step();
    await expectHonest(world);
    world.chain.requests.length = 0;
    await step();
    await expectHonest(world);
  });
});

describe("a token with a failing balanceOf", () => {
  test("leaves the cap of the other token and the confidence from it as they are", async () => {
    const { world, sliver, step } = scene();
    const pool = sliver();
    fill(world, pool);
    const { chain } = world;
    const mute = (calls: readonly Call[], results: readonly CallResult[]): CallResult[] =>
      results.map((result, index) =>
        calls[index]!.to === TOKEN && calls[index]!.data.startsWith("0x70a08231") ? { ok: false, data: "0x" } : result,
      );
    const { calls, callsAtHead } = chain;
    chain.calls = async (asked, block) => mute(asked, await calls.call(chain, asked, block));
    chain.callsAtHead = async (asked) => {
      const { header, results } = await callsAtHead.call(chain, asked);
      return { header, results: mute(asked, results) };
    };
    const { prices } = world;
    expect(await priced(prices)).toMatchObject({ usdPrice: 20, provenance: { confidence: "0.5" } });
    await step();
    await step(() => world.chain.swap(pool, Q96, 10n ** 24n, 0, [1n, -1n]));
    await step();
    expect(await priced(prices)).toMatchObject({ usdPrice: 20 });
  });
});
