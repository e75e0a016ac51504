/** Broadcasting to many subscribers: in batches, in order, and only to those present at the time of the message. */
import { expect, test } from "bun:test";
import { Broadcast } from "../../src/push/pacing.ts";

const many = (count: number) => new Set(Array.from({ length: count }, (_, i) => i));

/** Waits until `total` calls were made. Returns the number of calls in each turn of the event loop. */
async function turnsOf(told: readonly unknown[], total: number): Promise<number[]> {
  const turns = [told.length];
  for (let before = told.length; before < total; before = told.length) {
    await new Promise<void>((resolve) => setImmediate(resolve));
    turns.push(told.length - before);
  }
  return turns;
}

test("calls a few subscribers at once, and many in batches of a few hundred", async () => {
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

test("delivers messages in order, and never an earlier message to a later subscriber", async () => {
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

test("calls no subscriber after the stop", async () => {
  const broadcast = new Broadcast<number>();
  const told: number[] = [];
  broadcast.send(many(1_000), (one) => told.push(one));
  broadcast.stop();
  const before = told.length;
  for (let turn = 0; turn < 10; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
  expect(told.length).toBe(before);
});
