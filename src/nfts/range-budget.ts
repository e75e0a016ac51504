/**
 * What id ranges that meet known ids may cost a collection: one event of a few bytes stands for any number of ids, and a
 * hostile contract emits ten thousand in a transaction. In: what the next one would take, in chain order. Out: what it is
 * given, of a sum that reorgs give back.
 */
import type { Keeper } from "./keep.ts";
import { WordTable } from "./word-table.ts";

const BLOCK = 0;
const SUM = 1;

export class RangeBudget {
  readonly #most: number;
  /** Block, and all that was taken up to it: as many rows as there are blocks in which anything was. */
  readonly #taken = new WordTable(2);

  /** @param most below 2^31: sums are words */
  constructor(most: number) {
    this.#most = most;
  }

  get bytes(): number {
    return this.#taken.bytes;
  }

  /** As much of what is wanted as is left. */
  take(block: number, wanted: number): number {
    const taken = this.#taken;
    const last = taken.count - 1;
    const sum = last < 0 ? 0 : taken.get(last, SUM);
    const given = Math.min(wanted, this.#most - sum);
    if (given === 0) return 0;
    const row = last >= 0 && taken.get(last, BLOCK) >>> 0 === block ? last : taken.add();
    taken.set(row, BLOCK, block);
    taken.set(row, SUM, sum + given);
    return given;
  }

  /** Gives back what was taken above `block`. */
  revert(block: number): void {
    this.#taken.count = this.#taken.upperBound(BLOCK, block);
  }

  keep(keeper: Keeper): void {
    this.#taken.keep(keeper);
  }
}
