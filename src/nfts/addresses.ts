/** Addresses of one collection, each once: 20 bytes and an index, read back as hex. Index 0 is the zero address. */
import { mix, roomU32 } from "./grow.ts";
import { HashIndex } from "./hash-index.ts";

const WORDS = 5;

export class AddressTable {
  #words = new Uint32Array(WORDS * 64);
  #count = 0;
  readonly #index = new HashIndex();
  readonly #scratch = new Uint32Array(WORDS);
  readonly #scratchBytes = new Uint8Array(this.#scratch.buffer);

  constructor() {
    this.intern(new Uint8Array(20), 0);
  }

  get count(): number {
    return this.#count;
  }

  get bytes(): number {
    return this.#words.byteLength + this.#index.bytes;
  }

  readonly #hashOf = (row: number): number => {
    let hash = 0;
    for (let w = 0; w < WORDS; w++) hash = mix(hash, this.#words[row * WORDS + w] as number);
    return hash;
  };

  /** The index of the address at `offset` of `source`, added when it is new. */
  intern(source: Uint8Array, offset: number): number {
    const scratch = this.#scratch;
    for (let i = 0; i < 20; i++) this.#scratchBytes[i] = source[offset + i] as number;
    let hash = 0;
    for (let w = 0; w < WORDS; w++) hash = mix(hash, scratch[w] as number);
    const found = this.#index.find(hash, (row) => {
      const at = row * WORDS;
      for (let w = 0; w < WORDS; w++) if (this.#words[at + w] !== scratch[w]) return false;
      return true;
    });
    if (found >= 0) return found;
    const row = this.#count++;
    this.#words = roomU32(this.#words, row * WORDS + WORDS - 1);
    this.#words.set(scratch, row * WORDS);
    this.#index.add(hash, row, this.#hashOf);
    return row;
  }

  /** 0x and 40 digits in lower case. */
  hex(row: number): string {
    return `0x${Buffer.from(this.#words.buffer, row * WORDS * 4, 20).toString("hex")}`;
  }
}
