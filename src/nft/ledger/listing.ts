/**
 * A listing as of a block: reads pages of entries, counts the entries, and finds the n-th one, without walking all
 * before it. Long work yields between slices. Tokens are counted by the gaps of `row-gaps.ts`, (token, owner) pairs by an
 * index per block.
 */
import {
  type Entry,
  type EntryVisitor,
  entryOf,
  type FoundRow,
  HOLDERS_AT_ONCE,
  initialScanState,
  OwnerEntryCache,
  scanHolders,
  scanTokens,
} from "./entries.ts";
import type { Ledger } from "./ledger.ts";
import type { PairIndex, PairMark, PairWork } from "./pair-indexes.ts";
import { prefetchEntries } from "./prefetch.ts";
import { GAP_CHUNK_ROWS } from "./row-gaps.ts";
import { type Position, rangeOfCode, START } from "./rows.ts";
import { firstAbove, type Row, type Slot } from "./tables.ts";
import { PAUSED } from "./trails.ts";

/** Steps between two marks of an index, and steps per slice. */
const STRIDE = HOLDERS_AT_ONCE;

const NO_GAPS = new Float64Array(0);

/** The newest block at or before `block` with a transfer. Both blocks have the same pairs. */
function lastChange({ owners, balances, rows }: Ledger, block: number): number {
  const single = owners.countAt(block) - 1;
  const amount = balances.countAt(block) - 1;
  const range = rows.ranges.findLast((one) => one.block <= block);
  return Math.max(
    single < 0 ? -1 : owners.block(single),
    amount < 0 ? -1 : balances.block(amount),
    range === undefined ? -1 : range.block,
  );
}

/**
 * By id range, the offsets of the ids that its minter doesn't hold after `block`. Only ids that moved can be among
 * them, so this walks the tokens with a slot, not the ranges.
 */
function* gapsOfRanges(ledger: Ledger, block: number): Generator<void, Map<number, Float64Array>> {
  const { tokens, links, owners, rows } = ledger;
  const gaps = new Map<number, number[]>();
  let steps = 0;
  for (let slot = 0 as Slot; rows.ranges.length > 0 && slot < tokens.count; slot++) {
    if (++steps >= STRIDE) {
      steps = 0;
      yield;
    }
    // Below -1 is the code of a range.
    const first = links.first(slot);
    if (first >= -1) continue;
    const index = rangeOfCode(first);
    const range = rows.ranges[index];
    if (range === undefined || range.block > block) continue;
    const before = ledger.steps.count;
    let entry = owners.find(links.tail(slot), block);
    for (; entry === PAUSED; entry = owners.find(links.tail(slot), block)) yield;
    steps += ledger.steps.count - before;
    if (ledger.ownerAt(entry) === range.to) continue;
    const list = gaps.get(index) ?? [];
    list.push(Number(tokens.id(slot) - range.id));
    gaps.set(index, list);
  }
  return new Map([...gaps].map(([index, list]) => [index, Float64Array.from(list).sort()]));
}

/** Walks all pairs after `block`. Between slices the ledger may change, except at or below that block. */
function* buildPairIndex(ledger: Ledger, block: number): PairWork {
  const gaps = yield* gapsOfRanges(ledger, block);
  const marks: PairMark[] = [];
  let count = 0;
  const visit: EntryVisitor = () => {
    count++;
    return true;
  };
  const jump = (index: number): number => {
    const length = ledger.rows.ranges[index]?.count ?? 0;
    count += length - (gaps.get(index)?.length ?? 0);
    return length;
  };
  const seen = initialScanState(new OwnerEntryCache(ledger.tokens.count));
  for (let position: Position | undefined = START; position !== undefined; ) {
    if (marks.length > 0) yield;
    marks.push({ before: count, position });
    position = scanHolders(ledger, block, position, visit, { seen, jump, most: STRIDE });
  }
  return { block, count, marks, gaps };
}

/** The index of the pairs after `block`. Builds it in one go if there is none. */
function pairIndexAt(ledger: Ledger, block: number): PairIndex {
  const changed = lastChange(ledger, block);
  const known = ledger.pairIndexes.find(changed);
  if (known !== undefined) return known;
  const index = runToEnd(buildPairIndex(ledger, changed));
  ledger.pairIndexes.add(index);
  return index;
}

/** Runs work in slices to its end at once. */
function runToEnd<T>(work: Generator<void, T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value;
  }
}

/** True if the index exists, or takes about one slice to build. */
function hasPairIndex(ledger: Ledger, block: number): boolean {
  const { owners, balances, tokens, pairIndexes } = ledger;
  if (owners.count + balances.count + tokens.count <= STRIDE) return true;
  return pairIndexes.find(lastChange(ledger, block)) !== undefined;
}

/**
 * Builds the index in slices. Resolves with true once it exists, with false if the block changed first.
 * @throws Refusal `rate_limited` if indexes of too many blocks are being built
 */
export function buildPairIndexInSlices(ledger: Ledger, block: number): Promise<boolean> {
  const changed = lastChange(ledger, block);
  return ledger.pairIndexes.make(changed, () => buildPairIndex(ledger, changed));
}

/** The position of the pair with `skip` pairs before it, or undefined. */
function pairAfter(ledger: Ledger, block: number, skip: number): Position | undefined {
  const { marks, gaps, count } = pairIndexAt(ledger, block);
  if (skip >= count) return undefined;
  const after = firstAbove(marks.length, (at) => (marks[at] as PairMark).before > skip);
  const { before, position } = marks[after - 1] as PairMark;
  let passed = before;
  let found: Position | undefined;
  const jump = (index: number): number => {
    const length = ledger.rows.ranges[index]?.count ?? 0;
    const dead = gaps.get(index) ?? NO_GAPS;
    const live = length - dead.length;
    if (passed + live <= skip) {
      passed += live;
      return length;
    }
    const left = skip - passed;
    passed = skip;
    // The ids before the gap at index `at` that are held: its offset, minus the `at` gaps before it.
    return left + firstAbove(dead.length, (at) => (dead[at] as number) - at > left);
  };
  const visit: EntryVisitor = (here) => {
    if (passed === skip) {
      found = here;
      return false;
    }
    passed++;
    return true;
  };
  const seen = initialScanState();
  for (let at: Position | undefined = position; at !== undefined; ) {
    at = scanHolders(ledger, block, at, visit, { seen, jump, most: STRIDE });
  }
  return found;
}

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
 * holders, so only tokens with amounts at an old block need a walk.
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
  const row = runToEnd(findRowInSlices(ledger, block, skip));
  return row === undefined ? undefined : [row, 0, 0, 0];
}

export interface Slice {
  readonly entries: Entry[];
  /** The place of each entry: its row for tokens, its position for holders. */
  readonly starts: readonly (number | Position)[];
  /** Start of the next page; undefined at the end of the listing. */
  readonly next: Position | undefined;
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
export const readSlice = (ledger: Ledger, options: SliceOptions & { holders: boolean }): Slice =>
  runToEnd(readInSlices(ledger, options));
