/**
 * Prices are facts in the log. What any process has read is answered by every process, after a restart and without a node,
 * as it was answered then. What was not read, or is of a lost branch, is not.
 */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRandom } from "../../scripts/local-chain/random.ts";
import { priceFolding } from "../../src/cli/verify-prices.ts";
import { Budget, type SharedWork } from "../../src/core/budget.ts";
import { systemClock } from "../../src/core/clock.ts";
import { AppError } from "../../src/core/errors.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { decodePrice, encodePrice } from "../../src/events/price-columns.ts";
import { priceStream } from "../../src/events/types.ts";
import type { EventLog } from "../../src/log/event-log.ts";
import { openLog } from "../../src/log/open.ts";
import type { PriceAnswer } from "../../src/prices/price-computer.ts";
import type { ChainReader } from "../../src/rpc/port.ts";
import { KNOWN } from "../support/known-chains.ts";
import { MemoryLog } from "../support/memory-log.ts";
import { sharedPostgres } from "../support/postgres.ts";
import { Process } from "../support/prices/cluster.ts";
import { addressOf, FakeChain, type FakePool } from "../support/prices/fake-chain.ts";
import type { RawPriceQuery } from "../support/prices/query.ts";
import { DAI, placeTokens, TOKEN, UNI2, UNI3, USDC, USDT, WBTC, WETH } from "../support/prices/world.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(300_000);

const Q96 = 1n << 96n;
const LINKED = addressOf("linked");
const CONCENTRATED = addressOf("concentrated");
const TOKENS = [TOKEN, LINKED, CONCENTRATED, WETH, WBTC, USDC, DAI];

const folders: string[] = [];
const logs: EventLog[] = [];

const ENGINES: Readonly<Record<string, () => Promise<() => Promise<EventLog>>>> = {
  memory: async () => {
    const log = new MemoryLog();
    return async () => log;
  },
  sqlite: async () => {
    const folder = await mkdtemp(join(tmpdir(), "prices-"));
    folders.push(folder);
    return () => openLog(`sqlite://${join(folder, "events.db")}`, systemClock, silentLogger);
  },
  postgres: async () => {
    const url = await (await sharedPostgres()).createDatabase();
    return () => openLog(url, systemClock, silentLogger);
  },
};

async function openerOf(engine: string): Promise<() => Promise<EventLog>> {
  const open = await ENGINES[engine]!();
  return async () => {
    const log = await open();
    logs.push(log);
    return log;
  };
}

beforeAll(() => sharedPostgres(), 300_000);
afterAll(async () => {
  for (const log of new Set(logs)) await log.close();
  for (const folder of folders) await rm(folder, { recursive: true, force: true });
});

/** A node that answers nothing. */
const silentNode = new Proxy({} as ChainReader, {
  get: (_target, name) =>
    name === "chainId"
      ? 1
      : name === "isCostly"
        ? () => false
        : async () => {
            throw new AppError("no endpoint answers", { code: "chain_unavailable", retryable: true });
          },
});

/** A market of several styles and routes, which moves by chance. */
class Market {
  readonly chain = new FakeChain();
  readonly #pools: [pool: FakePool, a: Address, least: bigint, other: bigint][] = [];
  readonly #root: FakePool;
  readonly random: ReturnType<typeof createRandom>;

