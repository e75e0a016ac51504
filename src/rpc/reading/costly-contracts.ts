/** Notes for a while the contracts whose getters took too much gas or gave too long answers. */
import { countedCache } from "../../core/counted-cache.ts";
import type { Address } from "../../core/hex.ts";
import type { Call, CallResult } from "../port.ts";

/** An answer of a getter that is longer than this is long, in hex digits. A name has some dozens of characters. */
const LONG_ANSWER = 2 << 10;
/** Longest long answers of one contract's getters in one read. */
const MAX_LONG_ANSWERS = 32 << 10;
/** Costly contracts are noted for this long, in ms. */
const COSTLY_MS = 600_000;
const MAX_COSTLY = 10_000;

export class CostlyContracts {
  readonly #noted = countedCache<Address, true>(MAX_COSTLY, { ttl: COSTLY_MS });

  has(address: Address): boolean {
    return this.#noted.has(address);
  }

  note(address: Address): void {
    this.#noted.set(address, true);
  }

  /** Notes the contracts whose getters gave too long answers. */
  noteLongAnswers(calls: readonly Call[], results: readonly CallResult[]): void {
    const digits = new Map<Address, number>();
    for (let at = 0; at < calls.length; at++) {
      const { length } = results[at]!.data;
      if (length < LONG_ANSWER) continue;
      const { to, isGetter } = calls[at]!;
      if (to === undefined || isGetter !== true) continue;
      const sum = (digits.get(to) ?? 0) + length;
      digits.set(to, sum);
      if (sum > MAX_LONG_ANSWERS) this.note(to);
    }
  }
}
