/**
 * The owners of a collection by what they hold: the sums of a block, then the order by units. Both go in slices, because a
 * collection may have a million owners.
 */
import { Refusal } from "../../core/errors.ts";
import { ADDRESS_BYTES } from "../../core/hex.ts";
import { ADDRESS_WORDS } from "../ledger/address-table.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { areHoldersReady, countEntries } from "../ledger/listing.ts";
import { type OwnerSums, sumOwners } from "../ledger/owner-sums.ts";
import { ledgerOf, type WalkSource } from "../walks/snapshot.ts";
import { readKept, type StartedWalk } from "../walks/walk.ts";
import { type HolderColumns, holdersOfColumns, type RankedHolder } from "./holder-columns.ts";

/** Most pairs that are ranked: a second, in slices. A contract can mint a range of 2^40 ids. */
const MAX_PAIRS = 10_000_000;
/** Most owners that are ranked. Each takes about 60 bytes while they are counted and ordered. */
const MAX_OWNERS = 2_000_000;

const tooLarge = (bound: string): Refusal =>
  new Refusal("invalid_parameter", `address: holders are ranked up to ${bound}; export its tokens instead`, {
    details: { parameter: "address" },
  });

function assertPairs(pairs: number): void {
  if (pairs > MAX_PAIRS) throw tooLarge(`${MAX_PAIRS} pairs of token and owner; it has ${pairs}`);
}

/**
 * Sums what the owners hold at the walk's block, and ranks them.
 * @throws Refusal `invalid_parameter` for too many pairs or owners, `cursor_reorged` if the block is lost
 */
export function rankHolders(source: WalkSource, start: StartedWalk): Promise<HolderRanking> {
  return readKept(source, start, (collection) => rankOwners(ledgerOf(collection, start.walk), start.walk.block));
}

/** Ranks the owners of a ledger after a block, in slices. @throws Refusal as `rankHolders` does */
export function* rankOwners(ledger: Ledger, block: number): Generator<void, HolderRanking> {
  // Where the count is known, a collection that is too large is refused at once.
  if (areHoldersReady(ledger, block, false)) assertPairs(countEntries(ledger, block, true));
  const sums = yield* sumOwners(ledger, block);
  assertPairs(sums.pairs);
  return yield* ranked(ledger, sums);
}

/** Owners that are passed over, copied or moved per slice: half a millisecond. */
const OWNERS_PER_SLICE = 32_768;

/** The owners that hold something, in the order of the address table. */
function* holdersOf({ tokens }: OwnerSums): Generator<void, readonly number[]> {
  const holders: number[] = [];
  yield* slices(tokens.length, (from, to) => {
    for (let owner = from; owner < to; owner++) if (tokens[owner] !== 0) holders.push(owner);
  });
  return holders;
}

/** Orders the owners by units, the most first, then by address. */
function* ranked({ addresses }: Ledger, sums: OwnerSums): Generator<void, HolderRanking> {
  const holders = yield* holdersOf(sums);
  const { length } = holders;
  if (length > MAX_OWNERS) throw tooLarge(`${MAX_OWNERS} owners`);
  const table = new HolderTable(length);
  const words = new Int32Array(table.addresses.buffer);
  yield* slices(length, (from, to) => {
    for (let at = from; at < to; at++) {
      const owner = holders[at] as number;
      addresses.copy(owner, words, at * ADDRESS_WORDS);
      table.tokens[at] = sums.tokens[owner] as number;
      table.units[at] = sums.units[owner] as number;
    }
  });
  const order = yield* orderOf(table);
  // Sums that are no exact number come first.
  const large: LargeSum[] = [];
  for (let place = 0; place < sums.large.size; place++) {
    if (place % SORTED_AT_ONCE === SORTED_AT_ONCE - 1) yield;
    const at = order[place] as number;
    large.push({ at, units: sums.large.get(holders[at] as number) as bigint });
  }
  const sorted = yield* sortInSlices(large, (a, b) => (a.units === b.units ? 0 : a.units > b.units ? -1 : 1));
  for (let place = 0; place < sorted.length; place++) order[place] = (sorted[place] as LargeSum).at;
  return new HolderRanking(yield* table.inOrder(order), sorted, BigInt(sums.allUnits));
}

