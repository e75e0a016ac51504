/**
 * Hashing and finding addresses among those of a collection. A file of its own since nearly every transfer of a replay
 * brings two addresses to look up: no closures, no objects, signed words only.
 */
import { type HashIndex, homeOf } from "./hash-index.ts";
import { CHUNK_BITS, CHUNK_MASK } from "./word-table.ts";

type Words = Int32Array;

/** Of the five words at `at`; good in its high bits. */
export function hashAddress(words: Words, at: number): number {
  let h = Math.imul((words[at] as number) ^ 0x9e3779b9, 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 15) ^ (words[at + 1] as number), 0xc2b2ae35);
  h = Math.imul(h ^ (h >>> 13) ^ (words[at + 2] as number), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 16) ^ (words[at + 3] as number), 0xc2b2ae35);
  h = Math.imul(h ^ (h >>> 15) ^ (words[at + 4] as number), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}

/** Where to begin to compare: the place of the row that is most likely the address's, -1 when there is none. */
export function glance({ places, scale, bits }: HashIndex, words: Words, hashes: Words, seen: Words): void {
  for (let i = 0; i < hashes.length; i++) {
    const hash = hashAddress(words, i * 5);
    hashes[i] = hash;
    let place = homeOf(hash, scale);
    let stored = places[place] as number;
    while (stored !== 0 && (stored ^ (hash << bits)) >>> bits !== 0) {
      if (++place === places.length) place = 0;
      stored = places[place] as number;
    }
    seen[i] = stored === 0 ? -1 : place;
  }
}

/**
 * Places to rows: -1 where the row is not the address's after all. It does not branch, so that the processor reaches for
 * many rows at once instead of one after the other.
 */
export function compare(chunks: readonly Words[], index: HashIndex, words: Words, seen: Words): void {
  const { places } = index;
  const mask = (1 << index.bits) - 1;
  for (let i = 0; i < seen.length; i++) {
    const place = seen[i] as number;
    if (place < 0) continue;
    const row = ((places[place] as number) & mask) - 1;
    const chunk = chunks[row >>> CHUNK_BITS] as Words;
    const here = (row & CHUNK_MASK) * 5;
    const at = i * 5;
    const difference =
      ((chunk[here] as number) ^ (words[at] as number)) |
      ((chunk[here + 1] as number) ^ (words[at + 1] as number)) |
      ((chunk[here + 2] as number) ^ (words[at + 2] as number)) |
      ((chunk[here + 3] as number) ^ (words[at + 3] as number)) |
      ((chunk[here + 4] as number) ^ (words[at + 4] as number));
    // All ones where anything differs.
    seen[i] = row | ((difference | -difference) >> 31);
  }
}

/** The row of the address at `at` of `words`, or -1. */
export function findAddress(
  chunks: readonly Words[],
  index: HashIndex,
  words: Words,
  at: number,
  hash: number,
): number {
  for (let place = homeOf(hash, index.scale); ; place++) {
    place = index.seek(hash, place);
    if (place < 0) return -1;
    const row = index.rowAt(place);
    const chunk = chunks[row >>> CHUNK_BITS] as Words;
    let w = 0;
    while (w < 5 && chunk[(row & CHUNK_MASK) * 5 + w] === words[at + w]) w++;
    if (w === 5) return row;
  }
}
