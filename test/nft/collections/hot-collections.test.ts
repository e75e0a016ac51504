/**
 * Many cold collections requested at once, over a real log: a few are hydrated at a time, and all of them are answered.
 */
import { afterAll, expect, test } from "bun:test";
import { systemClock } from "../../../src/core/clock.ts";
import type { Address } from "../../../src/core/hex.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { type NftEvent, nftStream, type StreamName, type TransfersCommitted } from "../../../src/events/types.ts";
import type { EventLog } from "../../../src/log/event-log.ts";
import { openLog } from "../../../src/log/open.ts";
import { HotCollections } from "../../../src/nft/collections/hot-collections.ts";
import { committed, hash, identified } from "../../support/histories.ts";
import { columnsOf } from "../../support/naive-ledger.ts";
import { temporaryLogUrl } from "../../support/service.ts";

const COUNT = 60;
const EVENTS = 12;
const url = temporaryLogUrl();
const log = await openLog(url, systemClock, silentLogger);
afterAll(() => log.close());

const address = (index: number) => `0x${(index + 1).toString(16).padStart(40, "0")}` as Address;

/** The log, with a count of its reads. */
function countedLog(): { log: EventLog; reads: () => number } {
  let reads = 0;
  const counted = {
    subscribe: log.subscribe.bind(log),
    head: log.head.bind(log),
    read: (stream: StreamName, options: object) => {
      reads++;
      return log.read(stream, options);
    },
  } as unknown as EventLog;
  return { log: counted, reads: () => reads };
}

test("bounds the number of collections in hydration, whatever is requested", async () => {
  const history: NftEvent[] = [{ type: "IndexingRequested" }, identified];
  for (let block = 0; block < EVENTS; block++) history.push(committed(block));
  const appends = Array.from({ length: COUNT }, (_, index) => ({
    stream: nftStream(1, address(index)),
    events: history,
    expectedVersion: 0,
  }));
  await log.appendAll(appends);

  const reading = new Set<StreamName>();
  let most = 0;
  const watched = {
    subscribe: log.subscribe.bind(log),
    head: log.head.bind(log),
    read: async (stream: StreamName, options: { from?: number }) => {
      reading.add(stream);
      most = Math.max(most, reading.size);
      // One event per read, so that each hydration takes many turns.
      const page = await log.read(stream, { ...options, limit: 1 });
      if (page.length === 0) reading.delete(stream);
      return page;
    },
  } as unknown as EventLog;
  const projections = new HotCollections({ log: watched, logger: silentLogger, maxBytes: 1e9 });
  const all = await Promise.all(appends.map((_, index) => projections.get(1, address(index))));
  expect(all.map(({ ledger }) => ledger.owners.count)).toEqual(Array.from({ length: COUNT }, () => EVENTS));
  expect(most).toBeLessThanOrEqual(16);
  expect(most).toBeGreaterThan(1);
  await projections.close();
});

test("keeps a collection larger than the whole memory bound until another is requested", async () => {
  const one = address(COUNT);
  const history: NftEvent[] = [{ type: "IndexingRequested" }, identified, committed(0)];
  for (const index of [COUNT, COUNT + 1]) {
    await log.append({ stream: nftStream(1, address(index)), events: history, expectedVersion: 0 });
  }
  const counted = countedLog();
  const projections = new HotCollections({ log: counted.log, logger: silentLogger, maxBytes: 10 });
  const first = await projections.get(1, one);
  const after = counted.reads();
  expect(await projections.get(1, one)).toBe(first);
  expect([counted.reads(), projections.stats().collections]).toEqual([after, 1]);
  await projections.get(1, address(COUNT + 1));
  expect(projections.hotOf(1)).toEqual([nftStream(1, address(COUNT + 1))]);
  await projections.close();
});

test("counts the growth of a collection and evicts others for it", async () => {
  const [small, large] = [address(COUNT + 2), address(COUNT + 3)];
  const transfers = columnsOf(
    Array.from({ length: 5_000 }, (_, i) => ({
      kind: 0,
      block: 1,
      from: 0,
      to: 1 + (i % 900),
      id: BigInt(i),
      amount: 1n,
    })),
  );
  for (const one of [small, large]) {
    const events: NftEvent[] = [{ type: "IndexingRequested" }, identified, committed(0)];
    await log.append({ stream: nftStream(1, one), events, expectedVersion: 0 });
  }
  const projections = new HotCollections({ log, logger: silentLogger, maxBytes: 100_000 });
  await projections.get(1, small);
  const { ledger } = await projections.get(1, large);
  const before = projections.stats();
  expect(before.collections).toBe(2);
  const more: NftEvent = { ...(committed(1) as TransfersCommitted), count: 5_000, transfers };
  await log.append({ stream: nftStream(1, large), events: [more], expectedVersion: 3 });
  await projections.newest(1, large);
  expect(ledger.bytes).toBeGreaterThan(100_000);
  expect(projections.stats()).toEqual({ bytes: 100_000, collections: 1 });
  expect(projections.hotOf(1)).toEqual([nftStream(1, large)]);
  await projections.close();
});

