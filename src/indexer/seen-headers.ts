/**
 * Keeps the newest headers of the follower, with their blooms. A joining collection is checked against them, and
 * requests only the headers that are missing here.
 */
import type { HeaderRef } from "../events/types.ts";
import type { BlockHeader } from "../rpc/port.ts";

export class SeenHeaders {
  readonly #byNumber = new Map<number, BlockHeader>();
  readonly #most: number;

  /** @param most how many blocks below the newest header are kept */
  constructor(most: number) {
    this.#most = most;
  }

  /** Adds headers in rising order. A later header replaces an earlier one of the same number. */
  add(headers: readonly BlockHeader[]): void {
    const newest = headers.at(-1);
    if (newest === undefined) return;
    const least = newest.number - this.#most;
    for (const header of headers) if (header.number > least) this.#byNumber.set(header.number, header);
    for (const number of this.#byNumber.keys()) {
      if (number <= least || number > newest.number) this.#byNumber.delete(number);
    }
  }

  /** Returns the full header of this block, if it was seen. */
  of({ number, hash }: Pick<HeaderRef, "number" | "hash">): BlockHeader | undefined {
    const header = this.#byNumber.get(number);
    return header?.hash === hash ? header : undefined;
  }
}
