/**
 * Reads hex digits in place: short loops on primitives, for answers of megabytes. A `DataView` reads four bytes at once
 * at any offset. Past the end it throws `RangeError`, which tells the caller that an answer is truncated.
 */
import { mix, SEED } from "../../core/seeded-hash.ts";

/** Entry of `PAIR` for two bytes that are not both hex digits: a bit that no pair of digits has. */
const NOT_HEX = 0x100;
/** The value of two ASCII hex digits in either case, indexed by both bytes as a big-endian number. */
const PAIR = new Uint16Array(65_536).fill(NOT_HEX);
const spellings = [..."0123456789abcdefABCDEF"].map(
  (digit) => [digit.charCodeAt(0), Number.parseInt(digit, 16)] as const,
);
for (const [first, high] of spellings) {
  for (const [second, low] of spellings) PAIR[(first << 8) | second] = (high << 4) | low;
}
const ZEROS = 0x3030_3030;

/** Returns the value of a hex digit, or -1. */
export function digit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}

/** Returns eight digits as a number, or -1 if one of them is not a hex digit. */
export function word(view: DataView, at: number): number {
  const high = view.getUint32(at);
  const low = view.getUint32(at + 4);
  if (high === ZEROS && low === ZEROS) return 0;
  const a = PAIR[high >>> 16] as number;
  const b = PAIR[high & 0xffff] as number;
  const c = PAIR[low >>> 16] as number;
  const d = PAIR[low & 0xffff] as number;
  if (((a | b | c | d) & NOT_HEX) !== 0) return -1;
  return ((a << 24) | (b << 16) | (c << 8) | d) >>> 0;
}

/** True if 64 hex digits start at `at`. */
export function isHex64(view: DataView, at: number): boolean {
  let all = 0;
  for (let i = 0; i < 64; i += 4) {
    const four = view.getUint32(at + i);
    all |= (PAIR[four >>> 16] as number) | (PAIR[four & 0xffff] as number);
  }
  return (all & NOT_HEX) === 0;
}

/** True if 24 digits 0, the padding of an address, start at `at`. */
export function isPadding(view: DataView, at: number): boolean {
  for (let i = 0; i < 24; i += 4) if (view.getUint32(at + i) !== ZEROS) return false;
  return true;
}

/** True if the 64 bytes at both offsets are equal. */
export function same64(view: DataView, a: number, b: number): boolean {
  for (let i = 0; i < 64; i += 4) if (view.getUint32(a + i) !== view.getUint32(b + i)) return false;
  return true;
}

/** True if the bytes of `literal` start at `at`. */
export function matches(view: DataView, at: number, literal: DataView): boolean {
  const { byteLength } = literal;
  let i = 0;
  for (; i + 4 <= byteLength; i += 4) if (view.getUint32(at + i) !== literal.getUint32(i)) return false;
  for (; i < byteLength; i++) if (view.getUint8(at + i) !== literal.getUint8(i)) return false;
  return true;
}

/** Returns the bytes of an ASCII text, for `matches`. */
export function literal(text: string): DataView {
  return new DataView(new TextEncoder().encode(text).buffer);
}

const WORDS = 5;

const hashWords = (a: number, b: number, c: number, d: number, e: number): number =>
  mix(mix(mix(mix(mix(SEED, a), b), c), d), e);

/**
 * Interns the addresses of one answer directly from their hex digits: five 32-bit words per address in an
 * open-addressing table, without a string per address. Numbers them in order of first appearance.
 */
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
    let place = hashWords(a, b, c, d, e) & mask;
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
      let place = hashWords(a, b, c, d, e) & mask;
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
