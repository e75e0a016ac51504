/**
 * Histories of tokens with one owner (ERC-721, CryptoPunks): 16 bytes a transfer, each entry linked to the one before
 * of the same token, so that the owner at any block is a short walk back from the tail.
 */
import { roomI32, roomU32, upperBound } from "./grow.ts";

export class OwnerHistory {
  count = 0;
  block = new Uint32Array(64);
  slot = new Uint32Array(64);
  /** Receiver, as an index of the address table. */
  to = new Uint32Array(64);
  /** The token's entry before: an index, -1, or -(2 + r) for id range r. */
  prev = new Int32Array(64);

  get bytes(): number {
    return this.block.byteLength * 4;
  }

  push(block: number, slot: number, to: number, prev: number): number {
    const entry = this.count++;
    this.block = roomU32(this.block, entry);
    this.slot = roomU32(this.slot, entry);
    this.to = roomU32(this.to, entry);
    this.prev = roomI32(this.prev, entry);
    this.block[entry] = block;
    this.slot[entry] = slot;
    this.to[entry] = to;
    this.prev[entry] = prev;
    return entry;
  }

  /** The token's newest entry at or before `block`, walking from `tail`; below 0 as `prev`. */
  at(tail: number, block: number): number {
    let entry = tail;
    while (entry >= 0 && (this.block[entry] as number) > block) entry = this.prev[entry] as number;
    return entry;
  }

  /** How many entries lie at or before `block`. */
  countAt(block: number): number {
    return upperBound(this.block, this.count, block);
  }
}
