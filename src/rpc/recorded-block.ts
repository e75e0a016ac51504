/**
 * Compares one recorded final block with the nodes', before anything else is asked. A log that is pointed at another
 * chain with the same id, or at a network that began anew, finds out with two calls instead of thousands, and nothing of
 * the other chain is recorded.
 */
import type { Clock } from "../core/clock.ts";
import { AppError } from "../core/errors.ts";
import type { BlockRef } from "../events/types.ts";

interface RecordedBlockOptions {
  readonly clock: Clock;
  /** The nodes' block of that number. Undefined above their heads. */
  readonly read: (number: number) => Promise<BlockRef | undefined>;
  /** True if any endpoint has the block. */
  readonly anyHolds: (block: BlockRef) => Promise<boolean>;
}

/** The comparison is repeated after this time, if the block is another one or no node has it yet. */
const AGAIN_MS = 5_000;

export class RecordedBlock {
  readonly #options: RecordedBlockOptions;
  /** The block that the nodes must have; undefined once they have shown it, or without a record. */
  #expected: BlockRef | undefined;
  /** The nodes' block in its place, as of the last comparison. */
  #found: BlockRef | undefined;
  #againMs = Number.NEGATIVE_INFINITY;
  #comparing: Promise<void> | undefined;

  constructor(options: RecordedBlockOptions) {
    this.#options = options;
  }

  /** @param block the newest final block of the log */
  expect(block: BlockRef | undefined): void {
    this.#expected = block;
  }

  /** @throws AppError `chain_unavailable` while the nodes have another block in the place of the recorded one */
  async assertHeld(): Promise<void> {
    const found = await this.foundInstead();
    if (found === undefined) return;
    throw new AppError(
      `block ${found.number} of the nodes is not the final block of the log: they follow another chain with this id, or ` +
        "the chain was rolled back",
      { code: "chain_unavailable", retryable: true, meta: { block: found.number, found: found.hash } },
    );
  }

  /** Returns the nodes' block in the place of the recorded one; undefined if they have it, or none yet. */
  async foundInstead(): Promise<BlockRef | undefined> {
    if (this.#expected === undefined) return undefined;
    if (this.#options.clock.monotonic() >= this.#againMs) {
      this.#comparing ??= this.#compare(this.#expected).finally(() => {
        this.#comparing = undefined;
      });
      await this.#comparing;
    }
    return this.#found;
  }

  async #compare(expected: BlockRef): Promise<void> {
    const { clock, read, anyHolds } = this.#options;
    const shown = await read(expected.number);
    // One endpoint may be of another chain, or on an orphaned branch.
    const isHeld = shown?.hash === expected.hash || (shown !== undefined && (await anyHolds(expected)));
    this.#found = isHeld || shown === undefined ? undefined : { number: shown.number, hash: shown.hash };
    if (isHeld) this.#expected = undefined;
    this.#againMs = clock.monotonic() + AGAIN_MS;
  }
}
