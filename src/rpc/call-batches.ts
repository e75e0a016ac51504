/**
 * Encodes many calls as one, in hex digits: for Multicall3, or as creation code that runs without a contract
 * (deployless.sol). Decodes their results. Pure.
 */
import type { Address } from "../core/hex.ts";
import { addressWord, bytesAt, countAt, digitsOf, selectorOf, WORD_DIGITS, wordOf } from "./calls.ts";
// The creation code by solc 0.8.37 over its IR with 200 runs, for the EVM of Paris, without metadata. A test compiles it anew.
import MANY_CALLS from "./many-calls.txt";
import MANY_CODES from "./many-codes.txt";
import MANY_GETTERS from "./many-getters.txt";
import type { Call, CallResult } from "./port.ts";

/** The function of Multicall3 that runs many calls in one; each of them may fail (github.com/mds1/multicall3). */
const AGGREGATE3 = selectorOf("aggregate3((address,bool,bytes)[])");
const TRUE = wordOf(1);
const WORD_BYTES = WORD_DIGITS / 2;

/** Data of `aggregate3`. @throws RangeError for a call without a contract */
export const aggregateCalls = (calls: readonly Call[]): string => AGGREGATE3 + encodedCalls(calls, [TRUE]);

/** Creation code that runs the calls without a contract (deployless.sol), and reverts with what `aggregate3` returns. */
export const deploylessCalls = (calls: readonly Call[]): string => `0x${MANY_CALLS}${encodedCalls(calls, [])}`;

/**
 * Like `deploylessCalls` for getters, each with its own bounds.
 * @param gasEach of each call; `mostBytes` of its answer
 */
export function deploylessGetters(calls: readonly Call[], gasEach: number, mostBytes: number): string {
  // The list begins after these two and its own offset.
  const list = encodedCalls(calls, []).slice(WORD_DIGITS);
  return ["0x", MANY_GETTERS, wordOf(gasEach), wordOf(mostBytes), wordOf(3 * WORD_BYTES), list].join("");
}

/** Creation code that reverts with a word for the code of each address (deployless.sol). */
export const deploylessCodes = (addresses: readonly Address[]): string =>
  ["0x", MANY_CODES, wordOf(WORD_BYTES), wordOf(addresses.length), ...addresses.map(addressWord)].join("");

/** Encodes a list of (target, …flags, data). */
function encodedCalls(calls: readonly Call[], flags: readonly string[]): string {
  const headBytes = WORD_BYTES * (2 + flags.length);
  const offsets: string[] = [];
  const tuples: string[] = [];
  let at = calls.length * WORD_BYTES;
  for (const { to, data } of calls) {
    if (to === undefined) throw new RangeError("creation code can't be one of many calls");
    const words = Math.ceil((data.length - 2) / WORD_DIGITS);
    offsets.push(wordOf(at));
    tuples.push(addressWord(to), ...flags, wordOf(headBytes), wordOf((data.length - 2) / 2));
    tuples.push(data.slice(2).padEnd(words * WORD_DIGITS, "0"));
    at += headBytes + WORD_BYTES * (1 + words);
  }
  return [wordOf(WORD_BYTES), wordOf(calls.length), ...offsets, ...tuples].join("");
}

/** Decodes a list of results (bool, bytes), in the calls' order. @throws RangeError if there is another number of them */
export function aggregatedResults(returned: string, calls: number): CallResult[] {
  const digits = digitsOf(returned);
  const list = countAt(digits, 0) * 2;
  if (countAt(digits, list) !== calls) throw new RangeError("there is another number of results than calls");
  const first = list + WORD_DIGITS;
  return Array.from({ length: calls }, (_, index) => {
    const tuple = first + countAt(digits, first + index * WORD_DIGITS) * 2;
    const data = bytesAt(digits, tuple + countAt(digits, tuple + WORD_DIGITS) * 2);
    return { ok: countAt(digits, tuple) === 1, data: `0x${data}` };
  });
}

/** The results of `deploylessGetters` whose gas was not enough, and those whose answer was too long, by place. @throws RangeError */
export function costlyAmong(returned: string): { readonly burning: number[]; readonly long: number[] } {
  const digits = digitsOf(returned);
  const list = countAt(digits, 0) * 2;
  const first = list + WORD_DIGITS;
  const statuses = Array.from({ length: countAt(digits, list) }, (_, index) =>
    countAt(digits, first + countAt(digits, first + index * WORD_DIGITS) * 2),
  );
  const placesOf = (status: number) => [...statuses.keys()].filter((at) => statuses[at] === status);
  return { burning: placesOf(BURNING), long: placesOf(LONG) };
}

/** Statuses of calls of `deploylessGetters` that need more than they were given. */
const [BURNING, LONG] = [2, 3] as const;
