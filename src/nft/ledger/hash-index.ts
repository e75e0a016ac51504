/**
 * An open-addressing hash index from keys, which are in tables, to their row numbers: 4 bytes per place, no object per
 * key. A place holds row + 1 in its low bits and as many hash bits as fit above, so nearly every candidate is a match.
 * A large index is split into shards by the hash's high bits. Each shard grows by itself, by half, so that no growth
 * blocks the event loop for long. A removal shifts later keys back, so reverts leave no tombstones.
 */
import type { ByteWriter } from "../../core/byte-text.ts";
import { SEED } from "../../core/hex.ts";
import { CHUNK_BITS, CHUNK_MASK, codeList, type StateCodec, WordTable } from "./tables.ts";

/** Most of a shard that is in use: linear probing stays short. */
const MAX_FILL = 0.75;
const GROWTH = 1.5;
const FIRST_PLACES = 64;
/** Bits of a place for the row: 67 million rows, and six bits of the hash. Above, `reserve` rewrites all places. */
const FIRST_BITS = 26;
const MAX_BITS = 31;
const SHARDS = 256;
/** Most keys of an index with a single shard. */
const MAX_WHOLE = 12_288;

/** First place of a search in a shard: high bits of the hash, scaled to the number of places. */
export const homeIn = (places: Int32Array, hash: number): number =>
  (((hash << 8) >>> 0) * (places.length / 2 ** 32)) | 0;

export class HashIndex {
  /** Shards by the hash's highest eight bits; one shard while there are few keys. An empty place is 0. */
  shards: Int32Array<ArrayBuffer>[] = [new Int32Array(FIRST_PLACES)];
  /** Mask for the number of a shard. */
  mask = 0;
  /** Bits of a place for the row. */
  bits = FIRST_BITS;
  /** Seed for the hashes of the keys. */
  seed = SEED;
  #count = 0;
  #counts = new Int32Array(1);
  #bytes = FIRST_PLACES * 4;

