/**
 * Virtual time. One queue of moments for the whole simulated world; each process sees it through a clock of its own that
 * can be paused (its moments come late), dies with the process (they never come), and whose wall time may be wrong.
 */
import { createRandom, type Random } from "../../scripts/local-chain/random.ts";
import type { Clock } from "../../src/core/clock.ts";

interface Moment {
  readonly at: number;
  readonly order: number;
  readonly run: () => void;
  cancelled: boolean;
}

/** A binary heap by time, then by order of asking: the same seed gives the same sequence. */
export class Scheduler {
  /** Virtual ms since the start. */
  time = 0;
  /** Moments that came. */
  steps = 0;
  readonly random: Random;
  readonly #heap: Moment[] = [];
  #order = 0;

  constructor(seed: number) {
    this.random = createRandom(seed);
  }

  chance(probability: number): boolean {
    return this.random.below(1_000_000) < probability * 1_000_000;
  }

  /** Runs `run` after `ms`; returns the cancellation. */
  after(ms: number, run: () => void): () => void {
    const moment = { at: this.time + Math.max(0, ms), order: this.#order++, run, cancelled: false };
    this.#push(moment);
    return () => {
      moment.cancelled = true;
    };
  }

  /** Comes to the next moment and lets everything that waits on it happen. False when there is none. */
  async step(): Promise<boolean> {
    for (let moment = this.#pop(); moment !== undefined; moment = this.#pop()) {
      if (moment.cancelled) continue;
      this.time = Math.max(this.time, moment.at);
      this.steps++;
      moment.run();
      // One turn of the event loop: every promise that could be settled has been.
      await new Promise<void>((resolve) => setImmediate(resolve));
      return true;
    }
    return false;
  }

  #push(moment: Moment): void {
    const heap = this.#heap;
    let at = heap.push(moment) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(moment, heap[parent]!)) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = moment;
  }

  #pop(): Moment | undefined {
    const heap = this.#heap;
    const [first] = heap;
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let at = 0;
    for (let child = 1; child < heap.length; child = at * 2 + 1) {
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child++;
      if (!isBefore(heap[child]!, last)) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = last;
    return first;
  }
}

function isBefore(a: Moment, b: Moment): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}

/** Wall time at the world's start, ms since the epoch. */
export const EPOCH = 1_700_000_000_000;

/** One process' view of time. */
export class ProcessClock implements Clock {
  /** What the wall clock is wrong by, ms. */
  skew = 0;
  readonly #scheduler: Scheduler;
  #dead = false;
  #pausedUntil = 0;

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
  }

  get dead(): boolean {
    return this.#dead;
  }

  /** Nothing happens in the process any more. */
  kill(): void {
    this.#dead = true;
  }

  /** Nothing happens in the process for so many ms; then all that was due does. */
  pause(ms: number): void {
    this.#pausedUntil = this.#scheduler.time + ms;
  }

  now(): number {
    return EPOCH + this.#scheduler.time + this.skew;
  }

  monotonic(): number {
    return this.#scheduler.time;
  }

  random(): number {
    return this.#scheduler.random.below(1_000_000) / 1_000_000;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const onAbort = () => {
        cancel();
        reject(signal?.reason);
      };
      const cancel = this.after(ms, () => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      });
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  after(ms: number, callback: () => void): () => void {
    let cancelled = false;
    const come = () => {
      if (this.#dead || cancelled) return;
      const late = this.#pausedUntil - this.#scheduler.time;
      if (late > 0) this.#scheduler.after(late, come);
      else callback();
    };
    this.#scheduler.after(ms, come);
    return () => {
      cancelled = true;
    };
  }
}
