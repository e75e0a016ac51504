/**
 * A budget for id ranges that overlap known ids. One event of a few bytes can stand for any number of ids, and a
 * hostile contract emits ten thousand events in a transaction. In: the cost of the next range, in chain order. Out: the
 * part of it that the budget allows. A reorg refunds what its blocks took.
 */
import type { StateCodec } from "./state-codec.ts";
import { WordTable } from "./tables.ts";

const BLOCK = 0;
const SUM = 1;

export class RangeBudget {
  readonly #limit: number;
  /** Block, and the sum taken up to it: one row per block that took anything. */
  readonly #taken = new WordTable(2);

  /** @param most below 2^31, because sums are signed words */
  constructor(most: number) {
    this.#limit = most;
  }

  get bytes(): number {
    return this.#taken.bytes;
  }

  /** Takes `wanted`, or as much as is left. Returns the amount taken. */
  take(block: number, wanted: number): number {
    const taken = this.#taken;
    const last = taken.count - 1;
    const sum = last < 0 ? 0 : taken.get(last, SUM);
    const given = Math.min(wanted, this.#limit - sum);
    if (given === 0) return 0;
    const row = last >= 0 && taken.get(last, BLOCK) >>> 0 === block ? last : taken.add();
    taken.set(row, BLOCK, block);
    taken.set(row, SUM, sum + given);
    return given;
  }

  /** Refunds what was taken above `block`. */
  revert(block: number): void {
    this.#taken.count = this.#taken.upperBound(BLOCK, block);
  }

  code(codec: StateCodec): void {
    this.#taken.code(codec);
  }
}
