/**
 * A generator that runs ahead of who reads it: what it yields is kept until it is taken, in order, and its failure until
 * its turn has come. Several of them side by side read several ranges at once, each part usable as it comes.
 */
export class ReadAhead<T> {
  #items: T[] = [];
  #isOver = false;
  #failure: { readonly error: unknown } | undefined;
  #wake: (() => void) | undefined;

  /** @param source is drained at once: it must end by itself, or by a signal of its own */
  constructor(source: AsyncIterable<T>) {
    this.#drain(source);
  }

  async #drain(source: AsyncIterable<T>): Promise<void> {
    try {
      for await (const item of source) {
        this.#items.push(item);
        this.#wake?.();
      }
    } catch (error) {
      this.#failure = { error };
    }
    this.#isOver = true;
    this.#wake?.();
  }

  /** Whether nothing comes any more after what has come. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** What the source failed with, after what has come. */
  get failure(): { readonly error: unknown } | undefined {
    return this.#failure;
  }

  /** What has come since the last time. */
  take(): T[] {
    const items = this.#items;
    this.#items = [];
    return items;
  }

  /** Resolves once there is something to take, or an end. */
  async more(): Promise<void> {
    while (this.#items.length === 0 && !this.#isOver) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
