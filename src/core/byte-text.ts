/**
 * Text put together as bytes, for answers that are made of thousands of short pieces: joined strings would be flattened
 * and encoded anew. Short loops on primitives; one buffer serves all texts, since none is made while another is.
 */

const FIRST_BYTES = 64 * 1024;
/** A buffer that one large text made larger than this is not kept for the next. */
const KEPT_BYTES = 1024 * 1024;
const encoder = new TextEncoder();
/** The two hex digits of each byte, as one big-endian number. */
const DIGITS = Uint16Array.from({ length: 256 }, (_, byte) => {
  const digits = byte.toString(16).padStart(2, "0");
  return (digits.charCodeAt(0) << 8) | digits.charCodeAt(1);
});

/** A text that is the same every time, as big-endian words; the last is filled up with zeros. */
export interface Piece {
  readonly length: number;
  readonly words: Uint32Array;
}

export function piece(text: string): Piece {
  const bytes = encoder.encode(text);
  const padded = new Uint8Array(Math.ceil(bytes.length / 4) * 4);
  padded.set(bytes);
  const view = new DataView(padded.buffer);
  return {
    length: bytes.length,
    words: Uint32Array.from({ length: padded.length / 4 }, (_, i) => view.getUint32(i * 4)),
  };
}

export class ByteText {
  #bytes = new Uint8Array(FIRST_BYTES);
  #view = new DataView(this.#bytes.buffer);
  #length = 0;

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

  /** Adds a ready piece: four bytes at once, which for pieces this short beats copying them by one call. */
  add({ length, words }: Piece): void {
    this.#reserve(length + 3);
    const view = this.#view;
    const start = this.#length;
    // What the last word is filled up with is written over by what comes next.
    for (let i = 0; i < words.length; i++) view.setUint32(start + i * 4, words[i] as number);
    this.#length = start + length;
  }

  /** Adds a whole number below 2^53 in decimal. */
  integer(value: number): void {
    let digits = 1;
    for (let bound = 10; bound <= value; bound *= 10) digits++;
    this.#reserve(digits);
    const bytes = this.#bytes;
    let at = this.#length + digits;
    this.#length = at;
    for (let rest = value; digits > 0; digits--) {
      const next = Math.floor(rest / 10);
      bytes[--at] = 0x30 + (rest - next * 10);
      rest = next;
    }
  }

  /** Adds a short text of ASCII characters. */
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

  /** Adds `count` bytes from `from` on as digits of hex, in lower case. */
  hex(source: Uint8Array, from: number, count: number): void {
    this.#reserve(count * 2);
    const view = this.#view;
    const start = this.#length;
    for (let i = 0; i < count; i++) view.setUint16(start + i * 2, DIGITS[source[from + i] as number] as number);
    this.#length = start + count * 2;
  }

  /** Adds `count` words from `from` on as digits of hex; the bytes of a word are in the order they lie in memory. */
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

  /** Starts a text; what was left of one that failed half-way is gone. */
  start(): void {
    this.#length = 0;
  }

  /** The text, which is a copy. */
  take(): Uint8Array<ArrayBuffer> {
    const text = this.#bytes.slice(0, this.#length);
    if (this.#bytes.length > KEPT_BYTES) this.#hold(new Uint8Array(FIRST_BYTES));
    return text;
  }
}
