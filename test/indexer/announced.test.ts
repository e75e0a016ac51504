/** Blocks that a node announces: followed at once where a client waits for them, else at the chain's ordinary pace. */
import { expect, test } from "bun:test";
import { PollSchedule } from "../../src/chain/head.ts";
import { ProcessClock, Scheduler } from "../simulation/scheduler.ts";

/** Looks for so many ms at a chain that announces a block every `blockMs`; when each look began. */
async function looksAt(blockMs: number, isHeard: boolean): Promise<number[]> {
  const scheduler = new Scheduler(1);
  const clock = new ProcessClock(scheduler);
  const looks = new PollSchedule(clock, 1_000, () => isHeard);
  const begun: number[] = [];
  const stop = new AbortController();
  const follow = async () => {
    for (;;) {
      looks.begin();
      begun.push(scheduler.time);
      // The next block is not due before long: only announcements ask for a look.
      looks.dueIn = 60_000;
      await looks.pause(60_000, stop.signal);
    }
  };
  follow().catch(() => undefined);
  for (let at = blockMs; at <= 10_000; at += blockMs) clock.after(at, () => looks.blockAnnounced());
  clock.after(10_001, () => stop.abort());
  while (!stop.signal.aborted) {
    if (!(await scheduler.step())) await new Promise<void>((resolve) => setImmediate(resolve));
  }
  return begun;
}

test("a client waits: each block is looked at when it is announced", async () => {
  expect(await looksAt(700, true)).toEqual([
    0, 700, 1_400, 2_100, 2_800, 3_500, 4_200, 4_900, 5_600, 6_300, 7_000, 7_700, 8_400, 9_100, 9_800,
  ]);
});

test("a client waits on a chain with very fast blocks: at most five looks a second", async () => {
  const begun = await looksAt(30, true);
  const gaps = begun.slice(1).map((at, i) => at - (begun[i] as number));
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(200);
  expect(begun.length).toBeGreaterThan(40);
});

test("no client waits: at most a look a second", async () => {
  const begun = await looksAt(700, false);
  const gaps = begun.slice(1).map((at, i) => at - (begun[i] as number));
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(1_000);
});