  constructor(seed: number) {
    const { chain } = this;
    this.random = createRandom(seed);
    placeTokens(chain);
    chain.token({ address: LINKED, name: "Linked", symbol: "LNK", decimals: 9 });
    chain.token({ address: CONCENTRATED, name: "Concentrated", symbol: "CON", decimals: 18 });
    this.#add(WETH, 1_000n, USDC, 2_000_000n);
    this.#add(WETH, 900n, USDT, 1_800_000n);
    this.#add(USDC, 3_000_000n, DAI, 3_000_000n);
    this.#add(WBTC, 100n, WETH, 3_000n);
    this.#add(TOKEN, 10_000n, WETH, 100n);
    this.#add(TOKEN, 9_000n, USDC, 180_000n);
    this.#add(LINKED, 500n, WBTC, 50n);
    this.#root = chain.pool({ factory: UNI3, style: "v3", fee: 3_000, tokens: [CONCENTRATED, WETH] });
    chain.initialize(this.#root, Q96, 0);
    chain.mint(this.#root, [-6_000, 6_000], 10n ** 24n, [10n ** 22n, 10n ** 22n]);
  }

  #add(a: Address, amountA: bigint, b: Address, amountB: bigint): void {
    const pool = this.chain.pool({ factory: UNI2, style: "v2", fee: 3_000, tokens: [a, b] });
    this.#pools.push([pool, a, amountA, amountB]);
    this.#set(this.#pools.length - 1, amountA, amountB);
  }

  #set(at: number, amountA: bigint, amountB: bigint): void {
    const [pool, a] = this.#pools[at]!;
    const units = (token: Address) => 10n ** BigInt(this.chain.tokens.get(token)!.decimals!);
    const b = pool.token0 === a ? pool.token1 : pool.token0;
    const [rawA, rawB] = [amountA * units(a), amountB * units(b)];
    if (pool.token0 === a) this.chain.sync(pool, rawA, rawB);
    else this.chain.sync(pool, rawB, rawA);
  }

  /** Mines a block in which some pools trade, or none. */
  move(): void {
    this.chain.mine();
    for (const at of this.#pools.keys()) {
      if (this.random.below(4) !== 0) continue;
      const [, , a, b] = this.#pools[at]!;
      this.#set(at, a + BigInt(this.random.below(Number(a / 20n) + 2)), b);
    }
  }
}

const shown = ({ record, confidence, asOf }: PriceAnswer) => ({ record, confidence, hash: asOf.hash });
type Shown = ReturnType<typeof shown>;

/** Asks each process for all tokens at the head that it shows. Returns the answers by token and block. */
async function asked(process: Process, given: Map<string, Shown>, query: RawPriceQuery = {}): Promise<void> {
  for (const token of TOKENS) {
    const answer = await process.ask(token, query);
    given.set(`${token} ${answer.asOf.number}`, shown(answer));
  }
}

/** A process that follows the market's chain over a log. */
async function followed({ chain }: Market, log: EventLog): Promise<Process> {
  const process = new Process(chain, log);
  await process.follow();
  return process.start();
}

/** Mines a block, has one process follow it, and shows it to these. */
async function nextHead(market: Market, follower: Process, ...shown: readonly Process[]): Promise<void> {
  market.move();
  await follower.follow();
  for (const process of shown) await process.show();
}

for (const engine of Object.keys(ENGINES)) {
  describe(`on ${engine}`, () => {
    test("a restart without a node answers each price at each block that was read as it was answered then", async () => {
      const market = new Market(7);
      const { chain } = market;
      const open = await openerOf(engine);
      const a = await followed(market, await open());
      const given = new Map<string, Shown>();
      await asked(a, given);
      for (let block = 1; block <= 30; block++) {
        await nextHead(market, a, a);
        // Not each head is asked for. The ones between are read, too.
        if (block % 3 === 0) await asked(a, given);
        if (block === 15) {
          chain.fork(12);
          for (const key of [...given.keys()]) if (Number(key.split(" ")[1]) > 12) given.delete(key);
          chain.mine(2);
        }
      }
      const again = await new Process(chain, await open(), {}, silentNode).start();
      expect(given.size).toBeGreaterThan(50);
      const replayed = new Map<string, Shown>();
      for (const key of given.keys()) {
        const [token, block] = key.split(" ") as [Address, string];
        if (Number(block) === 0) continue;
        replayed.set(key, shown(await again.prices.answer({ ...PLAIN, address: token, toBlock: Number(block) })));
      }
      expect(replayed).toEqual(new Map([...given].filter(([key]) => !key.endsWith(" 0"))));
      // Blocks between the questions are answered like an archive node answers them.
      const live = await a.ask(TOKEN, { to_block: "22" });
      const stored = await again.prices.answer({ ...PLAIN, address: TOKEN, toBlock: 22 });
      expect(stored.record).toEqual(live.record);
    });

    test("without a node the head's price is the last known one, and says that it is stale", async () => {
      const market = new Market(8);
      const { chain } = market;
      const open = await openerOf(engine);
      const a = await followed(market, await open());
      await a.ask(TOKEN);
      await nextHead(market, a, a);
      const live = await a.ask(TOKEN);
      const again = await new Process(chain, await open(), {}, silentNode).start();
      const stale = await again.ask(TOKEN);
      expect([stale.finality, live.finality]).toEqual(["stale", "latest"]);
      expect(shown(stale)).toEqual(shown(live));
      const unknown = again.prices.answer({ ...PLAIN, address: LINKED });
      expect(await unknown.catch(({ code }) => code)).toBe("chain_unavailable");
      // Nobody read the block before the first head.
      const unread = again.prices.answer({ ...PLAIN, address: TOKEN, toBlock: 0, provenance: true });
      expect(await unread.catch(({ code }) => code)).toBe("chain_unavailable");
    });

    test("a price of a lost branch is no answer, and its block is read anew", async () => {
      const market = new Market(9);
      const { chain } = market;
      const open = await openerOf(engine);
      const a = await followed(market, await open());
      for (let block = 1; block <= 6; block++) {
        await nextHead(market, a, a);
        await a.ask(TOKEN);
      }
      chain.fork(4);
      chain.mine(3);
      await a.follow();
      const b = await new Process(chain, await open(), {}, silentNode).start();
      const lost = b.prices.answer({ ...PLAIN, address: TOKEN, toBlock: 6 });
      expect(await lost.catch(({ code }) => code)).toBe("chain_unavailable");
      await a.show();
      const live = await a.ask(TOKEN, { to_block: "7" });
      const c = await new Process(chain, await open(), {}, silentNode).start();
      expect(shown(await c.ask(TOKEN, { to_block: "7" }))).toEqual(shown(live));
    });
  });
}