/** The units of the holder at a place of a table, if they are no exact number. */
interface LargeSum {
  readonly at: number;
  readonly units: bigint;
}

/** Columns of holders. */
class HolderTable {
  readonly addresses: Uint8Array<ArrayBuffer>;
  readonly tokens: Float64Array;
  /** Infinity for a sum that is no exact number. */
  readonly units: Float64Array;

  constructor(length: number) {
    this.addresses = new Uint8Array(length * ADDRESS_BYTES);
    this.tokens = new Float64Array(length);
    this.units = new Float64Array(length);
  }

  get length(): number {
    return this.tokens.length;
  }

  get bytes(): number {
    return this.addresses.byteLength + this.tokens.byteLength + this.units.byteLength;
  }

  *inOrder(order: Places): Generator<void, HolderTable> {
    const moved = new HolderTable(this.length);
    yield* slices(this.length, (start, end) => {
      for (let to = start; to < end; to++) this.#copy(order[to] as number, moved, to);
    });
    return moved;
  }

  #copy(from: number, moved: HolderTable, to: number): void {
    for (let byte = 0; byte < ADDRESS_BYTES; byte++) {
      moved.addresses[to * ADDRESS_BYTES + byte] = this.addresses[from * ADDRESS_BYTES + byte] as number;
    }
    moved.tokens[to] = this.tokens[from] as number;
    moved.units[to] = this.units[from] as number;
  }
}

/** Places in a table. */
type Places = Uint32Array<ArrayBuffer>;

/** Values of a digit of the radix sort below. */
const DIGITS = 65_536;

/**
 * The order by units, then by address: a radix sort from the last digit to the first. Most owners have as many units as a
 * hundred thousand others, so comparisons would look at whole addresses. The loops are functions of their own, because the
 * engine compiles those of a generator badly.
 */
function* orderOf({ addresses, units, length }: HolderTable): Generator<void, Places> {
  const sort = new DigitSort(length);
  for (let byte = ADDRESS_BYTES - 2; byte >= 0; byte -= 2) {
    yield* slices(length, (from, to) => sort.takeBytes(addresses, byte, from, to));
    yield* sort.run();
  }
  // The bits of numbers above 0 are in the order of the numbers. The most units come first.
  const halves = new Uint16Array(units.buffer);
  for (let half = 0; half < 4; half++) {
    yield* slices(length, (from, to) => sort.takeHalves(halves, half, from, to));
    yield* sort.run();
  }
  return sort.order;
}

/** Calls the function with the bounds of each slice. */
function* slices(length: number, pass: (from: number, to: number) => void): Generator<void> {
  for (let from = 0; from < length; from += OWNERS_PER_SLICE) {
    pass(from, Math.min(length, from + OWNERS_PER_SLICE));
    yield;
  }
}

/** Sorts places by one digit after the other. Places with the same digit keep their order. */
class DigitSort {
  order: Places;
  #sorted: Places;
  /** The digit of each place, and how many places have each digit. */
  readonly #digits: Uint16Array;
  readonly #counts = new Uint32Array(DIGITS);

  constructor(length: number) {
    this.order = new Uint32Array(length);
    for (let at = 0; at < length; at++) this.order[at] = at;
    this.#sorted = new Uint32Array(length);
    this.#digits = new Uint16Array(length);
  }

  takeBytes(addresses: Uint8Array, byte: number, from: number, to: number): void {
    for (let at = from; at < to; at++) {
      const place = at * ADDRESS_BYTES + byte;
      this.#take(at, ((addresses[place] as number) << 8) | (addresses[place + 1] as number));
    }
  }

  takeHalves(halves: Uint16Array, half: number, from: number, to: number): void {
    for (let at = from; at < to; at++) this.#take(at, DIGITS - 1 - (halves[at * 4 + half] as number));
  }

