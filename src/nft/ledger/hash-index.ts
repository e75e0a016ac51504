/**
 * An open-addressing hash index from keys, which are in tables, to their row numbers: 4 bytes per place, no object per
 * key. A place holds row + 1 in its low bits and as many hash bits as fit above, so nearly every candidate is a match.
 * A large index is split into shards by the hash's high bits. Each shard grows by itself, by half, so that no growth
 * blocks the event loop for long. A removal shifts later keys back, so reverts leave no tombstones.
 */
import { SEED } from "../../core/seeded-hash.ts";
import { codeList, type StateCodec } from "./state-codec.ts";

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