const PLAIN = { percentChange: false, provenance: false } as const;

test("a record that waits for the log is that of all its questions, also once the one that began it is answered", async () => {
  const log = new MemoryLog();
  let reached = 0;
  let silence: Promise<void> | undefined;
  const silent = new Proxy(log, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      if (name !== "appendAll") return value.bind(target);
      return async (...appends: Parameters<EventLog["appendAll"]>) => {
        reached++;
        await silence;
        return target.appendAll(...appends);
      };
    },
  });
  const process = await followed(new Market(7), silent);
  await process.show();
  await process.ask(USDC);
  const { promise, resolve } = Promise.withResolvers<void>();
  [silence, reached] = [promise, 0];
  const before = process.ask(WBTC);
  while (reached === 0) await new Promise(setImmediate);
  // The next record waits for its turn, and is the one of both questions.
  const answered = new AbortController();
  const questionUntil = (signal: AbortSignal) => new Budget({ signal, isQuestion: true });
  const first = questionUntil(answered.signal).run(() => process.ask(TOKEN));
  await turnsOfLoop(100);
  const second = questionUntil(new AbortController().signal).run(() => process.ask(LINKED));
  await turnsOfLoop(100);
  answered.abort(new DOMException("the question is answered", "AbortError"));
  resolve();
  expect(await first.catch(({ name }: DOMException) => name)).toBe("AbortError");
  expect([(await before).origin, (await second).origin]).toEqual(["stored", "stored"]);
  expect((await process.events(TOKEN)).length).toBeGreaterThan(0);
});

async function turnsOfLoop(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise(setImmediate);
}

describe("a token that does not trade", () => {
  test("writes nothing while the coin moves, and its price moves", async () => {
    const market = new Market(3);
    const log = new MemoryLog();
    const a = await followed(market, log);
    await a.ask(CONCENTRATED);
    const prices = new Set<number>();
    for (let block = 1; block <= 12; block++) {
      await nextHead(market, a, a);
      prices.add((await a.ask(CONCENTRATED)).record.usdPrice);
    }
    const events = (await a.events(CONCENTRATED)).filter(({ type }) => type === "TokenPriced");
    expect(prices.size).toBeGreaterThan(2);
    expect(events.length).toBe(2);
  });
});

