/**
 * Congestion window of one endpoint: how many bulk requests it takes at once. Like in TCP, it grows by one per window
 * of successes and halves after an overload. It does not hold back requests of users.
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

  /** Halves the window, after the endpoint sent "too many requests" or was too slow. */
  overloaded(): void {
    this.#size = Math.max(1, this.#size / 2);
  }
}
