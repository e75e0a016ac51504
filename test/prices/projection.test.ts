import { describe, expect, test } from "bun:test";
import { toAddress, toHash } from "../../src/core/hex.ts";
import {
  decodeHead,
  decodePrice,
  encodeHead,
  encodePrice,
  HEAD_FLAGS,
  type StoredHead,
  type StoredPrice,
  type StoredState,
} from "../../src/events/price-columns.ts";
import type { HeadPriced, PriceEvent } from "../../src/events/types.ts";
import { MAX_HEADS, PriceBook } from "../../src/prices/stored/price-book.ts";
import { PriceHistory } from "../../src/prices/stored/price-history.ts";

const token = toAddress(`0x${"3".repeat(40)}`);
const other = toAddress(`0x${"4".repeat(40)}`);
/** The hash of a block on a branch. */
const hash = (block: number, branch = 0) => toHash(`0x${branch}${block.toString(16).padStart(63, "0")}`);
const pair = (reserve0: bigint): StoredState => ({
  ...{ pool: 0, decimals0: 18, decimals1: 6, state: { style: "v2", reserve0, reserve1: 1n } },
  ...{ balance0: undefined, balance1: undefined, given: undefined, parts: undefined },
});
const price = (block: number, reserve0: bigint, branch = 0): StoredPrice => ({
  ...{ block, hash: hash(block, branch), rules: 7, usd: 1.5, confidence: 0.25, native: 3n, flags: 0 },
  ...{ legs: [pair(reserve0)], nativePool: undefined },
});
const priced = (block: number, reserve0: bigint, branch = 0): PriceEvent => ({
  type: "TokenPriced",
  price: encodePrice(price(block, reserve0, branch)),
});
const whole = HEAD_FLAGS.isWhole | HEAD_FLAGS.hasCoin;
const head = (block: number, more: Partial<StoredHead> = {}, branch = 0): StoredHead => ({
  ...{ block, hash: hash(block, branch), timestamp: block * 12, chainVersion: 5, rules: 7, flags: whole },
  coin: pair(BigInt(block)),
  ...more,
});
const read = (block: number, more: Partial<HeadPriced> = {}, of: StoredHead = head(block)): HeadPriced => ({
  ...{ type: "HeadPriced", head: encodeHead(of) },
  ...more,
});
const bookOf = (...events: HeadPriced[]): PriceBook => {
  const book = new PriceBook();
  for (const [at, event] of events.entries()) book.evolve(event, at + 1);
  return book;
};
const historyOf = (...events: PriceEvent[]): PriceHistory => {
  const history = new PriceHistory();
  for (const [at, event] of events.entries()) history.evolve(event, at + 1);
  return history;
};

describe("the bytes", () => {
  test("give back what was stored", () => {
    const concentrated: StoredState = {
      ...{ pool: 300, decimals0: 0, decimals1: 255, balance0: 0n, balance1: 2n ** 112n, given: [1n, 2n ** 200n] },
      state: { style: "v3", sqrtPriceX96: 2n ** 160n - 1n, liquidity: 0n, tick: -887_272 },
      parts: [{ n: 99n, d: 100n }],
    };
    const stored = { ...price(4_294_967_295, 0n), native: undefined, flags: 4, nativePool: concentrated };
    expect(decodePrice(encodePrice(stored))).toEqual(stored);
    expect(decodePrice(encodePrice({ ...stored, native: 0n })).native).toBe(0n);
    const last = head(9, { timestamp: 2 ** 40, coin: concentrated });
    expect(decodeHead(encodeHead(last))).toEqual(last);
  });

  test("of a price take at most 200 bytes on a route of one pool", () => {
    const large = 10n ** 27n;
    const state: StoredState = {
      ...{ pool: 0, decimals0: 18, decimals1: 18, balance0: large, balance1: large, given: [large, large] },
      state: { style: "v3", sqrtPriceX96: 2n ** 96n * 10n ** 4n, liquidity: 10n ** 24n, tick: 100_000 },
      parts: undefined,
    };
    expect(encodePrice({ ...price(21_000_000, 0n), native: 10n ** 18n, legs: [state] }).length).toBeLessThan(200);
  });

  test("that are cut off or too long are refused", () => {
    const bytes = encodePrice(price(1, 5n));
    for (let length = 0; length < bytes.length; length++) {
      expect(() => decodePrice(bytes.subarray(0, length))).toThrow("stored price");
    }
    expect(() => decodePrice(new Uint8Array([...bytes, 0]))).toThrow("too long");
  });
});

describe("the history of a token", () => {
  test("has a price at its own block only, without a reader", () => {
    const history = historyOf(priced(10, 1n), priced(12, 2n));
    expect(history.rowAt(10, hash(10))).toBe(0);
    expect(history.rowAt(11, hash(11))).toBeUndefined();
    expect(history.rowAt(12, hash(12, 1))).toBeUndefined();
  });

  test("has the last price of a run at each head of the run", () => {
    const history = historyOf(priced(10, 1n), priced(12, 2n), priced(20, 3n));
    const from = { block: 10, hash: hash(10) };
    expect([10, 11, 12, 19, 20, 99].map((block) => history.rowSince(from, block))).toEqual([0, 0, 1, 1, 2, 2]);
  });

  test("keeps both branches of a reorganisation apart", () => {
    const history = historyOf(priced(10, 1n), priced(12, 2n), priced(13, 3n), priced(11, 4n, 1), priced(13, 5n, 1));
    expect(history.rowSince({ block: 10, hash: hash(10) }, 13)).toBe(2);
    const forked = { block: 11, hash: hash(11, 1) };
    expect([11, 12, 13].map((block) => history.rowSince(forked, block))).toEqual([3, 3, 4]);
    expect(history.rowAt(13, hash(13))).toBe(2);
    expect(history.rowAt(13, hash(13, 1))).toBe(4);
  });
});

