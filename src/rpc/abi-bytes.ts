/**
 * ABI-coded numbers and bytes, read from hex digits where they stand. A general coder makes an object of each word and
 * walks texts byte by byte, on the request thread. Layout: the Solidity ABI specification, "Formal Specification of the
 * Encoding".
 */
import { id } from "ethers";
import type { Address } from "../core/hex.ts";

/** Hex digits of a word. */
export const WORD = 64;

/** The first four bytes of a call's data: which function is called. */
export const selectorOf = (signature: string): string => id(signature).slice(0, 10);

export const addressWord = (address: Address): string => address.slice(2).padStart(WORD, "0");

/** A number as a word. */
export const wordOf = (value: number): string => value.toString(16).padStart(WORD, "0");

/** The word at a digit as a number that counts or points. @throws RangeError past the end, and above 2^53 */
export function countAt(digits: string, at: number): number {
  const value = at + WORD <= digits.length ? Number.parseInt(digits.slice(at, at + WORD), 16) : Number.NaN;
  if (!Number.isSafeInteger(value)) throw new RangeError("a word that counts nothing in this answer");
  return value;
}

/** The digits of the bytes whose length stands at a digit. @throws RangeError when they end before that */
export function bytesAt(digits: string, at: number): string {
  const start = at + WORD;
  const end = start + countAt(digits, at) * 2;
  if (end > digits.length) throw new RangeError("the answer ends before its bytes do");
  return digits.slice(start, end);
}

/** The digits of hex data with 0x. @throws RangeError on anything else */
export function digitsOf(data: string): string {
  if (data.length % 2 !== 0 || !/^0x[0-9a-fA-F]*$/.test(data)) throw new RangeError("an answer that is not hex");
  return data.slice(2);
}

/** The one `bytes` or `string` that hex data with 0x says, as bytes. @throws RangeError when it says none */
export function onlyBytes(data: string): Buffer {
  const digits = digitsOf(data);
  return Buffer.from(bytesAt(digits, countAt(digits, 0) * 2), "hex");
}
