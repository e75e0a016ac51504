/**
 * The address table of one collection. In: addresses of 20 bytes. Out: an index per distinct address, and its hex text.
 * Index 0 is the zero address.
 */
import type { ByteText } from "../core/byte-text.ts";
import { HashIndex } from "./hash-index.ts";
import { compare, findAddress, glance, hashAddress } from "./intern.ts";
import type { Keeper } from "./keep.ts";
import { CHUNK_BITS, CHUNK_MASK, WordTable } from "./word-table.ts";

const WORDS = 5;
/** Buffers shared by all calls of `intern`: a replay makes thousands of them. */
let wordsLeft = new Int32Array(0);
let hashesLeft = new Int32Array(0);

export class AddressTable {
  readonly #table = new WordTable(WORDS);
  readonly #index = new HashIndex();

  constructor() {
    this.intern(new Uint8Array(20));
  }

  get count(): number {
    return this.#table.count;
  }

  get bytes(): number {
    return this.#table.bytes + this.#index.bytes;
  }

  readonly #hashOf = (row: number): number =>
    hashAddress(this.#index.seed, this.#table.chunks[row >>> CHUNK_BITS] as Int32Array, (row & CHUNK_MASK) * WORDS);

  /** Returns the indexes of all addresses in `source`, 20 bytes each, and adds the new ones. */
  intern(source: Uint8Array): Int32Array {
    const count = source.length / 20;
    if (count > hashesLeft.length) {
      hashesLeft = new Int32Array(count * 2);
      wordsLeft = new Int32Array(count * 2 * WORDS);
    }
    const words = wordsLeft;
    // Copied, because reading 32-bit words needs alignment.
    new Uint8Array(words.buffer).set(source);
    const hashes = hashesLeft.subarray(0, count);
    const rows = new Int32Array(count);
    const { chunks } = this.#table;
    glance(this.#index, words, hashes, rows);
    compare(chunks, words, rows);
    let unknown = 0;
    for (let i = 0; i < count; i++) if ((rows[i] as number) < 0) unknown++;
    if (unknown > 0) this.#index.expect(unknown, this.#hashOf);
    for (let i = 0; i < count; i++) {
      if ((rows[i] as number) >= 0) continue;
      const hash = hashes[i] as number;
      const found = findAddress(chunks, this.#index, words, i * WORDS, hash);
      rows[i] = found >= 0 ? found : this.#add(words, i * WORDS, hash);
    }
    return rows;
  }

  #add(words: Int32Array, at: number, hash: number): number {
    const row = this.#table.add();
    for (let w = 0; w < WORDS; w++) this.#table.set(row, w, words[at + w] as number);
    this.#index.add(hash, row, this.#hashOf);
    return row;
  }

  /** The address as 0x and 40 lower-case digits. */
  hex(row: number): string {
    const chunk = this.#table.chunks[row >>> CHUNK_BITS] as Int32Array<ArrayBuffer>;
    return `0x${Buffer.from(chunk.buffer, chunk.byteOffset + (row & CHUNK_MASK) * WORDS * 4, 20).toString("hex")}`;
  }

  /** Writes the address as `hex` gives it. */
  addHex(out: ByteText, row: number): void {
    out.ascii("0x");
    out.hexWords(this.#table.chunks[row >>> CHUNK_BITS] as Int32Array, (row & CHUNK_MASK) * WORDS, WORDS);
  }

  /** Saves all addresses through the keeper, or restores them. */
  keep(keeper: Keeper): void {
    this.#table.keep(keeper);
    this.#index.keep(keeper);
  }

  /** Releases unused capacity. */
  trim(): void {
    this.#table.trim();
  }
}
