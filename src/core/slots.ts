/** A bound on what runs at once: whoever comes when all slots are taken waits its turn. */
export class Slots {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(count: number) {
    this.#free = count;
  }

  /** @throws what `work` throws, and the signal's reason when it is aborted before the turn comes */
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

  /** Resolves with a slot that another one passes on. */
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
