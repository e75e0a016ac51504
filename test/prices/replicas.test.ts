/**
 * Processes that share a log. Each reads prices from the node for itself, at the heads that the log tells. Each scenario
 * runs on the log in memory, on SQLite and on PostgreSQL. Every process gives the chain's price at the block it names.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRandom } from "../../scripts/local-chain/random.ts";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { storedBlock } from "../../src/events/price-columns.ts";
import type { EventLog } from "../../src/log/event-log.ts";
import { openLog } from "../../src/log/open.ts";
import { MemoryLog } from "../support/memory-log.ts";
import { sharedPostgres } from "../support/postgres.ts";
import { Process } from "../support/prices/cluster.ts";
import { FakeChain, type FakePool } from "../support/prices/fake-chain.ts";
import { placeTokens, TOKEN, UNI2, USDC, WETH } from "../support/prices/world.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(300_000);

const ETHER = 10n ** 18n;
const folders: string[] = [];
const logs: EventLog[] = [];

async function sqlite(): Promise<EventLog[]> {
  const folder = await mkdtemp(join(tmpdir(), "prices-"));
  folders.push(folder);
  const url = `sqlite://${join(folder, "events.db")}`;
  return [await openLog(url, systemClock, silentLogger), await openLog(url, systemClock, silentLogger)];
}

async function postgres(): Promise<EventLog[]> {
  const url = await (await sharedPostgres()).createDatabase();
  return [await openLog(url, systemClock, silentLogger), await openLog(url, systemClock, silentLogger)];
}

async function memory(): Promise<EventLog[]> {
  const log = new MemoryLog();
  return [log, log];
}

beforeAll(() => sharedPostgres(), 300_000);
afterAll(async () => {
  for (const log of logs) await log.close();
  for (const folder of folders) await rm(folder, { recursive: true, force: true });
});

/** A market in which TOKEN trades for WETH, and WETH for dollars. */
class Scene {
  readonly chain = new FakeChain();
  readonly pool: FakePool;
  readonly dollar: FakePool;

  constructor() {
    placeTokens(this.chain);
    this.dollar = this.chain.pool({ factory: UNI2, style: "v2", fee: 3000, tokens: [WETH, USDC] });
    this.pool = this.chain.pool({ factory: UNI2, style: "v2", fee: 3000, tokens: [TOKEN, WETH] });
    this.trade(this.dollar, 1_000n, 2_000_000n);
    this.trade(this.pool, 10_000n, 100n);
  }

  /** Sets reserves in whole tokens: WETH and dollars, or TOKEN and WETH. */
  trade(pool: FakePool, first: bigint, second: bigint): void {
    const [a, unitA, unitB] = pool === this.dollar ? [WETH, ETHER, 10n ** 6n] : [TOKEN, ETHER, ETHER];
    const [x, y] = [first * unitA, second * unitB];
    if (pool.token0 === a) this.chain.sync(pool, x, y);
    else this.chain.sync(pool, y, x);
  }

  /** US dollars of TOKEN at a block, computed from the whole-token reserves. */
  truth(block: number, pool: FakePool = this.pool): number {
    const reserves = ({ address, token0 }: FakePool, first: string): [bigint, bigint] => {
      const [x = 0n, y = 0n] = this.chain.stateAt(address, block)?.values ?? [];
      return token0 === first ? [x, y] : [y, x];
    };
    const [token, weth] = reserves(pool, TOKEN);
    const [ether, dollars] = reserves(this.dollar, WETH);
    const scaled = (weth * dollars * 10n ** 12n * 10n ** 15n) / (token * ether);
    return Number(scaled) / 1e15;
  }
}

const price = async (process: Process): Promise<[block: number, usd: number]> => {
  const { record, asOf } = await process.ask(TOKEN);
  expect(record.toBlock).toBe(String(asOf.number));
  return [asOf.number, record.usdPrice];
};

