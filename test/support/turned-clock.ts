/** A clock that stands still until the test turns it. Timers run on the way, in order. */
import type { Clock } from "../../src/core/clock.ts";

export class TurnedClock implements Clock {
  readonly #timers = new Map<symbol, { readonly at: number; readonly callback: () => void }>();
  #now: number;

  /** @param now ms since the epoch */
  constructor(now = 1_700_000_000_000) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  monotonic(): number {
    return this.#now;
  }

  random(): number {
    return 0.5;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const cancel = this.after(ms, resolve);
      const onAbort = () => {
        cancel();
        reject(signal?.reason);
      };
      if (signal?.aborted === true) onAbort();
      else signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  after(ms: number, callback: () => void): () => void {
    const timer = Symbol();
    this.#timers.set(timer, { at: this.#now + ms, callback });
    return () => this.#timers.delete(timer);
  }

  /** Moves the clock forward. */
  turn(ms: number): void {
    const end = this.#now + ms;
    for (;;) {
      const [next] = [...this.#timers].filter(([, { at }]) => at <= end).sort(([, a], [, b]) => a.at - b.at);
      if (next === undefined) break;
      const [timer, { at, callback }] = next;
      this.#timers.delete(timer);
      this.#now = at;
      callback();
    }
    this.#now = end;
  }
}
