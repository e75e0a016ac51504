/** Announced blocks: the follower polls at once if a client waits for them, otherwise at the chain's ordinary pace. */
import { expect, test } from "bun:test";
import { PollSchedule } from "../../src/chain/poll-schedule.ts";
import { ProcessClock, Scheduler } from "../support/simulation/scheduler.ts";

/** Runs the poll schedule for 10 s while a block is announced every `blockMs`. Returns the start time of each poll. */
async function looksAt(blockMs: number, hasSubscribers: boolean): Promise<number[]> {
  const scheduler = new Scheduler(1);
  const clock = new ProcessClock(scheduler);
  const looks = new PollSchedule(clock, { minPollMs: 1_000, restMs: 0, hasSubscribers: () => hasSubscribers });
  const begun: number[] = [];
  const stop = new AbortController();
  const follow = async () => {
    for (;;) {
      looks.begin();
      begun.push(scheduler.time);
      // The next block is due far in the future, so only announcements cause a poll.
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

test("polls at each announced block while a client waits", async () => {
  expect(await looksAt(700, true)).toEqual([
    0, 700, 1_400, 2_100, 2_800, 3_500, 4_200, 4_900, 5_600, 6_300, 7_000, 7_700, 8_400, 9_100, 9_800,
  ]);
});

test("polls at most five times a second while a client waits on a chain with very fast blocks", async () => {
  const begun = await looksAt(30, true);
  const gaps = begun.slice(1).map((at, i) => at - (begun[i] as number));
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(200);
  expect(begun.length).toBeGreaterThan(40);
});

test("polls at most once a second while no client waits", async () => {
  const begun = await looksAt(700, false);
  const gaps = begun.slice(1).map((at, i) => at - (begun[i] as number));
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(1_000);
});
