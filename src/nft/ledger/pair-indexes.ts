/**
 * The pair indexes of a ledger, and the queue that builds them: one at a time, in slices on the request thread. In: the
 * ledger's notice before blocks change. Out: indexes that are still true. An index of a changed block is dropped, also
 * while it is being built.
 */

import { Refusal } from "../../core/errors.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import type { Position } from "./rows.ts";

/** A place in the order of pairs, and how many pairs lie before it. */
export interface PairMark {
  readonly before: number;
  readonly position: Position;
}

/** Number of (token, owner) pairs after a block, with a mark every so many steps of a walk over them. */
export interface PairIndex {
  readonly block: number;
  readonly count: number;
  readonly marks: readonly PairMark[];
  /** By id range: the offsets, in order, of the ids that its minter doesn't hold. */
  readonly gaps: ReadonlyMap<number, Float64Array>;
}

/** Builds an index; yields between slices. */
export type PairWork = Generator<void, PairIndex>;

interface Making {
  readonly block: number;
  /** True once the block has changed: the walk so far is worthless. */
  isOver: boolean;
  readonly done: Promise<boolean>;
}

/** Memory of a mark with its position, and of an id range's map entry with its array, in JavaScriptCore. */
const MARK_BYTES = 128;
const GAPS_BYTES = 400;

/** Indexes kept per ledger. */
const MAX_KNOWN = 4;
/** Blocks in the queue: an index of a million tokens takes a second, so a page waits 16 s at most. */
const MAX_MAKING = 16;

export class PairIndexes {
  /** Newest first. */
  #known: readonly PairIndex[] = [];
  readonly #making = new Map<number, Making>();
  #last: Promise<unknown> = Promise.resolve();
  #bytes = 0;

  /** Bytes of the kept indexes. The one being built is not counted. */
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
    this.#bytes = known.reduce((sum, index) => sum + indexBytes(index), 0);
  }

  /** Drops the indexes of blocks above `block`, which are about to change. */
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
   * Resolves with true once the block's index exists, with false if the block changed first. Concurrent calls for one
   * block share the work.
   * @throws Refusal `rate_limited` if indexes of too many blocks are being built
   */
  make(block: number, begin: () => PairWork): Promise<boolean> {
    const known = this.#making.get(block);
    if (known !== undefined) return known.done;
    if (this.#making.size >= MAX_MAKING) {
      const text = "the server is counting the holders at too many blocks of this collection; ask again later";
      throw new Refusal("rate_limited", text, { retryAfter: 5 });
    }
    const { promise: done, resolve, reject } = Promise.withResolvers<boolean>();
    const making: Making = { block, isOver: false, done };
    this.#making.set(block, making);
    this.#last = this.#last.then(() => this.#make(making, begin)).then(resolve, reject);
    return done;
  }

  async #make(making: Making, begin: () => PairWork): Promise<boolean> {
    try {
      for (const work = begin(); !making.isOver; await yieldToEventLoop()) {
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

function indexBytes({ marks, gaps }: PairIndex): number {
  let bytes = marks.length * MARK_BYTES;
  for (const offsets of gaps.values()) bytes += offsets.byteLength + GAPS_BYTES;
  return bytes;
}