describe("the book", () => {
  test("says at which heads a token was read", () => {
    const book = bookOf(
      read(10, { reader: "a", joined: [token] }),
      read(12),
      read(13, { left: [token] }),
      read(15, { joined: [token, other] }),
    );
    const isRead = (block: number) => book.headAt(block)?.isWhole === true && book.runAt(token, block) !== undefined;
    expect([9, 10, 11, 12, 13, 15].map(isRead)).toEqual([false, true, false, true, false, true]);
    expect([...book.members.keys()]).toEqual([token, other]);
  });

  test("begins anew with another reader", () => {
    const book = bookOf(read(10, { reader: "a", joined: [token] }), read(11, { reader: "b", joined: [other] }));
    expect(book.runAt(token, 10)?.from.block).toBe(10);
    expect(book.runAt(token, 11)).toBeUndefined();
    expect([...book.members.keys()]).toEqual([other]);
  });

  test("takes the coin's state over from the head before", () => {
    const same = { flags: whole | HEAD_FLAGS.isSameCoin, coin: undefined };
    const book = bookOf(
      read(10, { reader: "a" }),
      read(11, {}, head(11, same)),
      read(12, {}, head(12, same)),
      read(13),
    );
    expect([10, 11, 12, 13].map((block) => book.headAt(block)?.coin)).toEqual([10n, 10n, 10n, 13n].map(pair));
  });

  test("drops the heads of a lost branch, and what was read there", () => {
    const book = bookOf(
      read(10, { reader: "a", joined: [token] }),
      read(11),
      read(12),
      read(11, { reader: "a", joined: [token] }, head(11, {}, 1)),
    );
    expect(book.headAt(12)).toBeUndefined();
    expect(book.headAt(11)?.hash).toBe(hash(11, 1));
    expect(book.runAt(token, 10)?.from.hash).toBe(hash(10));
    expect(book.runAt(token, 11)?.from.hash).toBe(hash(11, 1));
  });

  test("lets a reader complete a head that a question has told of before", () => {
    const alone = head(11, { flags: HEAD_FLAGS.hasCoin });
    const book = bookOf(read(10, { reader: "a", joined: [token] }), read(11, {}, alone));
    expect(book.headAt(11)?.isWhole).toBe(false);
    book.evolve(read(11), 3);
    expect([book.size, book.headAt(11)?.isWhole, book.runAt(token, 11)?.from.block]).toEqual([2, true, 10]);
  });

  test("keeps the last head of each hour, and of each run, once it is thinned", () => {
    const same = { flags: whole | HEAD_FLAGS.isSameCoin, coin: undefined };
    const heads = Array.from({ length: 1_000 }, (_, at) => at + 1);
    const book = bookOf(
      ...heads.map((block) =>
        read(
          block,
          { ...(block === 1 ? { reader: "a", joined: [token] } : {}), ...(block === 451 ? { left: [token] } : {}) },
          head(block, block % 2 === 0 ? same : {}),
        ),
      ),
    );
    book.evolve({ type: "PricesThinned", before: 901, seconds: 3_600 }, 1_001);
    const kept = heads.filter((block) => book.headAt(block) !== undefined);
    expect(kept.filter((block) => block < 901)).toEqual([299, 450, 599, 899]);
    expect(kept.length).toBe(104);
    expect(kept.map((block) => book.headAt(block)?.coin)).toEqual(
      kept.map((block) => pair(BigInt(block % 2 === 0 ? block - 1 : block))),
    );
  });

  test("finds the block of a moment only where the next one was read", () => {
    const book = bookOf(read(10, { reader: "a" }), read(11), read(14), read(15));
    expect([119, 120, 131, 132, 167, 168, 179, 180].map((time) => book.lastBlockAt(time)?.block)).toEqual([
      ...[undefined, 10, 10, undefined, undefined, 14, 14, undefined],
    ]);
  });
});

describe("a book that is too long for memory", () => {
  test("drops its oldest heads, and the runs that end there", () => {
    const book = new PriceBook();
    const same = { flags: whole | HEAD_FLAGS.isSameCoin, coin: undefined };
    const count = MAX_HEADS + 30_000;
    for (let block = 1; block <= count; block++) {
      const more = block === 1 ? { reader: "a", joined: [token, other] } : block === 100 ? { left: [other] } : {};
      book.evolve(read(block, more, head(block, block === 1 ? {} : same)), block);
    }
    expect(book.size).toBeLessThan(MAX_HEADS + 25_000);
    expect(book.headAt(1)).toBeUndefined();
    expect([book.headAt(count)?.coin, book.headAt(book.first!)?.coin]).toEqual([pair(1n), pair(1n)]);
    expect([book.runAt(token, count)?.from.block, book.runsOf(other)]).toEqual([1, []]);
  });

  test("is folded from the last place at which a reader began", () => {
    const pools = [{ pool: token, factory: other, style: "v2", fee: 3_000, token0: token, token1: other }];
    const events = [
      read(10, { reader: "a", joined: [token], pools }),
      read(11),
      read(12, { reader: "b", joined: [other], pools }),
      read(13),
    ];
    const [from, late] = [bookOf(...events), bookOf(...events.slice(2))];
    expect([late.pools, late.headAt(13), [...late.members.keys()]]).toEqual([
      ...[from.pools, from.headAt(13), [...from.members.keys()]],
    ]);
    expect([from.sinceBegin, from.runAt(other, 13)]).toEqual([1, late.runAt(other, 13)]);
  });
});