/** A hot collection, with a count of the reads of its log. */
async function hotCollection(one: Address) {
  const stream = nftStream(1, one);
  await log.append({ stream, events: [{ type: "IndexingRequested" }, identified, committed(0)], expectedVersion: 0 });
  const counted = countedLog();
  const projections = new HotCollections({ log: counted.log, logger: silentLogger, maxBytes: 1e9 });
  const collection = await projections.get(1, one);
  const before = counted.reads();
  return { stream, projections, collection, reads: () => counted.reads() - before };
}

test("folds the events that this process appends without reading them back", async () => {
  const one = address(COUNT + 4);
  const { stream, projections, collection, reads } = await hotCollection(one);
  for (let block = 1; block <= 20; block += 2) {
    await log.append({ stream, events: [committed(block), committed(block + 1)], expectedVersion: 2 + block });
  }
  await projections.newest(1, one);
  expect([collection.version, collection.ledger.owners.count, reads()]).toEqual([23, 21, 0]);
  await projections.close();
});

test("reads the events that another process appended in between, and folds all in order", async () => {
  const one = address(COUNT + 5);
  const { stream, projections, collection, reads } = await hotCollection(one);
  const other = await openLog(url, systemClock, silentLogger);
  const order: number[] = [];
  projections.subscribe((_stream, _collection, { version }) => order.push(version));
  await other.append({ stream, events: [committed(1)], expectedVersion: 3 });
  await log.append({ stream, events: [committed(2)], expectedVersion: 4 });
  await log.append({ stream, events: [committed(3)], expectedVersion: 5 });
  await projections.newest(1, one);
  expect([collection.version, collection.ledger.owners.count]).toEqual([6, 4]);
  expect(order).toEqual([4, 5, 6]);
  expect(reads()).toBeGreaterThan(0);
  await Promise.all([projections.close(), other.close()]);
});

test("discards megabytes of events that wait for a slow fold, and reads them from the log", async () => {
  const one = address(COUNT + 6);
  const { stream, projections, collection, reads } = await hotCollection(one);
  // 512 KB each in one append, so no event is folded in between.
  const large = (block: number): NftEvent => ({
    ...(committed(block) as TransfersCommitted),
    count: 16_000,
    transfers: columnsOf(
      Array.from({ length: 16_000 }, (_, i) => {
        const id = (1n << 255n) + BigInt(block * 16_000 + i);
        return { kind: 0, block, from: 0, to: 1, id, amount: 1n };
      }),
    ),
  });
  const events = Array.from({ length: 9 }, (_, index) => large(index + 1));
  await log.append({ stream, events, expectedVersion: 3 });
  await projections.newest(1, one);
  expect(collection.ledger.owners.count).toBe(1 + 9 * 16_000);
  expect(reads()).toBeGreaterThan(0);
  await projections.close();
});

test("folds the events of one block in many collections one by one, with event-loop turns in between", async () => {
  const projections = new HotCollections({ log, logger: silentLogger, maxBytes: 1e9 });
  const indexes = Array.from({ length: COUNT }, (_, index) => 200 + index);
  const append = (events: NftEvent[], expectedVersion: number) =>
    log.appendAll(indexes.map((index) => ({ stream: nftStream(1, address(index)), events, expectedVersion })));
  await append([{ type: "IndexingRequested" }, identified], 0);
  const collections = await Promise.all(indexes.map((index) => projections.get(1, address(index))));
  let [turn, left] = [0, COUNT];
  const folded: number[] = [];
  projections.subscribe(() => {
    folded.push(turn);
    left--;
  });
  const nextTurn = () => {
    turn++;
    if (left > 0) setImmediate(nextTurn);
  };
  nextTurn();
  await append([committed(0)], 2);
  await projections.bringTo(1, { number: 0, hash: hash(0), parentHash: hash(0), timestamp: 0 });
  expect(collections.map(({ version }) => version)).toEqual(indexes.map(() => 3));
  const most = Math.max(...folded.map((at) => folded.filter((other) => other === at).length));
  expect(most).toBeLessThanOrEqual(3);
  await projections.close();
});
