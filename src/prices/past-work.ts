/**
 * Work at past blocks, a few questions at once: without old state each is a search through logs that may last minutes, and
 * outlives the client that asked for it. Some more wait their turn, further ones are refused, and what nobody wants any
 * more when its turn comes is not begun.
 */
import type { Chain } from "../chains/chains.ts";
import { ApiError } from "../core/errors.ts";
import { Slots } from "../core/slots.ts";

/** Questions worked on at once: some log searches side by side are what a public node bears. */
const AT_ONCE = 16;
/** Questions that may wait: at a second and a half each the last has its turn before its client is told to come back. */
const MAX_WAITING = 256;

const RETRY = { headers: { "retry-after": "5" } };

/** Runs work when its turn comes. */
export type Turn = <T>(work: () => Promise<T>) => Promise<T>;

export class PastWork {
  readonly #chain: Chain;
  readonly #slots = new Slots(AT_ONCE);
  /** Worked on or waiting. */
  #count = 0;

  constructor(chain: Chain) {
    this.#chain = chain;
  }

  /**
   * @param isWanted whether somebody asked lately, as of then
   * @throws ApiError 429 when too many wait, 503 when nobody wants it any more; and what `work` throws
   */
  async run<T>(isWanted: () => boolean, work: () => Promise<T>): Promise<T> {
    const { name } = this.#chain;
    if (this.#count >= AT_ONCE + MAX_WAITING) {
      const message = `too many questions about past blocks of ${name} are waiting; ask again later`;
      throw new ApiError(429, "rate_limited", message, RETRY);
    }
    this.#count++;
    try {
      return await this.#slots.run(() => {
        if (isWanted()) return work();
        throw new ApiError(503, "chain_unavailable", `${name} did not answer in time; try again later`, RETRY);
      });
    } finally {
      this.#count--;
    }
  }
}
