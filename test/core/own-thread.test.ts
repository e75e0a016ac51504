/** Background work on the thread that serves requests. It runs in slices, one per turn of the event loop. */
import { expect, test } from "bun:test";
import { yieldToEventLoop } from "../../src/core/background.ts";

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
