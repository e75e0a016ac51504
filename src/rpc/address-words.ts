/**
 * Interns the addresses of one answer directly from their hex digits: five 32-bit words per address in an
 * open-addressing table, without a string per address. Numbers them in order of first appearance.
 */
import { mix, SEED } from "../core/mix.ts";
import { word } from "./hex-bytes.ts";

const WORDS = 5;

const hashOf = (a: number, b: number, c: number, d: number, e: number): number =>
  mix(mix(mix(mix(mix(SEED, a), b), c), d), e);

export class AddressWords {
  count = 0;
  #words = new Uint32Array(WORDS * 512);
  #places = new Int32Array(1_024);

  /** Returns the number of the address whose 40 digits start at `at`, or -1 if they are not hex digits. */
  intern(view: DataView, at: number): number {
    const a = word(view, at);
    const b = word(view, at + 8);
    const c = word(view, at + 16);
    const d = word(view, at + 24);
    const e = word(view, at + 32);
    if (a < 0 || b < 0 || c < 0 || d < 0 || e < 0) return -1;
    const words = this.#words;
    const mask = this.#places.length - 1;
    let place = hashOf(a, b, c, d, e) & mask;
    for (;;) {
      const stored = this.#places[place] as number;
      if (stored === 0) break;
      const base = (stored - 1) * WORDS;
      if (
        words[base + 4] === e &&
        words[base + 3] === d &&
        words[base + 2] === c &&
        words[base + 1] === b &&
        words[base] === a
      ) {
        return stored - 1;
      }
      place = (place + 1) & mask;
    }
    const base = this.count * WORDS;
    words[base] = a;
    words[base + 1] = b;
    words[base + 2] = c;
    words[base + 3] = d;
    words[base + 4] = e;
    this.#places[place] = ++this.count;
    if (this.count * 2 === this.#places.length) this.#grow();
    return this.count - 1;
  }

  #grow(): void {
    const words = new Uint32Array(this.#words.length * 2);
    words.set(this.#words);
    this.#words = words;
    const places = new Int32Array(this.#places.length * 2);
    const mask = places.length - 1;
    for (let number = 0; number < this.count; number++) {
      const base = number * WORDS;
      const [a, b, c, d, e] = words.subarray(base, base + WORDS) as unknown as [number, number, number, number, number];
      let place = hashOf(a, b, c, d, e) & mask;
      while (places[place] !== 0) place = (place + 1) & mask;
      places[place] = number + 1;
    }
    this.#places = places;
  }

  /** The interned addresses in order, 20 bytes each. */
  bytes(): Uint8Array {
    const bytes = new Uint8Array(this.count * 20);
    const view = new DataView(bytes.buffer);
    for (let i = 0; i < this.count * WORDS; i++) view.setUint32(i * 4, this.#words[i] as number);
    return bytes;
  }
}