describe("two processes", () => {
  test("read each head once between them, and answer alike", async () => {
    const market = new Market(5);
    const { chain } = market;
    const log = new MemoryLog();
    const a = await followed(market, log);
    const b = await new Process(chain, log).start();
    await nextHead(market, a, a, b);
    for (const token of TOKENS) {
      await a.ask(token);
      await b.ask(token);
    }
    const requests: number[] = [];
    for (let block = 1; block <= 10; block++) {
      market.move();
      await a.follow();
      chain.requests.length = 0;
      await a.show();
      const first = chain.requests.length;
      await b.show();
      requests.push(chain.requests.length - first);
      expect(first).toBeGreaterThan(0);
      for (const token of TOKENS) expect(shown(await b.ask(token))).toEqual(shown(await a.ask(token)));
      expect(chain.requests.length - first).toBe(requests.at(-1)!);
    }
    expect(requests).toEqual(requests.map(() => 0));
  });

  test("go on without the reader: the other one takes over, and reads for the clients of both", async () => {
    const market = new Market(6);
    const { chain } = market;
    const log = new MemoryLog();
    const a = await followed(market, log);
    const b = await new Process(chain, log).start();
    for (const process of [a, b]) {
      await nextHead(market, a, process);
    }
    await a.show();
    await a.ask(TOKEN);
    await nextHead(market, a, a, b);
    await b.ask(TOKEN);
    // The first one reads no more.
    for (let block = 0; block < 3; block++) {
      await nextHead(market, a, b);
      const { asOf, record } = await b.ask(TOKEN);
      expect(asOf.number).toBe(chain.tip.number);
      const offline = await new Process(chain, log, {}, silentNode).start();
      expect((await offline.ask(TOKEN, { to_block: String(asOf.number) })).record).toEqual(record);
    }
  });
});

test("the figures that were answered are stored beside the states that they follow from", async () => {
  const market = new Market(4);
  const log = new MemoryLog();
  const a = await followed(market, log);
  await nextHead(market, a, a);
  await a.ask(TOKEN);
  await nextHead(market, a, a);
  const { record, confidence, asOf } = await a.ask(TOKEN);
  const prices = (await a.events(TOKEN)).flatMap((event) => (event.type === "TokenPriced" ? event.price : []));
  expect(decodePrice(prices.at(-1)!)).toMatchObject({
    ...{ block: asOf.number, hash: asOf.hash, usd: record.usdPrice },
    ...{ native: BigInt(record.nativePrice!.value), confidence: Number(confidence) },
  });
});

describe("a stored series", () => {
  /** Forty heads, of which TOKEN was not read from 11 to 20. */
  async function withGap(): Promise<{ market: Market; log: MemoryLog; a: Process; given: Map<number, number> }> {
    const market = new Market(11);
    const log = new MemoryLog();
    const a = await followed(market, log);
    await a.ask(TOKEN);
    const given = new Map<number, number>();
    for (let block = 1; block <= 40; block++) {
      market.move();
      await a.follow();
      // Nobody asks for a minute and longer.
      if (block === 11) a.clock.ms += 61_000;
      await a.show();
      if (block <= 10 || block > 20) given.set(block, (await a.ask(TOKEN)).record.usdPrice);
    }
    return { market, log, a, given };
  }

  test("has each block that was read, and says where nobody read one", async () => {
    const { market, log, given } = await withGap();
    const again = await new Process(market.chain, log, {}, silentNode).start();
    const range = { from: { block: 1 }, to: undefined, points: 200 };
    const { points, gaps, fromBlock, toBlock } = await again.prices.storedSeries(TOKEN, range);
    expect(new Map(points.map(({ block, usdPrice }) => [block, usdPrice]))).toEqual(
      new Map<number, number | null>(given),
    );
    expect([fromBlock, toBlock, gaps]).toEqual([1, 40, [{ fromBlock: 11, toBlock: 20 }]]);
    expect(points.every(({ origin, pool }) => origin === "stored" && pool !== null)).toBe(true);
  });

  test("ends at the head for a time after it, and tells the blocks up to it as a gap", async () => {
    const { market, a } = await withGap();
    a.clock.ms += 61_000;
    const { chain } = market;
    for (let block = 41; block <= 43; block++) {
      market.move();
      await a.follow();
      await a.show();
    }
    const range = { from: { block: 39 }, to: { time: chain.tip.timestamp + 60 }, points: 200 };
    const { gaps, toBlock } = await a.prices.storedSeries(TOKEN, range);
    expect([toBlock, gaps]).toEqual([43, [{ fromBlock: 41, toBlock: 43 }]]);
  });

  test("takes the last price of each part of its range", async () => {
    const { market, log, given } = await withGap();
    const again = await new Process(market.chain, log, {}, silentNode).start();
    const { points } = await again.prices.storedSeries(TOKEN, { from: { block: 1 }, to: { block: 40 }, points: 4 });
    expect(points.map(({ block, usdPrice }) => [block, usdPrice])).toEqual(
      [1, 10, 27, 40].map((block) => [block, given.get(block)!]),
    );
    const at = (block: number) => ({ time: market.chain.blocks[block]!.timestamp });
    const timed = await again.prices.storedSeries(TOKEN, { from: at(5), to: at(8), points: 200 });
    expect(timed.points.map(({ block }) => block)).toEqual([5, 6, 7, 8]);
  });

  test("says of each point of a series whether it is stored or was read", async () => {
    const { a } = await withGap();
    const points = await a.prices.series(TOKEN, { from: { block: 1 }, to: { block: 40 }, points: 40 });
    const stored = points.filter(({ origin }) => origin === "stored").map(({ block }) => block);
    expect(stored).toEqual([
      ...Array.from({ length: 10 }, (_, at) => at + 1),
      ...Array.from({ length: 20 }, (_, at) => at + 21),
    ]);
    expect(points.every(({ usdPrice }) => usdPrice !== null)).toBe(true);
  });
});

