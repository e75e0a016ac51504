/**
 * What each owner holds after a block: a pass over the tokens and holdings of a ledger, not over its pairs in their order.
 * Owners are indexes of the address table.
 */
import { hasAmounts } from "../events/columns.ts";
import { type Amount, addAmounts } from "./balance-entries.ts";
import type { Ledger } from "./ledger.ts";
import { type IdRange, rangeOfCode } from "./rows.ts";
import { PAUSED } from "./shortcuts.ts";
import type { Slot } from "./tables.ts";

const ZERO_OWNER = 0;
/** Steps per slice: tokens, history entries and holdings, 0.5 to 1 ms. */
const STEPS_PER_SUM = 16_384;

/** Numbers of token ids and sums of units, by owner. Sums are exact: those above 2^53 stand in a map. */
export class OwnerSums {
  readonly tokens: Float64Array;
  /** Infinity for an owner with a sum in `large`. */
  readonly units: Float64Array;
  readonly large = new Map<number, bigint>();
  /** (token, owner) pairs, and the units of all of them. */
  pairs = 0;
  allUnits: Amount = 0;

  constructor(owners: number) {
    this.tokens = new Float64Array(owners);
    this.units = new Float64Array(owners);
  }

  /** Adds `count` tokens of one unit each; removes some if it is below 0. */
  addSingles(owner: number, count: number): void {
    this.pairs += count;
    this.tokens[owner] = (this.tokens[owner] as number) + count;
  }

  /** Counts the units of all singles. Call it after the last `addSingles`. */
  countSingles(): void {
    this.units.set(this.tokens);
    this.allUnits = this.pairs;
  }

  addHolding(owner: number, amount: Amount): void {
    this.pairs++;
    this.tokens[owner] = (this.tokens[owner] as number) + 1;
    this.allUnits = addAmounts(this.allUnits, amount);
    const sum = addAmounts(this.large.get(owner) ?? (this.units[owner] as number), amount);
    if (typeof sum === "bigint") this.large.set(owner, sum);
    this.units[owner] = typeof sum === "bigint" ? Number.POSITIVE_INFINITY : sum;
  }
}

/** Sums what the owners hold after `block`, in slices. Between slices the ledger may change above that block. */
export function* sumOwners(ledger: Ledger, block: number): Generator<void, OwnerSums> {
  const sums = new OwnerSums(ledger.addresses.count);
  yield* sumRanges(ledger, block, sums);
  yield* sumSingles(ledger, block, sums);
  sums.countSingles();
  yield* sumHoldings(ledger, block, sums);
  return sums;
}

/** Gives each id range to its minter. `sumSingles` takes the ids away that moved. */
function* sumRanges({ rows }: Ledger, block: number, sums: OwnerSums): Generator<void> {
  for (const [index, range] of rows.ranges.entries()) {
    if (range.block > block) return;
    if (index % STEPS_PER_SUM === STEPS_PER_SUM - 1) yield;
    sums.addSingles(range.to, range.count);
  }
}

function* sumSingles(ledger: Ledger, block: number, sums: OwnerSums): Generator<void> {
  for (let slot = 0 as Slot; slot < ledger.tokens.count; yield) slot = sumSlots(ledger, block, slot, sums);
}

/**
 * Sums single-owner tokens from `start` on. Returns the token at which to resume after one slice of steps. A function of its
 * own, because the engine compiles the loops of a generator badly.
 */
function sumSlots(ledger: Ledger, block: number, start: Slot, sums: OwnerSums): Slot {
  const { tokens, links, owners, rows, steps } = ledger;
  const { count } = tokens;
  // If no token moved since the block, its present owner is the one that counts.
  const isNewest = owners.countAt(block) === owners.count;
  const end = steps.count + STEPS_PER_SUM;
  let slot = start;
  for (; slot < count && steps.count < end; slot++, steps.count++) {
    if (hasAmounts(tokens.kind(slot))) continue;
    const first = links.first(slot);
    if (!isNewest && first >= 0 && owners.block(first) > block) continue;
    const range = first < -1 ? (rows.ranges[rangeOfCode(first)] as IdRange) : undefined;
    if (range !== undefined && range.block > block) continue;
    const at = isNewest ? 0 : owners.find(links.tail(slot), block);
    if (at === PAUSED) return slot;
    if (range !== undefined) sums.addSingles(range.to, -1);
    const owner = isNewest ? links.owner(slot) : ledger.ownerAt(at);
    if (owner !== ZERO_OWNER) sums.addSingles(owner, 1);
  }
  return slot;
}

function* sumHoldings({ balances, steps }: Ledger, block: number, sums: OwnerSums): Generator<void> {
  const sumSome = (start: number): number => {
    let at = balances.nextHolding(start);
    for (const end = steps.count + STEPS_PER_SUM; at < balances.count && steps.count < end; steps.count += 4) {
      // Holdings are numbered in the order of the chain.
      if (balances.block(at) > block) return balances.count;
      const entry = balances.findEntry(at, block);
      if (entry === PAUSED) return at;
      const amount = balances.heldAfter(entry);
      if (amount !== 0) sums.addHolding(balances.holdingOwner(at), amount);
      at = balances.nextHolding(at + 1);
    }
    return at;
  };
  for (let at = 0; at < balances.count; yield) at = sumSome(at);
}
