/**
 * Hex, addresses and hashes. Inside the program every address and hash is lower case with `0x`. The branded types prove
 * that a string has passed one of these functions.
 */
import { getAddress } from "ethers/address";

/** 20 bytes, lower-case hex with 0x. */
export type Address = `0x${string}` & { readonly __address: true };
/** 32 bytes, lower-case hex with 0x. */
export type Hash = `0x${string}` & { readonly __hash: true };

export const ADDRESS_BYTES = 20;

export const ZERO_ADDRESS = `0x${"0".repeat(40)}` as Address;

/**
 * The system's address (`SYSTEM_ADDRESS` of EIP-4788, eips.ethereum.org/EIPS/eip-4788), at which no contract lives. Since
 * EIP-7708 (eips.ethereum.org/EIPS/eip-7708) each transfer of ether has a log of it, in the form of ERC-20's `Transfer`.
 */
export const SYSTEM_ADDRESS = `0x${"f".repeat(39)}e` as Address;

const ADDRESS = /^0x[0-9a-fA-F]{40}$/;
const HASH = /^0x[0-9a-fA-F]{64}$/;

/** Returns the lower-case address. Undefined if `text` is not an address or has a wrong EIP-55 checksum. */
export function parseAddress(text: string): Address | undefined {
  if (!ADDRESS.test(text)) return undefined;
  const digits = text.slice(2);
  const lower = digits.toLowerCase();
  if (digits !== lower && digits !== digits.toUpperCase()) {
    if (getAddress(`0x${lower}`).slice(2) !== digits) return undefined;
  }
  return `0x${lower}` as Address;
}

/** Lower-cases an address of a constant or a node's answer. Ignores checksums. @throws TypeError on another shape */
export function toAddress(text: string): Address {
  if (!ADDRESS.test(text)) throw new TypeError("not a 20-byte hex address");
  return text.toLowerCase() as Address;
}

/** Lower-cases a hash of a node's answer. @throws TypeError unless it is 32 bytes of hex */
export function toHash(text: string): Hash {
  if (!HASH.test(text)) throw new TypeError("not a 32-byte hex hash");
  return text.toLowerCase() as Hash;
}

/** Returns the bytes of a hex string with 0x. */
export function hexToBytes(hex: string): Uint8Array {
  return new Uint8Array(Buffer.from(hex.slice(2), "hex"));
}

/** Returns lower-case hex with 0x. */
export function bytesToHex(bytes: Uint8Array): `0x${string}` {
  return `0x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex")}`;
}

/** Returns a non-negative integer as a JSON-RPC quantity. */
export function quantity(value: number | bigint): string {
  return `0x${value.toString(16)}`;
}

/** Returns a JSON-RPC quantity as a safe integer. @throws TypeError on any other value */
export function parseQuantity(value: unknown): number {
  if (typeof value !== "string" || !/^0x[0-9a-fA-F]{1,14}$/.test(value)) throw new TypeError("not a hex quantity");
  const number = Number(value);
  if (!Number.isSafeInteger(number)) throw new TypeError("hex quantity above 2^53");
  return number;
}
