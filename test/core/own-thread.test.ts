/** Background work on the thread that serves requests. It runs in slices, one per turn of the event loop. */
import { describe, expect, test } from "bun:test";
import { Budget } from "../../src/core/budget.ts";
import { noteRequest, turnToStart, yieldToEventLoop } from "../../src/core/turns.ts";

test("runs one slice per event-loop turn, in turns between the waiting tasks, until all have ended", async () => {
  const slices: string[] = [];
  const turns: number[] = [];
  let isOver = false;
  let inTurn = 0;
  const look = (): void => {
    turns.push(inTurn);
    inTurn = 0;
    if (!isOver) setImmediate(look);
  };
  setImmediate(look);
  const work = async (name: string): Promise<void> => {
    for (let slice = 0; slice < 5; slice++) {
      await yieldToEventLoop();
      inTurn++;
      slices.push(`${name}${slice}`);
    }
  };
  await Promise.all(["a", "b", "c", "d"].map(work));
  isOver = true;
  expect(slices).toEqual(Array.from({ length: 20 }, (_, i) => `${"abcd"[i % 4]}${Math.floor(i / 4)}`));
  expect(Math.max(...turns)).toBe(1);
});

test("resumes the slices of keys in turns, so that a thousand of one key delay another key's by one", async () => {
  const order: string[] = [];
  const slice = (key: string) =>
    new Budget({ owner: { key, isOperator: false } }).run(() => yieldToEventLoop().then(() => order.push(key)));
  const slices = [...Array.from({ length: 1_000 }, () => slice("greedy")), slice("honest"), slice("honest")];
  await Promise.all(slices);
  expect(order.indexOf("honest")).toBeLessThanOrEqual(1);
  expect(order.lastIndexOf("honest")).toBeLessThanOrEqual(3);
});

test("starts a few questions at once, and those of other keys before the rest of the first one's", async () => {
  const order: string[] = [];
  const question = (key: string) =>
    new Budget({ owner: { key, isOperator: false } }).run(async () => {
      await turnToStart();
      order.push(key);
    });
  await Promise.all([...Array.from({ length: 500 }, () => question("greedy")), question("honest")]);
  expect(order.indexOf("honest")).toBeLessThan(10);
});

/** Keeps the thread busy. */
function compute(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

/** When the slices of a key began and ended. */
async function slicesOf(key: string, isOperator = false): Promise<readonly { began: number; ended: number }[]> {
  const slices: { began: number; ended: number }[] = [];
  await new Budget({ owner: { key, isOperator } }).run(async () => {
    for (let slice = 0; slice < 20; slice++) {
      await yieldToEventLoop();
      const began = performance.now();
      compute(2);
      slices.push({ began, ended: performance.now() });
    }
  });
  return slices;
}

describe("a key that computes", () => {
  test("rests after each slice for as long as the slice took, while another key asks", async () => {
    noteRequest({ key: "an honest one", isOperator: false });
    const slices = await slicesOf("a greedy one");
    // The machine may hold a slice up. A rest is no longer than 50 ms then.
    const short = slices.slice(1).filter(({ began }, at) => {
      const before = slices[at]!;
      return began - before.ended < Math.min(before.ended - before.began, 50);
    });
    expect(short).toEqual([]);
  });

  test("leaves turns to the other key while it rests", async () => {
    noteRequest({ key: "an honest one", isOperator: false });
    const order: string[] = [];
    const greedy = slicesOf("a greedy one").then(() => order.push("greedy"));
    const owner = { key: "an honest one", isOperator: false };
    const honest = new Budget({ owner }).run(async () => {
      for (let slice = 0; slice < 10; slice++) await yieldToEventLoop();
      order.push("honest");
    });
    await Promise.all([greedy, honest]);
    expect(order).toEqual(["honest", "greedy"]);
  });

  test("doesn't rest as an operator", async () => {
    noteRequest({ key: "an honest one", isOperator: false });
    const order: string[] = [];
    const read = slicesOf("a greedy one").then(() => order.push("read"));
    const operate = slicesOf("an operator", true).then(() => order.push("operate"));
    await Promise.all([read, operate]);
    expect(order).toEqual(["operate", "read"]);
  });
});
