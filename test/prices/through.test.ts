/**
 * Tokens that are priced through another token in the log: whatever the order of the questions and whoever was asked,
 * the way is found, and a pool that opens it later is noticed.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { type Address, toAddress } from "../../src/core/hex.ts";
import { priceStream } from "../../src/events/types.ts";
import { parsePriceQuery, type RawQuery } from "../../src/prices/query.ts";
import { createPrices, type PriceLimits, type Prices } from "../../src/prices/service.ts";
import { MemoryLog } from "../support/memory-log.ts";
import { eventually } from "../support/service.ts";
import { Process } from "./support/cluster.ts";
import { addressOf } from "./support/fake-chain.ts";
import { DAI, dollarWorld, eth, SUSHI, TOKEN, USDC, USDT, WETH, type World } from "./support/world.ts";

// Real parts, on machines that have others to serve: the runner's five seconds would kill them in the middle.
setDefaultTimeout(30_000);

const OTHER = addressOf("other");
const TEN_MINUTES = 600_000;

function scene(limits: Partial<PriceLimits> = {}): { world: World; step: (change?: () => void) => Promise<void> } {
  const world = dollarWorld(limits);
  world.chain.token({ address: OTHER, name: "O", symbol: "O", decimals: 18 });
  // OTHER is $20.
  world.pair(OTHER, 10_000n, WETH, 100n);
  return {
    world,
    async step(change) {
      world.chain.mine();
      change?.();
      await world.follower.poll();
    },
  };
}

/** TOKEN has a pool with OTHER alone, and was asked about before OTHER was. */
async function askedTooEarly(): Promise<ReturnType<typeof scene>> {
  const { world, step } = scene();
  world.pair(TOKEN, 10_000n, OTHER, 5_000n);
  world.follower.start();
  expect(await world.refusal(TOKEN)).toMatchObject({ code: "no_pool" });
  await step();
  await world.price(OTHER);
  await step();
  return { world, step };
}

/** Two blocks later TOKEN's price comes from memory. */
async function expectFollowed({ world, step }: ReturnType<typeof scene>, usdPrice = 10): Promise<void> {
  await step();
  await step();
  world.chain.requests.length = 0;
  expect((await world.price(TOKEN)).usdPrice).toBe(usdPrice);
  expect(world.chain.requests).toEqual([]);
}

const usd = async (prices: Prices, address: typeof TOKEN, query: RawQuery = {}): Promise<number> =>
  (await prices.price({ address, ...parsePriceQuery(query) })).usdPrice;

describe("a token that was asked about before the one it goes through", () => {
  test("is priced within ten minutes though it is followed, and asks the factories no oftener", async () => {
    const { world, step } = await askedTooEarly();
    world.chain.requests.length = 0;
    for (let minute = 0; minute < 9; minute++) {
      world.clock.ms += TEN_MINUTES / 10;
      await step();
      expect(await world.refusal(TOKEN)).toMatchObject({ code: "no_pool" });
    }
    expect(world.chain.requests).toEqual([]);
    world.clock.ms += TEN_MINUTES / 10;
    await step();
    expect((await world.price(TOKEN)).usdPrice).toBe(10);
    await expectFollowed({ world, step });
  });

  test("is so at a past block too", async () => {
    const { world, step } = await askedTooEarly();
    world.clock.ms += TEN_MINUTES;
    await step();
    expect((await world.price(TOKEN, { to_block: "1" })).usdPrice).toBe(10);
  });

  test("asks nobody again where it has a price", async () => {
    const { world, step } = scene();
    world.follower.start();
    await world.price(OTHER);
    await step();
    await world.price(OTHER);
    world.clock.ms += TEN_MINUTES;
    await step();
    world.chain.requests.length = 0;
    expect((await world.price(OTHER)).usdPrice).toBe(20);
    expect(world.chain.requests).toEqual([]);
  });
});

