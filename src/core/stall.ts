/** Detects a loop without progress. Reports after a minute, then at doubling intervals of up to an hour. */
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
    this.moved();
  }

  /** Records progress of the loop. */
  moved(): void {
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
