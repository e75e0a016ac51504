/** How an endpoint's limit of blocks is found, named or not, and how few requests that costs while others read on. */
import { describe, expect, test } from "bun:test";
import { SpanController } from "../../src/rpc/endpoint/span.ts";

interface World {
  readonly limit: number;
  readonly saysLimit: boolean;
  /** Logs a block. */
  readonly density: number;
  /** Requests side by side. */
  readonly sideBySide: number;
}

/** A backfill begins with three ranges. */
const FIRST_ONES = 3;

/** Reads so many blocks; the sizes that were answered and those that were refused, in order. */
function read(blocks: number, { limit, saysLimit, density, sideBySide }: World, span = new SpanController()) {
  const [answered, refused]: [number[], number[]] = [[], []];
  let left = blocks;
  while (left > 0) {
    // What is asked in one go is asked before any answer is in.
    const count = answered.length === 0 ? FIRST_ONES : sideBySide;
    const asked = Array.from({ length: count }, () => span.next()).map((cut) => span.take(cut));
    for (const size of asked) {
      if (size > limit) {
        refused.push(size);
        span.refused(size, saysLimit ? { size: limit } : undefined);
        continue;
      }
      answered.push(size);
      left -= size;
      span.succeeded(size, Math.round(size * density));
    }
  }
  return { answered, refused, span };
}

const far: World = { limit: 10_000, saysLimit: false, density: 0.1, sideBySide: 8 };

describe("a limit of blocks", () => {
  test.each([100, 500, 1_000, 2_000, 2_048, 5_000, 10_000, 50_000, 100_000])(
    "of %d that the endpoint does not name is found by few refusals, though eight requests are under way",
    (limit) => {
      const { answered, refused } = read(limit * 200, { ...far, limit, density: 100 / limit });
      expect(refused.length).toBeLessThanOrEqual(limit < 1_000 ? 16 : 8);
      const late = answered.slice(answered.length >> 1);
      expect(late.filter((size) => size === limit).length).toBeGreaterThan(late.length * 0.9);
    },
  );

  test("that the endpoint names is taken at its word", () => {
    const { answered, refused } = read(1_000_000, { ...far, limit: 7_777, saysLimit: true });
    // One by which it was named, and one a good while later: it may have been lifted.
    expect(refused.length).toBeLessThanOrEqual(2);
    expect(answered.filter((size) => size === 7_777).length).toBeGreaterThan(100);
  });

  test("is tried again ever more rarely, by one request at a time", () => {
    const { refused, span } = read(1_000_000, far);
    const more = read(60_000_000, far, span);
    expect(refused.length + more.refused.length).toBeLessThan(20);
    expect(more.answered.every((size) => size <= 10_000)).toBe(true);
  });

  test("that is lifted is noticed", () => {
    const { span } = read(1_000_000, far);
    const { answered } = read(60_000_000, { ...far, limit: 1_000_000, density: 0 }, span);
    expect(Math.max(...answered)).toBeGreaterThan(500_000);
  });

  test("that is lowered is noticed", () => {
    const { span } = read(1_000_000, far);
    const { answered } = read(200_000, { ...far, limit: 900 }, span);
    expect(answered.at(-1)).toBeGreaterThan(400);
  });

  test("keeps answers small: then several ranges go into one request, as many as fill an answer", () => {
    expect(read(1_000_000, far).span.parts).toBe(8);
    expect(read(1_000_000, { ...far, density: 0.3 }).span.parts).toBe(3);
    expect(read(1_000_000, { ...far, density: 0.9 }).span.parts).toBe(1);
    const { span } = read(1_000_000, far);
    span.partsRefused(8);
    expect(span.parts).toBe(4);
    for (let i = 0; i < 50; i++) span.succeeded(40_000, 4_000, 4);
    expect(span.parts).toBe(8);
    expect(new SpanController().parts).toBe(1);
  });
});

test("a refusal where many logs lie is one of too many logs: no limit of blocks is taken from it", () => {
  const span = new SpanController();
  span.succeeded(1_000, 4_000);
  expect(span.refused(2_500, undefined)).toBe(1_250);
  span.succeeded(1_250, 0);
  expect(span.next()).toBeGreaterThan(2_500);
  expect(span.parts).toBe(1);
  // So is one that says so, though few logs were expected.
  const told = new SpanController();
  told.succeeded(1_000, 0);
  expect(told.refused(4_000, { ofResults: true })).toBe(2_000);
  told.succeeded(2_000, 0);
  expect(told.next()).toBeGreaterThan(4_000);
});

test("a request that is not answered in time is not grown back to by the next look at the same blocks", () => {
  const span = new SpanController(1_000_000);
  /** A look at 60 blocks, of which no more than 20 are answered in time; the blocks that were read. */
  const look = (): number => {
    for (let done = 0; ; ) {
      const size = span.take(60 - done);
      if (size > 20) {
        span.tookTooLong(size);
        return done;
      }
      span.succeeded(size, 1);
      done += size;
      if (done === 60) return done;
    }
  };
  // Another endpoint did answer so many.
  span.succeeded(85, 1);
  const looks = Array.from({ length: 8 }, look);
  expect(looks.at(-1)).toBe(60);
  expect(looks.slice(-3)).toEqual([60, 60, 60]);
});

test("a request that fails for another reason leaves the next one free to try more", () => {
  const span = new SpanController();
  span.succeeded(1_000, 0);
  const trial = span.take(span.next());
  expect(trial).toBe(4_000);
  expect(span.take(4_000)).toBe(1_000);
  span.failed(trial);
  expect(span.take(span.next())).toBe(4_000);
});