  #take(at: number, digit: number): void {
    this.#digits[at] = digit;
    this.#counts[digit] = (this.#counts[digit] as number) + 1;
  }

  /** Sorts by the digits that were taken. */
  *run(): Generator<void> {
    const { length } = this.order;
    const isOneDigit = this.#counts[this.#digits[0] ?? 0] === length;
    if (!isOneDigit) {
      this.#toStarts();
      yield* slices(length, (from, to) => this.#move(from, to));
      [this.order, this.#sorted] = [this.#sorted, this.order];
    }
    this.#counts.fill(0);
  }

  /** Replaces each count by the place of the digit's first member. */
  #toStarts(): void {
    const counts = this.#counts;
    for (let digit = 0, before = 0; digit < DIGITS; digit++) {
      const count = counts[digit] as number;
      counts[digit] = before;
      before += count;
    }
  }

  #move(from: number, to: number): void {
    const [order, sorted, digits, starts] = [this.order, this.#sorted, this.#digits, this.#counts];
    for (let i = from; i < to; i++) {
      const at = order[i] as number;
      const digit = digits[at] as number;
      const place = starts[digit] as number;
      starts[digit] = place + 1;
      sorted[place] = at;
    }
  }
}

/** Members that are sorted, or merged, per slice: one to three milliseconds. */
const SORTED_AT_ONCE = 4_096;

/** Merge sort in slices. Returns a new list. */
function* sortInSlices<T>(list: readonly T[], order: (a: T, b: T) => number): Generator<void, T[]> {
  let runs: T[][] = [];
  for (let at = 0; at < list.length; at += SORTED_AT_ONCE) {
    if (at > 0) yield;
    runs.push(list.slice(at, at + SORTED_AT_ONCE).sort(order));
  }
  while (runs.length > 1) {
    const merged: T[][] = [];
    for (let at = 0; at < runs.length; at += 2) merged.push(yield* merge(runs[at] ?? [], runs[at + 1] ?? [], order));
    runs = merged;
  }
  return runs[0] ?? [];
}

function* merge<T>(left: readonly T[], right: readonly T[], order: (a: T, b: T) => number): Generator<void, T[]> {
  const merged: T[] = [];
  for (let [l, r] = [0, 0]; l < left.length || r < right.length; ) {
    const isLeft = r === right.length || (l < left.length && order(left[l] as T, right[r] as T) <= 0);
    merged.push((isLeft ? left[l++] : right[r++]) as T);
    if (merged.length % SORTED_AT_ONCE === 0) yield;
  }
  return merged;
}

/** Memory of a large sum, with its object. */
const LARGE_BYTES = 96;

/** Owners in their order. Ranks and shares are computed when they are read. */
export class HolderRanking {
  readonly #table: HolderTable;
  /** Sums of the first owners, whose units are no exact numbers. */
  readonly #large: readonly LargeSum[];
  readonly #units: bigint;

  /** @param table in its order. @param units of all of them */
  constructor(table: HolderTable, large: readonly LargeSum[], units: bigint) {
    this.#table = table;
    this.#large = large;
    this.#units = units;
  }

  get count(): number {
    return this.#table.length;
  }

  get bytes(): number {
    return this.#table.bytes + this.#large.length * LARGE_BYTES;
  }

  /** At most `count` owners from place `from` on, 0 being the first; an empty list behind the end. */
  slice(from: number, count: number): RankedHolder[] {
    return holdersOfColumns(this.columns(from, count));
  }

  /** The same as columns, which share no memory with the ranking. */
  columns(from: number, count: number): HolderColumns {
    const { addresses, tokens, units } = this.#table;
    const end = Math.min(this.count, from + count);
    return {
      from,
      rank: from < end ? 1 + this.#ahead(this.#unitsOf(from)) : 0,
      addresses: addresses.slice(from * ADDRESS_BYTES, end * ADDRESS_BYTES),
      tokens: tokens.slice(from, end),
      units: units.slice(from, end),
      large: this.#large.slice(from, end).map((sum) => sum.units),
      allUnits: this.#units,
    };
  }

  #unitsOf(at: number): bigint {
    return this.#large[at]?.units ?? BigInt(this.#table.units[at] as number);
  }

  /** Number of owners with more units. */
  #ahead(units: bigint): number {
    let [low, high] = [0, this.count];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#unitsOf(middle) > units) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
