/**
 * The address table of one collection. In: addresses of 20 bytes. Out: an index per distinct address, and its hex text.
 * Index 0 is the zero address.
 */
import type { ByteWriter } from "../../core/byte-text.ts";
import { HashIndex, homeIn } from "./hash-index.ts";
import type { StateCodec } from "./state-codec.ts";
import { CHUNK_BITS, CHUNK_MASK, WordTable } from "./tables.ts";

type Words = Int32Array;

/** Hashes the five words at `at`. The high bits are the best mixed. */
export function hashAddress(seed: number, words: Words, at: number): number {
  let h = Math.imul((words[at] as number) ^ seed, 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 15) ^ (words[at + 1] as number), 0xc2b2ae35);
  h = Math.imul(h ^ (h >>> 13) ^ (words[at + 2] as number), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 16) ^ (words[at + 3] as number), 0xc2b2ae35);
  h = Math.imul(h ^ (h >>> 15) ^ (words[at + 4] as number), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}

/** Writes the hash of each address to `hashes`, and its most likely row, or -1 for none, to `seen`. */
function glance({ shards, mask, bits, seed }: HashIndex, words: Words, hashes: Words, seen: Words): void {
  const rowMask = (1 << bits) - 1;
  for (let i = 0; i < hashes.length; i++) {
    const hash = hashAddress(seed, words, i * 5);
    hashes[i] = hash;
    const places = shards[(hash >>> 24) & mask] as Words;
    let place = homeIn(places, hash);
    let stored = places[place] as number;
    while (stored !== 0 && (stored ^ (hash << bits)) >>> bits !== 0) {
      if (++place === places.length) place = 0;
      stored = places[place] as number;
    }
    seen[i] = stored === 0 ? -1 : (stored & rowMask) - 1;
  }
}

/**
 * Replaces a row in `seen` by -1 if it has another address. The comparison doesn't branch, so that the processor loads
 * many rows at once instead of one after the other.
 */
function compareAddresses(chunks: readonly Words[], words: Words, seen: Words): void {
  for (let i = 0; i < seen.length; i++) {
    const row = seen[i] as number;
    if (row < 0) continue;
    const chunk = chunks[row >>> CHUNK_BITS] as Words;
    const here = (row & CHUNK_MASK) * 5;
    const at = i * 5;
    const difference =
      ((chunk[here] as number) ^ (words[at] as number)) |
      ((chunk[here + 1] as number) ^ (words[at + 1] as number)) |
      ((chunk[here + 2] as number) ^ (words[at + 2] as number)) |
      ((chunk[here + 3] as number) ^ (words[at + 3] as number)) |
      ((chunk[here + 4] as number) ^ (words[at + 4] as number));
    // The right side is all ones if any word differs.
    seen[i] = row | ((difference | -difference) >> 31);
  }
}

/** The row of the address at `at` of `words`, or -1. */
function findAddress(chunks: readonly Words[], index: HashIndex, words: Words, at: number, hash: number): number {
  for (let place = index.home(hash); ; place++) {
    place = index.seek(hash, place);
    if (place < 0) return -1;
    const row = index.rowAt(hash, place);
    const chunk = chunks[row >>> CHUNK_BITS] as Words;
    let w = 0;
    while (w < 5 && chunk[(row & CHUNK_MASK) * 5 + w] === words[at + w]) w++;
    if (w === 5) return row;
  }
}

/** Words of an address, of 32 bits. */
export const ADDRESS_WORDS = 5;
/** Buffers shared by all calls of `intern`: a replay makes thousands of them. */
let wordsLeft = new Int32Array(0);
let hashesLeft = new Int32Array(0);

export class AddressTable {
  readonly #table = new WordTable(ADDRESS_WORDS);
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
    hashAddress(
      this.#index.seed,
      this.#table.chunks[row >>> CHUNK_BITS] as Int32Array,
      (row & CHUNK_MASK) * ADDRESS_WORDS,
    );

