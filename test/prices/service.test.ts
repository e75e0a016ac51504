import { describe, expect, setDefaultTimeout, test } from "bun:test";
import type { SharedWork } from "../../src/core/budget.ts";
import type { Clock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { topicOf } from "../../src/core/keccak.ts";
import { priceStream } from "../../src/events/types.ts";
import type { PriceRecord } from "../../src/prices/models.ts";
import { addressOf } from "../support/prices/fake-chain.ts";
import { DAI, dollarWorld, SUSHI, TOKEN, UNI2, UNI3, USDC, USDT, WBTC, WETH, World } from "../support/prices/world.ts";
import { READER } from "../support/requesters.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(300_000);

describe("a cold token", () => {
  test("is answered in two round trips, with the documented fields in order", async () => {
    const world = dollarWorld();
    world.pair(TOKEN, 10_000n, WETH, 100n);
    const record = await world.price(TOKEN);
    // The last two requests are concurrent.
    expect(world.chain.requests).toEqual(["callsAtHead", "calls@0", "header"]);
    expect(Object.entries(record)).toEqual([
      ["tokenName", "Token"],
      ["tokenSymbol", "TKN"],
      ["tokenLogo", ""],
      ["tokenDecimals", "18"],
      ["nativePrice", { value: "10000000000000000", decimals: 18, name: "Ether", symbol: "ETH", address: WETH }],
      ["usdPrice", 20],
      ["usdPriceFormatted", "20"],
      ["exchangeAddress", UNI2],
      ["exchangeName", "Uniswap v2"],
      ["tokenAddress", TOKEN],
      ["toBlock", "0"],
    ]);
  });

  test("is recorded in the log with its details and its pools, and its price once the block is shown", async () => {
    const world = dollarWorld();
    const pool = world.pair(TOKEN, 10_000n, WETH, 100n);
    await world.price(TOKEN);
    const types = () => world.log.events(priceStream(1, TOKEN)).map((event) => event.type);
    expect(types()).toEqual(["TokenIdentified", "PoolDiscovered"]);
    expect(world.log.events(priceStream(1, TOKEN))[1]).toMatchObject({
      ...{ pool: pool.address, factory: UNI2, style: "v2", fee: 3000 },
    });
    world.follower.start();
    world.chain.mine();
    await world.follower.poll();
    expect(types()).toEqual(["TokenIdentified", "PoolDiscovered", "TokenPriced"]);
  });

  test("is loaded once for many concurrent requests", async () => {
    const world = dollarWorld();
    world.pair(TOKEN, 10_000n, WETH, 100n);
    await Promise.all(Array.from({ length: 20 }, () => world.price(TOKEN)));
    await Promise.all([world.price(TOKEN, { min_liquidity_usd: "1" }), world.price(TOKEN, { min_liquidity_usd: "2" })]);
    expect(world.chain.requests).toEqual(["callsAtHead", "calls@0", "header", "callsAtHead"]);
  });
});

describe("an endpoint behind the followed head", () => {
  test("does not decide a token's price while another endpoint has newer blocks", async () => {
    const world = dollarWorld();
    const pool = world.pair(TOKEN, 10_000n, WETH, 100n);
    world.follower.start();
    world.chain.mine(3);
    world.setPair(pool, TOKEN, 5_000n, 200n);
    await world.follower.poll();
    world.chain.behind = 2;
    expect(await world.price(TOKEN)).toMatchObject({ usdPrice: 80, toBlock: "3" });
  });

  test("does not make a block count as above the head", async () => {
    const world = dollarWorld();
    const pool = world.pair(TOKEN, 10_000n, WETH, 100n);
    world.chain.mine(3);
    world.setPair(pool, TOKEN, 5_000n, 200n);
    world.chain.behind = 2;
    expect(await world.price(TOKEN, { to_block: "3" })).toMatchObject({ usdPrice: 80, toBlock: "3" });
    world.chain.behind = 2;
    const refused = world.price(TOKEN, { to_block: "4" }).catch((error: unknown) => error);
    expect(await refused).toMatchObject({
      code: "invalid_parameter",
      message: expect.stringContaining("head, which is 3"),
    });
  });

  test("does not make the followed head count as missing", async () => {
    const world = dollarWorld();
    world.pair(TOKEN, 10_000n, WETH, 100n);
    world.chain.mine(3);
    world.follower.start();
    const { chain } = world;
    const { header } = chain;
    chain.header = async (number) =>
      number > chain.tip.number - chain.behind ? undefined : header.call(chain, number);
    chain.behind = 2;
    expect(await world.price(TOKEN, { to_block: "3" })).toMatchObject({ usdPrice: 20, toBlock: "3" });
  });
});

describe("an endpoint ahead of the followed head", () => {
  const followed = async (): Promise<World> => {
    const world = dollarWorld();
    const pool = world.pair(TOKEN, 10_000n, WETH, 100n);
    world.follower.start();
    world.chain.mine();
    world.setPair(pool, TOKEN, 5_000n, 200n);
    return world;
  };

  for (const archive of [true, false]) {
    test(`gives a token's price at the followed head, ${archive ? "with" : "without"} archive state`, async () => {
      const world = await followed();
      world.chain.archive = archive;
      const asked = { to_block: "0" };
      for (let times = 0; times < 2; times++) {
        expect(await world.price(TOKEN, asked)).toMatchObject({ usdPrice: 20, toBlock: "0" });
        // The state is read at the newest block, which is not followed yet.
        expect(await world.price(TOKEN)).toMatchObject({ usdPrice: 80, toBlock: "1" });
      }
      expect(await world.price(TOKEN, { ...asked, min_liquidity_usd: "1" })).toMatchObject({ usdPrice: 20 });
    });
  }

  test("is not called again once the block is in memory", async () => {
    const world = await followed();
    await world.price(TOKEN);
    world.chain.mine();
    await world.follower.poll();
    world.chain.requests.length = 0;
    expect(await world.price(TOKEN, { to_block: "2" })).toMatchObject({ usdPrice: 80, toBlock: "2" });
    expect(world.chain.requests).toEqual([]);
  });
});

describe("following", () => {
  /** A token at 20 dollars, and at 80 from block 2, the newest followed block. */
  const grown = async (): Promise<World> => {
    const world = dollarWorld();
    const pool = world.pair(TOKEN, 10_000n, WETH, 100n);
    world.follower.start();
    await world.price(TOKEN);
    world.chain.mine();
    await world.follower.poll();
    world.chain.mine();
    world.setPair(pool, TOKEN, 5_000n, 200n);
    await world.follower.poll();
    return world;
  };

  test("keeps a warm price true without a request by the question", async () => {
    const world = dollarWorld();
    const pool = world.pair(TOKEN, 10_000n, WETH, 100n);
    world.follower.start();
    await world.price(TOKEN);
    world.chain.mine();
    await world.follower.poll();
    world.chain.requests.length = 0;
    for (let times = 0; times < 3; times++) {
      expect(await world.price(TOKEN)).toMatchObject({ usdPrice: 20, toBlock: "1" });
      expect((await world.price(TOKEN, { min_liquidity_usd: "1" })).usdPrice).toBe(20);
    }
    expect(world.chain.requests).toEqual([]);
    world.chain.mine();
    world.setPair(pool, TOKEN, 5_000n, 200n);
    await world.follower.poll();
    expect(world.chain.requests.splice(0)).toEqual(["calls@2", "header", "logs 2-2"]);
    expect(await world.price(TOKEN)).toMatchObject({ usdPrice: 80, toBlock: "2" });
    expect(world.chain.requests).toEqual([]);
  });

  test("restores the earlier price after a reorg", async () => {
    const world = await grown();
    expect((await world.price(TOKEN)).usdPrice).toBe(80);
    world.chain.fork(1);
    world.chain.mine(2);
    await world.follower.poll();
    expect(await world.price(TOKEN)).toMatchObject({ usdPrice: 20, toBlock: "3" });
  });

  test("leaves requests about the past to the chain's own answer during a reorg that the follower has not seen", async () => {
    const world = await grown();
    world.chain.fork(1);
    world.chain.mine(2);
    const record = await world.price(TOKEN, { include: "provenance" });
    expect(record).toMatchObject({ usdPrice: 20, toBlock: "3" });
    expect(record.provenance?.route[0]?.blockHash).toBe(world.chain.tip.hash);
  });

  test("uses a pool created while followed with one more call to the factories", async () => {
    const world = dollarWorld();
    world.pair(TOKEN, 10_000n, WETH, 100n);
    world.follower.start();
    await world.price(TOKEN);
    world.chain.mine();
    await world.follower.poll();
    await world.price(TOKEN);
    world.chain.mine();
    world.pair(TOKEN, 100_000n, USDC, 2_500_000n, SUSHI);
    await world.follower.poll();
    world.chain.mine();
    await world.follower.poll();
    world.chain.requests.length = 0;
    expect(await world.price(TOKEN)).toMatchObject({ usdPrice: 25, exchangeName: "Sushiswap v2" });
    expect(world.chain.requests.splice(0)).toEqual(["callsAtHead", "calls@3", "header"]);
    world.chain.mine();
    await world.follower.poll();
    expect(world.chain.requests.splice(0)).toEqual(["calls@4", "header", "logs 4-4"]);
    expect(await world.price(TOKEN)).toMatchObject({ usdPrice: 25, toBlock: "4" });
    expect(world.chain.requests).toEqual([]);
  });

  test("adjusts v3 liquidity by mints and burns in range", async () => {
    const world = dollarWorld();
    const q96 = 1n << 96n;
    const pool = world.chain.pool({ factory: UNI3, style: "v3", fee: 3000, tokens: [TOKEN, DAI] });
    world.chain.initialize(pool, q96, 0);
    world.chain.mint(pool, [-600, 600], 10n ** 24n, [10n ** 24n, 10n ** 24n]);
    world.follower.start();
    await world.price(TOKEN);
    world.chain.mine();
    await world.follower.poll();
    world.chain.mine();
    world.chain.mint(pool, [-600, 600], 10n ** 24n, [10n ** 24n, 10n ** 24n]);
    world.chain.mint(pool, [600, 1200], 10n ** 30n, [10n ** 24n, 0n]);
    await world.follower.poll();
    const { provenance } = await world.price(TOKEN, { include: "provenance" });
    expect(provenance!.route[0]!.liquidity).toBe((2n * 10n ** 24n).toString());
    expect(provenance!.liquidityUsd).toBe("2000000");
  });

  test("reads ahead for a minute after the last request, and needs no block after that", async () => {
    const world = dollarWorld();
    world.pair(TOKEN, 10_000n, WETH, 100n);
    world.follower.start();
    await world.price(TOKEN);
    const asked = async (ms: number): Promise<string[]> => {
      world.clock.ms += ms;
      world.chain.mine();
      world.chain.requests.length = 0;
      await world.follower.poll();
      return world.chain.requests;
    };
    expect(await asked(59_000)).toEqual(["calls@1", "header", "logs 1-1"]);
    expect(world.prices.consumer.needsBlocks!()).toBe(true);
    expect(await asked(1_000)).toEqual([]);
    expect(world.prices.consumer.needsBlocks!()).toBe(false);
  });

  test("of a watched token is read ahead at each head, however long ago it was asked for", async () => {
    const world = dollarWorld();
    world.follower.start();
    world.pair(TOKEN, 10_000n, WETH, 100n);
    world.chain.mine();
    await world.follower.poll();
    const unwatch = world.prices.watch(TOKEN, () => []);
    await world.price(TOKEN);
    world.clock.ms += 3_600_000;
    expect([world.prices.isAsked(), world.prices.consumer.needsBlocks!()]).toEqual([true, true]);
    world.chain.mine();
    await world.follower.poll();
    world.chain.requests.length = 0;
    expect((await world.price(TOKEN)).toBlock).toBe(String(world.chain.tip.number));
    expect(world.chain.requests).toEqual([]);
    world.clock.ms += 3_600_000;
    unwatch();
    expect([world.prices.isAsked(), world.prices.consumer.needsBlocks!()]).toEqual([false, false]);
  });

  test("of a watched token is read ahead for the keys that want it, and not while all of them owe requests", async () => {
    const world = dollarWorld();
    world.follower.start();
    world.pair(TOKEN, 10_000n, WETH, 100n);
    world.pair(WBTC, 10n, WETH, 100n);
    const owing = new Set<string>();
    const charged: string[][] = [];
    const shared: SharedWork = {
      hasRate: (keys) => [...keys].some((key) => !owing.has(key)),
      share: (keysOf, work) => {
        charged.push(...keysOf.map((keys) => [...keys].sort()));
        return work();
      },
    };
    const prices = world.restarted({ shared });
    const request = (address: Address) => ({ address, percentChange: false, provenance: false });
    const reader = (key: string) => ({ ...READER, key });
    const keys = ["a"];
    const unwatch = prices.watch(TOKEN, () => keys);
    await prices.answer(request(TOKEN), reader("a"));
    await prices.answer(request(WBTC), reader("c"));
    const readAhead = async () => {
      charged.length = 0;
      await prices.readAhead(world.chain.mine());
      return [...charged];
    };
    expect(await readAhead()).toEqual([["a"], ["c"]]);
    keys.push("b");
    expect(await readAhead()).toEqual([["a", "b"], ["c"]]);
    owing.add("a").add("c");
    expect(await readAhead()).toEqual([["a", "b"]]);
    owing.add("b");
    expect(await readAhead()).toEqual([]);
    owing.clear();
    // The question of a key is over after a minute, also if the token has other subscribers.
    keys.shift();
    world.clock.ms += 61_000;
    expect(await readAhead()).toEqual([["b"]]);
    // With its last subscriber the reads of a token end.
    unwatch();
    world.chain.requests.length = 0;
    expect(await readAhead()).toEqual([]);
    expect(world.chain.requests).toEqual([]);
  });

  test("of a token that several keys asked for is read ahead for those that still ask", async () => {
    const world = dollarWorld();
    world.follower.start();
    world.pair(TOKEN, 10_000n, WETH, 100n);
    const charged: string[][] = [];
    const shared: SharedWork = {
      hasRate: () => true,
      share: (keysOf, work) => {
        charged.push(...keysOf.map((keys) => [...keys].sort()));
        return work();
      },
    };
    const prices = world.restarted({ shared });
    const request = { address: TOKEN, percentChange: false, provenance: false };
    const ask = (key: string) => prices.answer(request, { ...READER, key });
    const payers = async () => {
      charged.length = 0;
      await prices.readAhead(world.chain.mine());
      return charged.flat();
    };
    const { asOf } = await ask("gone");
    // A finished answer that is given again is a question of the key that gets it.
    const isCurrent = prices.stillCurrent(request, asOf);
    world.clock.ms += 2_000;
    expect(isCurrent?.("stays")).toBe(true);
    expect(await payers()).toEqual(["gone", "stays"]);
    world.clock.ms += 40_000;
    await ask("stays");
    world.clock.ms += 25_000;
    expect(await payers()).toEqual(["stays"]);
  });

  test("reads at the node's newest block if no head was shown for half a minute: nobody may follow the chain", async () => {
    const world = dollarWorld();
    const pool = world.pair(TOKEN, 10_000n, WETH, 100n);
    world.follower.start();
    expect((await world.price(TOKEN)).usdPrice).toBe(20);
    world.chain.mine(10);
    world.setPair(pool, TOKEN, 5_000n, 200n);
    world.clock.ms += 29_999;
    expect((await world.price(TOKEN)).usdPrice).toBe(20);
    world.clock.ms += 1;
    expect(await world.price(TOKEN)).toMatchObject({ usdPrice: 80, toBlock: "10" });
    world.chain.requests.length = 0;
    expect(await world.price(TOKEN)).toMatchObject({ usdPrice: 80, toBlock: "10" });
    expect(world.chain.requests).toEqual([]);
  });

  test("holds up a head for a second at most, and starts no second read while one hangs", async () => {
    const world = dollarWorld();
    const pool = world.pair(TOKEN, 10_000n, WETH, 100n);
    const { chain, clock, prices } = world;
    world.follower.start();
    await world.price(TOKEN);
    const timers: [number, () => void][] = [];
    const after: Clock["after"] = (ms, callback) => {
      timers.push([ms, callback]);
      return () => undefined;
    };
    Object.assign(clock, { after });
    const { calls } = chain;
    const hanging = Promise.withResolvers<void>();
    chain.calls = async (...asked) => {
      await hanging.promise;
      return calls.apply(chain, asked);
    };
    chain.mine();
    world.setPair(pool, TOKEN, 5_000n, 200n);
    const shown = world.follower.poll();
    expect(timers.map(([ms]) => ms)).toEqual([1_000]);
    while (!chain.requests.includes("logs 1-1")) await new Promise((resolve) => setImmediate(resolve));
    timers[0]![1]();
    await shown;
    expect(world.follower.head()!.number).toBe(1);
    chain.requests.length = 0;
    await prices.readAhead(chain.mine());
    expect(chain.requests).toEqual([]);
    // A question doesn't wait for that read.
    expect(await world.price(TOKEN)).toMatchObject({ usdPrice: 80, toBlock: "2" });
    hanging.resolve();
  });

  test("gives the price of a block number from memory only while the head is fresh: the block may be replaced", async () => {
    const world = dollarWorld();
    const pool = world.pair(TOKEN, 10_000n, WETH, 100n);
    world.follower.start();
    world.chain.mine();
    await world.follower.poll();
    expect(await world.price(TOKEN)).toMatchObject({ usdPrice: 20, toBlock: "1" });
    const query = { to_block: "1" };
    world.chain.requests.length = 0;
    expect((await world.price(TOKEN, query)).usdPrice).toBe(20);
    expect(world.chain.requests).toEqual([]);
    world.chain.fork(0);
    world.chain.mine();
    world.setPair(pool, TOKEN, 5_000n, 200n);
    world.clock.ms += 60_000;
    expect((await world.price(TOKEN, query)).usdPrice).toBe(80);
  });

  test("leaves tokens beyond the bound to their next request, the longest unasked first", async () => {
    // A token, its two pools and the dollar's pool.
    const world = dollarWorld({ readsAhead: 4 });
    const OTHER = addressOf("other");
    world.chain.token({ address: OTHER, name: "O", symbol: "O", decimals: 18 });
    for (const token of [OTHER, TOKEN]) {
      world.pair(token, 10_000n, WETH, 100n);
      world.pair(token, 1_000n, WETH, 10n, SUSHI);
    }
    world.follower.start();
    for (const token of [OTHER, TOKEN]) await world.price(token);
    world.chain.mine();
    await world.follower.poll();
    const isAsked = async (token: Address): Promise<boolean> => {
      world.chain.requests.length = 0;
      expect((await world.price(token)).usdPrice).toBe(20);
      return world.chain.requests.length > 0;
    };
    expect(await isAsked(TOKEN)).toBe(false);
    expect(await isAsked(OTHER)).toBe(true);
  });

  test("has so many states recorded in an hour for each of its keys, and goes on without a record", async () => {
    const world = dollarWorld({ pricesPerHour: 3 });
    world.follower.start();
    const pool = world.pair(TOKEN, 10_000n, WETH, 100n);
    const keys = new Set(["one"]);
    world.prices.watch(TOKEN, () => keys);
    const priced = async (amount: bigint): Promise<void> => {
      world.setPair(pool, TOKEN, amount, 100n);
      world.chain.mine();
      await world.follower.poll();
      expect((await world.price(TOKEN)).usdPrice).toBe(200_000 / Number(amount));
    };
    const recorded = async (): Promise<number> => {
      const events = await world.log.read(priceStream(1, TOKEN));
      return events.filter(({ event }) => event.type === "TokenPriced").length;
    };
    for (let block = 1n; block <= 8n; block++) await priced(10_000n + block * 100n);
    expect(await recorded()).toBe(3);
    keys.add("two");
    for (let block = 1n; block <= 5n; block++) await priced(20_000n + block * 100n);
    expect(await recorded()).toBe(6);
    world.clock.ms += 1_200_000;
    for (let block = 1n; block <= 5n; block++) await priced(30_000n + block * 100n);
    // A third of each key's share.
    expect(await recorded()).toBe(8);
  });

  test("records the first price of a token in the share of the key that asks", async () => {
    const world = dollarWorld({ pricesPerHour: 3 });
    world.follower.start();
    const tokens = Array.from({ length: 5 }, (_, at) => addressOf(`first ${at}`));
    for (const address of tokens) {
      world.chain.token({ address, name: "F", symbol: "F", decimals: 18 });
      world.pair(address, 10_000n, WETH, 100n);
    }
    world.chain.mine();
    await world.follower.poll();
    const isRecorded = async (address: Address, key: string): Promise<boolean> => {
      await world.prices.answer({ address, percentChange: false, provenance: false }, { ...READER, key });
      const events = await world.log.read(priceStream(1, address));
      return events.some(({ event }) => event.type === "TokenPriced");
    };
    const recorded = [];
    for (const address of tokens.slice(1)) recorded.push(await isRecorded(address, "greedy"));
    expect(recorded).toEqual([true, true, true, false]);
    expect(await isRecorded(tokens[0]!, "honest")).toBe(true);
  });

  test("keeps a token without a pool in memory, too", async () => {
    const world = dollarWorld();
    world.follower.start();
    expect(await world.refusal(TOKEN)).toMatchObject({ code: "no_pool" });
    world.chain.mine();
    await world.follower.poll();
    world.chain.requests.length = 0;
    expect(await world.refusal(TOKEN)).toMatchObject({ code: "no_pool" });
    expect(world.chain.requests).toEqual([]);
  });
});

describe("the past", () => {
  for (const archive of [true, false]) {
    test(`has its own price at each block, ${archive ? "with" : "without"} archive state`, async () => {
      const world = dollarWorld();
      world.chain.archive = archive;
      world.chain.mine(3);
      const pool = world.pair(TOKEN, 10_000n, WETH, 100n);
      const expected: (number | undefined)[] = [undefined, undefined, undefined, 20];
      for (let index = 1; index <= 40; index++) {
        world.chain.mine();
        if (index % 7 === 0) world.setPair(pool, TOKEN, 10_000n, 100n + BigInt(index));
        expected.push(index % 7 === 0 ? (2_000 * (100 + index)) / 10_000 : expected.at(-1));
      }
      for (const [block, price] of expected.entries()) {
        if (price === undefined) {
          expect(await world.refusal(TOKEN, { to_block: String(block) })).toMatchObject({ code: "no_price_at_block" });
        } else {
          const record = await world.price(TOKEN, { to_block: String(block) });
          expect([record.toBlock, record.usdPrice]).toEqual([String(block), price]);
        }
      }
      expect(await world.refusal(TOKEN, { to_block: "44" })).toMatchObject({ code: "invalid_parameter" });
    });

    test(`has the v3 liquidity of its block, ${archive ? "with" : "without"} archive state`, async () => {
      const world = dollarWorld();
      world.chain.archive = archive;
      const pool = world.chain.pool({ factory: UNI3, style: "v3", fee: 500, tokens: [TOKEN, DAI] });
      world.chain.initialize(pool, 1n << 96n, 0);
      world.chain.mine();
      world.chain.mint(pool, [-600, 600], 10n ** 24n, [10n ** 24n, 10n ** 24n]);
      world.chain.mine();
      world.chain.mint(pool, [-600, 600], 10n ** 24n, [10n ** 24n, 10n ** 24n]);
      world.chain.mine(5);
      world.chain.swap(pool, 1n << 97n, 10n ** 20n, 13_863);
      const { provenance } = await world.price(TOKEN, { to_block: "2", include: "provenance" });
      expect(provenance!.route[0]).toMatchObject({ liquidity: (2n * 10n ** 24n).toString(), block: 2 });
      expect(Number(provenance!.confidence) <= 0.5).toBe(!archive);
    });
  }

  test("gives the change over 24 hours by the same route, and none for a younger token", async () => {
    const world = dollarWorld();
    const pool = world.pair(TOKEN, 10_000n, WETH, 100n);
    world.chain.mine(100, 1_200);
    world.setPair(pool, TOKEN, 10_000n, 150n);
    expect((await world.price(TOKEN, { include: "percent_change" }))["24hrPercentChange"]).toBe("50");
    const young = addressOf("young");
    world.chain.token({ address: young, name: "Y", symbol: "Y", decimals: 18 });
    world.pair(young, 10_000n, WETH, 100n);
    expect(await world.price(young, { include: "percent_change" })).not.toHaveProperty("24hrPercentChange");
  });

  test("gives the pool with both its sides in dollars, and the price 24 hours before, if asked for the pair", async () => {
    const world = dollarWorld();
    const pool = world.pair(TOKEN, 10_000n, WETH, 100n);
    world.chain.mine(100, 1_200);
    world.setPair(pool, TOKEN, 10_000n, 150n);
    const record = await world.price(TOKEN, { include: "pair" });
    expect(record).toEqual({
      ...(await world.price(TOKEN)),
      pairAddress: pool.address,
      // 10,000 tokens at $30 and 150 ether at $2,000.
      pairTotalLiquidityUsd: "600000",
      usdPrice24h: 20,
      usdPrice24hrUsdChange: 10,
    });
    expect(await world.price(TOKEN, { include: "pair,percent_change" })).toEqual({
      ...record,
      "24hrPercentChange": "50",
    });
    // At its first block there was no earlier price; two hops name the token's own pool.
    world.chain.mine();
    const young = addressOf("young");
    world.chain.token({ address: young, name: "Y", symbol: "Y", decimals: 18 });
    const [wide] = [world.pair(young, 100n, WBTC, 10n), world.pair(WBTC, 100n, WETH, 2_000n)];
    expect(await world.price(young, { include: "pair" })).toMatchObject({
      pairAddress: wide.address,
      pairTotalLiquidityUsd: "800000",
      usdPrice24h: null,
      usdPrice24hrUsdChange: null,
    });
  });

  test("has no pool for a stablecoin that none measures", async () => {
    const world = dollarWorld();
    world.chain.mine(100, 1_200);
    expect(await world.price(USDC, { include: "pair" })).toMatchObject({
      ...{ pairAddress: null, pairTotalLiquidityUsd: null },
      ...{ usdPrice24h: 1, usdPrice24hrUsdChange: 0 },
    });
  });
});

describe("refusals", () => {
  test("have a code, a message and the pools' numbers each", async () => {
    const world = dollarWorld();
    const message = "No pools found with enough liquidity, to calculate the price";
    expect(await world.refusal(TOKEN)).toEqual({ code: "no_pool", message, details: { pools: [] } });
    world.chain.mine();
    const thin = world.pair(TOKEN, 10n, USDC, 499n);
    expect(await world.refusal(TOKEN)).toEqual({
      code: "low_liquidity",
      message,
      details: {
        pools: [
          {
            pool: thin.address,
            exchange: "Uniswap v2",
            reason: "low_liquidity",
            liquidityUsd: "499",
            minLiquidityUsd: "500",
          },
        ],
      },
    });
    expect((await world.price(TOKEN, { min_liquidity_usd: "499" })).usdPrice).toBe(49.9);
    expect(await world.refusal(addressOf("nobody"))).toMatchObject({ code: "not_a_token" });
    world.chain.token({ address: addressOf("nft"), name: "N", symbol: "N", erc721: true });
    expect(await world.refusal(addressOf("nft"))).toMatchObject({ code: "not_a_token" });
    world.chain.token({ address: addressOf("mute"), name: "M", symbol: "M" });
    expect(await world.refusal(addressOf("mute"))).toMatchObject({ code: "unknown_decimals" });
    expect(await world.refusal(TOKEN, { exchange: "quickswap" })).toMatchObject({ code: "invalid_parameter" });
    expect(await world.refusal(TOKEN, { exchange: "sushiswap" })).toMatchObject({ code: "no_pool" });
    expect(await world.refusal(TOKEN, { exchange: addressOf("eoa") })).toMatchObject({ code: "invalid_parameter" });
  });
});

describe("ranking", () => {
  test("prefers the deepest pool, finds exchanges by each name, and uses an unlisted factory only if requested", async () => {
    const world = dollarWorld();
    const factory = addressOf("factory");
    world.pair(TOKEN, 10_000n, WETH, 100n);
    world.pair(TOKEN, 20_000n, WETH, 240n, SUSHI);
    world.pair(TOKEN, 1_000_000n, WETH, 20_000n, factory);
    expect(await world.price(TOKEN)).toMatchObject({ usdPrice: 24, exchangeName: "Sushiswap v2" });
    for (const exchange of ["uniswapv2", "dexa_v2", "UNISWAP-V2", "Uniswap v2", UNI2]) {
      expect(await world.price(TOKEN, { exchange })).toMatchObject({ usdPrice: 20, exchangeName: "Uniswap v2" });
    }
    expect(await world.price(TOKEN, { exchange: factory })).toMatchObject({
      usdPrice: 40,
      exchangeAddress: factory,
      exchangeName: factory,
    });
    expect((await world.price(TOKEN)).usdPrice).toBe(24);
  });

  test("prices a pool of an unlisted factory only at the head if it fills blocks with logs", async () => {
    const world = dollarWorld();
    const { chain } = world;
    const factory = addressOf("factory");
    world.pair(TOKEN, 10_000n, WETH, 100n);
    const pool = world.pair(TOKEN, 1_000_000n, WETH, 20_000n, factory);
    chain.mine(7_300);
    const mint = topicOf("Mint(address,address,int24,int24,uint128,uint256,uint256)");
    const topics = [mint, mint, mint, mint];
    const { number: blockNumber, hash: blockHash } = chain.tip;
    const common = { address: pool.address, topics, data: "0x", blockNumber, blockHash, transactionHash: blockHash };
    // Logs that an attacker can write into a dozen blocks of a cheap chain for some tens of dollars.
    for (let index = 0; index < 100_001; index++)
      chain.logsOf.push({ ...common, transactionIndex: 0, logIndex: index });
    chain.mine();
    chain.archive = false;
    const priced = await world.price(TOKEN, { exchange: factory, include: "percent_change,provenance" });
    expect([priced.usdPrice, priced.provenance?.twap30m]).toEqual([40, null]);
    const past = { exchange: factory, to_block: String(blockNumber) };
    expect(await world.refusal(TOKEN, past)).toMatchObject({ code: "no_price_at_block" });
    expect((await world.price(TOKEN, { to_block: String(blockNumber) })).usdPrice).toBe(20);
  });

  test("counts concentrated liquidity only up to the pool's balance", async () => {
    const world = dollarWorld();
    world.pair(TOKEN, 10_000n, DAI, 20_000n);
    const pool = world.chain.pool({ factory: UNI3, style: "v3", fee: 100, tokens: [TOKEN, DAI] });
    world.chain.swap(pool, 1n << 100n, 10n ** 27n, 0, [10n ** 18n, 10n ** 18n]);
    expect(await world.price(TOKEN)).toMatchObject({ usdPrice: 2, exchangeName: "Uniswap v2" });
  });

  test("uses a route over a connector if there is no direct pool", async () => {
    const world = dollarWorld();
    world.pair(WBTC, 100n, WETH, 1_500n);
    world.pair(TOKEN, 1_000n, WBTC, 10n, SUSHI);
    expect(await world.price(TOKEN)).toMatchObject({ usdPrice: 300, exchangeName: "Sushiswap v2" });
  });

  /** A world in which the coin's only dollar pool has $60,000 a side, and the token's pools with the coin are deep. */
  function thinDollarWorld(): World {
    const world = new World();
    world.pair(WETH, 30n, USDC, 60_000n);
    world.pair(TOKEN, 75_000_000n, WETH, 75_000n);
    return world;
  }

  test("counts a route as its thinnest pool, the coin's dollar pool too", async () => {
    const world = thinDollarWorld();
    const record = await world.price(TOKEN, { include: "provenance,depth" });
    expect(record.usdPrice).toBe(2);
    expect(record.provenance).toMatchObject({ liquidityUsd: "60000", confidence: "0.375" });
    // Whichever pool on the way moves, the answer moves: the coin's for 60,000 * (sqrt(1.02) - 1) dollars and its fee.
    expect(Number(record.depth!.move2PercentUsd)).toBeGreaterThan(597);
    expect(Number(record.depth!.move2PercentUsd)).toBeLessThan(599);
  });

  test("ranks routes that share their thinnest pool by their own pools", async () => {
    const world = thinDollarWorld();
    world.pair(TOKEN, 50_000_000n, WETH, 100_000n, SUSHI);
    // Each side of the other one is smaller in dollars, and both routes are as deep as the coin's dollar pool.
    expect(await world.price(TOKEN)).toMatchObject({ usdPrice: 4, exchangeName: "Sushiswap v2" });
  });

  test("prefers a pool with dollars to a deeper one whose coin hardly trades for dollars", async () => {
    const world = thinDollarWorld();
    world.pair(TOKEN, 50_000n, USDC, 110_000n);
    expect((await world.price(TOKEN)).usdPrice).toBe(2.2);
  });

  test("counts the onward pools of a connector, too", async () => {
    const world = new World();
    world.pair(WETH, 30n, USDC, 60_000n);
    world.pair(WBTC, 1_000n, WETH, 15_000n);
    world.pair(TOKEN, 1_000_000n, WBTC, 1_000n);
    const { usdPrice, provenance } = await world.price(TOKEN, { include: "provenance" });
    expect(usdPrice).toBe(30);
    expect(provenance).toMatchObject({ liquidityUsd: "60000", confidence: "0.375" });
  });
});

describe("the dollar", () => {
  /** USDC and USDT share a deep pool at par. A thin pool of ether and USDT lags by 7 %. */
  function laggingWorld(): World {
    const world = new World();
    world.pair(WETH, 10_000n, USDC, 20_000_000n);
    world.pair(USDC, 5_000_000n, USDT, 5_000_000n);
    world.pair(WETH, 15n, USDT, 27_800n);
    return world;
  }

  test("is measured where it trades most deeply, not over a thin pool that lags", async () => {
    const world = laggingWorld();
    for (const coin of [USDC, USDT]) {
      const { usdPrice, nativePrice, provenance } = await world.price(coin, { include: "provenance" });
      expect([usdPrice, nativePrice!.value]).toEqual([1, String(10n ** 18n / 2_000n)]);
      expect(provenance).toMatchObject({ liquidityUsd: "5000000", confidence: String(5_000_000 / 5_100_000) });
      expect(provenance).not.toHaveProperty("disputedStablecoins");
    }
    expect((await world.price(WETH)).usdPrice).toBe(2_000);
  });

  test("is neither disputed nor priced by a thin pool, even if no other one measures it", async () => {
    const world = new World();
    world.pair(WETH, 10_000n, USDC, 20_000_000n);
    world.pair(WETH, 15n, USDT, 27_800n);
    const coin = await world.price(USDC, { include: "provenance" });
    expect(coin).toMatchObject({ usdPrice: 1, provenance: { route: [], confidence: "0" } });
    const native = await world.price(WETH, { include: "provenance" });
    expect(native.usdPrice).toBe(2_000);
    expect(native.provenance).not.toHaveProperty("disputedStablecoins");
    // The coin that lags is measured by the other one: its thin pool is all there is.
    expect((await world.price(USDT)).usdPrice).toBeCloseTo(30_000 / 27_800, 9);
  });

  test("is not a coin that lost its peg, although no pool measures the one that trades most deeply", async () => {
    const world = new World();
    world.pair(WETH, 100_000n, USDC, 200_000_000n);
    world.pair(WETH, 150n, DAI, 600_000n);
    world.pair(TOKEN, 1_000_000n, DAI, 1_000_000n);
    for (const token of [DAI, TOKEN]) expect((await world.price(token)).usdPrice).toBe(0.5);
    world.chain.mine();
    world.pair(TOKEN, 1_000_000n, WETH, 250n);
    expect((await world.price(TOKEN)).usdPrice).toBe(0.5);
  });

  test("has its price in the coin by the deepest dollar pool of the coin, its own too", async () => {
    const world = new World();
    world.pair(USDC, 5_000_000n, USDT, 5_000_000n);
    world.pair(WETH, 2_000n, USDC, 4_000_000n);
    for (const [coins, dollars] of [[20n, 60_000n] as const, [50n, 150_000n] as const]) {
      world.pair(WETH, coins, USDT, dollars);
      const { nativePrice } = await world.price(USDC);
      expect(nativePrice!.value).toBe(String(10n ** 18n / 2_000n));
      world.chain.mine();
    }
  });

  test("is not disputed by a pool with a thousandth of what the coins trade most deeply in", async () => {
    const world = new World();
    world.pair(USDC, 5_000_000n, USDT, 5_000_000n);
    world.pair(USDC, 5_000_000n, DAI, 5_000_000n);
    for (const coin of [USDC, USDT]) world.pair(WETH, 1_000n, coin, 2_000_000n);
    world.pair(WETH, 17n, DAI, 34_700n);
    for (const token of [WETH, USDC, DAI]) {
      const { provenance } = await world.price(token, { include: "provenance" });
      expect(provenance).not.toHaveProperty("disputedStablecoins");
      expect(Number(provenance!.confidence)).toBeGreaterThan(0.9);
    }
  });

  test("is not vouched for by a thin pool at par", async () => {
    const world = dollarWorld();
    world.pair(USDT, 1_000_000n, USDC, 1_000_000n);
    world.pair(DAI, 1_000_000n, USDC, 800_000n);
    world.pair(DAI, 20_000n, USDT, 20_000n);
    world.pair(TOKEN, 1_000n, DAI, 1_000n);
    for (const token of [DAI, TOKEN]) expect((await world.price(token)).usdPrice).toBe(0.8);
  });

  test("is not quoted in a depegged stablecoin, which shows its real price", async () => {
    const world = dollarWorld();
    world.pair(DAI, 1_000_000n, USDC, 800_000n);
    world.pair(USDT, 1_000_000n, USDC, 1_000_000n);
    world.pair(TOKEN, 1_000n, DAI, 1_000n);
    expect((await world.price(DAI)).usdPrice).toBe(0.8);
    expect((await world.price(USDC)).usdPrice).toBe(1);
    expect((await world.price(TOKEN)).usdPrice).toBe(0.8);
  });

  test("follows the stablecoin with the deeper native pool if two disagree", async () => {
    const world = dollarWorld();
    world.pair(DAI, 1_000_000n, USDC, 800_000n);
    expect((await world.price(DAI)).usdPrice).toBe(0.8);
    expect((await world.price(WETH)).usdPrice).toBe(2_000);
    expect((await world.price(USDC)).usdPrice).toBe(1);
  });

  /** A world in which USDC and DAI are both at 90 cents of USDT, and ether is 2,000 USDT. */
  function fallenTogether(): World {
    const world = new World();
    world.pair(WETH, 900_000n, USDC, 2_000_000_000n);
    world.pair(WETH, 9_000n, DAI, 20_000_000n);
    world.pair(WETH, 1_000n, USDT, 2_000_000n);
    world.pair(USDC, 1_000_000n, DAI, 1_000_000n);
    world.pair(TOKEN, 1_000n, WETH, 1_000_000n);
    return world;
  }

  test("has at most half the confidence if two stablecoins outvote a third, and names the third", async () => {
    const world = fallenTogether();
    for (const address of [WETH, TOKEN, USDT, USDC]) {
      const { provenance } = (await world.price(address, { include: "provenance" })) as Required<PriceRecord>;
      expect(Number(provenance.confidence)).toBeLessThanOrEqual(0.5);
      const [third, ...more] = provenance.disputedStablecoins!;
      expect(more).toEqual([]);
      expect(third).toMatchObject({ address: USDT, symbol: "USDT" });
      expect(Number(third!.usdPrice)).toBeCloseTo(10 / 9, 12);
    }
    const { usdPrice, provenance } = await world.price(WETH, { include: "provenance" });
    expect(usdPrice).toBeCloseTo(2_222.22, 2);
    expect(provenance!.confidence).toBe("0.5");
  });

  test("names two stablecoins that disagree with each other although a third agrees with each", async () => {
    const world = dollarWorld();
    world.pair(USDT, 1_000_000n, USDC, 1_015_000n);
    world.pair(DAI, 1_015_000n, USDC, 1_000_000n);
    const between = world.pair(DAI, 10_300n, USDT, 10_000n);
    // A hundredth of what both trade most deeply with: it disputes nothing.
    expect((await world.price(WETH, { include: "provenance" })).provenance).not.toHaveProperty("disputedStablecoins");
    world.chain.mine();
    world.setPair(between, DAI, 206_000n, 200_000n);
    const { provenance } = await world.price(WETH, { include: "provenance" });
    expect(provenance!.disputedStablecoins!.map(({ symbol }) => symbol)).toEqual(["USDT", "DAI"]);
    expect(provenance!.confidence).toBe("0.5");
  });

  test("has its confidence from depth alone if all stablecoins agree within 2 %", async () => {
    const world = dollarWorld();
    world.pair(USDT, 1_000_000n, USDC, 1_019_000n);
    const { provenance } = await world.price(WETH, { include: "provenance" });
    expect(provenance).not.toHaveProperty("disputedStablecoins");
    expect(Number(provenance!.confidence)).toBeCloseTo(2_000_000 / 2_100_000, 12);
  });

  test("is not disputed by a pool below the chain's floor", async () => {
    const world = dollarWorld();
    world.pair(USDT, 400n, USDC, 300n);
    const { provenance } = await world.price(WETH, { include: "provenance" });
    expect(provenance).not.toHaveProperty("disputedStablecoins");
  });

  test("counts a lone stablecoin as one dollar with no confidence", async () => {
    const world = dollarWorld();
    const record = await world.price(USDC, { include: "provenance" });
    expect(record).toMatchObject({ usdPrice: 1, nativePrice: { value: "500000000000000" } });
    expect(record.provenance).toMatchObject({ route: [], confidence: "0", twap30m: null });
  });

  test("gives the native coin a price too", async () => {
    const world = dollarWorld();
    expect(await world.price(WETH)).toMatchObject({ usdPrice: 2_000, nativePrice: { value: (10n ** 18n).toString() } });
  });

  test("is required for any price", async () => {
    const world = new World();
    world.pair(TOKEN, 1_000n, WETH, 1_000n);
    expect(await world.refusal(TOKEN)).toMatchObject({
      code: "low_liquidity",
      details: { pools: [{ reason: "no_usd_price_of_quote" }] },
    });
  });
});

describe("manipulation", () => {
  test("of one block is visible, and moves the average by no more than its share", async () => {
    const world = dollarWorld();
    const pool = world.pair(TOKEN, 10_000n, WETH, 100n);
    world.chain.mine(200);
    world.setPair(pool, TOKEN, 1_000n, 1_000n);
    const pushed = await world.price(TOKEN, { include: "provenance" });
    expect(pushed.usdPrice).toBe(2_000);
    expect(pushed.provenance!.twap30m).toBe("20");
    expect(pushed.provenance!.route[0]).toMatchObject({ block: 200 });
    world.chain.mine();
    world.setPair(pool, TOKEN, 10_000n, 100n);
    const restored = await world.price(TOKEN, { include: "provenance" });
    expect(restored.usdPrice).toBe(20);
    expect(Number(restored.provenance!.twap30m)).toBeCloseTo(20 + (1_980 * 12) / 1_800, 9);
  });
});
