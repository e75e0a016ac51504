/**
 * The gaps of a listing: rows of burned tokens, at any block. They serve to count a listing and to find its n-th entry
 * without a walk. Rows are counted in chunks. A chunk has its number of gaps after each block that changed it, so a
 * collection pays for its burns only.
 */
import { type StateCodec, VALUES_PER_SLICE } from "./state-codec.ts";
import { firstAbove, WordTable } from "./tables.ts";

/** Rows of a chunk: the longest walk to find an entry. */
export const GAP_CHUNK_ROWS = 512;

/** Words of a change: its block, and the number of gaps after it. */
const BLOCK = 0;
const GAPS = 1;
const WIDTH = 2;
/** Initial capacity of a chunk, in changes. */
const FIRST_CHANGES = 4;
/** Memory of a change in its chunk, with slack. */
const CHANGE_BYTES = 10;
/** Memory of a chunk with its list and map entries, in JavaScriptCore. */
const CHUNK_BYTES = 256;

interface Chunk {
  readonly number: number;
  /** Place among all chunks, in order of their first gaps. */
  readonly index: number;
  /** Changes in order of blocks; the first `count` are in use. */
  words: Int32Array;
  count: number;
}

export class RowGaps {
  readonly #byNumber = new Map<number, Chunk>();
  /** Chunks that ever had a gap, in order of their first gaps. Their numbers may exceed 2^42, hence no sparse array. */
  readonly #chunks: Chunk[] = [];
  /** The same chunks in order of rows. */
  #order: Chunk[] = [];
  /** Index of the chunk of each change, in chain order: a reorg undoes them from the end. */
  readonly #history = new WordTable(1);
  /** Changes of the total over all rows. */
  readonly #all = new WordTable(WIDTH);

  get bytes(): number {
    const changes = this.#history.count * CHANGE_BYTES + this.#chunks.length * CHUNK_BYTES;
    return changes + this.#history.bytes + this.#all.bytes;
  }

  /** Saves all changes through the codec, or restores them. */
  *coding(codec: StateCodec): Generator<void> {
    for (const table of [this.#history, this.#all]) table.code(codec);
    // By chunk: its number in two words, its number of changes, and the index of the chunk at this place in row order.
    const chunks = new WordTable(4);
    const changes = new WordTable(WIDTH);
    if (!codec.isReading) yield* this.#putInto(chunks, changes);
    for (const table of [chunks, changes]) table.code(codec);
    if (codec.isReading) yield* this.#takeFrom(chunks, changes);
  }

  *#putInto(chunks: WordTable, changes: WordTable): Generator<void> {
    for (const { number, index, words, count } of this.#chunks) {
      chunks.push(number % 2 ** 32, number / 2 ** 32, count, (this.#order[index] as Chunk).index);
      if (chunks.count % VALUES_PER_SLICE === 0) yield;
      for (let at = 0; at < count; at++) {
        changes.push(words[at * WIDTH + BLOCK] as number, words[at * WIDTH + GAPS] as number);
        if (changes.count % VALUES_PER_SLICE === 0) yield;
      }
    }
  }

  *#takeFrom(chunks: WordTable, changes: WordTable): Generator<void> {
    let change = 0;
    for (let index = 0; index < chunks.count; index++) {
      const number = (chunks.get(index, 0) >>> 0) + chunks.get(index, 1) * 2 ** 32;
      const count = chunks.get(index, 2);
      const words = new Int32Array(count * WIDTH);
      for (let at = 0; at < count; at++, change++) {
        words[at * WIDTH + BLOCK] = changes.get(change, BLOCK);
        words[at * WIDTH + GAPS] = changes.get(change, GAPS);
        if (change % VALUES_PER_SLICE === 0) yield;
      }
      const chunk = { number, index, words, count };
      this.#chunks.push(chunk);
      this.#byNumber.set(number, chunk);
      if (index % VALUES_PER_SLICE === 0) yield;
    }
    for (let place = 0; place < chunks.count; place++) {
      this.#order.push(this.#chunks[chunks.get(place, 3)] as Chunk);
      if (place % VALUES_PER_SLICE === 0) yield;
    }
  }

  /** Records that a row became a gap (1) or an entry again (-1). Call in chain order. */
  change(row: number, block: number, by: 1 | -1): void {
    const number = Math.floor(row / GAP_CHUNK_ROWS);
    const chunk = this.#byNumber.get(number) ?? this.#addChunk(number);
    const all = this.#all;
    const gaps = all.count === 0 ? 0 : all.get(all.count - 1, GAPS);
    all.push(block, gaps + by);
    push(chunk, block, by);
    this.#history.push(chunk.index);
  }

  #addChunk(number: number): Chunk {
    const chunk = { number, index: this.#chunks.length, words: new Int32Array(FIRST_CHANGES * WIDTH), count: 0 };
    this.#chunks.push(chunk);
    this.#byNumber.set(number, chunk);
    this.#order.splice(this.#position(number), 0, chunk);
    return chunk;
  }

  /** Number of chunks before this one in row order. */
  #position(number: number): number {
    return firstAbove(this.#order.length, (place) => (this.#order[place] as Chunk).number >= number);
  }

  /** Undoes everything above `block`. */
  revert(block: number): void {
    const left = this.#all.upperBound(BLOCK, block);
    for (let change = this.#history.count - 1; change >= left; change--) {
      (this.#chunks[this.#history.get(change, 0)] as Chunk).count--;
    }
    this.#history.count = left;
    this.#all.count = left;
  }

  /** Number of gaps after `block`. */
  countAt(block: number): number {
    const changes = this.#all.upperBound(BLOCK, block);
    return changes === 0 ? 0 : this.#all.get(changes - 1, GAPS);
  }

  /** Visits the chunks with gaps after `block`, by first row and number of gaps, until `visit` returns false. */
  scan(block: number, visit: (firstRow: number, gaps: number) => boolean): void {
    for (const chunk of this.#order) {
      const count = gapsAt(chunk, block);
      if (count > 0 && !visit(chunk.number * GAP_CHUNK_ROWS, count)) return;
    }
  }

  /**
   * The first row of the first chunk, from that of `row` on, that was not all gaps after `block`. `row` starts a chunk.
   */
  passFull(row: number, block: number): number {
    let number = row / GAP_CHUNK_ROWS;
    for (let chunk = this.#byNumber.get(number); chunk !== undefined; chunk = this.#byNumber.get(++number)) {
      if (gapsAt(chunk, block) < GAP_CHUNK_ROWS) break;
    }
    return number * GAP_CHUNK_ROWS;
  }
}

function push(chunk: Chunk, block: number, by: 1 | -1): void {
  const { words, count } = chunk;
  const at = count * WIDTH;
  if (at === words.length) {
    chunk.words = new Int32Array(Math.ceil((count + FIRST_CHANGES) * 1.5) * WIDTH);
    chunk.words.set(words);
  }
  chunk.words[at + BLOCK] = block;
  chunk.words[at + GAPS] = (count === 0 ? 0 : (words[at - WIDTH + GAPS] as number)) + by;
  chunk.count++;
}

/** Number of gaps of a chunk after `block`. */
function gapsAt({ words, count }: Chunk, block: number): number {
  const blockAt = (at: number): number => (words[at * WIDTH + BLOCK] as number) >>> 0;
  // Fast path: most calls ask for the newest block.
  const isNewest = count > 0 && blockAt(count - 1) <= block;
  const changes = isNewest ? count : firstAbove(count, (at) => blockAt(at) > block);
  return changes === 0 ? 0 : (words[(changes - 1) * WIDTH + GAPS] as number);
}
