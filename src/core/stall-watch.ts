/**
 * Notices that a loop makes no progress. The loop reports its progress; after a minute without any, and then after
 * doubling times up to an hour, the watch calls its owner.
 */
import type { Clock } from "./clock.ts";

const FIRST_MS = 60_000;
const MAX_MS = 3_600_000;

export class StallWatch {
  readonly #clock: Clock;
  readonly #onStall: (ms: number) => void;
  #since = 0;
  #cancel: () => void = () => undefined;

  /** @param onStall called with the ms since the last progress */
  constructor(clock: Clock, onStall: (ms: number) => void) {
    this.#clock = clock;
    this.#onStall = onStall;
    this.progressed();
  }

  /** Records progress of the loop. */
  progressed(): void {
    this.#since = this.#clock.monotonic();
    this.#wait(FIRST_MS);
  }

  #wait(ms: number): void {
    this.#cancel();
    this.#cancel = this.#clock.after(ms, () => {
      this.#wait(Math.min(MAX_MS, ms * 2));
      this.#onStall(this.#clock.monotonic() - this.#since);
    });
  }

  stop(): void {
    this.#cancel();
  }
}

/** Describes work without progress for `ms` ms. @param failure message of the newest request that failed meanwhile */
export function stallReason(doing: string, ms: number, failure: string | undefined): string {
  const cause = failure === undefined ? "no answer came yet" : `the last request failed: ${failure}`;
  return `${doing}, without progress for ${Math.round(ms / 1_000)} s; ${cause}`;
}
