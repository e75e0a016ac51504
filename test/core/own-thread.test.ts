/** Background work on the thread that serves requests. It runs in slices, one per turn of the event loop. */
import { expect, test } from "bun:test";
import { turnToStart, yieldToEventLoop } from "../../src/core/background.ts";
import { Budget } from "../../src/core/budget.ts";

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
