/**
 * Owns every background loop by name. A rejection is reported with that name and never lost; `stop` aborts all of them
 * and waits, then runs the closers in reverse order of registration. Nothing is waited for without a bound: what hangs on
 * a node or a log that does not answer is named in a warning and left behind.
 */
import { type Clock, systemClock } from "./clock.ts";
import { isAbort, isRetryable } from "./errors.ts";
import type { Logger } from "./logger.ts";
import { within } from "./within.ts";

/** A loop that is told to stop ends within this unless it waits for a node; then what it waits on is closed under it. */
const ENDING_MS = 1_500;
/** The waits between the four attempts of a request that fails at once are at most 0.2 + 0.4 + 0.8 s. */
const CUT_OFF_MS = 2_000;
/** Nearly all closers end at once; this is for one whose process or server does not answer. */
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
      // What it stands on was closed under it: the failure is of our making, and the next start does it again.
      if (this.stopping && isRetryable(error)) this.#logger.debug({ task: name, err: error }, "ended by stopping");
      else this.#logger.error({ task: name, err: error }, "background task failed");
    }
  }

  /** Registers something to close when stopping, after the loops have ended; last registered closes first. */
  onStop(name: string, close: () => Promise<void> | void): void {
    this.#closers.push({ name, close });
  }

  /**
   * As `onStop`, for what a loop needs to end in order, such as the log it gives its lease back to: closed after all else,
   * when a loop that hung on something else has had the time to end.
   */
  onEnd(name: string, close: () => Promise<void> | void): void {
    this.#lastClosers.push({ name, close });
  }

  /** Ends all loops, then closes in reverse order, within a bounded time. Safe to call twice. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    this.#controller.abort(new DOMException("the service is stopping", "AbortError"));
    await this.#ended(ENDING_MS);
    await this.#close(this.#closers);
    if (!(await this.#ended(CUT_OFF_MS))) {
      const names = [...this.#running.values()];
      this.#logger.warn({ tasks: names.join(", "), count: names.length }, "background tasks did not end in time");
    }
    await this.#close(this.#lastClosers);
  }

  /** Whether all loops ended within so many milliseconds. */
  async #ended(ms: number): Promise<boolean> {
    return (await within(this.#clock, ms, Promise.all(this.#running.keys()))) !== undefined;
  }

  async #close(closers: Closer[]): Promise<void> {
    for (let closer = closers.pop(); closer !== undefined; closer = closers.pop()) {
      const { name, close } = closer;
      try {
        const closing = close();
        // Most are done when they return, and some return other than they say.
        if (!(closing instanceof Promise)) continue;
        if ((await within(this.#clock, CLOSING_MS, closing)) !== undefined) continue;
        this.#logger.warn({ task: name }, "closing did not end in time");
      } catch (error) {
        this.#logger.error({ task: name, err: error }, "closing failed");
      }
    }
  }
}
