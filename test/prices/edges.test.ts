/**
 * Edge cases of the price contract on the fake chain: a named exchange and a stablecoin that no pool measures, pools
 * that never traded, floors that no pool reaches, and what the answer shows of each pool.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { CHAINS, type Chain } from "../../src/chains/chains.ts";
import type { Address } from "../../src/core/hex.ts";
import type { PriceRecord } from "../../src/prices/models.ts";
import { createPrices } from "../../src/prices/price-service.ts";
import { PROBED_STYLES } from "../../src/prices/styles/styles.ts";
import { MemoryLog } from "../support/memory-log.ts";
import { addressOf, FakeChain } from "../support/prices/fake-chain.ts";
import { DAI, dollarWorld, ManualClock, SUSHI, TOKEN, UNI2, UNI3, USDC, WETH } from "../support/prices/world.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(300_000);

describe("a lone stablecoin", () => {
  test("is one dollar on an exchange that trades it, and is refused on an exchange that does not", async () => {
    const world = dollarWorld();
    expect(await world.price(USDC, { exchange: "uniswapv2" })).toMatchObject({ usdPrice: 1, exchangeAddress: UNI2 });
    expect(await world.refusal(USDC, { exchange: "sushiswap" })).toMatchObject({ code: "no_pool" });
    world.chain.mine();
    world.pair(WETH, 1n, USDC, 200n, SUSHI);
    expect(await world.refusal(USDC, { exchange: "sushiswap" })).toMatchObject({ code: "low_liquidity" });
  });

  test("has no change over a day, and no price before it first traded", async () => {
    const world = dollarWorld();
    world.chain.mine(100, 1_200);
    expect((await world.price(USDC, { include: "percent_change" }))["24hrPercentChange"]).toBe("0");
    world.chain.mine();
    const late = dollarWorld();
    late.chain.mine(5);
    late.pair(DAI, 10_000n, WETH, 5n);
    late.chain.mine();
    expect(await late.refusal(DAI, { to_block: "3" })).toMatchObject({ code: "no_price_at_block" });
  });
});

describe("a listed token", () => {
  test("has the name of its contract, or the list's name if the contract returns none", async () => {
    const usdc = { name: "USDCoin", symbol: "USDC", logo: "" };
    const listed = (_chainId: number, address: Address) => (address === USDC ? usdc : undefined);
    const world = dollarWorld({}, listed);
    expect(await world.price(USDC)).toMatchObject({ tokenName: "USDC", tokenSymbol: "USDC" });
    const silent = dollarWorld({}, listed);
    silent.chain.token({ address: USDC, name: "", symbol: "", decimals: 6 });
    expect(await silent.price(USDC)).toMatchObject({ tokenName: "USDCoin", tokenSymbol: "USDC", usdPrice: 1 });
  });
});

describe("a pool without a price", () => {
  test("is reported at the head as low liquidity without state", async () => {
    const world = dollarWorld();
    const pool = world.chain.pool({ factory: UNI3, style: "v3", fee: 500, tokens: [TOKEN, DAI] });
    expect(await world.refusal(TOKEN)).toMatchObject({
      code: "low_liquidity",
      details: { pools: [{ pool: pool.address, exchange: "Uniswap v3", reason: "no_state_at_block" }] },
    });
  });

  for (const archive of [true, false]) {
    test(`is not priced at a past block if it has no reserves, ${archive ? "with" : "without"} archive state`, async () => {
      const world = dollarWorld();
      world.chain.archive = archive;
      const pool = world.chain.pool({ factory: UNI2, style: "v2", fee: 3000, tokens: [TOKEN, WETH] });
      world.chain.mine(3);
      world.setPair(pool, TOKEN, 1_000n, 1_000n);
      world.chain.mine();
      expect(await world.refusal(TOKEN, { to_block: "2" })).toMatchObject({
        code: "no_price_at_block",
        details: { pools: [{ reason: "no_state_at_block" }] },
      });
      expect((await world.price(TOKEN, { to_block: "3" })).usdPrice).toBe(2_000);
    });
  }
});

describe("the search for a pool that is younger than the requested block", () => {
  /** Returns the log ranges requested since the last call. */
  const asked = (world: ReturnType<typeof dollarWorld>): (readonly [number, number])[] =>
    world.chain.requests.splice(0).flatMap((request) => {
      const range = /^logs (\d+)-(\d+)$/.exec(request);
      return range === null ? [] : [[Number(range[1]), Number(range[2])] as const];
    });

  test("goes back to the chain's beginning once, and is not repeated for lower blocks", async () => {
    const world = dollarWorld();
    world.chain.archive = false;
    world.chain.mine(3_000);
    const pool = world.pair(TOKEN, 1_000n, WETH, 10n);
    world.chain.mine(2_000);
    world.setPair(pool, TOKEN, 1_000n, 20n);
    world.chain.mine(100);
    world.setPair(world.dollar, WETH, 1_000n, 2_000_000n);
    world.chain.mine(100);
    await world.follower.start();
    asked(world);
    const block = 2_900;
    expect(await world.refusal(TOKEN, { to_block: String(block) })).toMatchObject({ code: "no_price_at_block" });
    expect(asked(world).some(([from]) => from === 0)).toBe(true);
    const again = () => world.refusal(TOKEN, { to_block: String(block), min_liquidity_usd: "1" });
    expect(await again()).toMatchObject({ code: "no_price_at_block" });
    // The repeat reads only the dollar's own pool. Its event is in the first block.
    const ofDollar = asked(world).length;
    expect(await again()).toMatchObject({ code: "no_price_at_block" });
    expect(asked(world)).toHaveLength(ofDollar);
    expect((await world.price(TOKEN, { to_block: "3100" })).usdPrice).toBe(20);
    expect(await world.refusal(TOKEN, { to_block: "2950" })).toMatchObject({ code: "no_price_at_block" });
  });

  test("is repeated if the blocks could still be replaced", async () => {
    const world = dollarWorld();
    world.chain.archive = false;
    world.chain.mine(20);
    const before = world.chain.tip.number - 10;
    const pool = world.pair(TOKEN, 1_000n, WETH, 10n);
    world.chain.mine();
    world.setPair(pool, TOKEN, 1_000n, 20n);
    world.chain.mine();
    expect(await world.refusal(TOKEN, { to_block: String(before) })).toMatchObject({ code: "no_price_at_block" });
    world.chain.fork(before - 1);
    world.chain.mine(2);
    world.setPair(pool, TOKEN, 1_000n, 30n);
    world.chain.mine(20);
    world.clock.ms += 3_600_001;
    expect((await world.price(TOKEN, { to_block: String(before + 5) })).usdPrice).toBe(60);
  });
});

