/**
 * Keeps the parts of the service over a log that may go back. The parts hold everything that was derived from the log:
 * projections, views of chains, caches, cursors, loops. If the log has lost records, nothing tells which part is wrong.
 * So all parts are dropped and made again, as by a restart of the process. Only the listening socket stays.
 */
import type { Clock } from "./clock.ts";
import { Lifecycle } from "./lifecycle.ts";
import type { Logger } from "./logger.ts";

const RETRY_MS = 1_000;

interface GenerationsOptions<T> {
  readonly clock: Clock;
  readonly logger: Logger;
  /**
   * Makes the parts.
   * @param lifecycle stops them
   * @param onWentBack call it when the log has gone back
   */
  readonly make: (lifecycle: Lifecycle, onWentBack: () => void) => Promise<T>;
  /** Called when the parts are dropped. */
  readonly onDropped: () => void;
}

interface Generation<T> {
  readonly parts: T;
  readonly lifecycle: Lifecycle;
  readonly wentBack: Promise<void>;
}

export class Generations<T> {
  readonly #options: GenerationsOptions<T>;
  readonly #stopping = Promise.withResolvers<void>();
  readonly #stopSignal = new AbortController();
  #current: Generation<T> | undefined;
  #keeping: Promise<void> = Promise.resolve();

  constructor(options: GenerationsOptions<T>) {
    this.#options = options;
  }

  /** The parts; undefined while they are made. */
  get current(): T | undefined {
    return this.#current?.parts;
  }

  /** Makes the first parts. @throws if that fails */
  async start(): Promise<void> {
    this.#current = await this.#make();
    this.#keeping = this.#keep();
  }

  /** Stops the parts, or their making. */
  async stop(): Promise<void> {
    this.#stopSignal.abort();
    this.#stopping.resolve();
    await this.#keeping;
    await this.#current?.lifecycle.stop();
  }

  /** Makes new parts whenever the log went back. */
  async #keep(): Promise<void> {
    for (let generation = this.#current; generation !== undefined; generation = await this.#remake()) {
      this.#current = generation;
      await Promise.race([generation.wentBack, this.#stopping.promise]);
      if (this.#stopSignal.signal.aborted) return;
      this.#current = undefined;
      this.#options.onDropped();
      await generation.lifecycle.stop();
    }
  }

  /** Makes parts, until that succeeds. Undefined if the service stops before. */
  async #remake(): Promise<Generation<T> | undefined> {
    const { clock, logger } = this.#options;
    const { signal } = this.#stopSignal;
    for (let attempt = 1; !signal.aborted; attempt++) {
      try {
        return await this.#make();
      } catch (error) {
        logger.warn({ err: error, attempt }, "the event log could not be read again yet");
        await clock.sleep(RETRY_MS, signal).catch(() => undefined);
      }
    }
    return undefined;
  }

  async #make(): Promise<Generation<T>> {
    const { clock, logger, make } = this.#options;
    const lifecycle = new Lifecycle(logger, clock);
    const { promise: wentBack, resolve } = Promise.withResolvers<void>();
    try {
      return { parts: await make(lifecycle, resolve), lifecycle, wentBack };
    } catch (error) {
      await lifecycle.stop();
      throw error;
    }
  }
}
