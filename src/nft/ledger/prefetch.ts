/**
 * Prefetches the history entries that a page needs. They are scattered over a long history. If the page read them one
 * by one, each cache miss would delay the record being written; in a loop that does nothing else, the misses overlap.
 */
import { hasAmounts } from "../../events/columns.ts";
import type { Ledger } from "./ledger.ts";
import { CHUNK_BITS, CHUNK_MASK, type Row, type Slot, type WordTable } from "./tables.ts";
import type { TokenLinks } from "./token-links.ts";

/** Result of the last loop. Without a use of it the compiler would remove the reads. */
export let seen = 0;

/** Reads the newest entry of each of `count` slots from `slot` on. Skips tails that are not entries of this table. */
function prefetchTails(links: TokenLinks, entries: WordTable, slot: Slot, count: number): void {
  const { chunks: linkChunks } = links;
  const { chunks, width, count: known } = entries;
  let found = 0;
  for (let i = slot; i < slot + count; i++) {
    const tail = (linkChunks[i >>> CHUNK_BITS] as Int32Array)[(i & CHUNK_MASK) * 3 + 1] as number;
    if (tail >= 0 && tail < known)
      found ^= (chunks[tail >>> CHUNK_BITS] as Int32Array)[(tail & CHUNK_MASK) * width] as number;
  }
  seen = found;
}

/** Reads the entries of a page's single-owner tokens ahead, so that they are in the processor's cache. */
export function prefetchEntries({ rows, tokens, links, owners }: Ledger, row: Row, limit: number): void {
  const { slot, count } = rows.slotsAt(row);
  if (count === 0 || hasAmounts(tokens.kind(slot))) return;
  prefetchTails(links, owners, slot, Math.min(count, limit));
}
