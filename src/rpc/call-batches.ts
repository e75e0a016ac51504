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
  const head = flags.join("") + wordOf(headBytes);
  // Lookups of a pool differ in a word or two: the same few contracts and lengths come again and again.
  const startOf = new Map<Address, string>();
  const lengthOf = new Map<number, string>();
  let [offsets, tuples, at] = ["", "", calls.length * WORD_BYTES];
  for (const { to, data } of calls) {
    if (to === undefined) throw new RangeError("creation code can't be one of many calls");
    const digits = data.length - 2;
    const words = Math.ceil(digits / WORD_DIGITS);
    offsets += wordOf(at);
    tuples += startOf.getOrInsertComputed(to, () => addressWord(to) + head);
    tuples += lengthOf.getOrInsertComputed(digits, () => wordOf(digits / 2));
    tuples += data.slice(2);
    tuples += PADDING.slice(0, words * WORD_DIGITS - digits);
    at += headBytes + WORD_BYTES * (1 + words);
  }
  return wordOf(WORD_BYTES) + wordOf(calls.length) + offsets + tuples;
}

const PADDING = "0".repeat(WORD_DIGITS);

const TWO_WORDS = wordOf(2 * WORD_BYTES);
/** The answer of a factory that has no such pool, and its bytes. Most lookups have it. */
const ZERO: CallResult = { ok: true, data: `0x${wordOf(0)}` };
const ZERO_BYTES = wordOf(WORD_BYTES) + wordOf(0);

/** Decodes a list of results (bool, bytes), in the calls' order. @throws RangeError if there is another number of them */
export function aggregatedResults(returned: string, calls: number): CallResult[] {
  const digits = digitsOf(returned);
  const list = countAt(digits, 0) * 2;
  if (countAt(digits, list) !== calls) throw new RangeError("there is another number of results than calls");
  const first = list + WORD_DIGITS;
  return Array.from({ length: calls }, (_, index) => {
    const tuple = first + countAt(digits, first + index * WORD_DIGITS) * 2;
    const ok = digits.startsWith(TRUE, tuple);
    // Solidity puts the bytes behind both words. Comparing the word takes a fraction of reading it.
    const isBehind = digits.startsWith(TWO_WORDS, tuple + WORD_DIGITS);
    const bytes = tuple + (isBehind ? 2 * WORD_DIGITS : countAt(digits, tuple + WORD_DIGITS) * 2);
    return ok && digits.startsWith(ZERO_BYTES, bytes) ? ZERO : { ok, data: `0x${bytesAt(digits, bytes)}` };
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
