/**
 * The ABI encoding of calls: selectors, words and bytes, read and written directly in hex digits. A general ABI coder
 * allocates an object per word and decodes strings byte by byte, on the thread that serves requests. Layout: the Solidity
 * ABI specification, "Formal Specification of the Encoding". Pure.
 */
import type { Address } from "../core/hex.ts";
import { topicOf } from "../core/keccak.ts";
import type { CallResult } from "./port.ts";

/** Hex digits of an ABI word (32 bytes). */
export const WORD_DIGITS = 64;

/** The function selector: the first four bytes of a call's data, as hex with 0x. */
export const selectorOf = (signature: string): string => topicOf(signature).slice(0, 10);

export const addressWord = (address: Address): string => address.slice(2).padStart(WORD_DIGITS, "0");

export const wordOf = (value: number): string => value.toString(16).padStart(WORD_DIGITS, "0");

/** Digits of a word's upper part, which a usable length or offset leaves zero, and the words' own bound of 2^52. */
const UPPER = "0".repeat(51);

/** Reads the word at digit `at` as a length or offset. @throws RangeError past the end, and from 2^52 on */
export function countAt(digits: string, at: number): number {
  const end = at + WORD_DIGITS;
  // Parsing all digits takes ten times as long as comparing them.
  const isUsable = end <= digits.length && digits.startsWith(UPPER, at);
  const value = isUsable ? Number.parseInt(digits.slice(at + UPPER.length, end), 16) : Number.NaN;
  if (!Number.isSafeInteger(value)) throw new RangeError("an ABI word is not a usable length or offset");
  return value;
}

/** Returns the digits of the bytes whose length word is at digit `at`. @throws RangeError if the data are truncated */
export function bytesAt(digits: string, at: number): string {
  const start = at + WORD_DIGITS;
  const end = start + countAt(digits, at) * 2;
  if (end > digits.length) throw new RangeError("the ABI data end before their declared length");
  return digits.slice(start, end);
}

/** Returns the digits of hex data without the 0x. @throws RangeError if it is not hex with 0x */
export function digitsOf(data: string): string {
  if (data.length % 2 !== 0 || !/^0x[0-9a-fA-F]*$/.test(data)) throw new RangeError("the return data are not hex");
  return data.slice(2);
}

/** Decodes return data that hold a single `bytes` or `string`. @throws RangeError if they are malformed */
export function onlyBytes(data: string): Buffer {
  const digits = digitsOf(data);
  return Buffer.from(bytesAt(digits, countAt(digits, 0) * 2), "hex");
}

/** Returns the number in a call's answer. Undefined if it failed, or its answer is no single word. */
export function wordIn(result: CallResult | undefined): bigint | undefined {
  return result?.ok === true && /^0x[0-9a-f]{64}$/i.test(result.data) ? BigInt(result.data) : undefined;
}

/** Returns the boolean in a call's answer. Undefined if it failed, or its answer is neither. */
export function booleanIn(result: CallResult | undefined): boolean | undefined {
  const word = wordIn(result);
  return word === 0n || word === 1n ? word === 1n : undefined;
}

/** Returns the address in a call's answer. Undefined if it failed, or its answer is no address. */
export function addressIn(result: CallResult | undefined): Address | undefined {
  const word = wordIn(result);
  return word === undefined || word >> 160n !== 0n
    ? undefined
    : (`0x${word.toString(16).padStart(40, "0")}` as Address);
}