describe("a floor that no pool reaches", () => {
  test("is reported with the numbers of the pool, or of the native coin's pool if that is the thin one", async () => {
    const world = dollarWorld();
    const pool = world.pair(TOKEN, 10_000n, WETH, 100n);
    expect((await world.refusal(TOKEN, { min_liquidity_usd: "1999999" })).details).toEqual({
      pools: [
        {
          pool: pool.address,
          exchange: "Uniswap v2",
          reason: "low_liquidity",
          liquidityUsd: "200000",
          minLiquidityUsd: "1999999",
        },
      ],
    });
    world.setPair(pool, TOKEN, 10_000n, 5_000n);
    world.chain.mine();
    expect((await world.refusal(TOKEN, { min_liquidity_usd: "2000001" })).details).toEqual({
      pools: [
        {
          pool: pool.address,
          exchange: "Uniswap v2",
          reason: "no_usd_price_of_quote",
          quote: WETH,
          liquidityUsd: "10000000",
          quoteLiquidityUsd: "2000000",
          minLiquidityUsd: "2000001",
        },
      ],
    });
  });
});

describe("the change over a day", () => {
  const change = async (world: ReturnType<typeof dollarWorld>): Promise<string | undefined> =>
    (await world.price(TOKEN, { include: "percent_change" }))["24hrPercentChange"];

  for (const archive of [true, false]) {
    test(`is that of the two answers, although another pool ranked first then, ${archive ? "with" : "without"} archive state`, async () => {
      const world = dollarWorld();
      world.chain.archive = archive;
      // Yesterday's deeper pool is not today's deeper pool.
      const today = world.pair(TOKEN, 1_000n, WETH, 10n);
      const yesterday = world.pair(TOKEN, 10_000n, WETH, 400n, SUSHI);
      world.chain.mine(100, 1_200);
      world.setPair(today, TOKEN, 1_000n, 25n);
      world.setPair(yesterday, TOKEN, 100n, 4n);
      expect(await world.price(TOKEN)).toMatchObject({ usdPrice: 50, exchangeName: "Uniswap v2" });
      expect((await world.price(TOKEN, { to_block: "0" })).usdPrice).toBe(80);
      expect(await change(world)).toBe("-37.5");
    });

    test(`ranks the pools of that time, if today's route had no price, ${archive ? "with" : "without"} archive state`, async () => {
      const world = dollarWorld();
      world.chain.archive = archive;
      world.pair(TOKEN, 10_000n, WETH, 400n, SUSHI);
      world.chain.mine(100, 1_200);
      world.pair(TOKEN, 100_000n, WETH, 6_000n);
      expect(await world.price(TOKEN)).toMatchObject({ usdPrice: 120, exchangeName: "Uniswap v2" });
      expect(await change(world)).toBe("50");
    });

    test(`is omitted if no pool was deep enough then, ${archive ? "with" : "without"} archive state`, async () => {
      const world = dollarWorld();
      world.chain.archive = archive;
      world.pair(TOKEN, 1n, WETH, 1n, SUSHI);
      world.chain.mine(100, 1_200);
      world.pair(TOKEN, 100_000n, WETH, 6_000n);
      const floor = { include: "percent_change", min_liquidity_usd: "3000" };
      expect(await world.price(TOKEN, floor)).not.toHaveProperty("24hrPercentChange");
    });

    test(`is omitted if the pool was an empty shell then, ${archive ? "with" : "without"} archive state`, async () => {
      for (const root of [2n ** 50n, 2n ** 150n]) {
        const world = dollarWorld();
        world.chain.archive = archive;
        const pool = world.chain.pool({ factory: UNI3, style: "v3", fee: 3000, tokens: [TOKEN, DAI] });
        world.chain.initialize(pool, root, 0);
        world.chain.mine(100, 1_200);
        world.chain.swap(pool, 2n ** 96n, 10n ** 24n, 0, [10n ** 24n, 10n ** 24n]);
        const record = await world.price(TOKEN, { include: "percent_change,pair" });
        expect(record).toMatchObject({ usdPrice: 1, usdPrice24h: null, usdPrice24hrUsdChange: null });
        expect(record).not.toHaveProperty("24hrPercentChange");
      }
    });

    test(`is omitted if the pool had too little then, ${archive ? "with" : "without"} archive state`, async () => {
      const world = dollarWorld();
      world.chain.archive = archive;
      const pool = world.pair(TOKEN, 4n, USDC, 20n);
      world.chain.mine(100, 1_200);
      world.setPair(pool, TOKEN, 1_000_000n, 1_000_000n);
      expect(await world.price(TOKEN, { include: "percent_change" })).not.toHaveProperty("24hrPercentChange");
      expect(await world.refusal(TOKEN, { to_block: "0" })).toMatchObject({ code: "low_liquidity" });
    });
  }
});