for (const [engine, open] of Object.entries({ memory, sqlite, postgres })) {
  describe(`on ${engine}`, () => {
    async function pair(): Promise<{ scene: Scene; a: Process; b: Process; opened: EventLog[] }> {
      const scene = new Scene();
      const opened = await open();
      logs.push(...opened);
      const a = new Process(scene.chain, opened[0]!);
      await a.follow();
      return { scene, a: await a.start(), b: await new Process(scene.chain, opened[1]!).start(), opened };
    }

    test("each process has read ahead at a head what it was asked for, whether it follows or not", async () => {
      const { scene, a, b } = await pair();
      const { chain, pool, dollar } = scene;
      await Promise.all([price(a), price(b)]);
      for (let round = 1n; round <= 5n; round++) {
        chain.mine();
        scene.trade(pool, 10_000n, 100n + round);
        if (round % 2n === 0n) scene.trade(dollar, 1_000n, 2_000_000n + round);
        await a.follow();
        await Promise.all([a.show(), b.show()]);
        chain.requests.length = 0;
        const expected: [number, number] = [chain.tip.number, scene.truth(chain.tip.number)];
        expect(await price(a)).toEqual(expected);
        expect(await price(b)).toEqual(expected);
        expect(chain.requests).toEqual([]);
      }
    });

    test("a process that was never asked reads nothing, and the other one doesn't depend on it", async () => {
      const { scene, a, b } = await pair();
      const { chain, pool } = scene;
      await price(b);
      chain.mine();
      scene.trade(pool, 10_000n, 300n);
      await a.follow();
      chain.requests.length = 0;
      await a.show();
      expect(chain.requests).toEqual([]);
      await b.show();
      chain.requests.length = 0;
      expect(await price(b)).toEqual([chain.tip.number, 60]);
      expect(chain.requests).toEqual([]);
    });

    test("both write what they read into one stream, each change once", async () => {
      const { scene, a, b } = await pair();
      const { chain, pool } = scene;
      await Promise.all([price(a), price(b)]);
      for (let round = 1n; round <= 4n; round++) {
        chain.mine();
        if (round % 2n === 0n) scene.trade(pool, 10_000n, 100n + round);
        await a.follow();
        await Promise.all([a.show(), b.show()]);
      }
      const priced = (await a.events(TOKEN)).flatMap((event) => (event.type === "TokenPriced" ? event : []));
      const blocks = priced.map(({ price }) => storedBlock(price));
      // A reader that begins states the price, too, and either process may be the reader.
      expect(blocks).toEqual([...new Set(blocks)]);
      expect(blocks).toEqual(expect.arrayContaining([0, 2, 4]));
    });

    test("a restarted process gives the same price", async () => {
      const { scene, a, opened } = await pair();
      const { chain, pool } = scene;
      await price(a);
      for (let round = 1n; round <= 3n; round++) {
        chain.mine();
        scene.trade(pool, 10_000n, 200n + round);
        await a.follow();
        await a.show();
      }
      const again = await new Process(chain, opened[1]!).start();
      expect(await price(again)).toEqual([chain.tip.number, scene.truth(chain.tip.number)]);
      chain.mine();
      scene.trade(pool, 10_000n, 400n);
      await again.follow();
      await again.show();
      chain.requests.length = 0;
      expect(await price(again)).toEqual([chain.tip.number, 80]);
      expect(chain.requests).toEqual([]);
    });

    test("neither process serves an old price after a takeover", async () => {
      const { scene, a, b } = await pair();
      const { chain, pool } = scene;
      await Promise.all([price(a), price(b)]);
      for (let round = 1n; round <= 8n; round++) {
        chain.mine();
        scene.trade(pool, 10_000n, 100n + round);
        await (round % 4n < 2n ? a : b).follow();
        await Promise.all([a.show(), b.show()]);
        const expected: [number, number] = [chain.tip.number, scene.truth(chain.tip.number)];
        expect(await price(a)).toEqual(expected);
        expect(await price(b)).toEqual(expected);
      }
    });

    test("a read at an older block hides no newer state of the log", async () => {
      const { scene, a, b } = await pair();
      const { chain, pool } = scene;
      await price(a);
      for (let round = 0; round < 2; round++) {
        chain.mine();
        await a.follow();
        await Promise.all([a.show(), b.show()]);
      }
      chain.mine();
      scene.trade(pool, 10_000n, 300n);
      await a.follow();
      // The reader shows the block before, and so does its endpoint.
      chain.behind = 1;
      expect(await price(b)).toEqual([chain.tip.number - 1, 20]);
      await b.show();
      expect(await price(b)).toEqual([chain.tip.number, 60]);
    });

    test("a reorg reaches the reader too", async () => {
      const { scene, a, b } = await pair();
      const { chain, pool } = scene;
      chain.mine(2);
      await a.follow();
      await Promise.all([a.show(), b.show()]);
      await Promise.all([price(a), price(b)]);
      chain.mine();
      await a.follow();
      await Promise.all([a.show(), b.show()]);
      chain.mine();
      scene.trade(pool, 1_000n, 1_000n);
      await a.follow();
      await Promise.all([a.show(), b.show()]);
      expect(await price(b)).toEqual([4, 2_000]);
      chain.fork(3);
      chain.mine(2);
      await a.follow();
      await Promise.all([a.show(), b.show()]);
      chain.requests.length = 0;
      for (const process of [a, b]) expect(await price(process)).toEqual([5, 20]);
      expect(chain.requests).toEqual([]);
    });
  });
}

