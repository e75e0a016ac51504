/**
 * Prefetches the history entries that a page needs. They are scattered over a long history. If the page read them one
 * by one, each cache miss would delay the record being written; in a loop that does nothing else, the misses overlap.
 */
import type { TokenLinks } from "./links.ts";
import type { WordTable } from "./word-table.ts";
import { CHUNK_BITS, CHUNK_MASK } from "./word-table.ts";

/** Result of the last loop. Without a use of it the compiler would remove the reads. */
export let seen = 0;

/** Reads the newest entry of each of `count` slots from `slot` on. Skips tails that are not entries of this table. */
export function touchTails(links: TokenLinks, entries: WordTable, slot: number, count: number): void {
  const { chunks: linkChunks } = links.table;
  const { chunks, width, count: known } = entries;
  let found = 0;
  for (let i = slot; i < slot + count; i++) {
    const tail = (linkChunks[i >>> CHUNK_BITS] as Int32Array)[(i & CHUNK_MASK) * 3 + 1] as number;
    if (tail >= 0 && tail < known)
      found ^= (chunks[tail >>> CHUNK_BITS] as Int32Array)[(tail & CHUNK_MASK) * width] as number;
  }
  seen = found;
}
