/** What bounds the requests to an archive: the time for one part, and the blocks per request that it was seen to take. */
import type { Clock } from "../../core/clock.ts";

/** The time that the archive has for one part. */
export class PartTime {
  readonly #clock: Clock;
  readonly #ms: number;
  #begun: number;

  constructor(clock: Clock, ms: number) {
    this.#clock = clock;
    this.#ms = ms;
    this.#begun = clock.monotonic();
  }

  get usedMs(): number {
    return this.#clock.monotonic() - this.#begun;
  }

  get leftMs(): number {
    return Math.max(0, this.#ms - this.usedMs);
  }

  /** Waits for something that is not the archive's fault. */
  async without(wait: () => Promise<void>): Promise<void> {
    const before = this.#clock.monotonic();
    await wait();
    this.#begun += this.#clock.monotonic() - before;
  }
}

/** Requests of the size that answer before twice as much is tried; doubled each time that this is refused. */
const MAX_PATIENCE = 32;

/** The blocks per request that an archive takes: half of what it refused, and again more after answers. */
export class AnswerSpan {
  #most = Number.POSITIVE_INFINITY;
  /** Answers of the full size since it was changed, and those after which it is doubled. */
  #answers = 0;
  #patience = 1;
  /** True until the first answer or refusal of a doubled size. */
  #isTrial = false;

  get most(): number {
    return this.#most;
  }

  refused(blocks: number): void {
    if (this.#isTrial) this.#patience = Math.min(MAX_PATIENCE, this.#patience * 2);
    this.#set(Math.max(1, Math.floor(blocks / 2)), false);
  }

  answered(blocks: number): void {
    if (blocks < this.#most) return;
    if (this.#isTrial) this.#patience = 1;
    this.#isTrial = false;
    if (++this.#answers >= this.#patience) this.#set(this.#most * 2, true);
  }

  #set(most: number, isTrial: boolean): void {
    this.#most = most;
    this.#answers = 0;
    this.#isTrial = isTrial;
  }
}
