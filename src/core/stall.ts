/** Notices that a loop makes no progress: after a minute, and again after two, four and so on, up to an hour apart. */
import type { Clock } from "./clock.ts";

const FIRST_MS = 60_000;
const MAX_MS = 3_600_000;

export class StallWatch {
  readonly #clock: Clock;
  readonly #onStall: (ms: number) => void;
  #since = 0;
  #cancel: () => void = () => undefined;

  /** @param onStall hears for how many ms nothing has moved */
  constructor(clock: Clock, onStall: (ms: number) => void) {
    this.#clock = clock;
    this.#onStall = onStall;
    this.moved();
  }

  /** The loop made progress. */
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
