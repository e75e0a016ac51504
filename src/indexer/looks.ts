/** Schedules a follower's polls: when the next block is due, or earlier on request. Makes no requests itself. */
import type { Clock } from "../core/clock.ts";
import type { BlockRef } from "../events/types.ts";

/** Minimum poll interval while clients subscribe: a chain with ten blocks per second costs five polls per second. */
const HEARD_MS = 200;

export class Looks {
  readonly #clock: Clock;
  readonly #minPollMs: number;
  readonly #isHeard: () => boolean;
  #wake: (() => void) | undefined;
  /** True if a poll is requested. */
  #isWanted = false;
  /** A collection can join at the followed head, if that is at least this block. */
  #readied: number | undefined;
  /** Monotonic times of the last poll and of the next one. */
  #begunMs = 0;
  #dueMs = 0;
  /** Cancels the poll that an announced block has scheduled. */
  #announced: (() => void) | undefined;

  /**
   * @param minPollMs minimum interval between two polls for announced blocks
   * @param isHeard true while a client waits for the chain's blocks; the interval is then HEARD_MS
   */
  constructor(clock: Clock, minPollMs: number, isHeard: () => boolean = () => false) {
    this.#clock = clock;
    this.#minPollMs = minPollMs;
    this.#isHeard = isHeard;
  }

  /** Requests a poll now instead of when the next block is due. */
  want(): void {
    this.#isWanted = true;
    this.#wake?.();
  }

  /** A node announced a block: polls soon, but within the minimum interval. */
  headSeen(): void {
    const least = this.#isHeard() ? Math.min(this.#minPollMs, HEARD_MS) : this.#minPollMs;
    const wait = this.#begunMs + least - this.#clock.monotonic();
    if (wait <= 0) this.want();
    else this.#announced ??= this.#clock.after(wait, () => this.want());
  }

  /** A collection can join at block `seen` or later. */
  readied(seen: number): void {
    this.#readied = Math.max(this.#readied ?? 0, seen);
    this.#wake?.();
  }

  /** True if the only request is a join, and the followed head is new enough for it. Call once per turn. */
  isOnlyToJoin(head: BlockRef | undefined): boolean {
    const readied = this.#readied;
    this.#readied = undefined;
    const isNewEnough = readied !== undefined && head !== undefined && head.number >= readied;
    return isNewEnough && !this.#isWanted && this.dueIn > 0;
  }

  /** Begins a poll. Requests and announcements after this count for the next poll. */
  begin(): void {
    this.#isWanted = false;
    this.#announced?.();
    this.#announced = undefined;
    this.#begunMs = this.#clock.monotonic();
    this.#dueMs = 0;
  }

  /** Sets the ms until the next poll is due. */
  set dueIn(ms: number) {
    this.#dueMs = this.#clock.monotonic() + ms;
  }

  get dueIn(): number {
    return Math.max(0, this.#dueMs - this.#clock.monotonic());
  }

  /** Resolves after `ms` ms, or earlier on a request. @throws the signal's reason */
  async pause(ms: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (!this.#isWanted && this.#readied === undefined) {
      const woken = new AbortController();
      this.#wake = () => woken.abort();
      await this.#clock.sleep(ms, AbortSignal.any([signal, woken.signal])).catch(() => undefined);
      this.#wake = undefined;
    }
    signal.throwIfAborted();
  }
}
