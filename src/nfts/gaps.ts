/**
 * Which rows of a listing are gaps (burned), at any block: what it takes to count a listing and to find its n-th entry
 * without walking it. Rows are counted in chunks; a chunk remembers how many gaps it had after each block in which that
 * changed, so a collection pays for its burns only.
 */
import { type Keeper, keepNumbers } from "./keep.ts";

/** Rows of a chunk: what is walked to find an entry. */
export const CHUNK_ROWS = 512;

/** Blocks in which a number of gaps changed, in order, and the number after each change. */
interface Changes {
  readonly blocks: number[];
  readonly gaps: number[];
}

interface Chunk extends Changes {
  readonly number: number;
}

export class RowGaps {
  #chunks = new Map<number, Chunk>();
  /** Chunks that ever had a gap, in order of rows. */
  #order: Chunk[] = [];
  /** Which chunk each change was of, in order of time: what a reorg takes back. Rows may pass 2^42. */
  #history: number[] = [];
  #all: Changes = { blocks: [], gaps: [] };

  get bytes(): number {
    return this.#history.length * 40 + this.#order.length * 128;
  }

  /** Hands on all changes, or takes them over. */
  keep(keeper: Keeper): void {
    const keep = (list: readonly number[]): number[] => keepNumbers(keeper, list);
    const order = this.#order;
    const numbers = keep(order.map(({ number }) => number));
    const lengths = keep(order.map((chunk) => chunk.blocks.length));
    const blocks = keep(order.flatMap((chunk) => chunk.blocks));
    const gaps = keep(order.flatMap((chunk) => chunk.gaps));
    let at = 0;
    this.#order = numbers.map((number, i) => {
      const from = at;
      at += lengths[i] as number;
      return { number, blocks: blocks.slice(from, at), gaps: gaps.slice(from, at) };
    });
    this.#chunks = new Map(this.#order.map((chunk) => [chunk.number, chunk]));
    this.#history = keep(this.#history);
    this.#all = { blocks: keep(this.#all.blocks), gaps: keep(this.#all.gaps) };
  }

  /** A row became a gap (1) or an entry again (-1); called in chain order. */
  change(row: number, block: number, by: 1 | -1): void {
    const number = Math.floor(row / CHUNK_ROWS);
    let chunk = this.#chunks.get(number);
    if (chunk === undefined) {
      chunk = { number, blocks: [], gaps: [] };
      this.#chunks.set(number, chunk);
      this.#order.splice(this.#position(number), 0, chunk);
    }
    for (const { blocks, gaps } of [chunk, this.#all]) {
      gaps.push((gaps.at(-1) ?? 0) + by);
      blocks.push(block);
    }
    this.#history.push(number);
  }

  /** How many chunks of the order lie before this one. */
  #position(number: number): number {
    let low = 0;
    let high = this.#order.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#order[middle] as Chunk).number < number) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Takes back everything above `block`: a reorg. */
  revert(block: number): void {
    for (let last = this.#history.at(-1); last !== undefined; last = this.#history.at(-1)) {
      const chunk = this.#chunks.get(last) as Chunk;
      if ((chunk.blocks.at(-1) as number) <= block) return;
      for (const { blocks, gaps } of [chunk, this.#all]) {
        gaps.pop();
        blocks.pop();
      }
      this.#history.pop();
    }
  }

  /** How many gaps there were after `block`. */
  countAt(block: number): number {
    return gapsAt(this.#all, block);
  }

  /** Visits the chunks that had gaps after `block`, by first row and number of gaps, until `visit` returns false. */
  scan(block: number, visit: (firstRow: number, gaps: number) => boolean): void {
    for (const chunk of this.#order) {
      const count = gapsAt(chunk, block);
      if (count > 0 && !visit(chunk.number * CHUNK_ROWS, count)) return;
    }
  }

  /** The first row at or after `row`, which starts a chunk, whose chunk was not all gaps after `block`. */
  passFull(row: number, block: number): number {
    let number = row / CHUNK_ROWS;
    for (let chunk = this.#chunks.get(number); chunk !== undefined; chunk = this.#chunks.get(++number)) {
      if (gapsAt(chunk, block) < CHUNK_ROWS) break;
    }
    return number * CHUNK_ROWS;
  }
}

/** The number after the last change at or before `block`. */
function gapsAt({ blocks, gaps }: Changes, block: number): number {
  let low = 0;
  let high = blocks.length;
  // Most are asked for the newest block.
  if (high > 0 && (blocks[high - 1] as number) <= block) return gaps[high - 1] as number;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((blocks[middle] as number) <= block) low = middle + 1;
    else high = middle;
  }
  return low === 0 ? 0 : (gaps[low - 1] as number);
}
