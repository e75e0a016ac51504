/**
 * Saves a ledger as arrays and facts, and restores it. Each part of the ledger has one method that passes all its state
 * to a keeper, in a fixed order. `Writer` records what it gets; `Reader` returns the recorded value in its place. One
 * method serves both directions, so both miss the same state if it is incomplete, and a test of one tests both.
 *
 * Word tables are passed as they are. Other structures are converted to word tables and back, in slices; their method
 * is the generator `keeping`.
 */
import { InvariantError } from "../core/errors.ts";

export interface Keeper {
  /**
   * True if the keeper restores parts. If false it saves them, and they must not change until the last one is saved.
   */
  readonly isReading: boolean;
  /** Passes an array. The caller must continue with the returned one. */
  words(array: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer>;
  /** Passes a small value that JSON can represent. The caller must continue with the returned one. */
  facts<T>(value: T): T;
}

/** Records all parts. Arrays are not copied. */
export class Writer implements Keeper {
  readonly isReading = false;
  readonly arrays: Int32Array<ArrayBuffer>[] = [];
  readonly said: unknown[] = [];

  words(array: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
    this.arrays.push(array);
    return array;
  }

  facts<T>(value: T): T {
    this.said.push(value);
    return value;
  }
}

/** Values converted per slice: 0.5 to 1 ms. */
export const KEPT_AT_ONCE = 2_048;

/** Returns the parts of a `Writer`, in its order. @throws InvariantError if there are too few */
export class Reader implements Keeper {
  readonly isReading = true;
  readonly #arrays: readonly Int32Array<ArrayBuffer>[];
  readonly #said: readonly unknown[];
  #array = 0;
  #fact = 0;

  constructor(arrays: readonly Int32Array<ArrayBuffer>[], said: readonly unknown[]) {
    this.#arrays = arrays;
    this.#said = said;
  }

  words(_array: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
    const array = this.#arrays[this.#array++];
    if (array === undefined) throw new InvariantError("a snapshot has too few arrays");
    return array;
  }

  facts<T>(_value: T): T {
    if (this.#fact === this.#said.length) throw new InvariantError("a snapshot has too few facts");
    return this.#said[this.#fact++] as T;
  }

  /** True if all parts were read. */
  get isDone(): boolean {
    return this.#array === this.#arrays.length && this.#fact === this.#said.length;
  }
}

/** Passes a list of arrays with holes. */
export function keepList(
  keeper: Keeper,
  list: (Int32Array<ArrayBuffer> | undefined)[],
): (Int32Array<ArrayBuffer> | undefined)[] {
  const there = keeper.facts(list.map((array) => array !== undefined));
  return there.map((isThere, i) => (isThere ? keeper.words(list[i] ?? EMPTY) : undefined));
}

const EMPTY = new Int32Array(0);
