/**
 * Saves a ledger as arrays and facts, and restores it. Each part of the ledger has one method that passes all its state
 * to a codec, in a fixed order. `StateWriter` records the values; `StateReader` returns the recorded ones. One method
 * serves both directions, so a test of one tests both. Word tables are passed as they are. Other structures are
 * converted to word tables and back, in slices, by their generator `coding`.
 */
import { InvariantError } from "../../core/errors.ts";

export interface StateCodec {
  /**
   * True if the codec restores parts. If false it saves them, and they must not change until the last one is saved.
   */
  readonly isReading: boolean;
  /** Passes an array. The caller must continue with the returned one. */
  words(array: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer>;
  /** Passes a small value that JSON can represent. The caller must continue with the returned one. */
  facts<T>(value: T): T;
}

/** Records all parts. Arrays are not copied. */
export class StateWriter implements StateCodec {
  readonly isReading = false;
  readonly arrays: Int32Array<ArrayBuffer>[] = [];
  readonly values: unknown[] = [];

  words(array: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
    this.arrays.push(array);
    return array;
  }

  facts<T>(value: T): T {
    this.values.push(value);
    return value;
  }
}

/** Values converted per slice: 0.5 to 1 ms. */
export const VALUES_PER_SLICE = 2_048;

/** Returns the parts of a `StateWriter`, in its order. @throws InvariantError if there are too few */
export class StateReader implements StateCodec {
  readonly isReading = true;
  readonly #arrays: readonly Int32Array<ArrayBuffer>[];
  readonly #values: readonly unknown[];
  #array = 0;
  #fact = 0;

  constructor(arrays: readonly Int32Array<ArrayBuffer>[], values: readonly unknown[]) {
    this.#arrays = arrays;
    this.#values = values;
  }

  words(_array: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
    const array = this.#arrays[this.#array++];
    if (array === undefined) throw new InvariantError("a snapshot has too few arrays");
    return array;
  }

  facts<T>(_value: T): T {
    if (this.#fact === this.#values.length) throw new InvariantError("a snapshot has too few facts");
    return this.#values[this.#fact++] as T;
  }

  /** True if all parts were read. */
  get isDone(): boolean {
    return this.#array === this.#arrays.length && this.#fact === this.#values.length;
  }
}

/** Passes a list of arrays with holes. */
export function codeList(
  codec: StateCodec,
  list: (Int32Array<ArrayBuffer> | undefined)[],
): (Int32Array<ArrayBuffer> | undefined)[] {
  const there = codec.facts(list.map((array) => array !== undefined));
  return there.map((isThere, i) => (isThere ? codec.words(list[i] ?? EMPTY) : undefined));
}

const EMPTY = new Int32Array(0);
