/**
 * Schedules a follower's polls: when the next block is due, or earlier on request. Also knows when a request is only to
 * join at the followed head. Makes no requests to nodes.
 */
import type { Clock } from "../core/clock.ts";
import type { BlockRef } from "../events/types.ts";

/** Minimum poll interval while clients subscribe: a chain with ten blocks per second costs five polls per second. */
const WATCHED_POLL_MS = 200;

interface PollScheduleOptions {
  /** Minimum interval between two polls for announced blocks. */
  readonly minPollMs: number;
  /** The interval while no client waits for the chain's blocks, if it is longer. Each poll costs calls. */
  readonly restMs: number;
  /** True while a client waits for the chain's blocks. The minimum interval is then WATCHED_POLL_MS. */
  readonly hasSubscribers?: (() => boolean) | undefined;
}

export class PollSchedule {
  readonly #clock: Clock;
  readonly #minPollMs: number;
  readonly #hasSubscribers: () => boolean;
  readonly #restMs: number;
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

  constructor(clock: Clock, { minPollMs, restMs, hasSubscribers = () => false }: PollScheduleOptions) {
    this.#clock = clock;
    this.#minPollMs = minPollMs;
    this.#hasSubscribers = hasSubscribers;
    this.#restMs = restMs;
  }

  /** True if the next poll is due later than polls that a client waits for are apart. */
  get isResting(): boolean {
    return this.#restMs > 0 && this.dueIn > this.#minPollMs;
  }

  /** Least ms between polls that no client waits for; 0 while one does. */
  get restMs(): number {
    return this.#hasSubscribers() ? 0 : this.#restMs;
  }

  /** Requests a poll now instead of when the next block is due. */
  requestPoll(): void {
    this.#isWanted = true;
    this.#wake?.();
  }

  /** A node announced a block: polls soon, but within the minimum interval. */
  blockAnnounced(): void {
    const least = this.#hasSubscribers()
      ? Math.min(this.#minPollMs, WATCHED_POLL_MS)
      : Math.max(this.#minPollMs, this.#restMs);
    const wait = this.#begunMs + least - this.#clock.monotonic();
    if (wait <= 0) this.requestPoll();
    else this.#announced ??= this.#clock.after(wait, () => this.requestPoll());
  }

  /** A collection can join at block `seen` or later. */
  requestJoin(seen: number): void {
    this.#readied = Math.max(this.#readied ?? 0, seen);
    this.#wake?.();
  }

  /** True if a poll or a join is requested. */
  get isRequested(): boolean {
    return this.#isWanted || this.#readied !== undefined;
  }

  /** True if the only request is a join, and the followed head is new enough for it. Call once per turn. */
  takeJoinOnly(head: BlockRef | undefined): boolean {
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
    if (!this.isRequested) {
      const woken = new AbortController();
      this.#wake = () => woken.abort();
      await this.#clock.sleep(ms, AbortSignal.any([signal, woken.signal])).catch(() => undefined);
      this.#wake = undefined;
    }
    signal.throwIfAborted();
  }
}
