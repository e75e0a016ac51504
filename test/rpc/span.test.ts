/** How the controller finds an endpoint's limit of blocks, stated or not, and how few requests that costs. */
import { describe, expect, test } from "bun:test";
import { SpanController } from "../../src/rpc/endpoint/span-controller.ts";

interface World {
  readonly limit: number;
  readonly saysLimit: boolean;
  /** Logs per block. */
  readonly density: number;
  /** Number of concurrent requests. */
  readonly sideBySide: number;
}

/** Number of ranges with which a backfill begins. */
const FIRST_ONES = 3;

/** Reads `blocks` blocks. Returns the range sizes that were answered and refused, in order. */
function read(blocks: number, { limit, saysLimit, density, sideBySide }: World, span = new SpanController()) {
  const [answered, refused]: [number[], number[]] = [[], []];
  let left = blocks;
  while (left > 0) {
    // Concurrent requests are sent before any answer arrives.
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
    "of %d that the endpoint does not state is found with few refusals, despite eight concurrent requests",
    (limit) => {
      const { answered, refused } = read(limit * 200, { ...far, limit, density: 100 / limit });
      expect(refused.length).toBeLessThanOrEqual(limit < 1_000 ? 16 : 8);
      const late = answered.slice(answered.length >> 1);
      expect(late.filter((size) => size === limit).length).toBeGreaterThan(late.length * 0.9);
    },
  );

  test("that the endpoint states is used as stated", () => {
    const { answered, refused } = read(1_000_000, { ...far, limit: 7_777, saysLimit: true });
    // One refusal states the limit, and one later trial checks if it was lifted.
    expect(refused.length).toBeLessThanOrEqual(2);
    expect(answered.filter((size) => size === 7_777).length).toBeGreaterThan(100);
  });

  test("is tried more and more rarely, by one request at a time", () => {
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

  test("keeps answers small, so several ranges go into one request, up to a full answer", () => {
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

test("sets no limit of blocks after a refusal where logs are dense", () => {
  const span = new SpanController();
  span.succeeded(1_000, 4_000);
  expect(span.refused(2_500, undefined)).toBe(1_250);
  span.succeeded(1_250, 0);
  expect(span.next()).toBeGreaterThan(2_500);
  expect(span.parts).toBe(1);
  // The same holds for a refusal that says so, although few logs were expected.
  const told = new SpanController();
  told.succeeded(1_000, 0);
  expect(told.refused(4_000, { ofResults: true })).toBe(2_000);
  told.succeeded(2_000, 0);
  expect(told.next()).toBeGreaterThan(4_000);
});

test("does not return to a range size that timed out when the same blocks are polled again", () => {
  const span = new SpanController(1_000_000);
  /** A poll of 60 blocks, of which at most 20 are answered in time. Returns the number of blocks read. */
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
  // Another endpoint did answer this many.
  span.succeeded(85, 1);
  const looks = Array.from({ length: 8 }, look);
  expect(looks.at(-1)).toBe(60);
  expect(looks.slice(-3)).toEqual([60, 60, 60]);
});

test("lets the next request try a larger range after a failure for another reason", () => {
  const span = new SpanController();
  span.succeeded(1_000, 0);
  const trial = span.take(span.next());
  expect(trial).toBe(4_000);
  expect(span.take(4_000)).toBe(1_000);
  span.settle(trial);
  expect(span.take(span.next())).toBe(4_000);
});
