/**
 * The slots of one remote host, in turns by collection. Requests that are silent for seconds move to a slow lane, so that
 * documents that hang don't keep the slots from documents that answer.
 */
import type { Clock } from "../../../core/clock.ts";
import { FairSlots } from "../../../core/work.ts";

/** A request that is silent for so long moves to the slow lane. Ordinary documents arrive within a second. */
const SLOW_MS = 2_000;

/** A request in a lane. */
interface Ticket {
  /** Gives the place in the fast lane to another request. */
  readonly leave: () => void;
  isSlow: boolean;
}

export class HostLanes {
  readonly #clock: Clock;
  /** Slots of each lane. */
  readonly #size: number;
  readonly #fast: FairSlots;
  #slow = 0;
  /** Requests that run or wait. */
  #active = 0;
  /** Requests that were silent for `SLOW_MS` and found the slow lane full. */
  readonly #late = new Set<Ticket>();

  /** @param size slots of each lane */
  constructor(clock: Clock, size: number) {
    this.#clock = clock;
    this.#size = size;
    // Most slots of one collection in both lanes. The rest is for other collections at any time.
    const perKey = 2 * size - Math.max(1, Math.floor(size / 4));
    const most = { maxWaiting: Number.POSITIVE_INFINITY, retryAfter: 0, work: "documents" };
    this.#fast = new FairSlots({ places: size, perKey, forOperators: 0, ...most });
  }

  get isIdle(): boolean {
    return this.#active === 0;
  }

  /** Runs `work` once the collection has a slot. @throws any error of `work` */
  async run<T>(name: string, work: () => Promise<T>): Promise<T> {
    this.#active++;
    try {
      return await this.#fast.run({ key: name, isOperator: false }, (leave) => this.#inLane(leave, work));
    } finally {
      this.#active--;
    }
  }

  async #inLane<T>(leave: () => void, work: () => Promise<T>): Promise<T> {
    const ticket: Ticket = { leave, isSlow: false };
    const cancel = this.#clock.after(SLOW_MS, () => this.#slowDown(ticket));
    try {
      return await work();
    } finally {
      cancel();
      this.#late.delete(ticket);
      if (ticket.isSlow) this.#slow--;
      const [late] = this.#late;
      if (late !== undefined) this.#slowDown(late);
    }
  }

  #slowDown(ticket: Ticket): void {
    if (this.#slow >= this.#size) {
      this.#late.add(ticket);
      return;
    }
    this.#late.delete(ticket);
    ticket.isSlow = true;
    this.#slow++;
    ticket.leave();
  }
}
