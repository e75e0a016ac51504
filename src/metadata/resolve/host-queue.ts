/**
 * The slots of one remote host. Requests that are silent for seconds move to a slow lane, so that documents that hang
 * don't keep the slots from documents that answer. A free slot goes to the collection that holds the fewest, so that
 * collections don't starve each other.
 */
import type { Clock } from "../../core/clock.ts";

/** A request that is silent for so long moves to the slow lane. Ordinary documents arrive within a second. */
const SLOW_MS = 2_000;

interface Collection {
  /** Requests in either lane. */
  held: number;
  /** Each starts one request. */
  readonly waiting: (() => void)[];
}

/** A request in a lane. */
interface Ticket {
  readonly name: string;
  lane: "fast" | "slow";
}

export class HostQueue {
  readonly #clock: Clock;
  /** Slots of each lane. */
  readonly #size: number;
  /** Most slots of one collection in both lanes. The rest is for other collections at any time. */
  readonly #maxHeld: number;
  #fast = 0;
  #slow = 0;
  /** Requests that were silent for `SLOW_MS` and found the slow lane full. */
  readonly #late = new Set<Ticket>();
  /** Collections with a request. */
  readonly #collections = new Map<string, Collection>();

  /** @param size slots of each lane */
  constructor(clock: Clock, size: number) {
    this.#clock = clock;
    this.#size = size;
    this.#maxHeld = 2 * size - Math.max(1, Math.floor(size / 4));
  }

  get isIdle(): boolean {
    return this.#collections.size === 0;
  }

  /** Runs `work` once the collection has a slot. @throws any error of `work` */
  async run<T>(name: string, work: () => Promise<T>): Promise<T> {
    const ticket = await this.#enter(name);
    const cancel = this.#clock.after(SLOW_MS, () => this.#slowDown(ticket));
    try {
      return await work();
    } finally {
      cancel();
      this.#leave(ticket);
    }
  }

  async #enter(name: string): Promise<Ticket> {
    const collection = this.#collections.get(name) ?? { held: 0, waiting: [] };
    this.#collections.set(name, collection);
    const turn = new Promise<void>((resolve) => collection.waiting.push(resolve));
    this.#admit();
    await turn;
    return { name, lane: "fast" };
  }

  /** Starts waiting requests while slots are free. */
  #admit(): void {
    while (this.#fast < this.#size) {
      let next: Collection | undefined;
      for (const collection of this.#collections.values()) {
        if (collection.waiting.length === 0 || collection.held >= this.#maxHeld) continue;
        if (next === undefined || collection.held < next.held) next = collection;
      }
      if (next === undefined) return;
      next.held++;
      this.#fast++;
      next.waiting.shift()?.();
    }
  }

  #slowDown(ticket: Ticket): void {
    if (this.#slow >= this.#size) {
      this.#late.add(ticket);
      return;
    }
    this.#late.delete(ticket);
    ticket.lane = "slow";
    this.#slow++;
    this.#fast--;
    this.#admit();
  }

  #leave(ticket: Ticket): void {
    const collection = this.#collections.get(ticket.name) as Collection;
    collection.held--;
    if (collection.held === 0 && collection.waiting.length === 0) this.#collections.delete(ticket.name);
    if (ticket.lane === "fast") {
      this.#fast--;
      this.#late.delete(ticket);
    } else {
      this.#slow--;
      const [late] = this.#late;
      if (late !== undefined) this.#slowDown(late);
    }
    this.#admit();
  }
}
