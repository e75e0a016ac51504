/** When a follower looks at its chain: once the next block is due, or when somebody says that it is worth it. */
import type { Clock } from "../core/clock.ts";
import type { BlockRef } from "../events/types.ts";

/** Least time between looks where clients wait: a chain with ten blocks a second costs five looks. */
const HEARD_MS = 200;

export class Looks {
  readonly #clock: Clock;
  readonly #minPollMs: number;
  readonly #isHeard: () => boolean;
  #wake: (() => void) | undefined;
  /** Somebody wants another look. */
  #isWanted = false;
  /** Somebody is ready to join at the followed head, if that is this block or a later one. */
  #readied: number | undefined;
  /** Of the last look and of the next one, on the monotonic clock. */
  #begunMs = 0;
  #dueMs = 0;
  /** Cancels the look that an announced block has set for later. */
  #announced: (() => void) | undefined;

  /**
   * @param minPollMs least time between two looks that only announced blocks ask for
   * @param isHeard whether a client waits for the chain's blocks: then an announced one is looked at without that wait
   */
  constructor(clock: Clock, minPollMs: number, isHeard: () => boolean = () => false) {
    this.#clock = clock;
    this.#minPollMs = minPollMs;
    this.#isHeard = isHeard;
  }

  /** Has the follower look now instead of when the next block is due. */
  want(): void {
    this.#isWanted = true;
    this.#wake?.();
  }

  /** A node announced a block: a look soon, but no more often than the least wait allows. */
  headSeen(): void {
    const least = this.#isHeard() ? Math.min(this.#minPollMs, HEARD_MS) : this.#minPollMs;
    const wait = this.#begunMs + least - this.#clock.monotonic();
    if (wait <= 0) this.want();
    else this.#announced ??= this.#clock.after(wait, () => this.want());
  }

  /** Somebody is ready to join, at block `seen` or any later one. */
  readied(seen: number): void {
    this.#readied = Math.max(this.#readied ?? 0, seen);
    this.#wake?.();
  }

  /** Whether nothing is asked for but to join at the head that is held; asked once for each turn. */
  isOnlyToJoin(head: BlockRef | undefined): boolean {
    const readied = this.#readied;
    this.#readied = undefined;
    const isNewEnough = readied !== undefined && head !== undefined && head.number >= readied;
    return isNewEnough && !this.#isWanted && this.dueIn > 0;
  }

  /** A look begins: what is announced or wanted from here on is another one's. */
  begin(): void {
    this.#isWanted = false;
    this.#announced?.();
    this.#announced = undefined;
    this.#begunMs = this.#clock.monotonic();
    this.#dueMs = 0;
  }

  /** The next look is due in so many ms. */
  set dueIn(ms: number) {
    this.#dueMs = this.#clock.monotonic() + ms;
  }

  get dueIn(): number {
    return Math.max(0, this.#dueMs - this.#clock.monotonic());
  }

  /** Resolves after so many ms, or once there is something to do. @throws as aborted */
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