  /** Returns the indexes of all addresses in `source`, 20 bytes each, and adds the new ones. */
  intern(source: Uint8Array): Int32Array {
    const count = source.length / 20;
    if (count > hashesLeft.length) {
      hashesLeft = new Int32Array(count * 2);
      wordsLeft = new Int32Array(count * 2 * ADDRESS_WORDS);
    }
    const words = wordsLeft;
    // Copied, because reading 32-bit words needs alignment.
    new Uint8Array(words.buffer).set(source);
    const hashes = hashesLeft.subarray(0, count);
    const rows = new Int32Array(count);
    const { chunks } = this.#table;
    glance(this.#index, words, hashes, rows);
    compareAddresses(chunks, words, rows);
    let unknown = 0;
    for (let i = 0; i < count; i++) if ((rows[i] as number) < 0) unknown++;
    if (unknown > 0) this.#index.expect(unknown, this.#hashOf);
    for (let i = 0; i < count; i++) {
      if ((rows[i] as number) >= 0) continue;
      const hash = hashes[i] as number;
      const found = findAddress(chunks, this.#index, words, i * ADDRESS_WORDS, hash);
      rows[i] = found >= 0 ? found : this.#add(words, i * ADDRESS_WORDS, hash);
    }
    return rows;
  }

  #add(words: Int32Array, at: number, hash: number): number {
    const row = this.#table.add();
    for (let w = 0; w < ADDRESS_WORDS; w++) this.#table.set(row, w, words[at + w] as number);
    this.#index.add(hash, row, this.#hashOf);
    return row;
  }

  /** The index of an address, 0x and 40 digits; -1 if no transfer names it. */
  find(hex: string): number {
    const words = new Int32Array(ADDRESS_WORDS);
    new Uint8Array(words.buffer).set(Buffer.from(hex.slice(2), "hex"));
    return findAddress(this.#table.chunks, this.#index, words, 0, hashAddress(this.#index.seed, words, 0));
  }

  /** The address as 0x and 40 lower-case digits. */
  hex(row: number): string {
    const chunk = this.#table.chunks[row >>> CHUNK_BITS] as Int32Array<ArrayBuffer>;
    return `0x${Buffer.from(chunk.buffer, chunk.byteOffset + (row & CHUNK_MASK) * ADDRESS_WORDS * 4, 20).toString("hex")}`;
  }

  /** Calls `visit` with the words of the addresses from `from` up to `to`. */
  visit(from: number, to: number, visit: (words: Int32Array, at: number) => void): void {
    const end = Math.min(to, this.#table.count);
    for (let row = from; row < end; row++) {
      visit(this.#table.chunks[row >>> CHUNK_BITS] as Int32Array, (row & CHUNK_MASK) * ADDRESS_WORDS);
    }
  }

  /** Copies the five words of an address to a place in `target`: in memory they are its 20 bytes. */
  copy(row: number, target: Int32Array, at: number): void {
    const chunk = this.#table.chunks[row >>> CHUNK_BITS] as Int32Array;
    const from = (row & CHUNK_MASK) * ADDRESS_WORDS;
    for (let w = 0; w < ADDRESS_WORDS; w++) target[at + w] = chunk[from + w] as number;
  }

  /** Writes the address as `hex` gives it. */
  addHex(out: ByteWriter, row: number): void {
    out.ascii("0x");
    out.hexWords(
      this.#table.chunks[row >>> CHUNK_BITS] as Int32Array,
      (row & CHUNK_MASK) * ADDRESS_WORDS,
      ADDRESS_WORDS,
    );
  }

  /** Saves all addresses through the codec, or restores them. */
  code(codec: StateCodec): void {
    this.#table.code(codec);
    this.#index.code(codec);
  }

  /** Releases unused capacity. */
  trim(): void {
    this.#table.trim();
  }
}
