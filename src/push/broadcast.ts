/**
 * Tells many the same thing: some hundred in a turn of the event loop, so that ten thousand listeners are not felt by who
 * asks for a page meanwhile. What is told is told in the order in which it came up, to those who were there then.
 */

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
