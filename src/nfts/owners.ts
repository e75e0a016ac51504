/**
 * Histories of tokens with one owner (ERC-721, CryptoPunks): 16 bytes a transfer, each entry linked to the one before
 * of the same token, so that the owner at any block is a walk back from the tail (a long one: see `trails.ts`).
 */
import type { Keeper } from "./keep.ts";
import { NEAR, PAUSED, type Steps, Trails } from "./trails.ts";
import { CHUNK_BITS, CHUNK_MASK, WordTable } from "./word-table.ts";

/** Words of an entry: block, slot, receiver (an index of the address table), entry before (see `prev`). */
const WIDTH = 4;

export class OwnerHistory {
  readonly table = new WordTable(WIDTH);
  readonly #steps: Steps;
  readonly #trails: Trails;

  /** @param steps where walks are counted */
  constructor(steps: Steps) {
    this.#steps = steps;
    this.#trails = new Trails({ block: (entry) => this.block(entry), before: (entry) => this.prev(entry) }, steps);
  }

  get count(): number {
    return this.table.count;
  }

  get bytes(): number {
    return this.table.bytes + this.#trails.bytes;
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

  /** The token's newest entry at or before `block`, walking from `tail`; below 0 as `prev`, or `PAUSED`. */
  find(tail: number, block: number): number {
    let entry = tail;
    let steps = 0;
    for (; entry >= 0 && this.block(entry) > block; steps++) {
      if (steps === NEAR) return this.#trails.find(this.slot(tail), tail, block);
      entry = this.prev(entry);
    }
    if (steps > 0) this.#steps.count += steps;
    return entry;
  }

  /** As `find`, however long it takes. */
  at(tail: number, block: number): number {
    for (;;) {
      const entry = this.find(tail, block);
      if (entry !== PAUSED) return entry;
    }
  }

  /** Entries were taken back. */
  cut(): void {
    this.#trails.cut(this.count);
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
