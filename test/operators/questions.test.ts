/** The questions of keys, with the real keys over a log in memory. */
import { expect, test } from "bun:test";
import { Budget } from "../../src/core/budget.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { ApiKeys, hashOfKey } from "../../src/operators/keys.ts";
import { Questions } from "../../src/operators/questions.ts";
import { MemoryLog } from "../support/memory-log.ts";
import { TurnedClock } from "../support/turned-clock.ts";

const TEXT = "text-of-the-environment";
const PER_MINUTE = 1_000_000;

async function opened() {
  const environment = [{ name: "API_KEYS#1", scope: "read", hash: hashOfKey(TEXT) }] as const;
  const limits = { requestsPerMinute: PER_MINUTE, collectionsPerHour: 300, subscriptions: 1_000 };
  const options = { log: new MemoryLog(), clock: new TurnedClock(), logger: silentLogger, environment, limits };
  const keys = new ApiKeys(options);
  await keys.begin();
  await keys.read();
  const account = new Budget();
  const questions = new Questions({ keys, accountOf: () => account });
  const key = keys.check(TEXT);
  return { questions, key, left: () => keys.rateOf(key).left };
}

/** Ms of so many requests beside open questions. */
async function timeBeside(open: number, requests: number): Promise<number> {
  const { questions, key } = await opened();
  for (let at = 0; at < open; at++) questions.begin(key);
  const began = performance.now();
  for (let at = 0; at < requests; at++) questions.take(key);
  return performance.now() - began;
}

test("a request takes as long beside six thousand open questions as beside a hundred", async () => {
  await timeBeside(100, 10_000);
  const few = await timeBeside(100, 10_000);
  expect(await timeBeside(6_000, 10_000)).toBeLessThan(8 * few);
});

test("requests charge all open questions, some at a time", async () => {
  const { questions, key, left } = await opened();
  const [open, calls] = [500, 30];
  for (let at = 0; at < open; at++) questions.begin(key).budget.spend(Array.from({ length: calls }, () => "eth_call"));
  expect(left()).toBe(PER_MINUTE);
  let requests = 0;
  // A request is ten calls.
  while (left() > PER_MINUTE - requests - (open * calls) / 10) {
    expect(requests++).toBeLessThan(40);
    questions.take(key);
  }
});
