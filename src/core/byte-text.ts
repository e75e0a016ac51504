/**
 * Builds text as bytes, for answers of thousands of short pieces. Joined strings would have to be flattened and encoded
 * again. Short loops on primitives. One buffer serves all texts, because only one text is built at a time.
 */

const FIRST_BYTES = 64 * 1024;
/** A buffer that one large text made larger than this is dropped afterwards. */
const KEPT_BYTES = 1024 * 1024;
const encoder = new TextEncoder();
/** The two hex digits of each byte, as one big-endian number. */
const DIGITS = Uint16Array.from({ length: 256 }, (_, byte) => {
  const digits = byte.toString(16).padStart(2, "0");
  return (digits.charCodeAt(0) << 8) | digits.charCodeAt(1);
});

/** The two decimal digits of each number below 100, as one big-endian number. */
const DECIMAL = Uint16Array.from({ length: 100 }, (_, number) => {
  const digits = number.toString().padStart(2, "0");
  return (digits.charCodeAt(0) << 8) | digits.charCodeAt(1);
});
const MAX_INT32 = 2 ** 31 - 1;

/** From this many bytes on, one copy is faster than writing four bytes at a time. */
const LONG_PIECE = 64;

/** A constant text, encoded once. */
export interface Piece {
  readonly bytes: Uint8Array;
  /** The bytes as big-endian words, the last one padded with zeros. Empty for a long piece. */
  readonly words: Int32Array;
}

const NO_WORDS = new Int32Array(0);

export function piece(text: string): Piece {
  const bytes = encoder.encode(text);
  const { length } = bytes;
  if (length >= LONG_PIECE) return { bytes, words: NO_WORDS };
  const words = new Int32Array(Math.ceil(length / 4));
  for (let i = 0; i < length; i++)
    words[i >>> 2] = (words[i >>> 2] as number) | ((bytes[i] as number) << (24 - (i & 3) * 8));
  return { bytes, words };
}

/** Returns the number of decimal digits of a whole number below 2^31. */
function digitsOf(value: number): number {
  if (value < 10_000) return value < 100 ? (value < 10 ? 1 : 2) : value < 1_000 ? 3 : 4;
  if (value < 100_000_000) return value < 1_000_000 ? (value < 100_000 ? 5 : 6) : value < 10_000_000 ? 7 : 8;
  return value < 1_000_000_000 ? 9 : 10;
}

export class ByteWriter {
  #bytes = new Uint8Array(FIRST_BYTES);
  #view = new DataView(this.#bytes.buffer);
  #length = 0;

  /** Length of the text so far, in bytes. */
  get length(): number {
    return this.#length;
  }

  /** Makes room for `extra` bytes. */
  #reserve(extra: number): void {
    const needed = this.#length + extra;
    if (needed <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(needed, this.#bytes.length * 2));
    grown.set(this.#bytes.subarray(0, this.#length));
    this.#hold(grown);
  }

  #hold(bytes: Uint8Array<ArrayBuffer>): void {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer);
  }

  /** Adds a prepared piece. */
  add({ bytes, words }: Piece): void {
    const { length } = bytes;
    this.#reserve(length + 3);
    const start = this.#length;
    this.#length = start + length;
    if (length >= LONG_PIECE) {
      this.#bytes.set(bytes, start);
      return;
    }
    const view = this.#view;
    // The next write overwrites the padding of the last word.
    for (let i = 0; i < words.length; i++) view.setInt32(start + i * 4, words[i] as number);
  }

  /** Adds a whole number below 2^53 in decimal. */
  integer(value: number): void {
    if (value > MAX_INT32) {
      this.ascii(String(value));
      return;
    }
    const digits = digitsOf(value);
    this.#reserve(digits);
    const view = this.#view;
    let at = this.#length + digits;
    this.#length = at;
    let rest = value;
    while (rest >= 10) {
      // Exact: a quotient's fraction is 0 or at least 0.01, far more than the error of the product.
      const next = (rest * 0.01) | 0;
      at -= 2;
      view.setUint16(at, DECIMAL[rest - next * 100] as number);
      rest = next;
    }
    // With an odd number of digits, one is left. With an even number, all are written.
    if (at > this.#length - digits) view.setUint8(at - 1, 0x30 + rest);
  }

  /** Adds a short ASCII text. */
  ascii(text: string): void {
    this.#reserve(text.length);
    const bytes = this.#bytes;
    const start = this.#length;
    for (let i = 0; i < text.length; i++) bytes[start + i] = text.charCodeAt(i);
    this.#length = start + text.length;
  }

  /** Adds any text. */
  text(text: string): void {
    // A UTF-16 unit is at most three bytes of UTF-8.
    this.#reserve(text.length * 3);
    this.#length += encoder.encodeInto(text, this.#bytes.subarray(this.#length)).written;
  }

  /** Adds `count` bytes from index `from` on as lower-case hex. */
  hex(source: Uint8Array, from: number, count: number): void {
    this.#reserve(count * 2);
    const view = this.#view;
    const start = this.#length;
    for (let i = 0; i < count; i++) view.setUint16(start + i * 2, DIGITS[source[from + i] as number] as number);
    this.#length = start + count * 2;
  }

  /** Adds `count` words from index `from` on as hex. The bytes of a word are in memory order (little-endian). */
  hexWords(source: Int32Array, from: number, count: number): void {
    this.#reserve(count * 8);
    const view = this.#view;
    let at = this.#length;
    for (let i = from; i < from + count; i++) {
      const word = source[i] as number;
      view.setUint16(at, DIGITS[word & 0xff] as number);
      view.setUint16(at + 2, DIGITS[(word >>> 8) & 0xff] as number);
      view.setUint16(at + 4, DIGITS[(word >>> 16) & 0xff] as number);
      view.setUint16(at + 6, DIGITS[word >>> 24] as number);
      at += 8;
    }
    this.#length = at;
  }

  /** Writes the last `count` bytes of the text to the end of `target`. */
  copyEnd(target: Uint8Array, count: number): void {
    const bytes = this.#bytes;
    const from = this.#length - count;
    const to = target.length - count;
    for (let i = 0; i < count; i++) target[to + i] = bytes[from + i] as number;
  }

  /** Replaces everything after the first `length` bytes with a short ASCII text. */
  replaceEnd(length: number, text: string): void {
    this.#length = length;
    this.ascii(text);
  }

  /** Starts a new text. Discards the rest of a text that failed half-way. */
  start(): void {
    this.#length = 0;
  }

  /** Returns the text in memory that the next text reuses. Copy it before the next `start`, to keep it. */
  view(): Uint8Array<ArrayBuffer> {
    const text = this.#bytes.subarray(0, this.#length);
    if (this.#bytes.length > KEPT_BYTES) this.#hold(new Uint8Array(FIRST_BYTES));
    return text;
  }
}
