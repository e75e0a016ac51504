/**
 * A generator that runs ahead of who reads it: what it yields is kept until it is asked for, in order, and its failure
 * until its turn has come. Several of them side by side read several ranges at once, each part usable as it comes.
 */
export class ReadAhead<T> implements AsyncIterable<T> {
  readonly #items: T[] = [];
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

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    for (;;) {
      const item = this.#items.shift();
      if (item !== undefined) yield item;
      else if (this.#failure !== undefined) throw this.#failure.error;
      else if (this.#isOver) return;
      else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }
}