test("a token that another process wants is read by the reader, who has never been asked for it", async () => {
  const market = new Market(12);
  const { chain } = market;
  const log = new MemoryLog();
  const a = await followed(market, log);
  await a.ask(TOKEN);
  const b = await new Process(chain, log).start();
  const head = async () => {
    await nextHead(market, a, a, b);
  };
  await head();
  await b.ask(LINKED);
  // It says so at its next head. The reader finds the token's pools, and reads it from then on.
  for (let block = 0; block < 4; block++) await head();
  chain.requests.length = 0;
  const linked = await b.ask(LINKED);
  expect([linked.origin, linked.asOf.number]).toEqual(["stored", chain.tip.number]);
  expect(chain.requests).toEqual([]);
});

test("verify computes each stored price again from its states, and finds one that they don't give", async () => {
  const market = new Market(14);
  const log = new MemoryLog();
  const a = await followed(market, log);
  await a.ask(TOKEN);
  for (let block = 1; block <= 10; block++) {
    await nextHead(market, a, a);
    await a.ask(TOKEN);
  }
  const stream = priceStream(1, TOKEN);
  const verified = async () => {
    const { fold, end } = priceFolding(log, stream, KNOWN);
    for (const recorded of await log.read(stream)) await fold(recorded);
    return end();
  };
  const prices = (await a.events(TOKEN)).flatMap((event) => (event.type === "TokenPriced" ? event.price : []));
  expect(prices.length).toBeGreaterThan(3);
  expect(await verified()).toBe(` prices=${prices.length} recomputed=${prices.length}`);
  const { usd, ...stored } = decodePrice(prices.at(-1)!);
  const forged = encodePrice({ ...stored, usd: usd * 1.000001 });
  const { version } = await log.head(stream);
  await log.append({ stream, events: [{ type: "TokenPriced", price: forged }], expectedVersion: version });
  expect(verified()).rejects.toThrow(`the price at block ${stored.block} is `);
});

test("a reader that takes over reads the tokens of the one before, before their clients say who pays", async () => {
  const market = new Market(15);
  const { chain } = market;
  const log = new MemoryLog();
  const a = await followed(market, log);
  await a.ask(TOKEN);
  await nextHead(market, a, a);
  // Keys that nobody names have no rate.
  const shared: SharedWork = { hasRate: (keys) => [...keys].includes(""), share: (_keys, work) => work() };
  const b = await new Process(chain, log, {}, chain, shared).start();
  await b.show();
  await b.ask(LINKED);
  for (let block = 0; block < 3; block++) {
    await nextHead(market, a, b);
  }
  const offline = await new Process(chain, log, {}, silentNode).start();
  const { asOf } = await offline.ask(TOKEN, { to_block: String(chain.tip.number) });
  expect(asOf.number).toBe(chain.tip.number);
});
