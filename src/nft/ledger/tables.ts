/**
 * Tables of a few 32-bit words per row, in chunks of a fixed number of rows: growth copies at most one chunk, slack is
 * less than one chunk, and a row costs one cache miss. Also bitmaps over rows, and the codec that saves and restores a
 * ledger.
 */
import { InvariantError } from "../../core/errors.ts";

/** A token's place in the token table. Slots are numbered in the order of the tokens' own histories. */
export type Slot = number & { readonly slot: unique symbol };
/** The log that a transfer came from. */
export interface LogPlace {
  readonly block: number;
  readonly logIndex: number;
}

/** A place in the order of a listing. Rows of id ranges have no slot until their token moves. */
export type Row = number & { readonly row: unique symbol };

// Saves a ledger as arrays and facts, and restores it. Each part of the ledger has one method that passes all its state
// to a codec, in a fixed order. `StateWriter` records the values; `StateReader` returns the recorded ones. One method
// serves both directions, so a test of one tests both. Word tables are passed as they are. Other structures are
// converted to word tables and back, in slices, by their generator `coding`.

export interface StateCodec {
  /**
   * True if the codec restores parts. If false it saves them, and they must not change until the last one is saved.
   */
  readonly isReading: boolean;
  /** Passes an array. The caller must continue with the returned one. */
  words(array: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer>;
  /** Passes a small value that JSON can represent. The caller must continue with the returned one. */
  facts<T>(value: T): T;
}

/** Records all parts. Arrays are not copied. */
export class StateWriter implements StateCodec {
  readonly isReading = false;
  readonly arrays: Int32Array<ArrayBuffer>[] = [];
  readonly values: unknown[] = [];

  words(array: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
    this.arrays.push(array);
    return array;
  }

  facts<T>(value: T): T {
    this.values.push(value);
    return value;
  }
}

/** Values converted per slice: 0.5 to 1 ms. */
export const VALUES_PER_SLICE = 2_048;

/** Returns the parts of a `Writer`, in its order. @throws InvariantError if there are too few */
export class StateReader implements StateCodec {
  readonly isReading = true;
  readonly #arrays: readonly Int32Array<ArrayBuffer>[];
  readonly #values: readonly unknown[];
  #array = 0;
  #fact = 0;

  constructor(arrays: readonly Int32Array<ArrayBuffer>[], values: readonly unknown[]) {
    this.#arrays = arrays;
    this.#values = values;
  }

  words(_array: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
    const array = this.#arrays[this.#array++];
    if (array === undefined) throw new InvariantError("a snapshot has too few arrays");
    return array;
  }

  facts<T>(_value: T): T {
    if (this.#fact === this.#values.length) throw new InvariantError("a snapshot has too few facts");
    return this.#values[this.#fact++] as T;
  }

  /** True if all parts were read. */
  get isDone(): boolean {
    return this.#array === this.#arrays.length && this.#fact === this.#values.length;
  }
}

/** Passes a list of arrays with holes. */
export function codeList(
  codec: StateCodec,
  list: (Int32Array<ArrayBuffer> | undefined)[],
): (Int32Array<ArrayBuffer> | undefined)[] {
  const there = codec.facts(list.map((array) => array !== undefined));
  return there.map((isThere, i) => (isThere ? codec.words(list[i] ?? EMPTY) : undefined));
}

const EMPTY = new Int32Array(0);

export const CHUNK_BITS = 14;
/** Rows of a full chunk: 256 KiB at four words per row. */
export const CHUNK_ROWS = 1 << CHUNK_BITS;
export const CHUNK_MASK = CHUNK_ROWS - 1;
const FIRST_ROWS = 64;

export class WordTable {
  /** Rows in use. */
  count = 0;
  /** All chunks but the last are full. */
  readonly chunks: Int32Array<ArrayBuffer>[] = [];
  readonly width: number;
  #bytes = 0;

  constructor(width: number) {
    this.width = width;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get(row: number, word: number): number {
    return (this.chunks[row >>> CHUNK_BITS] as Int32Array)[(row & CHUNK_MASK) * this.width + word] as number;
  }

  set(row: number, word: number, value: number): void {
    (this.chunks[row >>> CHUNK_BITS] as Int32Array)[(row & CHUNK_MASK) * this.width + word] = value;
  }

  /** Returns the chunk of `row`, after adding or growing it if needed. `row` is at most in the chunk after the last. */
  room(row: number): Int32Array<ArrayBuffer> {
    const number = row >>> CHUNK_BITS;
    const chunk = this.chunks[number];
    const rows = (row & CHUNK_MASK) + 1;
    if (chunk !== undefined && rows * this.width <= chunk.length) return chunk;
    // Chunks after the first start at full size: a large table will fill them.
    if (chunk === undefined) return this.#resize(number, number === 0 ? FIRST_ROWS : CHUNK_ROWS);
    return this.#resize(number, Math.min(CHUNK_ROWS, Math.max(rows, Math.ceil((chunk.length / this.width) * 1.5))));
  }

  /** Adds a row. Its words are not initialised. */
  add(): number {
    this.room(this.count);
    return this.count++;
  }

  /** Adds a row with all its words. For loops over single transfers, `add` and `set` are faster. */
  push(...words: number[]): void {
    this.room(this.count).set(words, (this.count & CHUNK_MASK) * this.width);
    this.count++;
  }

  /**
   * Index of the first row with `word` above `value`, both unsigned. The word must never decrease from row to row.
   */
  upperBound(word: number, value: number): number {
    const { count } = this;
    // Fast path: most calls ask for the newest block.
    if (count > 0 && this.get(count - 1, word) >>> 0 <= value) return count;
    return firstAbove(count, (row) => this.get(row, word) >>> 0 > value);
  }

  /** Saves all rows and the spare capacity through the codec, or restores them. */
  code(codec: StateCodec): void {
    this.count = codec.facts(this.count);
    const kept = codeList(codec, this.chunks) as Int32Array<ArrayBuffer>[];
    this.chunks.splice(0, this.chunks.length, ...kept);
    this.#bytes = kept.reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  /** Releases capacity that the rows in use don't need, at the end of a hydration. */
  trim(): void {
    const full = this.count >>> CHUNK_BITS;
    const rest = this.count & CHUNK_MASK;
    const needed = rest === 0 ? full : full + 1;
    while (this.chunks.length > Math.max(1, needed)) this.#bytes -= this.chunks.pop()?.byteLength ?? 0;
    const last = this.chunks[full];
    if (last !== undefined && last.length > rest * this.width) this.#resize(full, Math.max(1, rest));
  }

  #resize(number: number, rows: number): Int32Array<ArrayBuffer> {
    const old = this.chunks[number];
    const resized = new Int32Array(rows * this.width);
    if (old !== undefined) resized.set(old.length > resized.length ? old.subarray(0, resized.length) : old);
    this.chunks[number] = resized;
    this.#bytes += resized.byteLength - (old?.byteLength ?? 0);
    return resized;
  }
}

/** The first index of [0, count) at which `isAbove` holds, or `count`. `isAbove` must hold for all indexes after it. */
export function firstAbove(count: number, isAbove: (index: number) => boolean): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isAbove(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

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
