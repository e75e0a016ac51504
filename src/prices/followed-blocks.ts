/** The chain as the follower has just followed it: ahead of what is shown by the batch that is being written. */
import type { Hash } from "../core/hex.ts";
import type { BlockRef, HeaderRef } from "../events/types.ts";
import type { ChainView, FollowBatch } from "../indexer/consumer.ts";

/** Blocks whose hashes are remembered beside what is shown. */
const MAX_BLOCKS = 4_096;

/** What was followed last wins over what is shown. */
export class FollowedBlocks implements ChainView {
  readonly #shown: ChainView;
  readonly #hashes = new Map<number, Hash>();

  constructor(shown: ChainView) {
    this.#shown = shown;
  }

  add({ headers }: FollowBatch): void {
    const [first] = headers;
    if (first !== undefined) this.#hashes.set(first.number - 1, first.parentHash);
    for (const { number, hash } of headers) this.#hashes.set(number, hash);
    for (const number of this.#hashes.keys()) {
      if (this.#hashes.size <= MAX_BLOCKS) break;
      this.#hashes.delete(number);
    }
  }

  /** Forgets the blocks above one. */
  clear(above = -1): void {
    for (const number of this.#hashes.keys()) if (number > above) this.#hashes.delete(number);
  }

  head = (): HeaderRef | undefined => this.#shown.head();
  finalized = (): BlockRef | undefined => this.#shown.finalized();
  header = (number: number): HeaderRef | undefined =>
    this.#hashes.has(number) ? undefined : this.#shown.header(number);

  isCanonical(block: BlockRef): boolean {
    const followed = this.#hashes.get(block.number);
    return followed === undefined ? this.#shown.isCanonical(block) : followed === block.hash;
  }
}
