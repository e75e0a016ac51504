/**
 * Virtual time. The simulated world has one queue of timed events. Each process sees it through its own clock, which
 * can be paused (its events come late), which ends with the process (they never come), and which may show a wrong wall
 * time.
 */
import { createRandom, type Random } from "../../../scripts/local-chain/random.ts";
import type { Clock } from "../../../src/core/clock.ts";

interface Moment {
  readonly at: number;
  readonly order: number;
  readonly run: () => void;
  cancelled: boolean;
}

/** A binary heap by time, then by order of insertion. The same seed gives the same sequence. */
export class Scheduler {
  /** Virtual ms since the start. */
  time = 0;
  /** Number of events that have run. */
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

  /** Calls `run` after `ms`. Returns a function that cancels it. */
  after(ms: number, run: () => void): () => void {
    const moment = { at: this.time + Math.max(0, ms), order: this.#order++, run, cancelled: false };
    this.#push(moment);
    return () => {
      moment.cancelled = true;
    };
  }

  /** Runs the next event and everything that waits on it. Returns false if there is none. */
  async step(): Promise<boolean> {
    for (let moment = this.#pop(); moment !== undefined; moment = this.#pop()) {
      if (moment.cancelled) continue;
      this.time = Math.max(this.time, moment.at);
      this.steps++;
      moment.run();
      // One turn of the event loop. After it, every promise that can settle has settled.
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

/** The clock of one process. */
export class ProcessClock implements Clock {
  /** Error of the wall clock, in ms. */
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

  /** Stops all events of the process for good. */
  kill(): void {
    this.#dead = true;
  }

  /** Holds all events of the process for `ms`, then runs those that are due. */
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
