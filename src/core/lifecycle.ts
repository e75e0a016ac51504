/**
 * Owns every background loop by name and logs each failure with that name. `stop` aborts all loops, waits for them,
 * then runs the closers in reverse order of registration. Each wait has a bound: a loop that hangs on a node or a log
 * without an answer is named in a warning and left behind.
 */

import { Budget } from "./budget.ts";
import { type Clock, systemClock, withTimeout } from "./clock.ts";
import { isAbort, isRetryable } from "./errors.ts";
import type { Logger } from "./logger.ts";

/** After an abort a loop ends within this, unless it waits for a node. Then its connections are closed. */
const ENDING_MS = 1_500;
/** Four attempts of a request that fails at once wait at most 0.2 + 0.4 + 0.8 s in between. */
const CUT_OFF_MS = 2_000;
/** Nearly all closers end at once. This bounds one whose process or server does not answer. */
const CLOSING_MS = 2_000;

interface Closer {
  readonly name: string;
  readonly close: () => unknown;
}

export class Lifecycle {
  readonly #controller = new AbortController();
  readonly #running = new Map<Promise<void>, string>();
  readonly #closers: Closer[] = [];
  readonly #lastClosers: Closer[] = [];
  readonly #logger: Logger;
  readonly #clock: Clock;
  #stopped: Promise<void> | undefined;

  constructor(logger: Logger, clock: Clock = systemClock) {
    this.#logger = logger;
    this.#clock = clock;
  }

  /** Aborted when the service stops. Every loop must then end. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get stopping(): boolean {
    return this.#controller.signal.aborted;
  }

  /**
   * Starts a named loop or task and logs its failure. The returned promise never rejects. Its calls don't count on the
   * account of the request that started it.
   */
  run(name: string, task: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const running = Budget.outside(() => this.#guard(name, task)).finally(() => this.#running.delete(running));
    this.#running.set(running, name);
    return running;
  }

  async #guard(name: string, task: (signal: AbortSignal) => Promise<void>): Promise<void> {
    try {
      if (!this.stopping) await task(this.signal);
    } catch (error) {
      if (this.stopping && (isAbort(error) || error === this.signal.reason)) return;
      // The stop closed a resource that the task uses. Not a fault: the next start repeats the work.
      if (this.stopping && isRetryable(error)) this.#logger.debug({ task: name, err: error }, "ended by stopping");
      else this.#logger.error({ task: name, err: error }, "background task failed");
    }
  }

  /** Registers a closer that runs when the loops have ended. The last one registered runs first. */
  onStop(name: string, close: () => Promise<void> | void): void {
    this.#closers.push({ name, close });
  }

  /**
   * Like `onStop`, for a resource that loops need until their end, such as the log to which they return their leases.
   * Closes after all other closers, when loops that hung on those had time to end.
   */
  onStopLast(name: string, close: () => Promise<void> | void): void {
    this.#lastClosers.push({ name, close });
  }

  /** Ends all loops, then runs the closers in reverse order, within a bounded time. A second call has no effect. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    this.#controller.abort(new DOMException("the service is stopping", "AbortError"));
    await this.#waitForLoops(ENDING_MS);
    await this.#close(this.#closers);
    if (!(await this.#waitForLoops(CUT_OFF_MS))) {
      const names = [...this.#running.values()];
      this.#logger.warn({ tasks: names.join(", "), count: names.length }, "background tasks did not end in time");
    }
    await this.#close(this.#lastClosers);
  }

  /** Returns true if all loops ended within `ms` ms. */
  async #waitForLoops(ms: number): Promise<boolean> {
    return (await withTimeout(this.#clock, ms, Promise.all(this.#running.keys()))) !== undefined;
  }

  async #close(closers: Closer[]): Promise<void> {
    for (let closer = closers.pop(); closer !== undefined; closer = closers.pop()) {
      const { name, close } = closer;
      try {
        const closing = close();
        // Most closers are synchronous, and some return other values than their type says.
        if (!(closing instanceof Promise)) continue;
        if ((await withTimeout(this.#clock, CLOSING_MS, closing)) !== undefined) continue;
        this.#logger.warn({ task: name }, "closing did not end in time");
      } catch (error) {
        this.#logger.error({ task: name, err: error }, "closing failed");
      }
    }
  }
}

const FIRST_MS = 60_000;
const MAX_MS = 3_600_000;

export class StallWatch {
  readonly #clock: Clock;
  readonly #onStall: (ms: number) => void;
  #since = 0;
  #cancel: () => void = () => undefined;

  /** @param onStall called with the ms since the last progress */
  constructor(clock: Clock, onStall: (ms: number) => void) {
    this.#clock = clock;
    this.#onStall = onStall;
    this.progressed();
  }

  /** Records progress of the loop. */
  progressed(): void {
    this.#since = this.#clock.monotonic();
    this.#wait(FIRST_MS);
  }

  #wait(ms: number): void {
    this.#cancel();
    this.#cancel = this.#clock.after(ms, () => {
      this.#wait(Math.min(MAX_MS, ms * 2));
      this.#onStall(this.#clock.monotonic() - this.#since);
    });
  }

  stop(): void {
    this.#cancel();
  }
}

/** Describes work without progress for `ms` ms. @param failure message of the newest request that failed meanwhile */
export function stallReason(doing: string, ms: number, failure: string | undefined): string {
  const cause = failure === undefined ? "no answer came yet" : `the last request failed: ${failure}`;
  return `${doing}, without progress for ${Math.round(ms / 1_000)} s; ${cause}`;
}

// Keeps the parts of the service over a log that may go back. The parts hold everything that was derived from the log:
// projections, views of chains, caches, cursors, loops. If the log has lost records, nothing tells which of it is
// wrong. So all of it is dropped and made again, as by a restart of the process. Only the listening socket stays.

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
