/**
 * An open-addressing index from keys that live in columns to their row numbers: 4 bytes a place, no object a key. The
 * caller hashes and compares; removal shifts back, so that reverts leave no tombstones.
 */
export class HashIndex {
  #places = new Int32Array(128);
  #count = 0;

  get bytes(): number {
    return this.#places.byteLength;
  }

  /** The row whose key hashes to `hash` and satisfies `matches`, or -1. */
  find(hash: number, matches: (row: number) => boolean): number {
    const mask = this.#places.length - 1;
    for (let place = hash & mask; ; place = (place + 1) & mask) {
      const stored = this.#places[place] as number;
      if (stored === 0) return -1;
      if (matches(stored - 1)) return stored - 1;
    }
  }

  /** Adds a row that is not there yet; `hashOf` gives the hash of any row, for when the index grows. */
  add(hash: number, row: number, hashOf: (row: number) => number): void {
    // Full to seven tenths at most: linear probing stays short.
    if ((this.#count + 1) * 10 > this.#places.length * 7) this.#grow(hashOf);
    this.#place(hash, row);
    this.#count++;
  }

  #place(hash: number, row: number): void {
    const mask = this.#places.length - 1;
    let place = hash & mask;
    while (this.#places[place] !== 0) place = (place + 1) & mask;
    this.#places[place] = row + 1;
  }

  #grow(hashOf: (row: number) => number): void {
    const old = this.#places;
    this.#places = new Int32Array(old.length * 2);
    for (const stored of old) if (stored !== 0) this.#place(hashOf(stored - 1), stored - 1);
  }

  /** Removes a row that is there. */
  remove(row: number, hashOf: (row: number) => number): void {
    const mask = this.#places.length - 1;
    let hole = hashOf(row) & mask;
    while (this.#places[hole] !== row + 1) hole = (hole + 1) & mask;
    for (let next = (hole + 1) & mask; ; next = (next + 1) & mask) {
      const stored = this.#places[next] as number;
      if (stored === 0) break;
      const home = hashOf(stored - 1) & mask;
      // `stored` may move into the hole when its home is not between the hole and where it stands.
      if (((next - home) & mask) >= ((next - hole) & mask)) {
        this.#places[hole] = stored;
        hole = next;
      }
    }
    this.#places[hole] = 0;
    this.#count--;
  }
}
