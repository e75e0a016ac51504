/** The fold of a metadata stream: present and past knowledge, outdated tokens, and the time of the next attempt. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Hash } from "../../../src/core/hex.ts";
import { TransferKind } from "../../../src/events/columns.ts";
import { decodeTokens, encodeTokens, NO_HASH, type TokenHash } from "../../../src/events/token-columns.ts";
import type { MetadataEvent } from "../../../src/events/types.ts";
import { MetadataBook } from "../../../src/nft/metadata/book.ts";
import { tokensOf } from "../../../src/nft/metadata/books.ts";
import { isRefreshDue, MIN_REFRESH_MS, retryAt, retryMs } from "../../../src/nft/metadata/retry-times.ts";

const kind = TransferKind.erc721;
const hashOf = (n: number) => `0x${n.toString(16).padStart(64, "0")}` as Hash;
const MAX_ID = (1n << 256n) - 1n;
const START = 1_700_000_000_000;

const columns = (list: readonly (readonly [bigint, number])[]) =>
  encodeTokens(list.map(([id, hash]) => ({ kind, id, hash: hashOf(hash) })));
const resolved = (since: number, ...list: (readonly [bigint, number])[]): MetadataEvent => ({
  type: "MetadataResolved",
  since,
  count: list.length,
  bytes: 100 * list.length,
  tokens: columns(list),
});
const failed = (
  since: number,
  reason: "timeout" | "no_uri",
  ...list: (readonly [bigint, number])[]
): MetadataEvent => ({
  type: "MetadataFailed",
  since,
  reason,
  count: list.length,
  bytes: 100 * list.length,
  tokens: columns(list),
});
const outdated = (from: bigint, to: bigint): MetadataEvent => ({
  type: "MetadataOutdated",
  fromId: String(from),
  toId: String(to),
  cause: "announced",
  block: 1,
});

/** A book after events that are one second apart. */
function given(...events: readonly MetadataEvent[]): MetadataBook {
  const book = new MetadataBook();
  for (const [index, event] of events.entries()) book.evolve(event, index + 1, START + index * 1_000);
  return book;
}

const slotOf = (book: MetadataBook, id: bigint) => book.find(kind, id);

test("decodes encoded token columns to the same values, for ids of any width", () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.bigInt({ min: 0n, max: MAX_ID }), fc.integer({ min: 0, max: 1e9 })), { maxLength: 20 }),
      (list) => {
        const tokens: TokenHash[] = list.map(([id, hash]) => ({ kind: TransferKind.erc1155, id, hash: hashOf(hash) }));
        expect(tokensOf(encodeTokens(tokens))).toEqual(tokens.map(({ kind: one, id }) => ({ kind: one, id })));
      },
    ),
  );
  expect(() => decodeTokens(columns([[1n, 1]]).subarray(0, 20))).toThrow("token columns");
  expect(() => decodeTokens(new Uint8Array([9, 0, 0, 0, 0]))).toThrow("unknown format");
});

describe("outcomes", () => {
  test("keep the newest success while later attempts fail, and keep the past", () => {
    const book = given(
      resolved(0, [1n, 11]),
      failed(0, "timeout", [1n, 12]),
      resolved(0, [1n, 13]),
      failed(0, "no_uri", [1n, 0], [2n, 0]),
    );
    const slot = slotOf(book, 1n);
    expect(book.good(slot)).toEqual({ time: START + 2_000, reason: undefined, hash: hashOf(13) });
    expect(book.newest(slot)).toEqual({ time: START + 3_000, reason: "no_uri", hash: undefined });
    expect(book.newest(slot, START + 1_500)).toEqual({ time: START + 1_000, reason: "timeout", hash: hashOf(12) });
    expect(book.good(slot, START + 1_500)?.hash).toBe(hashOf(11));
    expect(book.good(slot, START - 1)).toBeUndefined();
    expect([book.resolved, book.failed]).toEqual([1, 1]);
    expect(book.failures(slot)).toBe(1);
    expect(slotOf(book, 3n)).toBe(-1);
  });

  test("are found by a token id given as a number, too", () => {
    const ids = [0n, 7n, 2n ** 31n, 2n ** 32n - 1n, 2n ** 32n + 7n, 2n ** 45n + 3n, 2n ** 53n - 1n];
    const book = given(...ids.map((id, index) => resolved(0, [id, index])));
    expect(ids.map((id) => book.find(kind, Number(id)))).toEqual(ids.map((id) => slotOf(book, id)));
    expect(new Set(ids.map((id) => slotOf(book, id))).size).toBe(ids.length);
    for (const id of [1, 2 ** 32, 2 ** 45, 2 ** 52]) expect(book.find(kind, id)).toBe(-1);
  });

  test("skip an event that was folded before, and refuse a gap", () => {
    const event = resolved(0, [1n, 11]);
    const book = given(event);
    book.evolve(event, 1, START);
    expect(book.resolved).toBe(1);
    expect(() => book.evolve(event, 3, START)).toThrow("missing");
  });

  test("replace the earlier result for a media file when it is examined again", () => {
    const examined = (hash: number): MetadataEvent => ({
      type: "MediaExamined",
      count: 1,
      tokens: columns([[5n, hash]]),
    });
    const book = given(examined(1), resolved(0, [5n, 2]), examined(3));
    expect(book.media(slotOf(book, 5n))).toBe(hashOf(3));
    expect([book.resolved, book.failed]).toEqual([1, 0]);
  });
});

