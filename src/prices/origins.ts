/**
 * Up to which block a pool is known to have had no state. A pool's first event is not known where the pool was found by asking
 * its factory; what was looked for in vain once, back to a chain's first block, is not looked for again.
 */
import { LRUCache } from "lru-cache";
import type { Address } from "../core/hex.ts";

/** Pools remembered: two numbers and an address each. */
const MAX_POOLS = 20_000;

export class Origins {
  readonly #emptyThrough = new LRUCache<Address, number>({ max: MAX_POOLS });

  /** The first block in which the pool may have had a state. */
  firstBlock(pool: Address): number {
    return (this.#emptyThrough.get(pool) ?? -1) + 1;
  }

  /** The pool has had no state up to a block, which must be final. */
  emptyThrough(pool: Address, block: number): void {
    if (block >= this.firstBlock(pool)) this.#emptyThrough.set(pool, block);
  }
}
