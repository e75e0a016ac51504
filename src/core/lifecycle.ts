/**
 * Owns every background loop by name. A rejection is reported with that name and never lost; `stop` aborts all of them
 * and waits, then runs the closers in reverse order of registration.
 */
import { isAbort } from "./errors.ts";
import type { Logger } from "./logger.ts";

export class Lifecycle {
  readonly #controller = new AbortController();
  readonly #running = new Map<Promise<void>, string>();
  readonly #closers: { name: string; close: () => Promise<void> | void }[] = [];
  readonly #logger: Logger;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Aborted when the service stops; every loop ends when it sees it. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get stopping(): boolean {
    return this.#controller.signal.aborted;
  }

  /** Starts a loop or a task under a name; its failure is logged, never thrown into the void. */
  run(name: string, task: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const running = this.#guard(name, task).finally(() => this.#running.delete(running));
    this.#running.set(running, name);
    return running;
  }

  async #guard(name: string, task: (signal: AbortSignal) => Promise<void>): Promise<void> {
    try {
      if (!this.stopping) await task(this.signal);
    } catch (error) {
      if (this.stopping && (isAbort(error) || error === this.signal.reason)) return;
      this.#logger.error({ task: name, err: error }, "background task failed");
    }
  }

  /** Registers something to close when stopping, after every loop has ended; last registered closes first. */
  onStop(name: string, close: () => Promise<void> | void): void {
    this.#closers.push({ name, close });
  }

  /** Ends all loops, then closes in reverse order. Safe to call twice. */
  async stop(): Promise<void> {
    if (!this.stopping) this.#controller.abort(new DOMException("the service is stopping", "AbortError"));
    await Promise.all(this.#running.keys());
    for (let closer = this.#closers.pop(); closer !== undefined; closer = this.#closers.pop()) {
      try {
        await closer.close();
      } catch (error) {
        this.#logger.error({ task: closer.name, err: error }, "closing failed");
      }
    }
  }
}