describe("the average of half an hour", () => {
  const average = async (world: ReturnType<typeof dollarWorld>): Promise<number> =>
    Number((await world.price(TOKEN, { include: "provenance" })).provenance!.twap30m);
  const shellOf = (world: ReturnType<typeof dollarWorld>) =>
    world.chain.pool({ factory: UNI3, style: "v3", fee: 3000, tokens: [TOKEN, DAI] });

  for (const archive of [true, false]) {
    const state = `${archive ? "with" : "without"} archive state`;

    test(`leaves out the time in which the pool was an empty shell, ${state}`, async () => {
      const world = dollarWorld();
      world.chain.archive = archive;
      const pool = shellOf(world);
      world.chain.initialize(pool, 2n ** 120n, 0);
      world.chain.mine(200);
      world.chain.swap(pool, 2n ** 96n, 10n ** 24n, 0, [10n ** 24n, 10n ** 24n]);
      world.chain.mine(50);
      expect(await average(world)).toBe(1);
    });

    test(`leaves out the time in which the pool had less than the floor, ${state}`, async () => {
      const world = dollarWorld();
      world.chain.archive = archive;
      const pool = world.pair(TOKEN, 1n, USDC, 300n);
      world.chain.mine(200);
      world.setPair(pool, TOKEN, 10_000n, 20_000n);
      world.chain.mine(50);
      expect(await average(world)).toBe(2);
    });

    test(`is by the pool that ranked first at each moment, ${state}`, async () => {
      const world = dollarWorld();
      world.chain.archive = archive;
      const before = world.pair(TOKEN, 10_000n, USDC, 20_000n);
      const now = world.pair(TOKEN, 10n, USDC, 1_000n, SUSHI);
      world.chain.mine(200);
      // The last 25 blocks of 12 seconds, of half an hour.
      world.setPair(before, TOKEN, 1n, 2n);
      world.setPair(now, TOKEN, 10_000n, 30_000n);
      world.chain.mine(25);
      expect((await world.price(TOKEN)).usdPrice).toBe(3);
      expect(await average(world)).toBeCloseTo((1_500 * 2 + 300 * 3) / 1_800, 9);
    });

    test(`counts a sliver of liquidity no deeper than the pool's balance, ${state}`, async () => {
      const world = dollarWorld();
      world.chain.archive = archive;
      world.pair(TOKEN, 10_000n, DAI, 20_000n);
      world.chain.swap(shellOf(world), 1n << 110n, 10n ** 27n, 0, [10n ** 18n, 10n ** 18n]);
      world.chain.mine(200);
      expect(await average(world)).toBe(2);
    });
  }
});

