/**
 * How far this process is behind the log: everything that the log had at a successful poll of its tail is folded a
 * moment later. A process that is cut off from the log, was paused, or folds too slowly falls behind.
 */
import type { Clock } from "../core/clock.ts";
import type { Logger } from "../core/logger.ts";
import type { EventLog } from "./event-log.ts";

interface FreshnessOptions {
  readonly log: Pick<EventLog, "tail" | "isAnswering">;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Resolves once everything is folded that listeners had a hint of at the call. */
  readonly settle: () => Promise<unknown>;
}

/** The poll comes once a second, so a process that keeps up is about a second behind at most. */
const STALE_MS = 5_000;
const LOOK_MS = 250;

export class Freshness {
  readonly #options: FreshnessOptions;
  /** Monotonic time of the log that is folded. */
  #foldedMs: number;

  constructor(options: FreshnessOptions) {
    this.#options = options;
    this.#foldedMs = options.clock.monotonic();
  }

  get behindMs(): number {
    return this.#options.clock.monotonic() - this.#foldedMs;
  }

  /** True if the log can't be reached, or this process is too far behind it. */
  get isStale(): boolean {
    return !this.#options.log.isAnswering || this.behindMs > STALE_MS;
  }

  /** Measures until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
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
      await clock.sleep(LOOK_MS, signal).catch(() => undefined);
    }
  }
}
