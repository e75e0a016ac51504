/**
 * A ledger as arrays and facts, to be written down and read back. Each part of it has one method that hands all it is made
 * of to a keeper, in one order; the keeper that writes looks at what it is handed, the one that reads gives back what takes
 * its place. What the one forgets the other forgets as well, so that a test of either is a test of both.
 *
 * Tables of words are handed on as they lie. What is kept in another form is put into such tables for the keeper, and taken
 * out of them again, a slice at a time: those parts have a method `keeping` that yields where others may have their turn.
 */
import { InvariantError } from "../core/errors.ts";

export interface Keeper {
  /** Whether parts are taken over; else they are handed on, and must stay as they are until the last one was. */
  readonly isReading: boolean;
  /** An array; the caller goes on with what is returned. */
  words(array: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer>;
  /** Anything that JSON can say, in short; the caller goes on with what is returned. */
  facts<T>(value: T): T;
}

/** Takes note of all parts, as they are at that moment: arrays are not copied. */
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

/** Values put into words, or made of them, in one go: half a millisecond to a whole one. */
export const KEPT_AT_ONCE = 2_048;

/** Gives back what a writer took note of, in its order. @throws InvariantError when there is less */
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

  /** Whether all was asked for. */
  get isDone(): boolean {
    return this.#array === this.#arrays.length && this.#fact === this.#said.length;
  }
}

/** A list of arrays, some of them missing. */
export function keepList(
  keeper: Keeper,
  list: (Int32Array<ArrayBuffer> | undefined)[],
): (Int32Array<ArrayBuffer> | undefined)[] {
  const there = keeper.facts(list.map((array) => array !== undefined));
  return there.map((isThere, i) => (isThere ? keeper.words(list[i] ?? EMPTY) : undefined));
}

const EMPTY = new Int32Array(0);
