/**
 * Prices through the fixed list of connectors. A price never depends on earlier requests, connectors have their own
 * price, and their pools are followed like any others.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { AppError } from "../../src/core/errors.ts";
import type { Address } from "../../src/core/hex.ts";
import type { LogFilter } from "../../src/rpc/port.ts";
import { Process } from "../support/prices/cluster.ts";
import { ASKED, CONNECTED, HALF, LATER, OTHER, placeLinked, UNI } from "../support/prices/linked.ts";
import { DAI, dollarWorld, SUSHI, TOKEN, USDC, WBTC, WETH, type World } from "../support/prices/world.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(300_000);

const TEN_MINUTES = 600_000;

const answerOf = (world: World, address: Address): Promise<unknown> =>
  world.price(address, { include: "provenance" }).then(
    (record) => record,
    ({ code, details }) => ({ code, details }),
  );

/** A world in which UNI has only a pool with WBTC. */
function connectorWorld(): ReturnType<typeof dollarWorld> {
  const world = dollarWorld();
  world.pair(UNI, 10_000n, WBTC, 2n);
  world.pair(WBTC, 10n, WETH, 150n);
  return world;
}

async function step(world: World, change?: () => void): Promise<void> {
  world.chain.mine();
  change?.();
  await world.follower.poll();
}

describe("earlier requests", () => {
  const orders = [ASKED, ASKED.toReversed(), [...ASKED.slice(3), ...ASKED.slice(0, 3)]];

  for (const followed of [false, true]) {
    test(`change no answer, ${followed ? "followed" : "not followed"}`, async () => {
      const seen: unknown[] = [];
      for (const order of orders) {
        const world = dollarWorld();
        placeLinked(world);
        if (followed) world.follower.start();
        const rounds = followed ? 3 : 1;
        for (let round = 0; round < rounds; round++) {
          for (const address of order) await answerOf(world, address);
          world.clock.ms += TEN_MINUTES + 1;
          await step(world);
        }
        const answers: unknown[] = [];
        for (const address of ASKED) answers.push(await answerOf(world, address));
        seen.push(answers);
      }
      for (const answers of seen) expect(answers).toEqual(seen[0]);
    });
  }

  test("give a token no route through a token that is no connector", async () => {
    const world = dollarWorld();
    placeLinked(world);
    expect((await world.price(OTHER)).usdPrice).toBe(20);
    expect(await world.refusal(TOKEN)).toMatchObject({ code: "no_pool", details: { pools: [] } });
    expect((await world.price(LATER)).usdPrice).toBe(5);
    expect((await world.price(CONNECTED)).usdPrice).toBe(3);
    world.clock.ms += TEN_MINUTES + 1;
    expect(await world.refusal(TOKEN)).toMatchObject({ code: "no_pool", details: { pools: [] } });
    expect((await world.price(HALF)).usdPrice).toBe(20);
  });
});

describe("a connector", () => {
  test("that trades only against another connector gets a price in two round trips", async () => {
    const world = connectorWorld();
    const { provenance, ...record } = await world.price(UNI, { include: "provenance" });
    expect(record).toMatchObject({ usdPrice: 6, nativePrice: { value: String(3n * 10n ** 15n) } });
    expect(provenance!.route.map(({ token0, token1 }) => new Set([token0, token1]))).toEqual([
      new Set([UNI, WBTC]),
      new Set([WBTC, WETH]),
      new Set([WETH, USDC]),
    ]);
    const cold = connectorWorld();
    await cold.price(UNI);
    expect(cold.chain.requests).toEqual(["callsAtHead", "calls@0", "header"]);
  });

  test("is priced from memory in each process, and alike after a restart", async () => {
    const world = connectorWorld();
    const { chain } = world;
    const before = new Process(chain, world.log);
    await before.follow();
    await before.start();
    const reads = await new Process(chain, world.log).start();
    expect((await before.ask(UNI)).record.usdPrice).toBe(6);
    expect((await reads.ask(UNI)).record.usdPrice).toBe(6);
    for (let block = 0; block < 3; block++) {
      chain.mine();
      await before.follow();
      await Promise.all([before.show(), reads.show()]);
    }
    chain.mine();
    world.setPair(chain.pools.find(({ token0, token1 }) => [token0, token1].includes(UNI))!, UNI, 10_000n, 4n);
    await before.follow();
    await Promise.all([before.show(), reads.show()]);
    chain.requests.length = 0;
    for (const process of [before, reads]) expect((await process.ask(UNI)).record.usdPrice).toBe(12);
    expect(chain.requests).toEqual([]);
    const after = await new Process(chain, world.log).start();
    expect((await after.ask(UNI)).record.usdPrice).toBe(12);
  });

  test("has its direct price if it has a direct pool", async () => {
    const world = connectorWorld();
    world.pair(UNI, 1_000n, WETH, 4n, SUSHI);
    expect((await world.price(UNI)).usdPrice).toBe(8);
  });
});

