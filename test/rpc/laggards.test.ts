/** Decides which nodes lag, from the blocks that they show. */
import { expect, test } from "bun:test";
import type { Hash } from "../../src/core/hex.ts";
import { laggards } from "../../src/rpc/reading/headers.ts";

const hash = (digit: string) => `0x${digit.repeat(64)}` as Hash;
const shows = (number: number, digit: string, timestamp = number * 12) => ({
  head: { number, hash: hash(digit), parentHash: hash("0"), timestamp },
});
const known = { number: 7, hash: hash("a") };

test("counts a node as lagging if it shows a lower block than another", () => {
  const [low, high, higher] = [shows(5, "c"), shows(7, "a"), shows(8, "b")];
  expect(laggards([low, high, higher], known)).toEqual([low, high]);
  expect(laggards([higher, shows(8, "b")], known)).toEqual([]);
  expect(laggards([low], known)).toEqual([]);
  expect(laggards([], known)).toEqual([]);
});

test("counts the older of two blocks at one height as replaced by the younger", () => {
  const [ours, younger] = [shows(7, "a"), shows(7, "b", 7 * 12 + 12)];
  expect(laggards([ours, younger], known)).toEqual([ours]);
});

test("prefers the known block if two have the same height and time, and counts none as lagging without it", () => {
  const [ours, other, third] = [shows(7, "a"), shows(7, "b"), shows(7, "c")];
  expect(laggards([other, ours], known)).toEqual([other]);
  expect(laggards([other, third], known)).toEqual([]);
});
