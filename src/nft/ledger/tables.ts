/**
 * Tables of a few 32-bit words per row, in chunks of a fixed number of rows: growth copies at most one chunk, slack is
 * less than one chunk, and a row costs one cache miss. Also the types of the numbers that name their rows.
 */
import { codeList, type StateCodec } from "./state-codec.ts";

/** A token's place in the token table. Slots are numbered in the order of the tokens' own histories. */
export type Slot = number & { readonly slot: unique symbol };
/** The log that a transfer came from. */
export interface LogPlace {
  readonly block: number;
  readonly logIndex: number;
}

/** A place in the order of a listing. Rows of id ranges have no slot until their token moves. */
export type Row = number & { readonly row: unique symbol };

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
