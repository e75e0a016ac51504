/**
 * The owners of a collection by what they hold: a fold over all (token, owner) pairs of a block, then the order by
 * units. Both go in slices, because a collection may have a million owners.
 */
import { yieldToEventLoop } from "../core/background.ts";
import { Refusal } from "../core/errors.ts";
import { countEntries } from "../ledger/listing.ts";
import { currentCollection, ledgerOf, type WalkSource } from "../walks/snapshot.ts";
import { batchesOf, type StartedWalk } from "../walks/walk.ts";

/** What one owner holds. */
export interface Holder {
  /** 0x and 40 lower-case digits. */
  readonly owner: string;
  /** Number of token ids. */
  readonly tokens: number;
  /** Sum of the amounts: for ERC-721 the same as `tokens`. */
  readonly units: bigint;
}

/** A holder with its place. */
export interface RankedHolder extends Holder {
  /** Part of all units, from 0 to 1, rounded down to 12 digits. */
  readonly share: number;
  /** 1 plus the number of owners that hold more units; owners with equal units share a rank. */
  readonly rank: number;
}

/** Most pairs that are read for one ranking: ten seconds, in slices. A contract can mint a range of 2^40 ids. */
const MAX_PAIRS = 10_000_000;
/** Most owners that are ranked. Each takes 200 bytes while they are counted and ordered. */
const MAX_OWNERS = 2_000_000;

/** @throws Refusal `invalid_parameter` if the collection has too many pairs at the block, `cursor_reorged` if the block is lost */
export async function assertRankable(source: WalkSource, { walk }: StartedWalk): Promise<void> {
  const ledger = ledgerOf(await currentCollection(source, walk), walk);
  const pairs = countEntries(ledger, walk.block, true);
  if (pairs > MAX_PAIRS) throw tooLarge(`${MAX_PAIRS} pairs of token and owner; it has ${pairs}`);
}

const tooLarge = (bound: string): Refusal =>
  new Refusal("invalid_parameter", `address: holders are ranked up to ${bound}; export its tokens instead`, {
    details: { parameter: "address" },
  });

/** Sums all pairs of a listing, then ranks the owners. @throws Refusal `invalid_parameter` for too many pairs or owners, `cursor_reorged` */
export async function rankHolders(source: WalkSource, start: StartedWalk): Promise<HolderRanking> {
  await assertRankable(source, start);
  const byOwner = new Map<string, { readonly owner: string; tokens: number; units: bigint }>();
  let all = 0n;
  for await (const { collection, entries } of batchesOf(source, start)) {
    const { addresses } = collection.ledger;
    for (const { owner: index, amount } of entries) {
      const owner = addresses.hex(index);
      const units = BigInt(amount);
      const counted = byOwner.get(owner);
      if (counted === undefined) byOwner.set(owner, { owner, tokens: 1, units });
      else {
        counted.tokens++;
        counted.units += units;
      }
      all += units;
    }
    if (byOwner.size > MAX_OWNERS) throw tooLarge(`${MAX_OWNERS} owners`);
  }
  return new HolderRanking(await sortInSlices([...byOwner.values()], compare), all);
}

const SHARE_DIGITS = 10n ** 12n;

/** Owners in their order. Ranks and shares are computed when they are read. */
export class HolderRanking {
  readonly #holders: readonly Holder[];
  readonly #units: bigint;

  /** @param holders in their order. @param units of all of them */
  constructor(holders: readonly Holder[], units: bigint) {
    this.#holders = holders;
    this.#units = units;
  }

  get count(): number {
    return this.#holders.length;
  }

  /** At most `count` owners from place `from` on, 0 being the first; an empty list behind the end. */
  slice(from: number, count: number): RankedHolder[] {
    let rank = 0;
    let before: Holder | undefined;
    return this.#holders.slice(from, from + count).map((holder, at) => {
      if (before === undefined) rank = 1 + this.#ahead(holder.units);
      else if (before.units !== holder.units) rank = 1 + from + at;
      before = holder;
      return { ...holder, share: Number((holder.units * SHARE_DIGITS) / this.#units) / 1e12, rank };
    });
  }

  /** Number of owners with more units. */
  #ahead(units: bigint): number {
    let [low, high] = [0, this.#holders.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#holders[middle] as Holder).units > units) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function compare(a: Holder, b: Holder): number {
  if (a.units !== b.units) return a.units > b.units ? -1 : 1;
  return a.owner < b.owner ? -1 : 1;
}

/** Members that are sorted, or merged, between two turns of the event loop: one to three milliseconds. */
const SORTED_AT_ONCE = 4_096;

/** Merge sort that yields to the event loop. Returns a new list. */
async function sortInSlices<T>(list: readonly T[], order: (a: T, b: T) => number): Promise<T[]> {
  let runs: T[][] = [];
  for (let at = 0; at < list.length; at += SORTED_AT_ONCE) {
    runs.push(list.slice(at, at + SORTED_AT_ONCE).sort(order));
    await yieldToEventLoop();
  }
  while (runs.length > 1) {
    const merged: T[][] = [];
    for (let at = 0; at < runs.length; at += 2) merged.push(await merge(runs[at] ?? [], runs[at + 1] ?? [], order));
    runs = merged;
  }
  return runs[0] ?? [];
}

async function merge<T>(left: readonly T[], right: readonly T[], order: (a: T, b: T) => number): Promise<T[]> {
  const merged: T[] = [];
  for (let [l, r] = [0, 0]; l < left.length || r < right.length; ) {
    const isLeft = r === right.length || (l < left.length && order(left[l] as T, right[r] as T) <= 0);
    merged.push((isLeft ? left[l++] : right[r++]) as T);
    if (merged.length % SORTED_AT_ONCE === 0) await yieldToEventLoop();
  }
  return merged;
}
