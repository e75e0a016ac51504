/** A semaphore: limits the work that runs at once, in order of arrival. */

/** When all slots are taken, further work waits in order of arrival. */
export class Semaphore {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(count: number) {
    this.#free = count;
  }

  /** @throws any error of `work`, and the signal's reason if it aborts before the turn */
  async run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    if (this.#free > 0) this.#free--;
    else await this.#turn(signal);
    try {
      return await work();
    } finally {
      const [next] = this.#waiting;
      if (next !== undefined) next();
      else this.#free++;
    }
  }

  /** Waits until another run passes its slot on. */
  #turn(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (end: () => void) => {
        this.#waiting.delete(go);
        signal?.removeEventListener("abort", leave);
        end();
      };
      const go = () => settle(resolve);
      const leave = () => settle(() => reject(signal?.reason));
      this.#waiting.add(go);
      signal?.addEventListener("abort", leave, { once: true });
    });
  }
}