describe("equally deep pools", () => {
  const priced = async (world: ReturnType<typeof dollarWorld>): Promise<string> => {
    const { provenance } = (await world.price(TOKEN, { include: "provenance" })) as Required<PriceRecord>;
    return provenance.route[0]!.pool;
  };

  test("are ordered by the order of exchanges, then by the lower fee", async () => {
    const world = dollarWorld();
    const tiers = [3000, 500].map((fee) => world.chain.pool({ factory: UNI3, style: "v3", fee, tokens: [TOKEN, DAI] }));
    for (const pool of tiers) world.chain.swap(pool, 1n << 96n, 10n ** 22n, 0, [10n ** 22n, 10n ** 22n]);
    expect(await priced(world)).toBe(tiers[1]!.address);
    world.chain.mine();
    const first = world.pair(TOKEN, 10_000n, DAI, 10_000n);
    expect(await priced(world)).toBe(first.address);
  });
});

describe("the calls of a cold token", () => {
  for (const chain of CHAINS) {
    test(`fit into ten concurrent Multicall3 on ${chain.name}, and into two once the reference pools are known`, async () => {
      const [probe, first, second] = await callsOf(chain);
      // A factory that nobody vouches for is asked for its style before anything else.
      expect(probe).toBe(PROBED_STYLES.length);
      expect(first).toBeLessThan(10 * 499);
      expect(second).toBeLessThan(2 * 499);
    });
  }

  /**
   * Counts the calls of a process's first request, which names an unlisted factory, and of its second, which doesn't.
   */
  async function callsOf(chain: Chain): Promise<number[]> {
    const fake = new FakeChain(chain.chainId);
    const counts: number[] = [];
    const reader = Object.assign(Object.create(fake), {
      callsAtHead: (calls: Parameters<FakeChain["callsAtHead"]>[0]) => {
        counts.push(calls.length);
        return fake.callsAtHead(calls);
      },
    }) as FakeChain;
    const view = {
      version: 0,
      head: () => undefined,
      finalized: () => undefined,
      header: () => undefined,
      isCanonical: () => true,
    };
    const clock = new ManualClock();
    const prices = createPrices({ chain, reader, log: new MemoryLog(), view, clock });
    fake.factories.set(addressOf("factory"), "v3");
    const exchange = { kind: "factory", factory: addressOf("factory") } as const;
    const plain = { percentChange: false, provenance: false };
    const [first, second] = [addressOf("first"), addressOf("second")];
    for (const address of [first, second]) fake.token({ address, name: "O", symbol: "O", decimals: 18 });
    await prices.price({ address: first, ...plain, exchange }).catch(() => undefined);
    await prices.price({ address: second, ...plain }).catch(() => undefined);
    expect(counts).toHaveLength(3);
    return counts;
  }
});

test("refuses a price feed as no token although it has decimals", async () => {
  const world = dollarWorld();
  world.chain.token({ address: addressOf("feed"), decimals: 8, supply: false });
  expect(await world.refusal(addressOf("feed"))).toMatchObject({ code: "not_a_token" });
});
