/**
 * A range of blocks read in pieces, several side by side, and given in order. How many blocks a piece has is settled when
 * its turn comes; what it could not be read of is cut anew. No more pieces are begun or kept than there are places: who
 * takes them slowly is read for slowly, however much longer the history is than it looked.
 */

interface Gap {
  fromBlock: number;
  readonly toBlock: number;
}

interface Piece<T> {
  readonly reading: Promise<void>;
  outcome: { readonly value: T } | { readonly error: unknown } | undefined;
}

export interface ReadAheadOptions<T> {
  readonly fromBlock: number;
  readonly toBlock: number;
  /** Blocks of the next piece. */
  readonly span: () => number;
  /** Reads the first blocks of a piece, up to the last one that it says. */
  readonly read: (fromBlock: number, toBlock: number) => Promise<T>;
}

export class ReadAhead<T extends { readonly toBlock: number }> {
  readonly #options: ReadAheadOptions<T>;
  /** All that is not taken yet, in order. */
  readonly #queue: (Piece<T> | Gap)[];
  #places: number;

  /** @param places pieces to begin with */
  constructor(options: ReadAheadOptions<T>, places: number) {
    const { fromBlock, toBlock } = options;
    this.#options = options;
    this.#places = places;
    this.#queue = fromBlock <= toBlock ? [{ fromBlock, toBlock }] : [];
  }

  /** From now on so many pieces may be read or lie ready. */
  set places(count: number) {
    this.#places = count;
  }

  get isOver(): boolean {
    return this.#queue.length === 0;
  }

  /** All that has come of the first pieces, once there is any. @throws what the first one failed with */
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
        // What came before it is used first.
        if (taken.length > 0) break;
        throw outcome.error;
      }
      taken.push(outcome.value);
      this.#queue.shift();
    }
    return taken;
  }

  /**
   * Begins as many of the first pieces as there are places. Pieces that were cut anew push others back that are read
   * already: of those there are no more than as many again.
   */
  #fill(): void {
    const queue = this.#queue;
    let begun = queue.filter((one) => "reading" in one).length;
    for (let at = 0; at < queue.length && at < this.#places; at++) {
      const gap = queue[at];
      if (gap === undefined || "reading" in gap) continue;
      // The first piece is begun in any case: the later ones wait for it.
      if (begun++ >= this.#places * 2 && at > 0) return;
      const { fromBlock, toBlock } = gap;
      const end = Math.min(toBlock, fromBlock + this.#options.span() - 1);
      gap.fromBlock = end + 1;
      queue.splice(at, end === toBlock ? 1 : 0, this.#begin(fromBlock, end));
    }
  }

  #begin(fromBlock: number, toBlock: number): Piece<T> {
    const read = async (): Promise<void> => {
      try {
        const value = await this.#options.read(fromBlock, toBlock);
        piece.outcome = { value };
        if (value.toBlock < toBlock) this.#giveBack(piece, { fromBlock: value.toBlock + 1, toBlock });
      } catch (error) {
        piece.outcome = { error };
      }
    };
    const piece: Piece<T> = { reading: Promise.resolve().then(read), outcome: undefined };
    return piece;
  }

  /** What of a piece was not read stands behind it, to be begun with the next place. */
  #giveBack(piece: Piece<T>, rest: Gap): void {
    const behind = this.#queue.indexOf(piece) + 1;
    const next = this.#queue[behind];
    if (next !== undefined && !("reading" in next)) next.fromBlock = rest.fromBlock;
    else this.#queue.splice(behind, 0, rest);
    this.#fill();
  }
}
