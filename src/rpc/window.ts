/**
 * How many bulk requests an endpoint takes at once: one more for each windowful that went well, half after a refusal
 * for load, as TCP does. Requests of users are not held back by it.
 */
const FIRST = 4;
const MAX = 16;

export class Window {
  inFlight = 0;
  #size = FIRST;

  get size(): number {
    return Math.floor(this.#size);
  }

  get hasRoom(): boolean {
    return this.inFlight < this.size;
  }

  succeeded(): void {
    this.#size = Math.min(MAX, this.#size + 1 / this.#size);
  }

  /** The endpoint said "too many requests", or took too long. */
  overloaded(): void {
    this.#size = Math.max(1, this.#size / 2);
  }
}
