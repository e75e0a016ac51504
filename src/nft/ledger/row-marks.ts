/**
 * A bitmap over the rows of a table: one bit per row, and a fast search for the next set bit. Rows are added and
 * removed at the end only.
 */
import type { StateCodec } from "./state-codec.ts";
import { WordTable } from "./tables.ts";

/**
 * A bitmap over the rows of a table: one bit per row, and a fast search for the next set bit. Rows are added and
 * removed at the end only.
 */
export class RowMarks {
  readonly #words = new WordTable(1);
  #count = 0;

  get bytes(): number {
    return this.#words.bytes;
  }

  /** Adds a row. */
  push(isMarked: boolean): void {
    const row = this.#count++;
    const bit = row & 31;
    if (bit === 0) this.#words.push(0);
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

  /** Saves all marks through the codec, or restores them. */
  code(codec: StateCodec): void {
    this.#count = codec.facts(this.#count);
    this.#words.code(codec);
  }

  trim(): void {
    this.#words.trim();
  }
}
