/** Encodes and decodes `aggregate3` of Multicall3: many calls in one; each may fail. (github.com/mds1/multicall3) */
import { addressWord, bytesAt, countAt, digitsOf, selectorOf, WORD, wordOf } from "./abi-bytes.ts";
import type { Call, CallResult } from "./port.ts";

const AGGREGATE3 = selectorOf("aggregate3((address,bool,bytes)[])");
const TRUE = wordOf(1);
/** Bytes of a call's tuple before its data: target, allowFailure flag, offset of the data. */
const HEAD_BYTES = 96;
const WORD_BYTES = WORD / 2;

/** Returns the call data for Multicall3. */
export function aggregateCalls(calls: readonly Call[]): string {
  const offsets: string[] = [];
  const tuples: string[] = [];
  let at = calls.length * WORD_BYTES;
  for (const { to, data } of calls) {
    const words = Math.ceil((data.length - 2) / WORD);
    offsets.push(wordOf(at));
    tuples.push(addressWord(to), TRUE, wordOf(HEAD_BYTES), wordOf((data.length - 2) / 2));
    tuples.push(data.slice(2).padEnd(words * WORD, "0"));
    at += HEAD_BYTES + WORD_BYTES * (1 + words);
  }
  return [AGGREGATE3, wordOf(WORD_BYTES), wordOf(calls.length), ...offsets, ...tuples].join("");
}

/** Decodes the results in the order of the calls. @throws RangeError if the answer has another number of results */
export function aggregatedResults(returned: string, calls: number): CallResult[] {
  const digits = digitsOf(returned);
  const list = countAt(digits, 0) * 2;
  if (countAt(digits, list) !== calls) throw new RangeError("Multicall3 returned another number of results than calls");
  const first = list + WORD;
  return Array.from({ length: calls }, (_, index) => {
    const tuple = first + countAt(digits, first + index * WORD) * 2;
    const data = bytesAt(digits, tuple + countAt(digits, tuple + WORD) * 2);
    return { ok: countAt(digits, tuple) !== 0, data: `0x${data}` };
  });
}
