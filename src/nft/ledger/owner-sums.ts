/**
 * What each owner holds after a block: a pass over the tokens and the transfers of amounts, not over its pairs in their order.
 * Owners are indexes of the address table.
 */
import { hasAmounts } from "../../events/columns.ts";
import { type Amount, addAmounts, subtractAmounts } from "./amounts.ts";
import type { BalanceHistory } from "./balances.ts";
import type { Ledger } from "./ledger.ts";
import { type IdRange, rangeOfCode } from "./rows.ts";
import type { Slot } from "./tables.ts";
import { PAUSED } from "./trails.ts";

const ZERO_OWNER = 0;
/** Steps per slice, over tokens and history entries, and transfers of amounts per slice: 0.5 to 1 ms. */
const [STEPS_PER_SUM, TRANSFERS_PER_SUM] = [16_384, 8_192] as const;

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

  /** @param isNew true if the owner held none of the token */
  addAmount(owner: number, amount: Amount, isNew: boolean): void {
    if (isNew) this.#countPair(owner, 1);
    this.allUnits = addAmounts(this.allUnits, amount);
    this.#setUnits(owner, addAmounts(this.#unitsOf(owner), amount));
  }

  /** @param isAll true if the owner holds none of the token any more */
  takeAmount(owner: number, amount: Amount, isAll: boolean): void {
    if (isAll) this.#countPair(owner, -1);
    this.allUnits = subtractAmounts(this.allUnits, amount);
    this.#setUnits(owner, subtractAmounts(this.#unitsOf(owner), amount));
  }

  #countPair(owner: number, by: 1 | -1): void {
    this.pairs += by;
    this.tokens[owner] = (this.tokens[owner] as number) + by;
  }

  #unitsOf(owner: number): Amount {
    const units = this.units[owner] as number;
    return units === Number.POSITIVE_INFINITY ? (this.large.get(owner) as bigint) : units;
  }

  #setUnits(owner: number, units: Amount): void {
    if (typeof units === "bigint") this.large.set(owner, units);
    else if (this.units[owner] === Number.POSITIVE_INFINITY) this.large.delete(owner);
    this.units[owner] = typeof units === "bigint" ? Number.POSITIVE_INFINITY : units;
  }
}

/** Sums what the owners hold after `block`, in slices. Between slices the ledger may change above that block. */
export function* sumOwners(ledger: Ledger, block: number): Generator<void, OwnerSums> {
  const sums = new OwnerSums(ledger.addresses.count);
  yield* sumRanges(ledger, block, sums);
  yield* sumSingles(ledger, block, sums);
  sums.countSingles();
  yield* sumAmounts(ledger, block, sums);
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

/** Folds the transfers of amounts up to the block: in their order they need no look-ups of holdings. */
function* sumAmounts({ balances }: Ledger, block: number, sums: OwnerSums): Generator<void> {
  const end = balances.countAt(block);
  for (let from = 0; from < end; from += TRANSFERS_PER_SUM, yield) {
    sumTransfers(balances, from, Math.min(end, from + TRANSFERS_PER_SUM), sums);
  }
}

function sumTransfers(balances: BalanceHistory, from: number, to: number, sums: OwnerSums): void {
  for (let transfer = from; transfer < to; transfer++) {
    const amount = balances.amount(transfer);
    const [sent, received] = [2 * transfer, 2 * transfer + 1];
    const sender = balances.partyOf(sent);
    if (sender !== ZERO_OWNER) sums.takeAmount(sender, amount, balances.heldAfter(sent) === 0);
    const receiver = balances.partyOf(received);
    if (receiver !== ZERO_OWNER) sums.addAmount(receiver, amount, balances.heldAfter(received) === amount);
  }
}
