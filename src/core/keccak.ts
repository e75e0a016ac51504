/**
 * Keccak-256 by js-sha3, which takes a quarter of the time of ethers' own: one question about tokens hashes thousands of
 * pool ids. From the import of this file on, ethers hashes with it, too.
 */
import { keccak256 as ethersKeccak } from "ethers/crypto";
import { keccak256 } from "js-sha3";
import type { Hash } from "./hex.ts";

const hashOf = (bytes: Uint8Array): Hash => `0x${keccak256(bytes)}` as Hash;

ethersKeccak.register(hashOf);

/** The hash of bytes in hex with 0x. The caller has checked that they are hex: what follows another character is left out. */
export const keccakOf = (hex: string): Hash => hashOf(Buffer.from(hex.slice(2), "hex"));

/** The hash of a signature, `Transfer(address,address,uint256)`: an event's first topic. A function's selector is its first four bytes. */
export const topicOf = (signature: string): Hash => hashOf(Buffer.from(signature));
