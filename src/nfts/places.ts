/**
 * How many entries a listing has after a block, and where its n-th one stands, without walking it: by the numbers of
 * gaps for tokens, by an index made once a block for pairs of token and owner, by arithmetic within long id ranges.
 */
import { CHUNK_ROWS } from "./gaps.ts";
import type { Ledger, PairIndex } from "./ledger.ts";
import { type Position, START, scanHolders, scanTokens, type Visit } from "./listing.ts";
import { rangeOfCode } from "./rows.ts";

/**
 * Offsets of each range whose minter does not hold them after `block`, in order. Only ids that moved can be among them,
 * so long ranges need not be walked.
 */
function gapsOfRanges(ledger: Ledger, block: number): Map<number, number[]> {
  const gaps = new Map<number, number[]>();
  const { tokens, links, owners, rows } = ledger;
  if (rows.ranges.length === 0) return gaps;
  for (let slot = 0; slot < tokens.count; slot++) {
    const first = links.first(slot);
    if (first >= -1) continue;
    const index = rangeOfCode(first);
    const range = rows.ranges[index];
    if (range === undefined) continue;
    const owner = ledger.ownerAt(owners.at(links.tail(slot), block));
    if (owner === range.to) continue;
    const list = gaps.get(index) ?? [];
    list.push(Number(tokens.id(slot) - range.id));
    gaps.set(index, list);
  }
  for (const list of gaps.values()) list.sort((a, b) => a - b);
  return gaps;
}

/** Walks to the pair with `skip` pairs before it; `seen` is how many there were when there are fewer. */
function selectPair(ledger: Ledger, block: number, skip: number): { position: Position | undefined; seen: number } {
  const gaps = gapsOfRanges(ledger, block);
  let seen = 0;
  let position: Position | undefined;
  const jump = (index: number): number => {
    const range = ledger.rows.ranges[index];
    if (range === undefined || range.block > block) return 0;
    const dead = gaps.get(index) ?? [];
    const live = range.count - dead.length;
    if (seen + live <= skip) {
      seen += live;
      return range.count;
    }
    let offset = skip - seen;
    for (const gap of dead) {
      if (gap > offset) break;
      offset++;
    }
    seen = skip;
    return offset;
  };
  const visit: Visit = (here) => {
    if (seen === skip) {
      position = here;
      return false;
    }
    seen++;
    return true;
  };
  scanHolders(ledger, block, START, visit, jump);
  return { position, seen };
}

/** Pairs between two places of an index, and blocks whose index is kept. */
const STRIDE = 512;
const MAX_INDEXES = 4;

/** The pairs as of a block, walked once however often they are asked for. Not for collections with id ranges. */
function pairIndexAt(ledger: Ledger, block: number): PairIndex {
  const known = ledger.pairIndexes.find((index) => index.block === block);
  if (known !== undefined) return known;
  const places: Position[] = [];
  let count = 0;
  scanHolders(ledger, block, START, (here) => {
    if (count++ % STRIDE === 0) places.push(here);
    return true;
  });
  const index = { block, count, places };
  ledger.pairIndexes = [index, ...ledger.pairIndexes].slice(0, MAX_INDEXES);
  return index;
}

/** The place of the pair with `skip` pairs before it. */
function pairAfter(ledger: Ledger, block: number, skip: number): Position | undefined {
  // A range may have more ids than can be walked.
  if (ledger.rows.ranges.length > 0) return selectPair(ledger, block, skip).position;
  const from = pairIndexAt(ledger, block).places[Math.floor(skip / STRIDE)];
  if (from === undefined) return undefined;
  let left = skip % STRIDE;
  let found: Position | undefined;
  scanHolders(ledger, block, from, (here) => {
    if (left > 0) {
      left--;
      return true;
    }
    found = here;
    return false;
  });
  return found;
}

/** The row of the entry with `skip` entries before it, by the numbers of gaps: at most one chunk is walked. */
function rowAfter(ledger: Ledger, block: number, skip: number): number | undefined {
  const rows = ledger.rowsAt(block);
  let gapsBefore = 0;
  let found: number | undefined;
  ledger.gaps.scan(block, (firstRow, gaps) => {
    if (skip < firstRow - gapsBefore) return false;
    const end = Math.min(firstRow + CHUNK_ROWS, rows);
    if (skip < end - gapsBefore - gaps) {
      let left = skip - (firstRow - gapsBefore);
      scanTokens(ledger, block, firstRow, ({ row }) => {
        found = row;
        return left-- > 0;
      });
      return false;
    }
    gapsBefore += gaps;
    return true;
  });
  if (found !== undefined) return found;
  const row = skip + gapsBefore;
  return row < rows ? row : undefined;
}

/** How many entries the listing after `block` has. */
export function countEntries(ledger: Ledger, block: number, holders: boolean): number {
  const { owners, balances, rows } = ledger;
  const newest =
    owners.countAt(block) === owners.count &&
    balances.countAt(block) === balances.count &&
    (rows.ranges.at(-1)?.block ?? 0) <= block;
  if (newest) return ledger.liveSingles + (holders ? balances.liveHoldings : balances.liveTokens);
  // Tokens of one owner have one entry each, with holders or without.
  if (!holders || balances.count === 0) return ledger.rowsAt(block) - ledger.gaps.countAt(block);
  if (rows.ranges.length === 0) return pairIndexAt(ledger, block).count;
  return selectPair(ledger, block, Number.POSITIVE_INFINITY).seen;
}

/** The position of the entry with `skip` entries before it; undefined when there are no more. */
export function positionAfter(ledger: Ledger, block: number, holders: boolean, skip: number): Position | undefined {
  if (holders) return pairAfter(ledger, block, skip);
  const row = rowAfter(ledger, block, skip);
  return row === undefined ? undefined : [row, 0, 0, 0];
}
