/** Telling many: in slices, in order, to those who were there. */
import { expect, test } from "bun:test";
import { Broadcast } from "../../src/push/pacing.ts";

const many = (count: number) => new Set(Array.from({ length: count }, (_, i) => i));

/** Resolves after the turns of the event loop that telling takes; how many were told in each. */
async function turnsOf(told: readonly unknown[], total: number): Promise<number[]> {
  const turns = [told.length];
  for (let before = told.length; before < total; before = told.length) {
    await new Promise<void>((resolve) => setImmediate(resolve));
    turns.push(told.length - before);
  }
  return turns;
}

test("few are told at once, many a few hundred at a time", async () => {
  const broadcast = new Broadcast<number>();
  const told: number[] = [];
  broadcast.send(many(3), (one) => told.push(one));
  expect(told).toEqual([0, 1, 2]);
  told.length = 0;
  broadcast.send(many(1_000), (one) => told.push(one));
  const turns = await turnsOf(told, 1_000);
  expect(told).toEqual([...many(1_000)]);
  expect(Math.max(...turns)).toBeLessThan(500);
});

test("what comes up meanwhile comes after it, be it for few; who came later is not told what was before", async () => {
  const broadcast = new Broadcast<number>();
  const told: string[] = [];
  const listeners = many(600);
  broadcast.send(listeners, (one) => told.push(`first ${one}`));
  listeners.add(600);
  broadcast.send(new Set([7]), () => told.push("second"));
  await turnsOf(told, 601);
  expect(told.at(-1)).toBe("second");
  expect(told).not.toContain("first 600");
});

test("nobody is told after the end", async () => {
  const broadcast = new Broadcast<number>();
  const told: number[] = [];
  broadcast.send(many(1_000), (one) => told.push(one));
  broadcast.stop();
  const before = told.length;
  for (let turn = 0; turn < 10; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
  expect(told.length).toBe(before);
});