  get count(): number {
    return this.#count;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Saves all places through the codec, or restores them. */
  code(codec: StateCodec): void {
    const facts = { mask: this.mask, bits: this.bits, seed: this.seed, count: this.#count };
    const { mask, bits, seed, count } = codec.facts(facts);
    this.shards = codeList(codec, this.shards) as Int32Array<ArrayBuffer>[];
    this.#counts = codec.words(this.#counts);
    this.mask = mask;
    this.bits = bits;
    this.seed = seed;
    this.#count = count;
    this.#bytes = this.shards.reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  #places(hash: number): Int32Array {
    return this.shards[(hash >>> 24) & this.mask] as Int32Array;
  }

  /** The word of a place for a row. */
  #wordOf(hash: number, row: number): number {
    return (hash << this.bits) | (row + 1);
  }

  home(hash: number): number {
    return homeIn(this.#places(hash), hash);
  }

  /**
   * The first place from `place` on with stored hash bits that match `hash`, or -1. To search on, call it again with
   * the place after.
   */
  seek(hash: number, place: number): number {
    const { bits } = this;
    const places = this.#places(hash);
    for (let at = place === places.length ? 0 : place; ; ) {
      const stored = places[at] as number;
      if (stored === 0) return -1;
      if ((stored ^ (hash << bits)) >>> bits === 0) return at;
      if (++at === places.length) at = 0;
    }
  }

  /** The row at a place, which must not be empty. */
  rowAt(hash: number, place: number): number {
    return ((this.#places(hash)[place] as number) & ((1 << this.bits) - 1)) - 1;
  }

  /** Widens the row part of all places, if `row` does not fit. */
  reserve(row: number, hashOf: (row: number) => number): void {
    if ((row + 1) >>> this.bits === 0) return;
    const mask = (1 << this.bits) - 1;
    this.bits = MAX_BITS;
    for (const places of this.shards) {
      for (let place = 0; place < places.length; place++) {
        const old = ((places[place] as number) & mask) - 1;
        if (old >= 0) places[place] = this.#wordOf(hashOf(old), old);
      }
    }
  }

  /**
   * Makes room for `more` keys at once, while there is one shard: gradual growth would place each of them three times.
   */
  expect(more: number, hashOf: (row: number) => number): void {
    const whole = this.shards[0] as Int32Array;
    const wanted = Math.min(this.#count + more, MAX_WHOLE);
    if (this.mask !== 0 || wanted <= whole.length * MAX_FILL) return;
    this.#replace(0, new Int32Array(Math.ceil(wanted / MAX_FILL)));
    this.#refill(whole, hashOf);
  }

  /** Adds a row that is not in the index. `hashOf` gives the hash of any row, for growth. */
  add(hash: number, row: number, hashOf: (row: number) => number): void {
    this.reserve(row, hashOf);
    if (this.mask === 0 && this.#count === MAX_WHOLE) this.#split(hashOf);
    const shard = (hash >>> 24) & this.mask;
    const { length } = this.shards[shard] as Int32Array;
    if ((this.#counts[shard] as number) + 1 > length * MAX_FILL) {
      const old = this.shards[shard] as Int32Array;
      this.#replace(shard, new Int32Array(Math.ceil(length * GROWTH)));
      this.#refill(old, hashOf);
    }
    this.#place(hash, row);
    this.#counts[shard] = (this.#counts[shard] as number) + 1;
    this.#count++;
  }

  #place(hash: number, row: number): void {
    const places = this.#places(hash);
    let place = homeIn(places, hash);
    while (places[place] !== 0) if (++place === places.length) place = 0;
    places[place] = this.#wordOf(hash, row);
  }

  #replace(shard: number, places: Int32Array<ArrayBuffer>): void {
    this.#bytes += places.byteLength - (this.shards[shard]?.byteLength ?? 0);
    this.shards[shard] = places;
  }

  /** Places the keys of `old` again. */
  #refill(old: Int32Array, hashOf: (row: number) => number): void {
    const mask = (1 << this.bits) - 1;
    for (let place = 0; place < old.length; place++) {
      const row = ((old[place] as number) & mask) - 1;
      if (row >= 0) this.#place(hashOf(row), row);
    }
  }

  #split(hashOf: (row: number) => number): void {
    const whole = this.shards[0] as Int32Array;
    this.mask = SHARDS - 1;
    this.#counts = new Int32Array(SHARDS);
    for (let shard = 0; shard < SHARDS; shard++) {
      // Give the shards different sizes. They fill alike, so equal ones would all grow at once.
      const least = (MAX_WHOLE / SHARDS / MAX_FILL) * 1.5;
      this.#replace(shard, new Int32Array(Math.ceil(least * GROWTH ** (shard / SHARDS))));
    }
    const mask = (1 << this.bits) - 1;
    for (const stored of whole) if (stored !== 0) this.#recount(hashOf((stored & mask) - 1));
    this.#refill(whole, hashOf);
  }

  #recount(hash: number): void {
    const shard = hash >>> 24;
    this.#counts[shard] = (this.#counts[shard] as number) + 1;
    const places = this.shards[shard] as Int32Array;
    if ((this.#counts[shard] as number) > places.length * MAX_FILL) {
      this.#replace(shard, new Int32Array(Math.ceil(places.length * GROWTH)));
    }
  }

  /** Replaces the row of a key. The row must fit, see `reserve`. */
  replace(hash: number, place: number, row: number): void {
    this.#places(hash)[place] = this.#wordOf(hash, row);
  }

  /** Removes a row, which must be in the index. */
  remove(row: number, hashOf: (row: number) => number): void {
    const hash = hashOf(row);
    const places = this.#places(hash);
    const { length } = places;
    const word = this.#wordOf(hash, row);
    const mask = (1 << this.bits) - 1;
    let hole = homeIn(places, hash);
    while (places[hole] !== word) if (++hole === length) hole = 0;
    for (let next = hole; ; ) {
      if (++next === length) next = 0;
      const stored = places[next] as number;
      if (stored === 0) break;
      const home = homeIn(places, hashOf((stored & mask) - 1));
      // `stored` may move into the hole when its home is not between the hole and where it stands.
      if ((next - home + length) % length >= (next - hole + length) % length) {
        places[hole] = stored;
        hole = next;
      }
    }
    places[hole] = 0;
    const shard = (hash >>> 24) & this.mask;
    this.#counts[shard] = (this.#counts[shard] as number) - 1;
    this.#count--;
  }
}

// The address table of one collection. In: addresses of 20 bytes. Out: an index per distinct address, and its hex text.
// Index 0 is the zero address.

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
    compareAddresses(chunks, words, rows);
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

  /** The index of an address, 0x and 40 digits; -1 if no transfer names it. */
  find(hex: string): number {
    const words = new Int32Array(WORDS);
    new Uint8Array(words.buffer).set(Buffer.from(hex.slice(2), "hex"));
    return findAddress(this.#table.chunks, this.#index, words, 0, hashAddress(this.#index.seed, words, 0));
  }

  /** The address as 0x and 40 lower-case digits. */
  hex(row: number): string {
    const chunk = this.#table.chunks[row >>> CHUNK_BITS] as Int32Array<ArrayBuffer>;
    return `0x${Buffer.from(chunk.buffer, chunk.byteOffset + (row & CHUNK_MASK) * WORDS * 4, 20).toString("hex")}`;
  }

  /** Copies the 20 bytes of an address to a place in `target`. */
  copy(row: number, target: Uint8Array, at: number): void {
    const chunk = this.#table.chunks[row >>> CHUNK_BITS] as Int32Array;
    const from = (row & CHUNK_MASK) * WORDS;
    for (let w = 0; w < WORDS; w++) {
      const word = chunk[from + w] as number;
      const to = at + w * 4;
      // The bytes of a word stand in memory from its lowest to its highest.
      target[to] = word;
      target[to + 1] = word >>> 8;
      target[to + 2] = word >>> 16;
      target[to + 3] = word >>> 24;
    }
  }

  /** Writes the address as `hex` gives it. */
  addHex(out: ByteWriter, row: number): void {
    out.ascii("0x");
    out.hexWords(this.#table.chunks[row >>> CHUNK_BITS] as Int32Array, (row & CHUNK_MASK) * WORDS, WORDS);
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
