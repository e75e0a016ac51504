/**
 * Paces messages: a throttle per key, which always runs the last call, and broadcasts in slices per event-loop turn, so
 * that ten thousand subscribers don't delay HTTP requests.
 */
import type { Clock } from "../core/clock.ts";

/** Recipients per turn: one or two milliseconds of sending. */
const SLICE = 250;

interface Round<T> {
  readonly to: readonly T[];
  readonly send: (one: T) => void;
  done: number;
}

export class Broadcast<T> {
  readonly #rounds: Round<T>[] = [];

  /** Sends at once if the recipients fit one slice and no broadcast is queued; else queues. */
  send(to: ReadonlySet<T>, send: (one: T) => void): void {
    if (this.#rounds.length === 0 && to.size <= SLICE) {
      for (const one of to) send(one);
      return;
    }
    if (this.#rounds.push({ to: [...to], send, done: 0 }) === 1) this.#go();
  }

  #go(): void {
    const round = this.#rounds[0];
    if (round === undefined) return;
    const end = Math.min(round.to.length, round.done + SLICE);
    for (; round.done < end; round.done++) round.send(round.to[round.done] as T);
    if (round.done === round.to.length) this.#rounds.shift();
    if (this.#rounds.length > 0) setImmediate(() => this.#go());
  }

  stop(): void {
    this.#rounds.length = 0;
  }
}

interface Interval {
  readonly cancel: () => void;
  /** The call to run at the end of the interval. */
  next: (() => void) | undefined;
}

export class Throttle<K> {
  readonly #clock: Clock;
  readonly #ms: number;
  readonly #turns = new Map<K, Interval>();

  constructor(clock: Clock, ms: number) {
    this.#clock = clock;
    this.#ms = ms;
  }

  /** Runs the call now. During an interval it replaces the call that waits for the interval's end. */
  run(key: K, what: () => void): void {
    const turn = this.#turns.get(key);
    if (turn !== undefined) {
      turn.next = what;
      return;
    }
    const cancel = this.#clock.after(this.#ms, () => {
      const next = this.#turns.get(key)?.next;
      this.#turns.delete(key);
      if (next !== undefined) this.run(key, next);
    });
    this.#turns.set(key, { cancel, next: undefined });
    what();
  }

  /** Cancels the waiting call. */
  cancel(key: K): void {
    const turn = this.#turns.get(key);
    if (turn !== undefined) turn.next = undefined;
  }

  stop(): void {
    for (const { cancel } of this.#turns.values()) cancel();
    this.#turns.clear();
  }
}
