/**
 * Reads pages of entries from a ledger as of a block, in slices or in one go. A position is a row number or, for
 * holders, a place in the order of pairs, so a deep page costs as much as the first.
 */

import { TransferKind } from "../events/columns.ts";
import {
  type Entry,
  type EntryVisitor,
  entryOf,
  type FoundRow,
  HOLDERS_AT_ONCE,
  initialScanState,
  scanHolders,
  scanTokens,
} from "./entries.ts";
import type { Ledger } from "./ledger.ts";
import type { TokenLinks } from "./owners.ts";
import type { Position } from "./rows.ts";
import { CHUNK_BITS, CHUNK_MASK, type Row, type Slot, type WordTable } from "./tables.ts";

// Prefetches the history entries that a page needs. They are scattered over a long history. If the page read them one
// by one, each cache miss would delay the record being written; in a loop that does nothing else, the misses overlap.

/** Result of the last loop. Without a use of it the compiler would remove the reads. */
export let seen = 0;

/** Reads the newest entry of each of `count` slots from `slot` on. Skips tails that are not entries of this table. */
function prefetchTails(links: TokenLinks, entries: WordTable, slot: Slot, count: number): void {
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

export interface Slice {
  readonly entries: Entry[];
  /** The place of each entry: its row for tokens, its position for holders. */
  readonly starts: readonly (number | Position)[];
  /** Start of the next page; undefined at the end of the listing. */
  readonly next: Position | undefined;
}

/** Reads the entries of a page's single-owner tokens ahead, so that they are in the processor's cache. */
function prefetchEntries({ rows, tokens, links, owners }: Ledger, row: Row, limit: number): void {
  const { slot, count } = rows.slotsAt(row);
  if (count === 0 || tokens.kind(slot) === TransferKind.erc1155) return;
  prefetchTails(links, owners.table, slot, Math.min(count, limit));
}

interface SliceOptions {
  readonly block: number;
  readonly from: Position;
  readonly limit: number;
}

/**
 * Reads up to `limit` (token, owner) pairs after `block`, from `from` on. Yields between slices, because the walk
 * passes any number of pairs that were given away. Between slices the ledger may change, except at or below that
 * block.
 */
export function* readHoldersInSlices(ledger: Ledger, { block, from, limit }: SliceOptions): Generator<void, Slice> {
  const entries: Entry[] = [];
  const starts: Position[] = [];
  const seen = initialScanState();
  let next: Position | undefined;
  const visit: EntryVisitor = (position, entry) => {
    if (entries.length === limit) {
      next = position;
      return false;
    }
    starts.push(position);
    entries.push(entry());
    return true;
  };
  for (let at: Position | undefined = from; ; ) {
    at = scanHolders(ledger, block, at, visit, { seen, most: HOLDERS_AT_ONCE });
    if (at === undefined) return { entries, starts, next };
    yield;
  }
}

/** Like `readHoldersInSlices`, with one entry per token. */
function* readTokensInSlices(ledger: Ledger, { block, from, limit }: SliceOptions): Generator<void, Slice> {
  const entries: Entry[] = [];
  const starts: number[] = [];
  let next: Position | undefined;
  const visit = (found: FoundRow): boolean | undefined => {
    if (entries.length === limit) {
      next = [found.row, 0, 0, 0];
      return false;
    }
    const entry = entryOf(ledger, found, block);
    if (entry === undefined) return undefined;
    starts.push(found.row);
    entries.push(entry);
    return true;
  };
  prefetchEntries(ledger, from[0] as Row, limit);
  for (let row: Row | undefined = from[0] as Row; ; ) {
    row = scanTokens(ledger, block, row, visit) as Row | undefined;
    if (row === undefined) return { entries, starts, next };
    yield;
  }
}

/** Reads the entries of a listing after `block`, in slices. */
export const readInSlices = (ledger: Ledger, { holders, ...options }: SliceOptions & { holders: boolean }) =>
  holders ? readHoldersInSlices(ledger, options) : readTokensInSlices(ledger, options);

/** Reads up to `limit` entries of the listing after `block`, from `from` on, in one go. */
export function readSlice(ledger: Ledger, options: SliceOptions & { holders: boolean }): Slice {
  for (const work = readInSlices(ledger, options); ; ) {
    const { done, value } = work.next();
    if (done === true) return value;
  }
}
