/**
 * How far this process is behind the log: everything that the log had at a successful poll of its tail is folded a
 * moment later. A process that is cut off from the log, was paused, or folds too slowly falls behind. A log that takes no
 * appends makes answers stale, too.
 */
import type { Clock } from "../core/clock.ts";
import type { Logger } from "../core/logger.ts";
import type { EventLog } from "./event-log.ts";

interface FreshnessOptions {
  readonly log: Pick<EventLog, "tail" | "isAnswering" | "status">;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Resolves once everything is folded that listeners had a hint of at the call. */
  readonly settle: () => Promise<unknown>;
}

/** The poll comes once a second, so a process that keeps up is about a second behind at most. */
const BEHIND_MS = 5_000;
/** A log that takes no appends has nothing new from then on: what is shown gets old. */
const NOT_WRITABLE_MS = 10_000;
const MEASURE_MS = 250;
/** Interval of questions whether the log is writable: each is a query. */
const STATUS_MS = 1_000;

export class Freshness {
  readonly #options: FreshnessOptions;
  /** Monotonic time of the log that is folded. */
  #foldedMs: number;
  /** Monotonic time since which the log is not writable. */
  #notWritableSinceMs = Number.POSITIVE_INFINITY;

  constructor(options: FreshnessOptions) {
    this.#options = options;
    this.#foldedMs = options.clock.monotonic();
  }

  get behindMs(): number {
    return this.#options.clock.monotonic() - this.#foldedMs;
  }

  /** True if the log can't be reached, or this process is too far behind it. */
  get isBehind(): boolean {
    return !this.#options.log.isAnswering || this.behindMs > BEHIND_MS;
  }

  /** True if answers may be older than they look: this process is behind, or nothing new can be stored. */
  get isStale(): boolean {
    return this.isBehind || this.#options.clock.monotonic() - this.#notWritableSinceMs > NOT_WRITABLE_MS;
  }

  /** Measures until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#measure(signal), this.#watchStatus(signal)]);
  }

  async #watchStatus(signal: AbortSignal): Promise<void> {
    const { log, clock } = this.#options;
    while (!signal.aborted) {
      // A log that doesn't answer is behind already.
      const isWritable = await log.status().then(
        (status) => status.isWritable,
        () => true,
      );
      if (isWritable) this.#notWritableSinceMs = Number.POSITIVE_INFINITY;
      else this.#notWritableSinceMs = Math.min(this.#notWritableSinceMs, clock.monotonic());
      await clock.sleep(STATUS_MS, signal).catch(() => undefined);
    }
  }

  async #measure(signal: AbortSignal): Promise<void> {
    const { log, clock, logger, settle } = this.#options;
    for (let failures = 0; !signal.aborted; ) {
      const { polledMs } = log.tail;
      try {
        await settle();
        this.#foldedMs = polledMs;
        failures = 0;
      } catch (error) {
        logger[failures++ === 0 ? "error" : "debug"]({ err: error }, "an event of the log could not be folded");
      }
      await clock.sleep(MEASURE_MS, signal).catch(() => undefined);
    }
  }
}
