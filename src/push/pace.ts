/** Acts that may come too often, each under a name: the first is done at once, then one an interval, the last one always. */
import type { Clock } from "../core/clock.ts";

interface Turn {
  readonly cancel: () => void;
  /** What is to be done when the interval is over. */
  next: (() => void) | undefined;
}

export class Pace<K> {
  readonly #clock: Clock;
  readonly #ms: number;
  readonly #turns = new Map<K, Turn>();

  constructor(clock: Clock, ms: number) {
    this.#clock = clock;
    this.#ms = ms;
  }

  /** Does it now, or in the place of what else waits for the interval's end. */
  act(key: K, what: () => void): void {
    const turn = this.#turns.get(key);
    if (turn !== undefined) {
      turn.next = what;
      return;
    }
    const cancel = this.#clock.after(this.#ms, () => {
      const next = this.#turns.get(key)?.next;
      this.#turns.delete(key);
      if (next !== undefined) this.act(key, next);
    });
    this.#turns.set(key, { cancel, next: undefined });
    what();
  }

  /** What waits is not done any more. */
  drop(key: K): void {
    const turn = this.#turns.get(key);
    if (turn !== undefined) turn.next = undefined;
  }

  stop(): void {
    for (const { cancel } of this.#turns.values()) cancel();
    this.#turns.clear();
  }
}
