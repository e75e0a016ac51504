/**
 * How many entries a listing has after a block, and where its n-th one stands, without walking it: by the numbers of
 * gaps for tokens, by an index made once a block for pairs of token and owner (see `pairs.ts`).
 */
import { CHUNK_ROWS } from "./gaps.ts";
import type { Ledger } from "./ledger.ts";
import { type FoundRow, type Position, scanTokens } from "./listing.ts";
import { hasPairIndex, pairAfter, pairIndexAt } from "./pairs.ts";

/** The row of the entry with `skip` entries before it, by the numbers of gaps: at most one chunk is walked, in slices. */
export function* findingRow(ledger: Ledger, block: number, skip: number): Generator<void, number | undefined> {
  const rows = ledger.rowsAt(block);
  let gapsBefore = 0;
  let chunk: number | undefined;
  ledger.gaps.scan(block, (firstRow, gaps) => {
    if (skip < firstRow - gapsBefore) return false;
    const end = Math.min(firstRow + CHUNK_ROWS, rows);
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

/** Whether nothing was transferred after `block`. */
function isNewest({ owners, balances, rows }: Ledger, block: number): boolean {
  return (
    owners.countAt(block) === owners.count &&
    balances.countAt(block) === balances.count &&
    (rows.ranges.at(-1)?.block ?? 0) <= block
  );
}

/** Whether the entries of a listing have to be walked to be counted. Tokens of one owner have one each, with holders or without. */
const isWalked = (ledger: Ledger, block: number): boolean => ledger.balances.count > 0 && !isNewest(ledger, block);

/** Whether a listing of holders can be counted, and if `isPlaced` its n-th entry be found, without walking all of it first. */
export function areHoldersReady(ledger: Ledger, block: number, isPlaced: boolean): boolean {
  return (!isPlaced && !isWalked(ledger, block)) || hasPairIndex(ledger, block);
}

/** How many entries the listing after `block` has. */
export function countEntries(ledger: Ledger, block: number, holders: boolean): number {
  const { balances } = ledger;
  if (isNewest(ledger, block)) return ledger.liveSingles + (holders ? balances.liveHoldings : balances.liveTokens);
  if (holders && isWalked(ledger, block)) return pairIndexAt(ledger, block).count;
  return ledger.rowsAt(block) - ledger.gaps.countAt(block);
}

/** The position of the entry with `skip` entries before it; undefined when there are no more. */
export function positionAfter(ledger: Ledger, block: number, holders: boolean, skip: number): Position | undefined {
  if (holders) return pairAfter(ledger, block, skip);
  for (const work = findingRow(ledger, block, skip); ; ) {
    const { done, value: row } = work.next();
    if (done === true) return row === undefined ? undefined : [row, 0, 0, 0];
  }
}
