/**
 * An open-addressing index from keys that live in tables to their row numbers: 4 bytes a place, no object a key. A
 * place holds row + 1 in its low bits and as much of the hash as fits above, so that nearly every key looked at is the
 * right one. There may be any number of places: it grows by half and can be trimmed. Removal shifts back, so that
 * reverts leave no tombstones.
 */

/** Full to three quarters at most: linear probing stays short. */
const MAX_FILL = 0.75;
const FIRST_PLACES = 64;
const FIRST_BITS = 12;
/** Rows of 31 bits leave one bit of the hash. */
const MAX_BITS = 31;

/** Where the search for a hash starts: its high bits, spread over as many places as there are. */
export const homeOf = (hash: number, scale: number): number => ((hash >>> 0) * scale) | 0;

/** What a place holds for a row; its low bits are kept in places, so a search compares the others. */
const wordOf = (hash: number, row: number, bits: number): number => (hash << bits) | (row + 1);

export class HashIndex {
  /** 0 for an empty one. */
  places = new Int32Array(FIRST_PLACES);
  /** Places a hash: what `homeOf` takes. */
  scale = FIRST_PLACES / 2 ** 32;
  /** Of a place, those for the row. */
  bits = FIRST_BITS;
  #count = 0;

  get count(): number {
    return this.#count;
  }

  get bytes(): number {
    return this.places.byteLength;
  }

  /**
   * The first row from `place` on whose kept hash is `hash`'s, as its place, or -1 when there is none. To look on, ask
   * again from the place after.
   */
  seek(hash: number, place: number): number {
    const { places, bits } = this;
    for (let at = place === places.length ? 0 : place; ; ) {
      const stored = places[at] as number;
      if (stored === 0) return -1;
      if ((stored ^ (hash << bits)) >>> bits === 0) return at;
      if (++at === places.length) at = 0;
    }
  }

  /** The row at a place that is not empty. */
  rowAt(place: number): number {
    return ((this.places[place] as number) & ((1 << this.bits) - 1)) - 1;
  }

  /** Adds a row that is not there yet; `hashOf` gives the hash of any row, for when the index grows. */
  add(hash: number, row: number, hashOf: (row: number) => number): void {
    if (this.#count + 1 > this.places.length * MAX_FILL || (row + 1) >>> this.bits !== 0) {
      const isFull = this.#count + 1 > this.places.length * MAX_FILL;
      let { bits } = this;
      while ((row + 1) >>> bits !== 0 && bits < MAX_BITS) bits = Math.min(MAX_BITS, bits + 4);
      this.#resize(isFull ? Math.ceil(this.places.length * 1.5) : this.places.length, bits, hashOf);
    }
    this.#place(hash, row);
    this.#count++;
  }

  #place(hash: number, row: number): void {
    const { places } = this;
    let place = homeOf(hash, this.scale);
    while (places[place] !== 0) if (++place === places.length) place = 0;
    places[place] = wordOf(hash, row, this.bits);
  }

  #resize(length: number, bits: number, hashOf: (row: number) => number): void {
    const old = this.places;
    const mask = (1 << this.bits) - 1;
    this.places = new Int32Array(length);
    this.scale = length / 2 ** 32;
    this.bits = bits;
    for (let place = 0; place < old.length; place++) {
      const row = ((old[place] as number) & mask) - 1;
      if (row >= 0) this.#place(hashOf(row), row);
    }
  }

  /** As few places as its rows need. */
  trim(hashOf: (row: number) => number): void {
    const needed = Math.max(FIRST_PLACES, Math.ceil(this.#count / MAX_FILL) + 1);
    if (needed < this.places.length) this.#resize(needed, this.bits, hashOf);
  }

  /** Has the place of a row of the same key hold another row. */
  replace(place: number, hash: number, row: number): void {
    this.places[place] = wordOf(hash, row, this.bits);
  }

  /** Removes a row that is there. */
  remove(row: number, hashOf: (row: number) => number): void {
    const { places, scale, bits } = this;
    const { length } = places;
    const hash = hashOf(row);
    const word = wordOf(hash, row, bits);
    let hole = homeOf(hash, scale);
    while (places[hole] !== word) if (++hole === length) hole = 0;
    for (let next = hole; ; ) {
      if (++next === length) next = 0;
      const stored = places[next] as number;
      if (stored === 0) break;
      const home = homeOf(hashOf(this.rowAt(next)), scale);
      // `stored` may move into the hole when its home is not between the hole and where it stands.
      if ((next - home + length) % length >= (next - hole + length) % length) {
        places[hole] = stored;
        hole = next;
      }
    }
    places[hole] = 0;
    this.#count--;
  }
}
