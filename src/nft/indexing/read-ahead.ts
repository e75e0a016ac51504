/**
 * Reads a range of blocks in pieces, several in parallel, and returns them in order. The size of a piece is set when it
 * begins; blocks that it could not read become a new piece. The number of places limits the pieces that run or wait, so
 * a slow consumer slows the reading (back-pressure), however long the history is.
 */

/**
 * Ranges read ahead for one collection and kept until they are appended: some megabytes. The pool limits the requests
 * per endpoint.
 */
export const READ_AHEAD = 8;
/** Ranges ahead before the first answer: their density is unknown, and eight huge answers are half a gigabyte. */
export const FIRST_AHEAD = 3;

interface Gap {
  fromBlock: number;
  readonly toBlock: number;
}

interface ReadingPiece<T> {
  readonly reading: Promise<void>;
  outcome: { readonly value: T } | { readonly error: unknown } | undefined;
}

interface ReadAheadOptions<T> {
  readonly fromBlock: number;
  readonly toBlock: number;
  /** Returns the number of blocks of the next piece. */
  readonly span: () => number;
  /** Reads the first blocks of a piece, up to the result's `toBlock`. */
  readonly read: (fromBlock: number, toBlock: number) => Promise<T>;
}

export class ReadAhead<T extends { readonly toBlock: number }> {
  readonly #options: ReadAheadOptions<T>;
  /** Pieces and unread gaps that the consumer has not taken yet, in order. */
  readonly #queue: (ReadingPiece<T> | Gap)[];
  #places: number;

  /** @param places initial number of places */
  constructor(options: ReadAheadOptions<T>, places: number) {
    const { fromBlock, toBlock } = options;
    this.#options = options;
    this.#places = places;
    this.#queue = fromBlock <= toBlock ? [{ fromBlock, toBlock }] : [];
  }

  /** Sets how many pieces may run or wait to be taken. */
  set places(count: number) {
    this.#places = count;
  }

  get isOver(): boolean {
    return this.#queue.length === 0;
  }

  /** Waits for the first piece and returns all finished pieces before the first unfinished one. @throws its error */
  async take(): Promise<T[]> {
    this.#fill();
    const [first] = this.#queue;
    if (first === undefined || !("reading" in first)) return [];
    await first.reading;
    const taken: T[] = [];
    for (let head = this.#queue[0]; head !== undefined && "reading" in head; head = this.#queue[0]) {
      const { outcome } = head;
      if (outcome === undefined) break;
      if ("error" in outcome) {
        // Return the pieces before the failed one first.
        if (taken.length > 0) break;
        throw outcome.error;
      }
      taken.push(outcome.value);
      this.#queue.shift();
    }
    return taken;
  }

  /**
   * Begins pieces in the first places. New pieces for unread blocks push finished ones beyond the places; those are
   * limited to the same number again.
   */
  #fill(): void {
    const queue = this.#queue;
    let begun = queue.filter((one) => "reading" in one).length;
    for (let at = 0; at < queue.length && at < this.#places; at++) {
      const gap = queue[at];
      if (gap === undefined || "reading" in gap) continue;
      // Always begin the first piece: all later ones wait for it.
      if (begun++ >= this.#places * 2 && at > 0) return;
      const { fromBlock, toBlock } = gap;
      const end = Math.min(toBlock, fromBlock + this.#options.span() - 1);
      gap.fromBlock = end + 1;
      queue.splice(at, end === toBlock ? 1 : 0, this.#begin(fromBlock, end));
    }
  }

  #begin(fromBlock: number, toBlock: number): ReadingPiece<T> {
    const read = async (): Promise<void> => {
      try {
        const value = await this.#options.read(fromBlock, toBlock);
        piece.outcome = { value };
        if (value.toBlock < toBlock) this.#giveBack(piece, { fromBlock: value.toBlock + 1, toBlock });
      } catch (error) {
        piece.outcome = { error };
      }
    };
    const piece: ReadingPiece<T> = { reading: Promise.resolve().then(read), outcome: undefined };
    return piece;
  }

  /** Puts the unread blocks of a piece behind it, as a gap for the next free place. */
  #giveBack(piece: ReadingPiece<T>, rest: Gap): void {
    const behind = this.#queue.indexOf(piece) + 1;
    const next = this.#queue[behind];
    if (next !== undefined && !("reading" in next)) next.fromBlock = rest.fromBlock;
    else this.#queue.splice(behind, 0, rest);
    this.#fill();
  }
}
