/**
 * What id ranges that meet known ids may cost a collection: one event of a few bytes stands for any number of ids, and a
 * hostile contract emits ten thousand in a transaction. In: what the next one would take, in chain order. Out: what it is
 * given, of a sum that reorgs give back.
 */
import type { Keeper } from "./keep.ts";

export class RangeBudget {
  readonly #most: number;
  /** Block, and all that was taken up to it. */
  #taken: (readonly [block: number, sum: number])[] = [];

  constructor(most: number) {
    this.#most = most;
  }

  /** As much of what is wanted as is left. */
  take(block: number, wanted: number): number {
    const last = this.#taken.at(-1);
    const sum = last?.[1] ?? 0;
    const given = Math.min(wanted, this.#most - sum);
    if (given === 0) return 0;
    if (last?.[0] === block) this.#taken.pop();
    this.#taken.push([block, sum + given]);
    return given;
  }

  /** Gives back what was taken above `block`. */
  revert(block: number): void {
    while ((this.#taken.at(-1)?.[0] ?? -1) > block) this.#taken.pop();
  }

  keep(keeper: Keeper): void {
    this.#taken = keeper.facts(this.#taken);
  }
}
