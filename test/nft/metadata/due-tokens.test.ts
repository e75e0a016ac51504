/** The queue of one collection: its sources in their order, tokens in flight, interruptions, and when it is due. */
import { describe, expect, test } from "bun:test";
import type { Hash } from "../../../src/core/hex.ts";
import { encodeTransfers, type TokenRef, TransferKind } from "../../../src/events/columns.ts";
import { encodeTokens } from "../../../src/events/token-columns.ts";
import type { MetadataEvent, NftEvent } from "../../../src/events/types.ts";
import { type Collection, evolve, initialState } from "../../../src/nft/collections/collection.ts";
import { MetadataBook } from "../../../src/nft/metadata/book.ts";
import { CONTRACT, DueTokens, RequestQueue } from "../../../src/nft/metadata/due-tokens.ts";

const START = 1_700_000_000_000;
const TEN_MINUTES = 600_000;
const kind = TransferKind.erc721;
const HASH = `0x${"1".repeat(64)}` as Hash;

const tokenOf = (id: number): TokenRef => ({ kind, id: BigInt(id) });
const idsOf = (tokens: readonly TokenRef[]): number[] => tokens.map(({ id }) => Number(id));
const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);

/** A collection with the tokens 0 to `count`, one per block. */
function collectionOf(count: number): Collection {
  const column = () => new Uint32Array(count);
  const ids = Uint32Array.from(range(0, count));
  const transfers = encodeTransfers({
    count,
    addressCount: 2,
    addresses: Uint8Array.from({ length: 40 }, (_, i) => (i < 20 ? 0 : 1)),
    kinds: new Uint8Array(count).fill(kind),
    blocks: ids,
    logIndexes: column(),
    from: column(),
    to: column().fill(1),
    ids: { words: 1, values: ids },
    amounts: { words: 1, values: column().fill(1) },
  });
  const toBlock = count - 1;
  const events = [
    { type: "IndexingRequested" },
    { type: "ContractIdentified", kind: "nft", forms: ["erc721"], name: "", symbol: "", startBlock: 0, block: 0 },
    { type: "TransfersCommitted", fromBlock: 0, toBlock, toHash: HASH, count, transfers },
  ] as unknown as NftEvent[];
  const state = initialState();
  for (const [index, event] of events.entries()) evolve(state, event, index + 1, START);
  return Object.assign(state, { status: "synced" });
}

const outcomesOf = (ids: readonly number[]) => ({
  count: ids.length,
  bytes: 0,
  tokens: encodeTokens(ids.map((id) => ({ ...tokenOf(id), hash: HASH }))),
});
const resolved = (since: number, ids: readonly number[]): MetadataEvent => ({
  type: "MetadataResolved",
  since,
  ...outcomesOf(ids),
});
const failed = (since: number, ids: readonly number[]): MetadataEvent => ({
  type: "MetadataFailed",
  reason: "timeout",
  since,
  ...outcomesOf(ids),
});
const outdated = (from: number, to: number): MetadataEvent => ({
  type: "MetadataOutdated",
  fromId: String(from),
  toId: String(to),
  cause: "announced",
  block: 1,
});

/** A book with the document about the collection, and these events. */
function bookOf(...events: readonly MetadataEvent[]): MetadataBook {
  const book = new MetadataBook();
  const document = { count: 1, bytes: 0, tokens: encodeTokens([{ ...CONTRACT, hash: HASH }]) };
  add(book, { type: "MetadataResolved", since: 0, ...document });
  for (const event of events) add(book, event);
  return book;
}
const add = (book: MetadataBook, event: MetadataEvent) => book.evolve(event, book.version + 1, START);

const LATER = START + 5_000;
const collection = collectionOf(8);

test("picks requested tokens first, then new, outdated and failed ones, each once", () => {
  const due = new DueTokens();
  const book = bookOf(resolved(0, [4]), failed(1, [5, 6]), outdated(4, 4));
  due.requests.add([tokenOf(7), tokenOf(5)]);
  const picked: number[][] = [];
  while (due.dueAt <= LATER) picked.push(idsOf(due.pick({ collection, book, now: LATER }, 3)));
  expect(picked.flat()).toEqual([7, 5, 0, 1, 2, 3, 4, 6]);
  expect(picked.every((tokens) => tokens.length <= 3)).toBe(true);
  expect(due.requests.inFlight).toBe(8);
});

test("picks the document about a complete collection until it has an outcome, and then once it is outdated", () => {
  const due = new DueTokens();
  const tokens = resolved(0, range(0, 8));
  const bare = new MetadataBook();
  add(bare, tokens);
  const syncing = Object.assign(collectionOf(8), { status: "syncing" as const });
  expect(due.pick({ collection: syncing, book: bare, now: LATER }, 8)).toEqual([]);
  const pick = (book: MetadataBook) => due.pick({ collection, book, now: LATER }, 8);
  expect(pick(bare)).toEqual([CONTRACT]);
  expect(pick(bare)).toEqual([]);
  const book = bookOf(tokens);
  due.written(CONTRACT, book);
  expect(pick(book)).toEqual([]);
  add(book, { ...outdated(0, 0), contract: true } as MetadataEvent);
  expect(pick(book)).toEqual([CONTRACT]);
});

