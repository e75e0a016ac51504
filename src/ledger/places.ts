/**
 * Counts the entries of a listing after a block and finds its n-th one, without walking the listing. Tokens are counted
 * by the gaps of `gaps.ts`, (token, owner) pairs by the index of `pairs.ts`.
 */
import { GAP_CHUNK_ROWS } from "./gaps.ts";
import type { Ledger } from "./ledger.ts";
import { type FoundRow, scanTokens } from "./listing.ts";
import { hasPairIndex, pairAfter, pairIndexAt } from "./pairs.ts";
import type { Position } from "./rows.ts";

/** Finds the row of the entry with `skip` entries before it. Walks at most one chunk, in slices. */
export function* findRowInSlices(ledger: Ledger, block: number, skip: number): Generator<void, number | undefined> {
  const rows = ledger.rowsAt(block);
  let gapsBefore = 0;
  let chunk: number | undefined;
  ledger.gaps.scan(block, (firstRow, gaps) => {
    if (skip < firstRow - gapsBefore) return false;
    const end = Math.min(firstRow + GAP_CHUNK_ROWS, rows);
    if (skip < end - gapsBefore - gaps) {
      chunk = firstRow;
      return false;
    }
    gapsBefore += gaps;
    return true;
  });
  if (chunk === undefined) {
    const row = skip + gapsBefore;
    return row < rows ? row : undefined;
  }
  let found: number | undefined;
  let left = skip - (chunk - gapsBefore);
  const visit = ({ row }: FoundRow): boolean => {
    found = row;
    return left-- > 0;
  };
  for (let from: number | undefined = chunk; ; yield) {
    from = scanTokens(ledger, block, from, visit);
    if (from === undefined) return found;
  }
}

/** True if there is no transfer after `block`. */
function isNewest({ owners, balances, rows }: Ledger, block: number): boolean {
  return (
    owners.countAt(block) === owners.count &&
    balances.countAt(block) === balances.count &&
    (rows.ranges.at(-1)?.block ?? 0) <= block
  );
}

/**
 * True if a listing of holders has to be walked to be counted. A single-owner token has one entry with or without
 * holders, so only ERC-1155 tokens at an old block need a walk.
 */
const isWalked = (ledger: Ledger, block: number): boolean => ledger.balances.count > 0 && !isNewest(ledger, block);

/**
 * True if a listing of holders can be counted and, if `isPlaced`, searched by number without walking all of it first.
 */
export function areHoldersReady(ledger: Ledger, block: number, isPlaced: boolean): boolean {
  return (!isPlaced && !isWalked(ledger, block)) || hasPairIndex(ledger, block);
}

/** Number of entries of the listing after `block`. */
export function countEntries(ledger: Ledger, block: number, holders: boolean): number {
  const { balances } = ledger;
  if (isNewest(ledger, block)) return ledger.liveSingles + (holders ? balances.liveHoldings : balances.liveTokens);
  if (holders && isWalked(ledger, block)) return pairIndexAt(ledger, block).count;
  return ledger.rowsAt(block) - ledger.gaps.countAt(block);
}

/** The position of the entry with `skip` entries before it; undefined if there are too few. */
export function positionAfter(ledger: Ledger, block: number, holders: boolean, skip: number): Position | undefined {
  if (holders) return pairAfter(ledger, block, skip);
  for (const work = findRowInSlices(ledger, block, skip); ; ) {
    const { done, value: row } = work.next();
    if (done === true) return row === undefined ? undefined : [row, 0, 0, 0];
  }
}