describe("a token that goes through a shallow pool", () => {
  /** DEEP, which nobody asked about, is $10, and TOKEN $30 by the deep pool, $10 by the shallow one. */
  async function shallow(): Promise<ReturnType<typeof scene> & { DEEP: Address }> {
    const { world, step } = scene();
    const DEEP = addressOf("deep");
    world.chain.token({ address: DEEP, name: "D", symbol: "D", decimals: 18 });
    world.pair(DEEP, 1_000_000n, WETH, 5_000n);
    world.pair(TOKEN, 1_000n, OTHER, 500n);
    world.pair(TOKEN, 100_000n, DEEP, 300_000n, SUSHI);
    world.follower.start();
    await world.price(OTHER);
    await step();
    return { world, step, DEEP };
  }

  test("is found a deeper way through a token that is known since, beside an answer and within ten minutes", async () => {
    const { world, step, DEEP } = await shallow();
    expect((await world.price(TOKEN)).usdPrice).toBe(10);
    await step();
    await world.price(DEEP);
    await step();
    await step();
    world.chain.requests.length = 0;
    expect((await world.price(TOKEN)).usdPrice).toBe(10);
    expect(world.chain.requests).toEqual([]);
    world.clock.ms += TEN_MINUTES;
    await eventually("the deep pool counts", async () => {
      await step();
      return (await world.price(TOKEN)).usdPrice === 30 ? true : undefined;
    });
    await step();
    await step();
    world.chain.requests.length = 0;
    expect((await world.price(TOKEN)).usdPrice).toBe(30);
    expect(world.chain.requests).toEqual([]);
  });

  test("is priced by the deeper way at a block that was asked about before, too", async () => {
    const { world, step, DEEP } = await shallow();
    const block = String(world.chain.tip.number);
    await world.price(TOKEN);
    for (let mined = 0; mined < eth.finalityDepth + 2; mined++) await step();
    expect((await world.price(TOKEN, { to_block: block })).usdPrice).toBe(10);
    await world.price(DEEP);
    world.clock.ms += TEN_MINUTES;
    await eventually("the deep pool counts", async () => {
      await step();
      return (await world.price(TOKEN)).usdPrice === 30 ? true : undefined;
    });
    expect((await world.price(TOKEN, { to_block: block })).usdPrice).toBe(30);
    world.chain.requests.length = 0;
    expect((await world.price(TOKEN, { to_block: block })).usdPrice).toBe(30);
    expect(world.chain.requests).toEqual([]);
  });

  test("is so too where the way was found while the block was being read", async () => {
    const { world, step, DEEP } = await shallow();
    const { chain, clock } = world;
    const block = chain.tip.number;
    await world.price(TOKEN);
    for (let mined = 0; mined < eth.finalityDepth + 2; mined++) await step();
    const [held, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const { calls } = chain;
    chain.calls = async (asked, at) => {
      if (at === block) {
        held.resolve();
        await release.promise;
      }
      return calls.call(chain, asked, at);
    };
    const early = world.price(TOKEN, { to_block: String(block) });
    await held.promise;
    await world.price(DEEP);
    clock.ms += TEN_MINUTES;
    await eventually("the deep pool counts", async () => {
      await step();
      return (await world.price(TOKEN)).usdPrice === 30 ? true : undefined;
    });
    release.resolve();
    expect((await early).usdPrice).toBe(10);
    expect((await world.price(TOKEN, { to_block: String(block) })).usdPrice).toBe(30);
  });
});

describe("many questions about one token at once", () => {
  const FLOORS = Array.from({ length: 20 }, (_, index) => index);

  /** TOKEN goes through OTHER and is followed, and it is time to look again. */
  async function due(): Promise<ReturnType<typeof scene>> {
    const { world, step } = scene();
    world.pair(TOKEN, 10_000n, OTHER, 5_000n);
    world.follower.start();
    await world.price(OTHER);
    await step();
    await world.price(TOKEN);
    await expectFollowed({ world, step });
    world.clock.ms += TEN_MINUTES + 1;
    await step();
    world.chain.requests.length = 0;
    return { world, step };
  }

  test("look further once, beside their answers", async () => {
    const { world } = await due();
    await Promise.all(FLOORS.map((floor) => world.price(TOKEN, { min_liquidity_usd: String(floor + 1) })));
    await eventually("it was looked", async () => (world.chain.requests.length > 0 ? true : undefined));
    await eventually("another look is not due", async () => {
      const before = world.chain.requests.length;
      await world.price(TOKEN, { min_liquidity_usd: "100" });
      return world.chain.requests.length === before ? true : undefined;
    });
    expect(world.chain.requests).toHaveLength(1);
  });

  test("ask the factories once more where all are refused", async () => {
    const { world } = await due();
    const refused = FLOORS.map((floor) => world.refusal(TOKEN, { min_liquidity_usd: String(10 ** 9 + floor) }));
    expect(new Set((await Promise.all(refused)).map(({ code }) => code))).toEqual(new Set(["low_liquidity"]));
    expect(world.chain.requests).toHaveLength(1);
  });
});

describe("a pool of two tokens in memory that is created while they are followed", () => {
  test("opens the way at once, and is followed", async () => {
    const { world, step } = scene();
    world.follower.start();
    expect(await world.refusal(TOKEN)).toMatchObject({ code: "no_pool" });
    await world.price(OTHER);
    await step();
    let pool: ReturnType<World["pair"]> | undefined;
    await step(() => {
      pool = world.pair(TOKEN, 10_000n, OTHER, 5_000n, SUSHI);
    });
    await step();
    expect(await world.price(TOKEN)).toMatchObject({ usdPrice: 10, exchangeName: "Sushiswap v2" });
    await step(() => world.setPair(pool!, TOKEN, 10_000n, 2_500n));
    world.chain.requests.length = 0;
    expect((await world.price(TOKEN)).usdPrice).toBe(5);
    expect((await world.price(OTHER)).usdPrice).toBe(20);
    expect(world.chain.requests).toEqual([]);
    // The same from the log alone.
    const again = world.restarted();
    await again.load();
    expect(await usd(again, TOKEN)).toBe(5);
  });

  test("opens it for a process that only reads the log", async () => {
    const { world } = scene();
    const { chain, log } = world;
    const follows = new Process(chain, log);
    await follows.follow();
    await follows.start();
    const reads = await new Process(chain, log).start();
    const step = async (change?: () => void): Promise<void> => {
      chain.mine();
      change?.();
      await follows.follow();
      await Promise.all([follows.show(), reads.show()]);
    };
    for (const process of [follows, reads]) {
      expect(await process.ask(TOKEN).catch(({ code }) => code)).toBe("no_pool");
      await process.ask(OTHER);
    }
    await step();
    await step(() => void world.pair(TOKEN, 10_000n, OTHER, 5_000n, SUSHI));
    await step();
    chain.requests.length = 0;
    for (const process of [follows, reads]) expect((await process.ask(TOKEN)).record.usdPrice).toBe(10);
    expect(chain.requests).toEqual([]);
    for (const process of [follows, reads]) process.prices.close();
  });

  test("with the native coin leads through the reference pools as they are, in a process that was restarted, too", async () => {
    const world = dollarWorld();
    const { chain, log, dollar } = world;
    const follows = new Process(chain, log);
    await follows.follow();
    await follows.start();
    world.pair(TOKEN, 10_000n, WETH, 100n);
    await follows.ask(TOKEN);
    const shown = [follows];
    const step = async (change?: () => void): Promise<void> => {
      chain.mine();
      change?.();
      await follows.follow();
      for (const process of shown) await process.show();
    };
    await step();
    await step();
    const reads = await new Process(chain, log).start();
    shown.push(reads);
    await reads.ask(TOKEN);
    await step(() => void world.pair(TOKEN, 100_000n, WETH, 1_000n, SUSHI));
    await step();
    await step(() => world.setPair(dollar, WETH, 1_000n, 3_000_000n));
    chain.requests.length = 0;
    for (const process of shown) expect((await process.ask(TOKEN)).record.usdPrice).toBe(30);
    expect(chain.requests).toEqual([]);
    for (const process of shown) process.prices.close();
  });

  test("is gone with its block", async () => {
    const { world, step } = scene();
    world.follower.start();
    await world.refusal(TOKEN);
    await world.price(OTHER);
    await step();
    await step();
    await step(() => void world.pair(TOKEN, 10_000n, OTHER, 5_000n, SUSHI));
    expect((await world.price(TOKEN)).usdPrice).toBe(10);
    world.chain.fork(2);
    world.chain.mine(2);
    await world.follower.poll();
    // The made-up chain keeps the pool; its state is gone.
    expect(await world.refusal(TOKEN)).toMatchObject({ code: "low_liquidity" });
  });
});

describe("a token that memory let go while another one goes through it", () => {
  test("is gone through as it is known to who asks about itself, from memory", async () => {
    const { world, step } = scene({ pools: 7 });
    const BIG = addressOf("big");
    world.chain.token({ address: BIG, name: "B", symbol: "B", decimals: 18 });
    for (const coin of [WETH, USDC, USDT, DAI]) world.pair(BIG, 1_000_000n, coin, 5_000n);
    world.pair(OTHER, 1_000n, USDC, 20_000n);
    world.pair(TOKEN, 10_000n, OTHER, 5_000n);
    world.follower.start();
    await world.price(OTHER);
    await step();
    expect((await world.price(TOKEN)).usdPrice).toBe(10);
    await step();
    // There is room for it and the first pools, but not for OTHER beside them.
    await world.price(BIG);
    await step();
    await world.price(OTHER);
    await world.price(TOKEN);
    await step();
    // OTHER becomes worth $30 by its deepest pool.
    await step(() => world.pair(OTHER, 10_000n, USDC, 300_000n, SUSHI));
    await step();
    expect((await world.price(OTHER)).usdPrice).toBe(30);
    expect((await world.price(TOKEN)).usdPrice).toBe(15);
    await expectFollowed({ world, step }, 15);
  });
});

describe("a token in the log that another one has gone through", () => {
  for (const followed of [false, true]) {
    test(`finds its own way when it is asked about itself, ${followed ? "followed" : "not followed"}`, async () => {
      const { world, step } = scene();
      world.pair(TOKEN, 10_000n, OTHER, 5_000n);
      await world.price(OTHER);
      expect((await world.price(TOKEN)).usdPrice).toBe(10);
      world.chain.mine(1_000);
      world.clock.ms += 8_000_000;
      const again = world.restarted();
      Object.assign(world, { prices: again });
      world.follower.start();
      expect(await usd(again, OTHER)).toBe(20);
      for (let block = 0; followed && block < 3; block++) {
        await step();
        expect(await usd(again, OTHER)).toBe(20);
      }
      expect(await usd(again, TOKEN)).toBe(10);
    });
  }

  test("is looked at anew where the log's list of its pools is old", async () => {
    const { world } = scene();
    world.pair(TOKEN, 10_000n, OTHER, 5_000n);
    await world.price(OTHER);
    world.chain.mine(1_000);
    world.clock.ms += 8_000_000;
    world.pair(OTHER, 100_000n, WETH, 3_000n, SUSHI);
    const again = world.restarted();
    expect(await usd(again, TOKEN)).toBe(10);
    expect(await usd(again, OTHER)).toBe(60);
  });

  test("knows what it goes through after a restart in the middle of following", async () => {
    const { world } = scene();
    const { chain, log } = world;
    const LAST = addressOf("last");
    chain.token({ address: LAST, name: "L", symbol: "L", decimals: 18 });
    world.pair(TOKEN, 10_000n, OTHER, 5_000n);
    world.pair(LAST, 10_000n, TOKEN, 5_000n);
    const before = new Process(chain, log);
    await before.follow();
    await before.start();
    const asked = async (process: Process): Promise<unknown[]> => {
      const answers: unknown[] = [];
      for (const address of [OTHER, TOKEN, LAST]) {
        answers.push(
          await process.ask(address).then(
            ({ record }) => record.usdPrice,
            ({ code }) => code,
          ),
        );
      }
      return answers;
    };
    // Two tokens in between are one too many.
    const expected = [20, 10, "low_liquidity"];
    expect(await asked(before)).toEqual(expected);
    for (let block = 0; block < 3; block++) {
      chain.mine();
      await before.follow();
      await before.show();
    }
    expect(await asked(before)).toEqual(expected);
    before.prices.close();
    const after = await new Process(chain, log).start();
    chain.requests.length = 0;
    expect(await asked(after)).toEqual(expected);
    expect(chain.requests).toEqual([]);
    after.prices.close();
  });
});

/** Tokens that are worth nothing, at the lowest addresses there are. */
const worthless = (count: number): Address[] =>
  Array.from({ length: count }, (_, index) => toAddress(`0x${(index + 1).toString(16).padStart(40, "0")}`));

function place({ chain }: World, addresses: readonly Address[]): void {
  for (const address of addresses) chain.token({ address, name: "W", symbol: "W", decimals: 18 });
}

describe("pools with worthless tokens", () => {
  const MINTED = 10n ** 15n;
  const fillings: Record<string, (world: World, address: Address) => void> = {
    "nobody has filled": ({ chain }, address) => {
      chain.pool({ factory: SUSHI, style: "v2", fee: 3000, tokens: [TOKEN, address] });
    },
    "hold a little of the token and a mountain of their own": (world, address) => {
      world.pair(TOKEN, 1n, address, MINTED, SUSHI);
    },
    "hold more of the token than the way it is priced by": (world, address) => {
      world.pair(TOKEN, 20_000n, address, MINTED, SUSHI);
    },
  };
  for (const [what, fill] of Object.entries(fillings)) {
    for (const count of what.startsWith("hold more") ? [4, 12] : [4, 12, 40]) {
      test(`that ${what} take a token no price: ${count}`, async () => {
        const { world, step } = scene();
        world.pair(TOKEN, 10_000n, OTHER, 5_000n);
        const tokens = worthless(count);
        place(world, tokens);
        for (const address of tokens) fill(world, address);
        world.follower.start();
        await world.price(OTHER);
        for (const address of tokens) await world.refusal(address);
        await step();
        expect((await world.price(TOKEN)).usdPrice).toBe(10);
        await step();
        await step();
        world.chain.requests.length = 0;
        expect((await world.price(TOKEN)).usdPrice).toBe(10);
        expect(world.chain.requests).toEqual([]);
        const again = world.restarted();
        await again.load();
        expect(await usd(again, TOKEN)).toBe(10);
        expect(await usd(again, TOKEN, { to_block: "1" })).toBe(10);
      });

      test(`that ${what} take no way that opens after them: ${count}`, async () => {
        const { world, step } = scene();
        const tokens = worthless(count);
        place(world, tokens);
        world.follower.start();
        await world.price(OTHER);
        for (const address of tokens) await world.refusal(address);
        await world.refusal(TOKEN);
        await step();
        await step(() => {
          for (const address of tokens) fill(world, address);
        });
        await step(() => void world.pair(TOKEN, 10_000n, OTHER, 5_000n));
        await step();
        expect((await world.price(TOKEN)).usdPrice).toBe(10);
        const again = world.restarted();
        await again.load();
        expect(await usd(again, TOKEN)).toBe(10);
      });
    }
  }

  test("do not replace the one that carries the price, and the deepest of several does", async () => {
    const { world, step } = scene();
    const others = ["a", "b", "c", "d", "e", "f"].map(addressOf);
    place(world, others);
    // Each is $20, and TOKEN worth a cent more by each.
    for (const [index, other] of others.entries()) {
      world.pair(other, 10_000n, WETH, 100n);
      world.pair(TOKEN, 1_000n + 100n * BigInt(index), other, 500n + 60n * BigInt(index));
    }
    const deepest = (20 * 800) / 1_500;
    for (const order of [others, others.toReversed()]) {
      const prices = createPrices({
        chain: eth,
        reader: world.chain,
        log: new MemoryLog(),
        view: world.follower,
        clock: world.clock,
      });
      for (const address of order) await usd(prices, address);
      expect(await usd(prices, TOKEN)).toBeCloseTo(deepest, 10);
    }
    world.follower.start();
    for (const address of others) await world.price(address);
    expect((await world.price(TOKEN)).usdPrice).toBeCloseTo(deepest, 10);
    await step();
    await step();
    expect((await world.price(TOKEN)).usdPrice).toBeCloseTo(deepest, 10);
  });
});

describe("a way through one of many tokens in the log", () => {
  /** OTHER asked about first, then as many more; the follower has all of them. */
  async function crowd(count: number): Promise<ReturnType<typeof scene>> {
    const { world, step } = scene();
    world.follower.start();
    await world.price(OTHER);
    for (let index = 0; index < count; index++) {
      const address = addressOf(`one of many ${index}`);
      place(world, [address]);
      world.pair(address, 10_000n, WETH, 100n);
      await world.price(address);
    }
    await step();
    return { world, step };
  }

  /** Tokens as another process would have written them. */
  async function logged({ log }: World, addresses: readonly Address[]): Promise<void> {
    const said = { type: "TokenIdentified", name: "W", symbol: "W", decimals: 18, isContract: true, block: 0 } as const;
    for (const address of addresses) {
      await log.append({ stream: priceStream(1, address), events: [said], expectedVersion: 0 });
    }
  }

  test("is found with the first question, in three round trips", async () => {
    const { world, step } = await crowd(40);
    world.pair(TOKEN, 10_000n, OTHER, 5_000n);
    const { number } = world.chain.tip;
    world.chain.requests.length = 0;
    expect((await world.price(TOKEN)).usdPrice).toBe(10);
    expect(world.chain.requests).toEqual(["callsAtHead", "calls@latest", `calls@${number}`, "header"]);
    await expectFollowed({ world, step });
  });

  test("is looked for where the token's own pool has no price, after a first answer of three round trips", async () => {
    const { world, step } = await crowd(40);
    world.pair(TOKEN, 1n, USDC, 1n, SUSHI);
    const head = (): string => `calls@${world.chain.tip.number}`;
    const asked = async (address: Address): Promise<unknown> => {
      world.chain.requests.length = 0;
      return world.price(address).then(
        ({ usdPrice }) => usdPrice,
        ({ code }) => code,
      );
    };
    const expected = ["callsAtHead", head(), "header"];
    expect(await asked(TOKEN)).toBe("low_liquidity");
    expect(world.chain.requests.slice(0, 3)).toEqual(expected);
    await step();
    await step();
    world.pair(TOKEN, 10_000n, OTHER, 5_000n);
    expect(await asked(TOKEN)).toBe("low_liquidity");
    expect(world.chain.requests).toEqual([]);
    world.clock.ms += TEN_MINUTES;
    await step();
    expect(await asked(TOKEN)).toBe(10);

    const other = await crowd(40);
    other.world.pair(TOKEN, 1n, USDC, 1n, SUSHI);
    other.world.pair(TOKEN, 10_000n, OTHER, 5_000n);
    expect(await other.world.refusal(TOKEN)).toMatchObject({ code: "low_liquidity" });
    // Meanwhile it is found.
    const again = () =>
      other.world.price(TOKEN).then(
        ({ usdPrice }) => usdPrice,
        () => undefined,
      );
    expect(await eventually("the way is found", again)).toBe(10);
  });

  test("is found by the next question where the log knows more than one round asks about", async () => {
    const { world, step } = scene();
    world.follower.start();
    await world.price(OTHER);
    world.pair(TOKEN, 10_000n, OTHER, 5_000n);
    await logged(world, worthless(2_100));
    await step();
    const fresh = world.restarted();
    const answers: unknown[] = [];
    for (let question = 0; question < 4; question++) {
      answers.push(await usd(fresh, TOKEN).catch(({ code }) => code));
      world.clock.ms += 1_000;
    }
    expect(answers).toEqual(["no_pool", "no_pool", 10, 10]);
  });

  test("is not looked for where a token that has a price is refused one for its exchange, its floor or its block", async () => {
    const { world, step } = await crowd(40);
    world.pair(TOKEN, 10_000n, WETH, 100n);
    expect((await world.price(TOKEN)).usdPrice).toBe(20);
    await step();
    await step();
    world.chain.requests.length = 0;
    for (const query of [{ exchange: "sushiswapv2" }, { min_liquidity_usd: "1000000000" }]) {
      const refused = world.price(TOKEN, query).catch((error: unknown) => error);
      expect(await refused).toMatchObject({ status: 404 });
    }
    expect(world.chain.requests).toEqual([]);
  });

  test("is looked for once in ten minutes where there is none", async () => {
    const { world, step } = await crowd(40);
    expect(await world.refusal(TOKEN)).toMatchObject({ code: "no_pool" });
    await step();
    await step();
    world.chain.requests.length = 0;
    for (let minute = 0; minute < 9; minute++) {
      world.clock.ms += TEN_MINUTES / 10;
      await step();
      expect(await world.refusal(TOKEN)).toMatchObject({ code: "no_pool" });
    }
    expect(world.chain.requests).toEqual([]);
    world.pair(TOKEN, 10_000n, OTHER, 5_000n);
    world.clock.ms += TEN_MINUTES / 10;
    expect((await world.price(TOKEN)).usdPrice).toBe(10);
  });
});