describe("a range of outdated tokens", () => {
  test("costs one object up to 2^256-1, and ends for a token with a later outcome", () => {
    const book = given(resolved(0, [1n, 1], [MAX_ID, 2]), outdated(0n, MAX_ID));
    expect([book.isOutdated(slotOf(book, 1n)), book.isOutdated(slotOf(book, MAX_ID))]).toEqual([true, true]);
    book.evolve(resolved(2, [1n, 3]), 3, START);
    expect([book.isOutdated(slotOf(book, 1n)), book.isOutdated(slotOf(book, MAX_ID))]).toEqual([false, true]);
  });

  test("stays in force for an outcome requested before it, whenever that outcome is written", () => {
    const book = given(resolved(0, [1n, 1]), outdated(1n, 1n), resolved(1, [1n, 1]));
    expect(book.isOutdated(slotOf(book, 1n))).toBe(true);
  });

  test("is merged with others, so that thousands stay few", () => {
    const book = given(resolved(0, [5n, 1], [7_000n, 1]));
    for (let i = 0; i < 5_000; i++) book.evolve(outdated(BigInt(i * 2), BigInt(i * 2)), i + 2, START);
    expect(book.isOutdated(slotOf(book, 7_000n))).toBe(true);
    expect(book.bytes).toBeLessThan(20_000);
  });
});

describe("the next attempt for a token", () => {
  test("is delayed from seconds to days with each failure", () => {
    expect([1, 2, 5, 10, 15, 20, 200].map((n) => retryMs(n, false))).toEqual([
      2_000, 4_000, 32_000, 1_024_000, 32_768_000, 259_200_000, 259_200_000,
    ]);
    expect(retryMs(1, true)).toBe(3_600_000);
    const book = given(failed(0, "timeout", [1n, 0]), failed(0, "timeout", [1n, 0]));
    expect(retryAt(book, slotOf(book, 1n))).toBe(START + 1_000 + 4_000);
    book.evolve(resolved(0, [1n, 1]), 3, START);
    expect(retryAt(book, slotOf(book, 1n))).toBeUndefined();
  });

  test("after a page view comes at most once in ten minutes, and later the longer nothing changed", () => {
    const book = given(resolved(0, [1n, 1]));
    const slot = slotOf(book, 1n);
    expect(isRefreshDue(book, slot, START + MIN_REFRESH_MS - 1)).toBe(false);
    expect(isRefreshDue(book, slot, START + MIN_REFRESH_MS)).toBe(true);
    const day = 86_400_000;
    book.evolve(resolved(0, [1n, 1]), 2, START + day);
    expect(isRefreshDue(book, slot, START + day + MIN_REFRESH_MS)).toBe(false);
    expect(isRefreshDue(book, slot, START + 2 * day)).toBe(true);
    book.evolve(resolved(0, [1n, 2]), 3, START + 2 * day);
    expect(isRefreshDue(book, slot, START + 2 * day + MIN_REFRESH_MS)).toBe(true);
    const broken = given(failed(0, "no_uri", [1n, 0]));
    expect(isRefreshDue(broken, slotOf(broken, 1n), START + MIN_REFRESH_MS - 1)).toBe(false);
    expect(isRefreshDue(broken, slotOf(broken, 1n), START + MIN_REFRESH_MS)).toBe(true);
  });
});

describe("the time since which a token is unchanged", () => {
  test("follows from its newest outcomes with one hash", () => {
    const step = fc.record({ id: fc.nat(2), hash: fc.nat(2), isGood: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const events = steps.map(({ id, hash, isGood }) =>
          isGood ? resolved(0, [BigInt(id), hash]) : failed(0, "timeout", [BigInt(id), hash]),
        );
        const book = given(...events);
        for (const id of new Set(steps.map((one) => one.id))) {
          const own = steps.flatMap((one, index) => (one.id === id ? [{ ...one, time: START + index * 1_000 }] : []));
          const other = own.findLastIndex(({ hash }) => hash !== own.at(-1)?.hash);
          expect(book.unchangedSince(slotOf(book, BigInt(id)))).toBe(own[other + 1]?.time as number);
        }
      }),
    );
  });

  test("is found at once, however often it is requested", () => {
    const [OUTCOMES, PAGES] = [200_000, 1_000];
    const book = given(...Array.from({ length: OUTCOMES }, () => resolved(0, [1n, 1])));
    const slot = slotOf(book, 1n);
    const started = performance.now();
    // To walk the outcomes each time would be two hundred million steps.
    for (let page = 0; page < PAGES; page++) isRefreshDue(book, slot, START);
    expect(performance.now() - started).toBeLessThan(500);
    expect(book.unchangedSince(slot)).toBe(START);
  });
});

test("takes tens of bytes per token for a million tokens", () => {
  const book = new MetadataBook();
  const batch = 1_000;
  for (let at = 0; at < 1_000; at++) {
    const list = Array.from(
      { length: batch },
      (_, i): TokenHash => ({ kind, id: BigInt(at * batch + i), hash: NO_HASH }),
    );
    const tokens = encodeTokens(list);
    book.evolve({ type: "MetadataResolved", since: 0, count: batch, bytes: 0, tokens }, at + 1, START);
  }
  expect(book.resolved).toBe(1_000_000);
  expect(book.bytes / 1_000_000).toBeLessThan(130);
}, 300_000);