describe("a pool that is created between a token's first request and the first followed block", () => {
  test("is found by the next request, with only one more call to the factories", async () => {
    const world = dollarWorld();
    world.pair(TOKEN, 1_000n, WETH, 10n);
    expect((await world.price(TOKEN)).usdPrice).toBe(20);
    world.chain.mine();
    world.pair(TOKEN, 10_000n, USDC, 300_000n, SUSHI);
    world.follower.start();
    for (let block = 0; block < 2; block++) await step(world);
    expect((await world.price(TOKEN)).usdPrice).toBe(30);
    await step(world);
    await step(world);
    world.chain.requests.length = 0;
    expect((await world.price(TOKEN)).usdPrice).toBe(30);
    expect(world.chain.requests).toEqual([]);
  });
});

describe("a pool that is created while its tokens are followed", () => {
  test("opens a route through a connector, moves the price, and is known after a restart", async () => {
    const world = dollarWorld();
    const uni = world.pair(UNI, 10_000n, WETH, 50n);
    world.follower.start();
    expect(await world.refusal(TOKEN)).toMatchObject({ code: "no_pool" });
    for (let block = 0; block < 2; block++) await step(world);
    await step(world, () => void world.pair(TOKEN, 10_000n, UNI, 5_000n, SUSHI));
    await step(world);
    expect(await world.price(TOKEN)).toMatchObject({ usdPrice: 5, exchangeName: "Sushiswap v2" });
    await step(world, () => world.setPair(uni, UNI, 10_000n, 100n));
    world.chain.requests.length = 0;
    expect((await world.price(TOKEN)).usdPrice).toBe(10);
    expect(world.chain.requests).toEqual([]);
    const again = world.restarted();
    expect((await again.price({ address: TOKEN, percentChange: false, provenance: false })).usdPrice).toBe(10);
  });

  test("gives a connector its first route to the dollar", async () => {
    const world = dollarWorld();
    world.pair(TOKEN, 10_000n, UNI, 5_000n);
    world.follower.start();
    expect(await world.refusal(TOKEN)).toMatchObject({ code: "low_liquidity" });
    for (let block = 0; block < 2; block++) await step(world);
    await step(world, () => void world.pair(UNI, 10_000n, WETH, 50n));
    await step(world);
    world.chain.requests.length = 0;
    expect((await world.price(TOKEN)).usdPrice).toBe(5);
    expect(world.chain.requests).toEqual(["callsAtHead", "calls@4", "header"]);
    await step(world);
    world.chain.requests.length = 0;
    expect((await world.price(TOKEN)).usdPrice).toBe(5);
    expect(world.chain.requests).toEqual([]);
  });

  test("is found at the first head after blocks whose logs were not read", async () => {
    const world = dollarWorld();
    const { chain } = world;
    world.pair(TOKEN, 1_000n, WETH, 10n);
    world.follower.start();
    expect((await world.price(TOKEN)).usdPrice).toBe(20);
    // So many blocks that asking the factories costs less than their logs.
    chain.mine(600);
    world.pair(TOKEN, 10_000n, USDC, 300_000n, SUSHI);
    await step(world);
    chain.requests.length = 0;
    expect((await world.price(TOKEN)).usdPrice).toBe(30);
    expect(chain.requests).toEqual(["callsAtHead", "calls@601", "header"]);
    // The node refuses the logs of one block, in which the deepest pool is created.
    const { completeLogs } = chain;
    chain.completeLogs = async () => {
      throw new AppError("no logs today", { code: "chain_unavailable", retryable: true });
    };
    await step(world, () => void world.pair(TOKEN, 100_000n, DAI, 4_000_000n, SUSHI));
    chain.completeLogs = completeLogs;
    expect((await world.price(TOKEN)).usdPrice).toBe(40);
    await step(world);
    chain.requests.length = 0;
    expect((await world.price(TOKEN)).usdPrice).toBe(40);
    expect(chain.requests).toEqual([]);
  });

  test("is found on the branch that replaces a block in which another one was", async () => {
    const world = dollarWorld();
    const { chain } = world;
    world.pair(TOKEN, 1_000n, WETH, 10n);
    world.follower.start();
    await world.price(TOKEN);
    for (let block = 0; block < 3; block++) await step(world);
    expect((await world.price(TOKEN)).usdPrice).toBe(20);
    chain.fork(1);
    chain.mine();
    world.pair(TOKEN, 10_000n, USDC, 300_000n, SUSHI);
    chain.mine(2);
    await world.follower.poll();
    expect(await world.price(TOKEN)).toMatchObject({ usdPrice: 30, toBlock: "4" });
  });

  test("disappears with its block in a reorg", async () => {
    const world = dollarWorld();
    world.pair(UNI, 10_000n, WETH, 50n);
    world.follower.start();
    await world.refusal(TOKEN);
    for (let block = 0; block < 2; block++) await step(world);
    await step(world, () => void world.pair(TOKEN, 10_000n, UNI, 5_000n, SUSHI));
    expect((await world.price(TOKEN)).usdPrice).toBe(5);
    world.chain.fork(2);
    world.chain.mine(2);
    await world.follower.poll();
    // The fake chain keeps the pool's contract but has lost its state.
    expect(await world.refusal(TOKEN)).toMatchObject({ code: "low_liquidity" });
  });
});

