/**
 * Hashes token ids and finds them in the tables of `token-slots.ts`. Every transfer calls it: no closures, no objects,
 * signed words only.
 */
import { mix } from "../../core/seeded-hash.ts";
import type { HashIndex } from "./hash-index.ts";
import { CHUNK_BITS, CHUNK_MASK, type Slot, type WordTable } from "./tables.ts";

/** The tables of a `TokenTable` that are searched. */
interface SearchedTables {
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
export const markOf = (kinds: WordTable, slot: Slot): number => (kinds.get(slot >>> 3, 0) >>> ((slot & 7) * 4)) & 15;

/** The slot of an id of two words, or -1. */
export function findStored({ ids, kinds, index }: SearchedTables, kind: number, low: number, high: number): Slot {
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
export function findStoredLarge(
  { ids, kinds, index }: SearchedTables,
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
