/**
 * The tokens of a collection: one slot per (kind, id) that has a history of its own. Ids that fit 64 bits cost 8 bytes;
 * larger ones live in a side table. `first` and `tail` point into the history of the slot's kind: an entry's index, -1
 * for none, or -(2 + r) for "as id range r left it".
 */
import type { TransferKind, WordColumn } from "../events/columns.ts";
import { mix, roomI32, roomU8, roomU32 } from "./grow.ts";
import { HashIndex } from "./hash-index.ts";

/** Set on a slot's kind when its id is in the side table. */
const LARGE = 0x80;
const WORDS = 8;

/** An id as eight u32 words, lowest first; reused by the caller. */
export type IdWords = Uint32Array;

/** Writes the id at `index` of a column into `target`. */
export function loadId(column: WordColumn, index: number, target: IdWords): void {
  const { words, values } = column;
  const at = index * words;
  for (let w = 0; w < WORDS; w++) target[w] = w < words ? (values[at + w] as number) : 0;
}

export function idToBigInt(words: IdWords): bigint {
  let value = 0n;
  for (let w = WORDS - 1; w >= 0; w--) value = (value << 32n) | BigInt(words[w] as number);
  return value;
}

export function bigIntToId(value: bigint, target: IdWords): void {
  let rest = value;
  for (let w = 0; w < WORDS; w++) {
    target[w] = Number(rest & 0xffff_ffffn);
    rest >>= 32n;
  }
}

export class TokenTable {
  count = 0;
  first = new Int32Array(64);
  tail = new Int32Array(64);
  #low = new Uint32Array(64);
  #high = new Uint32Array(64);
  #kinds = new Uint8Array(64);
  #large = new Uint32Array(0);
  #largeCount = 0;
  readonly #index = new HashIndex();

  get bytes(): number {
    return (
      this.first.byteLength +
      this.tail.byteLength +
      this.#low.byteLength +
      this.#high.byteLength +
      this.#kinds.byteLength +
      this.#large.byteLength +
      this.#index.bytes
    );
  }

  kind(slot: number): TransferKind {
    return ((this.#kinds[slot] as number) & ~LARGE) as TransferKind;
  }

  id(slot: number): bigint {
    if (((this.#kinds[slot] as number) & LARGE) === 0) {
      const high = this.#high[slot] as number;
      const low = this.#low[slot] as number;
      return high === 0 ? BigInt(low) : (BigInt(high) << 32n) | BigInt(low);
    }
    const at = (this.#low[slot] as number) * WORDS;
    return idToBigInt(this.#large.subarray(at, at + WORDS));
  }

  /** The id in decimal: without a bigint where it is an exact number. */
  idText(slot: number): string {
    if (((this.#kinds[slot] as number) & LARGE) === 0) {
      const high = this.#high[slot] as number;
      if (high < 0x20_0000) return String(high * 2 ** 32 + (this.#low[slot] as number));
    }
    return this.id(slot).toString();
  }

  #hash(kind: number, words: IdWords): number {
    let hash = mix(kind, words[0] as number);
    for (let w = 1; w < WORDS; w++) if (words[w] !== 0) hash = mix(hash + w, words[w] as number);
    return hash;
  }

  readonly #scratch = new Uint32Array(WORDS);
  readonly #hashOf = (slot: number): number => {
    this.#load(slot, this.#scratch);
    return this.#hash(this.kind(slot), this.#scratch);
  };

  #load(slot: number, target: IdWords): void {
    if (((this.#kinds[slot] as number) & LARGE) === 0) {
      target.fill(0);
      target[0] = this.#low[slot] as number;
      target[1] = this.#high[slot] as number;
      return;
    }
    const at = (this.#low[slot] as number) * WORDS;
    for (let w = 0; w < WORDS; w++) target[w] = this.#large[at + w] as number;
  }

  /** The slot of (kind, id), or -1. */
  find(kind: TransferKind, words: IdWords): number {
    const large = isLarge(words);
    const [low, high] = [words[0] as number, words[1] as number];
    return this.#index.find(this.#hash(kind, words), (slot) => {
      const stored = this.#kinds[slot] as number;
      if (!large) return stored === kind && this.#low[slot] === low && this.#high[slot] === high;
      if (stored !== (kind | LARGE)) return false;
      const at = (this.#low[slot] as number) * WORDS;
      for (let w = 0; w < WORDS; w++) if (this.#large[at + w] !== words[w]) return false;
      return true;
    });
  }

  /** A new slot for (kind, id), which must not have one. */
  add(kind: TransferKind, words: IdWords): number {
    const slot = this.count++;
    this.#low = roomU32(this.#low, slot);
    this.#high = roomU32(this.#high, slot);
    this.#kinds = roomU8(this.#kinds, slot);
    this.first = roomI32(this.first, slot);
    this.tail = roomI32(this.tail, slot);
    this.first[slot] = -1;
    this.tail[slot] = -1;
    if (isLarge(words)) {
      const at = this.#largeCount++;
      this.#large = roomU32(this.#large, at * WORDS + WORDS - 1);
      this.#large.set(words, at * WORDS);
      this.#low[slot] = at;
      this.#high[slot] = 0;
      this.#kinds[slot] = kind | LARGE;
    } else {
      this.#low[slot] = words[0] as number;
      this.#high[slot] = words[1] as number;
      this.#kinds[slot] = kind;
    }
    this.#index.add(this.#hash(kind, words), slot, this.#hashOf);
    return slot;
  }

  /** Forgets the newest slots: a reorg took the blocks they first appeared in. */
  truncate(count: number): void {
    for (let slot = this.count - 1; slot >= count; slot--) {
      this.#index.remove(slot, this.#hashOf);
      if (((this.#kinds[slot] as number) & LARGE) !== 0) this.#largeCount--;
    }
    this.count = count;
  }
}

function isLarge(words: IdWords): boolean {
  for (let w = 2; w < WORDS; w++) if (words[w] !== 0) return true;
  return false;
}
