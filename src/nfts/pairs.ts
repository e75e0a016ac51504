/**
 * Pairs of token and owner as of a block: how many there are and where the n-th stands. Their order has no numbers to go by
 * as rows have, so it is walked once a block, in slices where somebody waits for it, and an index remembers the way. Id
 * ranges are not walked but counted: a range may have more ids than anybody can visit.
 */
import type { Ledger } from "./ledger.ts";
import { HOLDERS_AT_ONCE, nothingSeen, type Position, START, scanHolders, type Visit, Walked } from "./listing.ts";
import type { Mark, PairIndex, PairWork } from "./pair-indexes.ts";
import { rangeOfCode } from "./rows.ts";
import { PAUSED } from "./trails.ts";

/** Steps from one mark of an index to the next, and of a slice. */
const STRIDE = HOLDERS_AT_ONCE;

const NO_GAPS = new Float64Array(0);

/** The newest block at or before `block` in which anything was transferred: the pairs of both are the same. */
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
 * Offsets of each range whose minter does not hold them after `block`. Only ids that moved can be among them, so long
 * ranges need not be walked.
 */
function* gapsOfRanges(ledger: Ledger, block: number): Generator<void, Map<number, Float64Array>> {
  const { tokens, links, owners, rows } = ledger;
  const gaps = new Map<number, number[]>();
  let steps = 0;
  for (let slot = 0; rows.ranges.length > 0 && slot < tokens.count; slot++) {
    if (++steps >= STRIDE) {
      steps = 0;
      yield;
    }
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

/** Walks all pairs after `block`. Between slices the ledger may change in any way that leaves the block as it is. */
function* makePairIndex(ledger: Ledger, block: number): PairWork {
  const gaps = yield* gapsOfRanges(ledger, block);
  const marks: Mark[] = [];
  let count = 0;
  const visit: Visit = () => {
    count++;
    return true;
  };
  const jump = (index: number): number => {
    const length = ledger.rows.ranges[index]?.count ?? 0;
    count += length - (gaps.get(index)?.length ?? 0);
    return length;
  };
  const seen = nothingSeen(new Walked(ledger.tokens.count));
  for (let position: Position | undefined = START; position !== undefined; ) {
    if (marks.length > 0) yield;
    marks.push({ before: count, position });
    position = scanHolders(ledger, block, position, visit, { seen, jump, most: STRIDE });
  }
  return { block, count, marks, gaps };
}

/** The index of the pairs after `block`, made in one go where there is none. */
export function pairIndexAt(ledger: Ledger, block: number): PairIndex {
  const changed = lastChange(ledger, block);
  const known = ledger.pairIndexes.find(changed);
  if (known !== undefined) return known;
  const work = makePairIndex(ledger, changed);
  for (;;) {
    const { done, value } = work.next();
    if (done !== true) continue;
    ledger.pairIndexes.add(value);
    return value;
  }
}

/** Whether there is an index, or one is made in about a slice. */
export function hasPairIndex(ledger: Ledger, block: number): boolean {
  const { owners, balances, tokens, pairIndexes } = ledger;
  if (owners.count + balances.count + tokens.count <= STRIDE) return true;
  return pairIndexes.find(lastChange(ledger, block)) !== undefined;
}

/**
 * Has the index made in slices. Resolves with true once it is there, with false when the block changed before.
 * @throws ApiError 429 when too many blocks' are wanted at the same time
 */
export function makePairIndexSoon(ledger: Ledger, block: number): Promise<boolean> {
  const changed = lastChange(ledger, block);
  return ledger.pairIndexes.make(changed, () => makePairIndex(ledger, changed));
}

/** The place of the pair with `skip` pairs before it. */
export function pairAfter(ledger: Ledger, block: number, skip: number): Position | undefined {
  const { marks, gaps, count } = pairIndexAt(ledger, block);
  if (skip >= count) return undefined;
  const { before, position } = marks[lastAtMost(marks.length, (at) => (marks[at] as Mark).before <= skip)] as Mark;
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
    // Before the gap at `at` lie as many ids as its offset, less the gaps among them.
    return left + 1 + lastAtMost(dead.length, (at) => (dead[at] as number) - at <= left);
  };
  const visit: Visit = (here) => {
    if (passed === skip) {
      found = here;
      return false;
    }
    passed++;
    return true;
  };
  const seen = nothingSeen();
  for (let at: Position | undefined = position; at !== undefined; ) {
    at = scanHolders(ledger, block, at, visit, { seen, jump, most: STRIDE });
  }
  return found;
}

/** The last index of [0, count) at which `isAtMost` holds, or -1; it holds for all before it, too. */
function lastAtMost(count: number, isAtMost: (index: number) => boolean): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isAtMost(middle)) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