describe("random sequences of blocks, forks, requests and takeovers", () => {
  const seeds = Array.from({ length: 25 }, (_, index) => index + 1);
  test.each(seeds)("give true prices in every process: seed %d", async (seed) => {
    const random = createRandom(seed);
    const scene = new Scene();
    const { chain, pool, dollar } = scene;
    const log = new MemoryLog();
    const processes: Process[] = [];
    const first = new Process(chain, log);
    await first.follow();
    for (let index = 0; index < 3; index++) {
      const process = new Process(chain, log);
      process.clock.ms = index * 1_000_003;
      processes.push(await process.start());
    }
    const steps: Record<string, (process: Process) => Promise<void> | void> = {
      mine: () => void chain.mine(1 + random.below(2)),
      trade: () => {
        chain.mine();
        scene.trade(pool, 10_000n, BigInt(50 + random.below(100)));
        if (random.below(3) === 0) scene.trade(dollar, 1_000n, BigInt(1_900_000 + random.below(200_000)));
      },
      follow: async (process) => {
        await process.follow();
        await process.show();
      },
      show: (process) => process.show(),
      ask: async (process) => {
        const { record, asOf } = await process.ask(TOKEN);
        // A price at an orphaned block is that block's, which this chain no longer has.
        if (chain.blocks[asOf.number]?.hash !== asOf.hash) return;
        expect([seed, asOf.number, record.usdPrice]).toEqual([seed, asOf.number, scene.truth(asOf.number)]);
      },
      fork: () => {
        const floor = Math.max(chain.tip.number - 3, 0);
        if (chain.tip.number <= floor) return;
        chain.fork(floor + random.below(chain.tip.number - floor));
        chain.mine(4);
      },
      restart: async (process) => {
        const next = new Process(chain, log);
        next.clock.ms = random.below(1_000_000_000);
        processes[processes.indexOf(process)] = await next.start();
      },
    };
    const names = ["mine", "trade", "trade", "follow", "follow", "follow", "show", "ask", "ask", "ask", "ask"];
    names.push("fork", "restart");
    for (let step = 0; step < 150; step++) {
      const name = names[random.below(names.length)]!;
      await steps[name]!(random.pick(processes));
    }
  });
});
