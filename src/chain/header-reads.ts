/**
 * Decides which headers the follower reads. Each header is a call that the provider bills, so the headers between two
 * polls are read only for samples, and for a while after a mismatch.
 */
import type { Verify } from "../rpc/port.ts";

/** Share of polls that read all headers, so that blooms still find endpoints that leave out logs. */
const SAMPLE = 0.03;
/** Polls that read all headers after a fork, or after logs were left out. */
const CAREFUL_POLLS = 6;
/** More new blocks are a gap, which `nextStep` handles. */
const MAX_BLOCKS = 512;
/** Polls from one request for the final block to the next. */
const FINAL_EVERY = 6;

interface PolledBlocks {
  readonly count: number;
  /** True if they end below the node's head. */
  readonly isBounded: boolean;
}

export class HeaderReads {
  readonly #verify: Verify;
  readonly #random: () => number;
  #carefulPolls = 0;
  #pollsUntilFinal = 0;

  /** @param random returns a number in [0, 1) */
  constructor(verify: Verify, random: () => number) {
    this.#verify = verify;
    this.#random = random;
  }

  /** The chain was loaded from the log: the first poll reads all headers and the final block. */
  begin(): void {
    this.#carefulPolls = Math.max(this.#carefulPolls, 1);
    this.#pollsUntilFinal = 0;
  }

  /** Answers did not agree with each other: the next polls read all headers. */
  mismatched(): void {
    this.#carefulPolls = CAREFUL_POLLS;
  }

  /** The node has shown its head, and its final block if `asksFinal`. */
  shown(): void {
    this.#pollsUntilFinal = this.asksFinal ? FINAL_EVERY - 1 : this.#pollsUntilFinal - 1;
  }

  /** A poll has moved the head, or found no news. */
  polled(): void {
    if (this.#carefulPolls > 0) this.#carefulPolls--;
  }

  /** True if the next poll asks for the final block. */
  get asksFinal(): boolean {
    return this.#pollsUntilFinal === 0;
  }

  /** The next poll asks for the final block: the head may not go on without it. */
  needsFinal(): void {
    this.#pollsUntilFinal = 0;
  }

  /** True if the headers between the followed head and the new one are left out. One new block leaves out none. */
  leavesOut({ count, isBounded }: PolledBlocks): boolean {
    if (this.#verify !== "sample" || count < 2 || count > MAX_BLOCKS || isBounded) return false;
    return this.#carefulPolls === 0 && this.#random() >= SAMPLE;
  }
}
