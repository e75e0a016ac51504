/**
 * The tokens of a collection: one slot per (kind, id) with a history of its own. Ids that fit 64 bits cost 8 bytes;
 * larger ones are in a side table. Consecutive ids are found by arithmetic, all others by a hash index.
 */
import { mix } from "../../core/hex.ts";
import { bigIntToWords, type TransferKind, type WordColumn } from "../../events/columns.ts";
import type { Amount } from "./balance-entries.ts";
import { HashIndex } from "./hash-index.ts";
import { CHUNK_BITS, CHUNK_MASK, type Slot, type StateCodec, WordTable } from "./tables.ts";

// Runs of consecutive ids. Most collections mint 1, 2, 3 and so on, so a token's slot is its id minus a constant and
// needs no hash index. A run begins with a collection's first id, or after `MIN_STREAK` consecutive ids. Ids have
// two signed words here, and no run crosses a change of sign of the low word.

export interface Run {
  readonly kind: number;
  readonly low: number;
  readonly high: number;
  readonly firstSlot: Slot;
  count: number;
}

/** Consecutive ids before a run begins: a run that is seldom hit costs more than it saves. */
const MIN_STREAK = 64;
const MAX_RUNS = 1_024;

class IdRuns {
  /** In order of slots. */
  #runs: Run[] = [];
  /** In order of kind and id; runs never overlap. */
  #byId: Run[] = [];
  /** The id after the newest one, and the number of consecutive ids up to it. */
  #next = { kind: -1, low: 0, high: 0 };
  #streak = 0;

  get bytes(): number {
    return this.#runs.length * 96;
  }

  get count(): number {
    return this.#runs.length;
  }

  /** The newest run, which may still grow. */
  get last(): Run | undefined {
    return this.#runs.at(-1);
  }

  /** Saves all runs through the codec, or restores them. */
  code(codec: StateCodec): void {
    const { runs, next, streak } = codec.facts({ runs: this.#runs, next: this.#next, streak: this.#streak });
    this.#runs = runs;
    this.#byId = [...runs].sort(inOrderOfId);
    this.#next = next;
    this.#streak = streak;
  }

  /** The slot of an id, or -1 if no run contains it. */
  find(kind: number, low: number, high: number): Slot {
    let least = 0;
    let most = this.#byId.length;
    while (least < most) {
      const middle = (least + most) >>> 1;
      if (isAfter(this.#byId[middle] as Run, kind, low, high)) most = middle;
      else least = middle + 1;
    }
    const run = this.#byId[least - 1];
    if (run === undefined || run.kind !== kind || run.high !== high || low - run.low >= run.count) return -1 as Slot;
    return (run.firstSlot + low - run.low) as Slot;
  }

  /** Adds the id of a new slot if it continues a run or begins one. Returns true if it does. */
  add(kind: number, low: number, high: number, slot: Slot): boolean {
    const last = this.#runs.at(-1);
    if (last !== undefined && goesOn(last, kind, low, high, slot)) {
      last.count++;
      return true;
    }
    const next = this.#next;
    const isNext = kind === next.kind && low === next.low && high === next.high;
    this.#streak = isNext ? this.#streak + 1 : 1;
    this.#next = { kind, low: low + 1, high };
    if ((slot > 0 && this.#streak <= MIN_STREAK) || this.#runs.length === MAX_RUNS) return false;
    const run = { kind, low, high, firstSlot: slot, count: 1 };
    this.#runs.push(run);
    this.#byId = [...this.#byId, run].sort(inOrderOfId);
    return true;
  }

  /** Removes the newest slot. Returns true if a run contained it. */
  remove(slot: Slot): boolean {
    const last = this.#runs.at(-1);
    if (last === undefined || last.firstSlot + last.count - 1 !== slot) return false;
    last.count--;
    if (last.count > 0) return true;
    this.#runs.pop();
    this.#byId = this.#byId.filter((run) => run !== last);
    return true;
  }
}

const inOrderOfId = (a: Run, b: Run): number => (isAfter(a, b.kind, b.low, b.high) ? 1 : -1);

function goesOn(run: Run, kind: number, low: number, high: number, slot: Slot): boolean {
  return run.low + run.count === low && run.high === high && run.kind === kind && run.firstSlot + run.count === slot;
}

/** True if the run begins after the id. */
function isAfter(run: Run, kind: number, low: number, high: number): boolean {
  if (run.kind !== kind) return run.kind > kind;
  return run.high === high ? run.low > low : run.high > high;
}

// Hashes token ids and finds them. Every transfer calls it: no closures, no objects, signed words only.

/** The tables of a `TokenTable` that are searched. */
interface Stored {
  readonly ids: WordTable;
  readonly kinds: WordTable;
  readonly index: HashIndex;
}

/** Hashes an id of two words. The high bits are the best mixed. */
export const hashId = (seed: number, kind: number, low: number, high: number): number => {
  const hash = Math.imul(mix(mix(seed ^ kind, low), high), 0x85ebca6b);
  return hash ^ (hash >>> 16);
};

export function hashLargeId(seed: number, kind: number, words: Uint32Array): number {
  let hash = seed ^ kind;
  for (let w = 0; w < 8; w++) hash = mix(hash, words[w] as number);
  return Math.imul(hash, 0x85ebca6b);
}

/** A slot's kind, with the bit for an id in the side table. */
const markOf = (kinds: WordTable, slot: Slot): number => (kinds.get(slot >>> 3, 0) >>> ((slot & 7) * 4)) & 15;

/** The slot of an id of two words, or -1. */
function findStored({ ids, kinds, index }: Stored, kind: number, low: number, high: number): Slot {
  if (index.count === 0) return -1 as Slot;
  const hash = hashId(index.seed, kind, low, high);
  for (let place = index.home(hash); ; place++) {
    place = index.seek(hash, place);
    if (place < 0) return -1 as Slot;
    const slot = index.rowAt(hash, place) as Slot;
    const chunk = ids.chunks[slot >>> CHUNK_BITS] as Int32Array;
    const at = (slot & CHUNK_MASK) * 2;
    if (chunk[at] === low && chunk[at + 1] === high && markOf(kinds, slot) === kind) return slot;
  }
}

/** The slot of an id of eight words with this mark, or -1. */
function findStoredLarge(
  { ids, kinds, index }: Stored,
  large: WordTable,
  mark: number,
  words: Uint32Array,
  hash: number,
): Slot {
  for (let place = index.home(hash); ; place++) {
    place = index.seek(hash, place);
    if (place < 0) return -1 as Slot;
    const slot = index.rowAt(hash, place) as Slot;
    if (markOf(kinds, slot) === mark && equals(large, ids.get(slot, 0), words)) return slot;
  }
}

function equals(large: WordTable, row: number, words: Uint32Array): boolean {
  for (let w = 0; w < 8; w++) if (large.get(row, w) !== ((words[w] as number) | 0)) return false;
  return true;
}

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
