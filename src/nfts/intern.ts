/**
 * Hashes addresses and finds them in a collection's address table. A file of its own because nearly every transfer of a
 * replay brings two addresses to look up: no closures, no objects, signed words only.
 */
import { type HashIndex, homeIn } from "./hash-index.ts";
import { CHUNK_BITS, CHUNK_MASK } from "./word-table.ts";

type Words = Int32Array;

/** Hashes the five words at `at`. The high bits are the best mixed. */
export function hashAddress(seed: number, words: Words, at: number): number {
  let h = Math.imul((words[at] as number) ^ seed, 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 15) ^ (words[at + 1] as number), 0xc2b2ae35);
  h = Math.imul(h ^ (h >>> 13) ^ (words[at + 2] as number), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 16) ^ (words[at + 3] as number), 0xc2b2ae35);
  h = Math.imul(h ^ (h >>> 15) ^ (words[at + 4] as number), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}

/** Writes the hash of each address to `hashes`, and its most likely row, or -1 for none, to `seen`. */
export function glance({ shards, mask, bits, seed }: HashIndex, words: Words, hashes: Words, seen: Words): void {
  const rowMask = (1 << bits) - 1;
  for (let i = 0; i < hashes.length; i++) {
    const hash = hashAddress(seed, words, i * 5);
    hashes[i] = hash;
    const places = shards[(hash >>> 24) & mask] as Words;
    let place = homeIn(places, hash);
    let stored = places[place] as number;
    while (stored !== 0 && (stored ^ (hash << bits)) >>> bits !== 0) {
      if (++place === places.length) place = 0;
      stored = places[place] as number;
    }
    seen[i] = stored === 0 ? -1 : (stored & rowMask) - 1;
  }
}

/**
 * Replaces a row in `seen` by -1 if it has another address. The comparison doesn't branch, so that the processor loads
 * many rows at once instead of one after the other.
 */
export function compare(chunks: readonly Words[], words: Words, seen: Words): void {
  for (let i = 0; i < seen.length; i++) {
    const row = seen[i] as number;
    if (row < 0) continue;
    const chunk = chunks[row >>> CHUNK_BITS] as Words;
    const here = (row & CHUNK_MASK) * 5;
    const at = i * 5;
    const difference =
      ((chunk[here] as number) ^ (words[at] as number)) |
      ((chunk[here + 1] as number) ^ (words[at + 1] as number)) |
      ((chunk[here + 2] as number) ^ (words[at + 2] as number)) |
      ((chunk[here + 3] as number) ^ (words[at + 3] as number)) |
      ((chunk[here + 4] as number) ^ (words[at + 4] as number));
    // The right side is all ones if any word differs.
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
  for (let place = index.home(hash); ; place++) {
    place = index.seek(hash, place);
    if (place < 0) return -1;
    const row = index.rowAt(hash, place);
    const chunk = chunks[row >>> CHUNK_BITS] as Words;
    let w = 0;
    while (w < 5 && chunk[(row & CHUNK_MASK) * 5 + w] === words[at + w]) w++;
    if (w === 5) return row;
  }
}
