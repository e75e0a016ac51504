/** Which of some nodes are behind, by the blocks they show. */
import { expect, test } from "bun:test";
import type { Hash } from "../../src/core/hex.ts";
import { laggards } from "../../src/rpc/headers.ts";

const hash = (digit: string) => `0x${digit.repeat(64)}` as Hash;
const shows = (number: number, digit: string, timestamp = number * 12) => ({
  head: { number, hash: hash(digit), parentHash: hash("0"), timestamp },
});
const known = { number: 7, hash: hash("a") };

test("whoever shows a lower block than somebody else is behind", () => {
  const [low, high, higher] = [shows(5, "c"), shows(7, "a"), shows(8, "b")];
  expect(laggards([low, high, higher], known)).toEqual([low, high]);
  expect(laggards([higher, shows(8, "b")], known)).toEqual([]);
  expect(laggards([low], known)).toEqual([]);
  expect(laggards([], known)).toEqual([]);
});

test("of two blocks of one height the younger one took the other's place", () => {
  const [ours, younger] = [shows(7, "a"), shows(7, "b", 7 * 12 + 12)];
  expect(laggards([ours, younger], known)).toEqual([ours]);
});

test("of two that are alike the known one counts; without it nobody is behind", () => {
  const [ours, other, third] = [shows(7, "a"), shows(7, "b"), shows(7, "c")];
  expect(laggards([other, ours], known)).toEqual([other]);
  expect(laggards([other, third], known)).toEqual([]);
});
