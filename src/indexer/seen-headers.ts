/**
 * The newest headers that the follower was given, with their blooms: a collection that joins is checked by them, and asks
 * the node for those only that nobody asked for before.
 */
import type { HeaderRef } from "../events/types.ts";
import type { BlockHeader } from "../rpc/port.ts";

export class SeenHeaders {
  readonly #byNumber = new Map<number, BlockHeader>();
  readonly #most: number;

  /** @param most how far below the newest one they are kept */
  constructor(most: number) {
    this.#most = most;
  }

  /** Takes note of headers in rising order; of two of one number the later one stays. */
  add(headers: readonly BlockHeader[]): void {
    const newest = headers.at(-1);
    if (newest === undefined) return;
    const least = newest.number - this.#most;
    for (const header of headers) if (header.number > least) this.#byNumber.set(header.number, header);
    for (const number of this.#byNumber.keys()) {
      if (number <= least || number > newest.number) this.#byNumber.delete(number);
    }
  }

  /** The whole header of that very block, where it was seen. */
  of({ number, hash }: Pick<HeaderRef, "number" | "hash">): BlockHeader | undefined {
    const header = this.#byNumber.get(number);
    return header?.hash === hash ? header : undefined;
  }
}
