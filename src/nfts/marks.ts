/**
 * A bitmap over the rows of a table: one bit per row, and a fast search for the next set bit. Rows are added and
 * removed at the end only.
 */
import type { Keeper } from "./keep.ts";
import { WordTable } from "./word-table.ts";

export class Marks {
  readonly #words = new WordTable(1);
  #count = 0;

  get bytes(): number {
    return this.#words.bytes;
  }

  /** Adds a row. */
  push(isMarked: boolean): void {
    const row = this.#count++;
    const bit = row & 31;
    if (bit === 0) this.#words.set(this.#words.add(), 0, 0);
    const word = this.#words.get(row >>> 5, 0);
    // Overwrite the bit: a removed row may have left it set.
    this.#words.set(row >>> 5, 0, isMarked ? word | (1 << bit) : word & ~(1 << bit));
  }

  /** Removes the newest row. */
  pop(): void {
    this.#count--;
    this.#words.count = (this.#count + 31) >>> 5;
  }

  /** The first marked row from `row` on, or the number of rows. */
  next(row: number): number {
    for (let at = row >>> 5; at < this.#words.count; at++) {
      const word = this.#words.get(at, 0) & (at === row >>> 5 ? -1 << (row & 31) : -1);
      if (word !== 0) return Math.min(this.#count, at * 32 + 31 - Math.clz32(word & -word));
    }
    return this.#count;
  }

  /** Saves all marks through the keeper, or restores them. */
  keep(keeper: Keeper): void {
    this.#count = keeper.facts(this.#count);
    this.#words.keep(keeper);
  }

  trim(): void {
    this.#words.trim();
  }
}