describe("a past block on a node without old state", () => {
  /** Returns the pools for which a request reads logs. */
  async function searched(world: World, ask: () => Promise<unknown>): Promise<Set<Address>> {
    const { chain } = world;
    const addresses = new Set<Address>();
    const { logs } = chain;
    chain.logs = (filter: LogFilter) => {
      for (const address of filter.addresses) addresses.add(address);
      return logs.call(chain, filter);
    };
    await ask();
    chain.logs = logs;
    return addresses;
  }

  test("costs no logs of connector pools for a token with a direct price, and all of them for one without", async () => {
    const world = dollarWorld();
    placeLinked(world);
    const link = world.pair(HALF, 10_000n, UNI, 1_000n);
    const uni = world.chain.pools.filter(({ token0, token1 }) => [token0, token1].includes(UNI));
    world.chain.archive = false;
    world.chain.mine(2_000);
    const direct = await searched(world, async () => {
      expect((await world.price(HALF, { to_block: "5" })).usdPrice).toBe(20);
    });
    expect(direct.has(world.dollar.address)).toBe(true);
    expect(direct.has(link.address)).toBe(false);
    for (const { address } of uni) expect(direct.has(address)).toBe(false);
    const connected = await searched(world, async () => {
      expect((await world.price(LATER, { to_block: "5" })).usdPrice).toBe(5);
    });
    expect(uni.filter(({ address }) => connected.has(address)).map(({ token0, token1 }) => [token0, token1])).toEqual(
      uni
        .filter(({ token0, token1 }) => [LATER, WETH].some((token) => token === token0 || token === token1))
        .map(({ token0, token1 }) => [token0, token1]),
    );
  });
});
