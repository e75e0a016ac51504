/**
 * The tokens of a collection: one slot per (kind, id) with a history of its own. Ids that fit 64 bits cost 8 bytes;
 * larger ones are in a side table. Consecutive ids are found by arithmetic, all others by a hash index.
 */
import { bigIntToWords, type TransferKind, type WordColumn } from "../../events/columns.ts";
import type { Amount } from "./amounts.ts";
import { HashIndex } from "./hash-index.ts";
import { IdRuns } from "./id-runs.ts";
import type { StateCodec } from "./state-codec.ts";
import { type Slot, WordTable } from "./tables.ts";
import { findStored, findStoredLarge, hashId, hashLargeId, markOf } from "./token-search.ts";

/** Bit of a slot's mark: its id is in the side table. */
const LARGE = 4;
const WORDS = 8;

/** An id as eight u32 words, lowest first. The caller reuses the array. */
export type IdWords = Uint32Array;

/** Writes the id at `index` of a column into `target`. */
export function loadId(column: WordColumn, index: number, target: IdWords): void {
  const { words, values } = column;
  const at = index * words;
  for (let w = 0; w < WORDS; w++) target[w] = w < words ? (values[at + w] as number) : 0;
}

export function idToBigInt(words: IdWords): bigint {
  let highest = WORDS - 1;
  while (highest > 0 && words[highest] === 0) highest--;
  let value = BigInt(words[highest] as number);
  for (let w = highest - 1; w >= 0; w--) value = (value << 32n) | BigInt(words[w] as number);
  return value;
}

export const bigIntToId = (value: bigint, target: IdWords): void => bigIntToWords(value, target, 0);

function isLarge(words: IdWords): boolean {
  for (let w = 2; w < WORDS; w++) if (words[w] !== 0) return true;
  return false;
}

export class TokenTable {
  /** Low and high word of the id, signed. For a large id, the low word is its row in the side table. */
  readonly ids = new WordTable(2);
  /** Marks: eight slots per word, four bits each. */
  readonly kinds = new WordTable(1);
  readonly runs = new IdRuns();
  readonly index = new HashIndex();
  readonly #large = new WordTable(WORDS);
  readonly #scratch = new Uint32Array(WORDS);
  readonly #sought = new Uint32Array(WORDS);

  get count(): number {
    return this.ids.count;
  }

  get bytes(): number {
    return this.ids.bytes + this.kinds.bytes + this.runs.bytes + this.index.bytes + this.#large.bytes;
  }

  /** The slot's kind, with the bit `LARGE` if its id is in the side table. */
  mark(slot: Slot): number {
    return markOf(this.kinds, slot);
  }

  kind(slot: Slot): TransferKind {
    return (this.mark(slot) & ~LARGE) as TransferKind;
  }

  id(slot: Slot): bigint {
    const low = this.ids.get(slot, 0) >>> 0;
    if ((this.mark(slot) & LARGE) !== 0) return idToBigInt(this.#loadLarge(low));
    const high = this.ids.get(slot, 1) >>> 0;
    return high === 0 ? BigInt(low) : (BigInt(high) << 32n) | BigInt(low);
  }

  /** The id, as a number if that is exact. */
  idAmount(slot: Slot): Amount {
    const low = this.ids.get(slot, 0) >>> 0;
    const high = this.ids.get(slot, 1) >>> 0;
    if ((this.mark(slot) & LARGE) !== 0 || high >= 0x20_0000) return this.id(slot);
    // Keep the multiplication out of the common case: the engine treats its result, and all later results, as doubles.
    return high === 0 ? low : high * 2 ** 32 + low;
  }

  #loadLarge(row: number): IdWords {
    for (let w = 0; w < WORDS; w++) this.#scratch[w] = this.#large.get(row, w);
    return this.#scratch;
  }

  readonly #hashOf = (row: number): number => {
    const slot = row as Slot;
    const mark = this.mark(slot);
    if ((mark & LARGE) !== 0)
      return hashLargeId(this.index.seed, mark & ~LARGE, this.#loadLarge(this.ids.get(slot, 0)));
    return hashId(this.index.seed, mark, this.ids.get(slot, 0), this.ids.get(slot, 1));
  };

  /** The slot of (kind, id), or -1. */
  find(kind: TransferKind, words: IdWords): Slot {
    if (!isLarge(words)) return this.findSmall(kind, (words[0] as number) | 0, (words[1] as number) | 0);
    return findStoredLarge(this, this.#large, kind | LARGE, words, hashLargeId(this.index.seed, kind, words));
  }

  /** Like `find`, for an id from `idAmount` or any other. */
  findId(kind: TransferKind, id: Amount): Slot {
    if (typeof id === "number") return this.findSmall(kind, id | 0, Math.floor(id / 2 ** 32));
    bigIntToId(id, this.#sought);
    return this.find(kind, this.#sought);
  }

  /** Like `find`, for an id of two signed words. */
  findSmall(kind: TransferKind, low: number, high: number): Slot {
    const slot = this.runs.find(kind, low, high);
    return slot >= 0 ? slot : findStored(this, kind, low, high);
  }

  /** Adds a slot for (kind, id), which must not have one yet. */
  add(kind: TransferKind, words: IdWords): Slot {
    if (!isLarge(words)) return this.addSmall(kind, (words[0] as number) | 0, (words[1] as number) | 0);
    const row = this.#large.add();
    for (let w = 0; w < WORDS; w++) this.#large.set(row, w, words[w] as number);
    const slot = this.#add(kind | LARGE, row, 0);
    this.index.add(hashLargeId(this.index.seed, kind, words), slot, this.#hashOf);
    return slot;
  }

  /** Like `add`, for an id of two signed words. */
  addSmall(kind: TransferKind, low: number, high: number): Slot {
    const slot = this.#add(kind, low, high);
    if (!this.runs.add(kind, low, high, slot)) {
      this.index.add(hashId(this.index.seed, kind, low, high), slot, this.#hashOf);
    }
    return slot;
  }

  #add(mark: number, low: number, high: number): Slot {
    const slot = this.ids.add() as Slot;
    this.ids.set(slot, 0, low);
    this.ids.set(slot, 1, high);
    const row = slot >>> 3;
    const shift = (slot & 7) * 4;
    // Overwrite the bits: a reverted slot of the same number may have left its mark there.
    if (shift === 0) this.kinds.push(mark);
    else this.kinds.set(row, 0, (this.kinds.get(row, 0) & ~(15 << shift)) | (mark << shift));
    return slot;
  }

  /** Removes the slots from `count` on, after a reorg removed their blocks. */
  truncate(count: number): void {
    for (let slot = (this.count - 1) as Slot; slot >= count; slot--) {
      const isLargeId = (this.mark(slot) & LARGE) !== 0;
      if (isLargeId || !this.runs.remove(slot)) this.index.remove(slot, this.#hashOf);
      if (isLargeId) this.#large.count--;
    }
    this.ids.count = count;
    this.kinds.count = (count + 7) >>> 3;
  }

  /** Saves all tokens through the codec, or restores them. */
  code(codec: StateCodec): void {
    for (const part of [this.ids, this.kinds, this.runs, this.index, this.#large]) part.code(codec);
  }

  /** Releases unused capacity. */
  trim(): void {
    for (const table of [this.ids, this.kinds, this.#large]) table.trim();
  }
}
