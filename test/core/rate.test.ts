/** Rates: a window that holds wherever it begins, and buckets that give back what was saved. */
import { expect, test } from "bun:test";
import { RateWindow, TokenBuckets } from "../../src/core/rate.ts";
import { TurnedClock } from "../support/turned-clock.ts";

test("a window allows its number of starts in any stretch of its length", () => {
  const clock = new TurnedClock();
  const window = new RateWindow(clock, { count: 20, ms: 10_000 });
  const starts: number[] = [];
  // As fast as it allows, with pauses now and then.
  for (let at = 0; starts.length < 500; at++) {
    const wait = window.take();
    if (wait > 0) clock.turn(wait);
    else starts.push(clock.monotonic());
    if (at % 37 === 0) clock.turn(1_234);
  }
  for (const [at, start] of starts.slice(20).entries()) {
    expect(start - (starts[at] as number)).toBeGreaterThanOrEqual(10_000);
  }
  // It is used fully: 500 starts in 25 windows.
  expect((starts.at(-1) as number) - (starts[0] as number)).toBeLessThan(26 * 10_000);
});

test("a window says when the next start is free", () => {
  const clock = new TurnedClock();
  const window = new RateWindow(clock, { count: 2, ms: 10_000 });
  expect(window.take()).toBe(0);
  clock.turn(3_000);
  expect(window.take()).toBe(0);
  expect(window.take()).toBe(7_000);
  clock.turn(7_000);
  expect([window.take(), window.take()]).toEqual([0, 3_000]);
});

test("a bucket gives what was saved at once, and fills while it is used", () => {
  const clock = new TurnedClock();
  const buckets = new TokenBuckets(clock);
  const rate = { capacity: 20, fillMs: 10_000 };
  const taken = () => {
    let count = 0;
    while (buckets.take("a key", rate) === 0) count++;
    return count;
  };
  expect(taken()).toBe(20);
  clock.turn(5_000);
  expect(taken()).toBe(10);
});
