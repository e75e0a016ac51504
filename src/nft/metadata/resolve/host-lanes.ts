/**
 * The slots for requests to one remote host. Collections take turns. A request without an answer for seconds moves to a slow
 * lane, so that documents that hang don't keep the slots from documents that answer.
 */
import type { Clock } from "../../../core/clock.ts";
import { FairSlots } from "../../../core/work.ts";

/** A request without an answer for so long moves to the slow lane. Ordinary documents arrive within a second. */
const SLOW_MS = 2_000;

/** A request that runs. */
interface RunningRequest {
  /** Gives the place in the fast lane to another request. */
  readonly leave: () => void;
  isSlow: boolean;
}

export class HostLanes {
  readonly #clock: Clock;
  /** Slots of each lane. */
  readonly #size: number;
  readonly #fast: FairSlots;
  /** Requests in the slow lane. */
  #slow = 0;
  /** Requests that run or wait. */
  #active = 0;
  /** Requests that have run for `SLOW_MS` and wait in the fast lane, because the slow lane is full. */
  readonly #late = new Set<RunningRequest>();

  /** @param size slots of each lane */
  constructor(clock: Clock, size: number) {
    this.#clock = clock;
    this.#size = size;
    // Most slots of one collection in both lanes. The rest is for other collections at any time.
    const perKey = 2 * size - Math.max(1, Math.floor(size / 4));
    // No request is refused, so its refusal needs no words.
    const queue = { maxWaiting: Number.POSITIVE_INFINITY, retryAfter: 0, work: "documents" };
    this.#fast = new FairSlots({ places: size, perKey, forOperators: 0, ...queue });
  }

  get isIdle(): boolean {
    return this.#active === 0;
  }

  /** Runs `work` once the collection has a slot. @throws any error of `work` */
  async run<T>(collection: string, work: () => Promise<T>): Promise<T> {
    this.#active++;
    try {
      return await this.#fast.run({ key: collection, isOperator: false }, (leave) => this.#inLane(leave, work));
    } finally {
      this.#active--;
    }
  }

  async #inLane<T>(leave: () => void, work: () => Promise<T>): Promise<T> {
    const running: RunningRequest = { leave, isSlow: false };
    const cancel = this.#clock.after(SLOW_MS, () => this.#moveOver(running));
    try {
      return await work();
    } finally {
      cancel();
      this.#late.delete(running);
      if (running.isSlow) this.#leaveSlow();
    }
  }

  /** Moves a request to the slow lane, at once or when that has a place. */
  #moveOver(running: RunningRequest): void {
    if (this.#slow >= this.#size) {
      this.#late.add(running);
      return;
    }
    running.isSlow = true;
    this.#slow++;
    running.leave();
  }

  #leaveSlow(): void {
    this.#slow--;
    const [late] = this.#late;
    if (late === undefined) return;
    this.#late.delete(late);
    this.#moveOver(late);
  }
}
