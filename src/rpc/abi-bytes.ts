/**
 * Reads and writes ABI-encoded numbers and bytes directly in hex digits. A general ABI coder allocates an object per
 * word and decodes strings byte by byte, on the thread that serves requests. Layout: the Solidity ABI specification,
 * "Formal Specification of the Encoding".
 */
import { id } from "ethers";
import type { Address } from "../core/hex.ts";

/** Hex digits of an ABI word (32 bytes). */
export const WORD = 64;

/** The function selector: the first four bytes of a call's data, as hex with 0x. */
export const selectorOf = (signature: string): string => id(signature).slice(0, 10);

export const addressWord = (address: Address): string => address.slice(2).padStart(WORD, "0");

/** Encodes a number as an ABI word. */
export const wordOf = (value: number): string => value.toString(16).padStart(WORD, "0");

/** Reads the word at digit `at` as a length or offset. @throws RangeError past the end, and above 2^53 */
export function countAt(digits: string, at: number): number {
  const value = at + WORD <= digits.length ? Number.parseInt(digits.slice(at, at + WORD), 16) : Number.NaN;
  if (!Number.isSafeInteger(value)) throw new RangeError("an ABI word is not a usable length or offset");
  return value;
}

/** Returns the digits of the bytes whose length word is at digit `at`. @throws RangeError if the data are truncated */
export function bytesAt(digits: string, at: number): string {
  const start = at + WORD;
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
