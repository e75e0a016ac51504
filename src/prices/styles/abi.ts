/**
 * Calls of contracts and the decoders of their results and logs, over hex words. Decoders return undefined for malformed
 * data. A `Plan` is calls with the decoder of their results, so that any number of plans share one round trip.
 */
import { type Address, toAddress } from "../../core/hex.ts";
import { utf8Text } from "../../core/utf8.ts";
import { selectorOf } from "../../rpc/calls.ts";
import type { Call, CallResult } from "../../rpc/port.ts";

/** Selectors by signature: hashing one takes longer than building a call. */
const SELECTORS = new Map<string, string>();

/** Builds a call of `to`; each of `words` is 64 hex digits. */
export function call(to: Address, signature: string, ...words: string[]): Call {
  let selector = SELECTORS.get(signature);
  if (selector === undefined) {
    selector = selectorOf(signature);
    SELECTORS.set(signature, selector);
  }
  return { to, data: selector + words.join(""), isGetter: true };
}

const ZERO = "0".repeat(64);

/** Returns word `index` of hex data with 0x, unsigned; undefined when the data ends before it. */
export function abiWord(data: string, index: number): bigint | undefined {
  const start = 2 + index * 64;
  if (data.length < start + 64) return undefined;
  // A zero is the most frequent answer: that of a factory without such a pool.
  if (data.startsWith(ZERO, start)) return 0n;
  return BigInt(`0x${data.slice(start, start + 64)}`);
}

/** Returns the first `count` words of hex data, unsigned; undefined when there are fewer. */
export function abiWords(data: string, count: number): bigint[] | undefined {
  if (data.length < 2 + count * 64) return undefined;
  return Array.from({ length: count }, (_, index) => abiWord(data, index) ?? 0n);
}

/** The word of a number, which may be signed. */
export const signedWord = (value: bigint): string => BigInt.asUintN(256, value).toString(16).padStart(64, "0");

/** The signed number of 24 bits in a word. */
export const tickIn = (word: bigint): number => Number(BigInt.asIntN(24, word));

/** Returns the address in a word; undefined when the word is missing or its upper 12 bytes are not zero. */
export function addressAt(data: string, index: number): Address | undefined {
  const value = abiWord(data, index);
  if (value === undefined || value >> 160n !== 0n) return undefined;
  return toAddress(`0x${value.toString(16).padStart(40, "0")}`);
}

/** Returns word `index` of a successful call; undefined when the call failed or returned too little data. */
export function answer(result: CallResult | undefined, index = 0): bigint | undefined {
  return result?.ok ? abiWord(result.data, index) : undefined;
}

/** Returns the address that a successful call returned; undefined when the call failed or returned other data. */
export const addressAnswer = (result: CallResult | undefined): Address | undefined =>
  result?.ok ? addressAt(result.data, 0) : undefined;

/** Decodes a returned string: ABI `string`, or zero-padded `bytes32` (MKR returns that); undefined for other data. */
export function textAnswer(result: CallResult | undefined): string | undefined {
  if (!result?.ok || result.data.length < 66) return undefined;
  const { data } = result;
  if (data.length === 66) return clean(Buffer.from(data.slice(2), "hex"));
  const offset = abiWord(data, 0);
  if (offset === undefined || offset % 32n !== 0n || offset > 1024n) return undefined;
  const at = Number(offset / 32n);
  const length = abiWord(data, at);
  if (length === undefined || length > 4096n) return undefined;
  const start = 2 + (at + 1) * 64;
  return clean(Buffer.from(data.slice(start, start + Number(length) * 2), "hex"));
}

/** Decodes UTF-8 up to the first zero byte, without control characters. */
function clean(bytes: Buffer): string {
  const end = bytes.indexOf(0);
  const text = utf8Text(end === -1 ? bytes : bytes.subarray(0, end));
  return text.replace(/\p{Cc}/gu, "").trim();
}

/** Calls, and the decoder of their results. */
export interface CallPlan<T> {
  readonly calls: readonly Call[];
  read(results: readonly CallResult[]): T;
}

/** Joins several plans; the results are in the same order. */
export function together<T>(plans: readonly CallPlan<T>[]): CallPlan<T[]> {
  return {
    calls: plans.flatMap((plan) => plan.calls),
    read(results) {
      let at = 0;
      return plans.map((plan) => {
        const own = results.slice(at, at + plan.calls.length);
        at += plan.calls.length;
        return plan.read(own);
      });
    },
  };
}

/** Joins two plans with different results. */
export function both<A, B>(first: CallPlan<A>, second: CallPlan<B>): CallPlan<readonly [A, B]> {
  return {
    calls: [...first.calls, ...second.calls],
    read: (results) => [
      first.read(results.slice(0, first.calls.length)),
      second.read(results.slice(first.calls.length)),
    ],
  };
}