test("does not pick a token in flight, and picks it before all others after an interruption", () => {
  const due = new DueTokens();
  const book = bookOf();
  const pick = (max: number) => idsOf(due.pick({ collection, book, now: LATER }, max));
  expect(pick(2)).toEqual([0, 1]);
  due.requests.add([tokenOf(1)]);
  due.requests.putBack(tokenOf(0));
  expect([due.requests.waiting, due.requests.inFlight]).toEqual([1, 1]);
  expect(pick(3)).toEqual([0, 2, 3]);
});

test("picks requested tokens only once the metadata exceeds its limit", () => {
  const due = new DueTokens();
  due.isFull = true;
  due.requests.add([tokenOf(5)]);
  expect(idsOf(due.pick({ collection, book: bookOf(), now: LATER }, 8))).toEqual([5]);
  expect(due.dueAt).toBe(Number.POSITIVE_INFINITY);
});

describe("the next due time", () => {
  const known = range(0, 8);
  /** Picks until nothing is due. */
  const drain = (due: DueTokens, book: MetadataBook, now: number) => {
    const picked: number[] = [];
    do picked.push(...idsOf(due.pick({ collection, book, now }, 40)));
    while (due.dueAt <= now);
    return picked;
  };

  test("is never if all tokens are resolved, and at once after a request", () => {
    const due = new DueTokens();
    expect(drain(due, bookOf(resolved(0, known)), LATER)).toEqual([]);
    expect(due.dueAt).toBe(Number.POSITIVE_INFINITY);
    expect(due.checkedVersion).toBe(collection.version);
    due.requests.add([tokenOf(3)]);
    expect(due.dueAt).toBe(0);
  });

  test("is the end of the earliest backoff", () => {
    const due = new DueTokens();
    const book = bookOf(resolved(0, known), failed(1, [3]));
    expect(drain(due, book, START)).toEqual([]);
    expect(due.dueAt).toBeGreaterThan(START + 1_000);
    expect(due.dueAt).toBeLessThanOrEqual(START + 2_500);
    expect(drain(due, book, due.dueAt)).toEqual([3]);
  });

  test("is at once for a token that became outdated in flight", () => {
    const due = new DueTokens();
    const book = bookOf(resolved(0, known));
    drain(due, book, LATER);
    add(book, outdated(0, 0));
    expect(drain(due, book, LATER)).toEqual([0]);
    add(book, outdated(0, 0));
    expect(drain(due, book, LATER)).toEqual([]);
    // The fetch began before the second announcement.
    add(book, resolved(2, [0]));
    due.written(tokenOf(0), book);
    expect(due.dueAt).toBe(0);
    expect(drain(due, book, LATER)).toEqual([0]);
  });

  test("is the end of the window for outdated tokens beyond its limit", () => {
    const due = new DueTokens();
    const book = bookOf(resolved(0, known));
    drain(due, book, LATER);
    const round = (now: number) => {
      const since = book.version + 1;
      add(book, outdated(0, 7));
      const picked = drain(due, book, now);
      add(book, resolved(since, picked));
      for (const id of picked) due.written(tokenOf(id), book);
      return picked.length;
    };
    let count = 0;
    for (let i = 0; i < 200; i++) count += round(LATER);
    // All tokens once, and a thousand more.
    expect(count).toBe(8 + 1_000);
    expect(due.dueAt).toBe(LATER + TEN_MINUTES);
    expect(round(due.dueAt)).toBe(8);
  });
});

describe("a queue of requests", () => {
  interface Item {
    readonly of: string;
    readonly id: number;
  }
  const item = (of: string, id: number): Item => ({ of, id });
  const grouped = (max: number) =>
    new RequestQueue<Item>(
      ({ of, id }) => `${of}${id}`,
      max,
      ({ of }) => of,
    );

  test("takes one item of each group in turns, whatever one group asks for", () => {
    const queue = grouped(100);
    queue.add([1, 2, 3, 4].map((id) => item("a", id)));
    queue.add([item("b", 1), item("c", 1)]);
    expect(queue.take(4).map(({ of, id }) => `${of}${id}`)).toEqual(["a1", "b1", "c1", "a2"]);
    queue.putBack(item("b", 1));
    expect(queue.take(9).map(({ of, id }) => `${of}${id}`)).toEqual(["a3", "b1", "a4"]);
  });

  test("leaves room for others beside a group that asks for more than it may", () => {
    const queue = grouped(8);
    queue.add(Array.from({ length: 20 }, (_, id) => item("a", id)));
    queue.add([item("b", 1)]);
    expect(queue.waiting).toBe(3);
    expect(queue.take(2).map(({ of }) => of)).toEqual(["a", "b"]);
  });
});
