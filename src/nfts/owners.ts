/**
 * Histories of tokens with one owner (ERC-721, CryptoPunks): 16 bytes a transfer, each entry linked to the one before
 * of the same token, so that the owner at any block is a short walk back from the tail.
 */
import type { Keeper } from "./keep.ts";
import { CHUNK_BITS, CHUNK_MASK, WordTable } from "./word-table.ts";

/** Words of an entry: block, slot, receiver (an index of the address table), entry before (see `prev`). */
const WIDTH = 4;

export class OwnerHistory {
  readonly table = new WordTable(WIDTH);

  get count(): number {
    return this.table.count;
  }

  get bytes(): number {
    return this.table.bytes;
  }

  block(entry: number): number {
    return this.table.get(entry, 0) >>> 0;
  }

  slot(entry: number): number {
    return this.table.get(entry, 1);
  }

  to(entry: number): number {
    return this.table.get(entry, 2);
  }

  /** The token's entry before: an index, -1, or -(2 + r) for id range r. */
  prev(entry: number): number {
    return this.table.get(entry, 3);
  }

  push(block: number, slot: number, to: number, prev: number): number {
    const entry = this.table.add();
    const chunk = this.table.chunks[entry >>> CHUNK_BITS] as Int32Array;
    const at = (entry & CHUNK_MASK) * WIDTH;
    chunk[at] = block;
    chunk[at + 1] = slot;
    chunk[at + 2] = to;
    chunk[at + 3] = prev;
    return entry;
  }

  /** Forgets the newest entry; its token is told by the caller. */
  pop(): void {
    this.table.count--;
  }

  /** The token's newest entry at or before `block`, walking from `tail`; below 0 as `prev`. */
  at(tail: number, block: number): number {
    let entry = tail;
    while (entry >= 0 && this.block(entry) > block) entry = this.prev(entry);
    return entry;
  }

  /** How many entries lie at or before `block`. */
  countAt(block: number): number {
    return this.table.upperBound(0, block);
  }

  /** Hands on all rows, or takes them over. */
  keep(keeper: Keeper): void {
    this.table.keep(keeper);
  }

  trim(): void {
    this.table.trim();
  }
}
