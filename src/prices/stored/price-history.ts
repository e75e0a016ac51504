/**
 * The prices of one token, folded from its stream: its facts, its pools, and a row of bytes for each price. Which rows
 * stand at a block, and at which blocks they were read again, the chain's price book says.
 */
import type { Hash } from "../../core/hex.ts";
import { decodePrice, hasHash, type StoredPrice, storedBlock, storedStates } from "../../events/price-columns.ts";
import type { PoolDiscovered, PriceEvent, TokenIdentified } from "../../events/types.ts";
import { ByteRows } from "./byte-rows.ts";

/** Blocks of a run of rows rise. After a reorganisation the reader states its prices anew, and another run begins. */
export class PriceHistory {
  version = 0;
  readonly facts: TokenIdentified[] = [];
  readonly pools: PoolDiscovered[] = [];
  readonly #numbers = new Map<string, number>();
  readonly #rows = new ByteRows();
  /** Index in `facts` of each row. */
  readonly #factsOf: number[] = [];
  /** First row of each run. */
  readonly #runs: number[] = [];

  get size(): number {
    return this.#rows.size;
  }

  /** Bytes in memory. */
  get bytes(): number {
    return 512 + this.#rows.bytes + this.#factsOf.length * 8 + (this.facts.length + this.pools.length) * 512;
  }

  /** Folds one event in place. */
  evolve(event: PriceEvent, version: number): void {
    this.version = version;
    switch (event.type) {
      case "TokenIdentified":
        this.facts.push(event);
        return;
      case "PoolDiscovered": {
        const known = this.#numbers.get(event.pool);
        if (known !== undefined) this.pools[known] = event;
        else this.#numbers.set(event.pool, this.pools.push(event) - 1);
        return;
      }
      case "TokenPriced": {
        const block = storedBlock(event.price);
        if (this.size === 0 || block <= this.#rows.block(this.size - 1)) this.#runs.push(this.size);
        this.#factsOf.push(this.facts.length - 1);
        this.#rows.push(block, event.price);
        return;
      }
      // Older releases recorded states, from which nothing is answered.
      case "PriceObserved":
      case "BlocksReverted":
        return;
      default:
        event satisfies never;
    }
  }

  /** Number of a pool, as rows name it. */
  numberOf(pool: string): number | undefined {
    return this.#numbers.get(pool);
  }

  /** The row of a price that was read at exactly this block. */
  rowAt(block: number, hash: Hash): number | undefined {
    for (let run = this.#runs.length - 1; run >= 0; run--) {
      const row = this.#lastIn(run, block);
      if (row !== undefined && this.#rows.block(row) === block && hasHash(this.#rows.at(row), hash)) return row;
    }
    return undefined;
  }

  /** The row that stands at a block, if a reader stated the price at `from` and has read it at each head since. */
  rowSince(from: { readonly block: number; readonly hash: Hash }, block: number): number | undefined {
    for (let run = this.#runs.length - 1; run >= 0; run--) {
      const stated = this.#lastIn(run, from.block);
      if (stated === undefined || this.#rows.block(stated) !== from.block) continue;
      if (hasHash(this.#rows.at(stated), from.hash)) return this.#lastIn(run, block);
    }
    return undefined;
  }

  /** The last row of a run at or before a block. */
  #lastIn(run: number, block: number): number | undefined {
    const first = this.#runs[run]!;
    const row = this.#rows.lastAt(block, first, this.#runs[run + 1] ?? this.size);
    return row < first ? undefined : row;
  }

  /** The blocks of the rows between two blocks, both included, in the order in which they were recorded. */
  *blocksBetween(from: number, to: number): Generator<number> {
    for (let run = 0; run < this.#runs.length; run++) {
      const end = this.#runs[run + 1] ?? this.size;
      const first = this.#rows.lastAt(from - 1, this.#runs[run]!, end) + 1;
      for (let row = first; row < end && this.#rows.block(row) <= to; row++) yield this.#rows.block(row);
    }
  }

  /** @throws InvariantError for a damaged row */
  price(row: number): StoredPrice {
    return decodePrice(this.#rows.at(row));
  }

  factsOf(row: number): TokenIdentified | undefined {
    return this.facts[this.#factsOf[row]!];
  }

  /** What of the last row stays while no pool of its route changes. Undefined without a row. */
  get lastStates(): Uint8Array | undefined {
    return this.size === 0 ? undefined : storedStates(this.#rows.at(this.size - 1));
  }

  isLastAt(block: number, hash: Hash): boolean {
    const last = this.size - 1;
    return last >= 0 && this.#rows.block(last) === block && hasHash(this.#rows.at(last), hash);
  }
}
