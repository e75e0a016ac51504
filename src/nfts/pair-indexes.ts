/**
 * The indexes of pairs that a ledger has, and those that are being made, one at a time, a slice of the request thread each.
 * In: which blocks change, said by the ledger before they do. Out: an index for as long as it is true; nobody sees one of a
 * block that changed since it was begun.
 */
import { ApiError } from "../core/errors.ts";
import { otherWork } from "../core/own-thread.ts";
import type { Position } from "./listing.ts";

/** A place in the order of pairs, and how many pairs lie before it. */
export interface Mark {
  readonly before: number;
  readonly position: Position;
}

/** Pairs of (token, owner) after a block: how many, and where a walk over them stands every so many steps. */
export interface PairIndex {
  readonly block: number;
  readonly count: number;
  readonly marks: readonly Mark[];
  /** By id range, in order: the offsets whose minter does not hold them. */
  readonly gaps: ReadonlyMap<number, Float64Array>;
}

/** Makes an index; yields where others may have their turn. */
export type PairWork = Generator<void, PairIndex>;

interface Making {
  readonly block: number;
  /** The block has changed: what was walked so far is nothing. */
  isOver: boolean;
  readonly done: Promise<boolean>;
}

/** Of a mark with its position, and of an id range's entry in the map with its array, in JavaScriptCore. */
const MARK_BYTES = 128;
const GAPS_BYTES = 400;

/** Blocks whose index is kept. */
const MAX_KNOWN = 4;
/** Blocks that may wait for theirs: a second each for a million tokens, and nobody waits longer for a page than these take. */
const MAX_MAKING = 16;

export class PairIndexes {
  /** The newest first. */
  #known: readonly PairIndex[] = [];
  readonly #making = new Map<number, Making>();
  #last: Promise<unknown> = Promise.resolve();
  #bytes = 0;

  /** Of the indexes that are kept; those being made are not counted, one at a time. */
  get bytes(): number {
    return this.#bytes;
  }

  find(block: number): PairIndex | undefined {
    return this.#known.find((index) => index.block === block);
  }

  /** Keeps an index that is true now. */
  add(index: PairIndex): void {
    this.#keep([index, ...this.#known.filter(({ block }) => block !== index.block)].slice(0, MAX_KNOWN));
  }

  #keep(known: readonly PairIndex[]): void {
    this.#known = known;
    this.#bytes = known.reduce((sum, index) => sum + bytesOf(index), 0);
  }

  /** Blocks above `block` are about to change. */
  drop(block: number): void {
    if (this.#known.some((index) => index.block > block)) {
      this.#keep(this.#known.filter((index) => index.block <= block));
    }
    for (const making of this.#making.values()) {
      if (making.block <= block) continue;
      making.isOver = true;
      this.#making.delete(making.block);
    }
  }

  /**
   * Resolves with true once the block's index is there, with false when the block changed before. Made once, however many
   * ask.
   * @throws ApiError 429 when too many blocks' are wanted at the same time
   */
  make(block: number, begin: () => PairWork): Promise<boolean> {
    const known = this.#making.get(block);
    if (known !== undefined) return known.done;
    if (this.#making.size >= MAX_MAKING) {
      const text = "holders of too many blocks of this collection are being counted; ask again later";
      throw new ApiError(429, "rate_limited", text, { headers: { "retry-after": "5" } });
    }
    const { promise: done, resolve, reject } = Promise.withResolvers<boolean>();
    const making: Making = { block, isOver: false, done };
    this.#making.set(block, making);
    this.#last = this.#last.then(() => this.#make(making, begin)).then(resolve, reject);
    return done;
  }

  async #make(making: Making, begin: () => PairWork): Promise<boolean> {
    try {
      for (const work = begin(); !making.isOver; await otherWork()) {
        const { done, value } = work.next();
        if (done !== true) continue;
        this.add(value);
        return true;
      }
      return false;
    } finally {
      if (this.#making.get(making.block) === making) this.#making.delete(making.block);
    }
  }
}

function bytesOf({ marks, gaps }: PairIndex): number {
  let bytes = marks.length * MARK_BYTES;
  for (const offsets of gaps.values()) bytes += offsets.byteLength + GAPS_BYTES;
  return bytes;
}
