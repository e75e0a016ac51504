/**
 * Looks at the entries that a page will need before it needs them. They lie anywhere in a history of any length: read one
 * after the other, each miss of the processor's cache is waited for while a record is being made; read by a loop that does
 * nothing else, the misses overlap. A file of its own since it is nothing but that loop.
 */
import type { TokenLinks } from "./links.ts";
import type { WordTable } from "./word-table.ts";
import { CHUNK_BITS, CHUNK_MASK } from "./word-table.ts";

/** What was seen last: a result that nobody uses would be left out by the compiler, and the reads with it. */
export let seen = 0;

/** Touches the newest entry of each of `count` slots from `slot` on; the tail of another kind's token is none of these. */
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
