/** Acts that may come too often, each under a name: the first is done at once, then one an interval, the last one always. */
import type { Clock } from "../core/clock.ts";

// Tells many the same thing: some hundred in a turn of the event loop, so that ten thousand listeners are not felt by who
// asks for a page meanwhile. What is told is told in the order in which it came up, to those who were there then.

/** A millisecond or two of sending. */
const SLICE = 250;

interface Round<T> {
  readonly to: readonly T[];
  readonly tell: (one: T) => void;
  done: number;
}

export class Broadcast<T> {
  readonly #rounds: Round<T>[] = [];

  /** Tells them now when they are few and nothing is on its way, else as soon as it is their turn. */
  send(to: ReadonlySet<T>, tell: (one: T) => void): void {
    if (this.#rounds.length === 0 && to.size <= SLICE) {
      for (const one of to) tell(one);
      return;
    }
    if (this.#rounds.push({ to: [...to], tell, done: 0 }) === 1) this.#go();
  }

  #go(): void {
    const round = this.#rounds[0];
    if (round === undefined) return;
    const end = Math.min(round.to.length, round.done + SLICE);
    for (; round.done < end; round.done++) round.tell(round.to[round.done] as T);
    if (round.done === round.to.length) this.#rounds.shift();
    if (this.#rounds.length > 0) setImmediate(() => this.#go());
  }

  stop(): void {
    this.#rounds.length = 0;
  }
}

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
