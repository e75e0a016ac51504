/**
 * How long writes of the event log wait. A lock of another process holds them up without a word: reads work, and nothing
 * new is stored.
 */
import type { Clock } from "../core/clock.ts";

/** A write that takes longer is held up. */
const SLOW_MS = 5_000;
/** After that the log counts as out of reach. */
const BLOCKED_MS = 10_000;

/** A write that is running. */
export interface RunningWrite {
  /** Monotonic time of the request. */
  readonly sentMs: number;
}

export class WriteWatch {
  readonly #clock: Clock;
  /** In the order of their beginnings. */
  readonly #running = new Set<RunningWrite>();
  /** Monotonic time of the oldest write that was given up, until one succeeds. */
  #failingSince: number | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  begin(): RunningWrite {
    const write = { sentMs: this.#clock.monotonic() };
    this.#running.add(write);
    return write;
  }

  /** The write was made, or refused for its own sake: the log takes writes. */
  ended(write: RunningWrite): void {
    this.#running.delete(write);
    this.#failingSince = undefined;
  }

  /** The write was given up. @param isHeldUp true if it waited for others, or for an answer */
  failed(write: RunningWrite, isHeldUp: boolean): void {
    this.#running.delete(write);
    if (isHeldUp) this.#failingSince ??= write.sentMs;
  }

  /** Ms for which no write has succeeded, although some were tried. */
  get #waitedMs(): number {
    const [oldest] = this.#running;
    const since = this.#failingSince ?? oldest?.sentMs;
    return since === undefined ? 0 : this.#clock.monotonic() - since;
  }

  /** True if a write waits for too long. */
  get isHeldUp(): boolean {
    return this.#waitedMs >= SLOW_MS;
  }

  /** True if no write has succeeded for long. */
  get isBlocked(): boolean {
    return this.#waitedMs >= BLOCKED_MS;
  }

  /** True if no running write will tell whether the log takes writes again. */
  get isIdle(): boolean {
    return this.#running.size === 0;
  }

  /** True if the last write was given up. */
  get isFailing(): boolean {
    return this.#failingSince !== undefined;
  }
}
