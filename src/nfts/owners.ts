/**
 * Histories of single-owner tokens (ERC-721, CryptoPunks): 16 bytes a transfer. Each entry links to the previous one of
 * its token, so the owner at a block is found by a walk back from the tail. See `trails.ts` for long walks.
 */
import type { Keeper } from "./keep.ts";
import { NEAR, PAUSED, type Steps, Trails } from "./trails.ts";
import { CHUNK_BITS, CHUNK_MASK, WordTable } from "./word-table.ts";

/** Words of an entry: block, slot, receiver (an index of the address table), previous entry (see `prev`). */
const WIDTH = 4;

export class OwnerHistory {
  readonly table = new WordTable(WIDTH);
  readonly #steps: Steps;
  readonly #trails: Trails;

  /** @param steps counts the steps of walks */
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

  /** The token's previous entry: an index, -1, or -(2 + r) for id range r. */
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

  /** Removes the newest entry. The caller updates its token. */
  pop(): void {
    this.table.count--;
  }

  /** The token's newest entry at or before `block`, by a walk from `tail`; below 0 like `prev`, or `PAUSED`. */
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

  /** Like `find`, but never pauses. */
  at(tail: number, block: number): number {
    for (;;) {
      const entry = this.find(tail, block);
      if (entry !== PAUSED) return entry;
    }
  }

  /** Drops stale marks of the trails, after the last `pop` of a revert. */
  cut(): void {
    this.#trails.cut(this.count);
  }

  /** Number of entries at or before `block`. */
  countAt(block: number): number {
    return this.table.upperBound(0, block);
  }

  /** Saves all rows through the keeper, or restores them. */
  keep(keeper: Keeper): void {
    this.table.keep(keeper);
  }

  trim(): void {
    this.table.trim();
  }
}
