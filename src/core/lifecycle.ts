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
