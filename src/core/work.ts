/**
 * The one runner of queued work. A lane holds items that wait, starts them in turns by key within the shares of all keys,
 * and starts the next ones when they end. `FairSlots` gives callers a turn in a lane, and `SingleFlight` lets concurrent
 * callers share one run. Waiting and shared work ends when the clients that wait for it are gone.
 */
import { Budget, OverBudget } from "./budget.ts";
import { isAbort, Refusal } from "./errors.ts";

/** The key that work is done for. */
export interface Requester {
  /** Name of the key; "" if it is not known, as for work from an old log. */
  readonly key: string;
  readonly isOperator: boolean;
}

/** The service's own work, and work whose key is not known. */
export const NO_KEY: Requester = { key: "", isOperator: false };

export interface Shares {
  /** Work that runs at once. */
  readonly places: number;
  /** Places that one key of scope `read` may hold. The others stay free for other keys. */
  readonly perKey: number;
  /** Places that keys of scope `read` leave to operators. */
  readonly forOperators: number;
}

/** Items that wait, taken in turns: operators' items first, then one item of each key after the other. */
export class FairQueue<T> {
  /** Items by key, for operators and for all others. The key that was served longest ago comes first. */
  readonly #lanes = [new Map<string, Set<T>>(), new Map<string, Set<T>>()] as const;
  readonly #requesters = new Map<T, Requester>();

  get size(): number {
    return this.#requesters.size;
  }

  has(item: T): boolean {
    return this.#requesters.has(item);
  }

  /** Number of waiting items of a key. */
  count({ key, isOperator }: Requester): number {
    return this.#lanes[isOperator ? 0 : 1].get(key)?.size ?? 0;
  }

  add(item: T, requester: Requester): void {
    if (this.#requesters.has(item)) return;
    this.#requesters.set(item, requester);
    const lane = this.#lanes[requester.isOperator ? 0 : 1];
    const items = lane.get(requester.key) ?? new Set<T>();
    lane.set(requester.key, items.add(item));
  }

  delete(item: T): boolean {
    const requester = this.#requesters.get(item);
    if (requester === undefined) return false;
    this.#requesters.delete(item);
    const lane = this.#lanes[requester.isOperator ? 0 : 1];
    const items = lane.get(requester.key);
    items?.delete(item);
    if (items?.size === 0) lane.delete(requester.key);
    return true;
  }

  /** Removes and returns the item whose turn it is among those that may go on; undefined without any. */
  take(
    mayGoOn: (requester: Requester, item: T) => boolean = () => true,
  ): { item: T; requester: Requester } | undefined {
    for (const lane of this.#lanes) {
      for (const [key, items] of lane) {
        const [item] = items as Set<T>;
        const requester = this.#requesters.get(item as T) as Requester;
        if (!mayGoOn(requester, item as T)) continue;
        this.delete(item as T);
        // The key goes to the end of the round.
        if (lane.delete(key)) lane.set(key, items);
        return { item: item as T, requester };
      }
    }
    return undefined;
  }

  /** Removes and returns further items of a key, at most `most`. */
  takeMore({ key, isOperator }: Requester, most: number): T[] {
    const items = [...(this.#lanes[isOperator ? 0 : 1].get(key) ?? [])].slice(0, most);
    for (const item of items) this.delete(item);
    return items;
  }

  clear(): void {
    for (const lane of this.#lanes) lane.clear();
    this.#requesters.clear();
  }
}

/** Counts the places that each key holds. */
class FairPlaces {
  readonly #shares: Shares;
  readonly #held = new Map<string, number>();
  #total = 0;
  #ofReaders = 0;

  constructor(shares: Shares) {
    this.#shares = shares;
  }

  /** True if the key may hold more places. @param count at most `perKey` */
  hasShare({ key, isOperator }: Requester, count: number): boolean {
    return isOperator || (this.#held.get(key) ?? 0) + count <= this.#shares.perKey;
  }

  /** True if the keys together leave places. */
  hasRoom({ isOperator }: Requester, count: number): boolean {
    const { places, forOperators } = this.#shares;
    return this.#total + count <= places && (isOperator || this.#ofReaders + count <= places - forOperators);
  }

  begin({ key, isOperator }: Requester, count = 1): void {
    this.#total += count;
    if (isOperator) return;
    this.#ofReaders += count;
    this.#held.set(key, (this.#held.get(key) ?? 0) + count);
  }

  /** Gives places back to all keys while the work goes on. They still count for the share of their own key. */
  leave({ isOperator }: Requester, count: number): void {
    this.#total -= count;
    if (!isOperator) this.#ofReaders -= count;
  }

  /** @param hasLeft true if the places were given back before */
  end(requester: Requester, count = 1, hasLeft = false): void {
    if (!hasLeft) this.leave(requester, count);
    const { key, isOperator } = requester;
    if (isOperator) return;
    const left = (this.#held.get(key) ?? 0) - count;
    if (left > 0) this.#held.set(key, left);
    else this.#held.delete(key);
  }
}

interface LaneOptions<T, R> {
  readonly shares: Shares;
  /** Places that an item takes, at most `perKey`. Default: 1. */
  readonly placesOf?: (item: T) => number;
  /** Runs an item. Must not reject. */
  readonly start: (item: T, requester: Requester) => Promise<R>;
  /** Called when the item no longer runs, with the result of its run. */
  readonly ended?: (result: R, item: T, requester: Requester) => void;
  /** True once nothing more may start. */
  readonly isStopping?: () => boolean;
}

interface LaneRun {
  readonly requester: Requester;
  readonly places: number;
  hasLeft: boolean;
}

/** Items that wait for one kind of work, and items whose work runs. */
export class Lane<T, R = void> {
  readonly #options: LaneOptions<T, R>;
  readonly #places: FairPlaces;
  readonly #waiting = new FairQueue<T>();
  readonly #running = new Map<T, LaneRun>();
  /** True while an item in turn waits for more places than are free. Smaller items don't overtake it. */
  #isHeldUp = false;

  constructor(options: LaneOptions<T, R>) {
    this.#options = options;
    this.#places = new FairPlaces(options.shares);
  }

  /** Number of items that wait or run. */
  get size(): number {
    return this.#waiting.size + this.#running.size;
  }

  /** True while an item waits for a place. */
  get isCrowded(): boolean {
    return this.#waiting.size > 0;
  }

  /** True if the item waits or runs. */
  has(item: T): boolean {
    return this.#waiting.has(item) || this.#running.has(item);
  }

  isWaiting(item: T): boolean {
    return this.#waiting.has(item);
  }

  /** Number of waiting items of a key. */
  count(requester: Requester): number {
    return this.#waiting.count(requester);
  }

  /** Starts an item, or lets it wait for its turn. An item that runs may be added for another turn. */
  add(item: T, requester: Requester): void {
    this.#waiting.add(item, requester);
    this.#fill();
  }

  /** Takes a waiting item back. Returns false if it doesn't wait. */
  delete(item: T): boolean {
    const wasWaiting = this.#waiting.delete(item);
    if (wasWaiting) this.#fill();
    return wasWaiting;
  }

  /** Removes and returns further waiting items of a key, at most `most`, for the run of another one. */
  takeMore(requester: Requester, most: number): T[] {
    return this.#waiting.takeMore(requester, most);
  }

  /** Gives the places of a running item back while it goes on. They still count for the share of its own key. */
  leave(item: T): void {
    const run = this.#running.get(item);
    if (run === undefined || run.hasLeft) return;
    run.hasLeft = true;
    this.#places.leave(run.requester, run.places);
    this.#fill();
  }

  /** Forgets the waiting items. */
  clear(): void {
    this.#waiting.clear();
  }

  #fill(): void {
    const { placesOf = () => 1, isStopping = () => false } = this.#options;
    while (!isStopping()) {
      this.#isHeldUp = false;
      const next = this.#waiting.take((requester, item) => {
        const places = placesOf(item);
        // A second run of an item waits for the end of the first one.
        if (this.#isHeldUp || this.#running.has(item) || !this.#places.hasShare(requester, places)) return false;
        this.#isHeldUp = !this.#places.hasRoom(requester, places);
        return !this.#isHeldUp;
      });
      if (next === undefined) return;
      this.#start(next.item, { requester: next.requester, places: placesOf(next.item), hasLeft: false });
    }
  }

  #start(item: T, run: LaneRun): void {
    this.#running.set(item, run);
    this.#places.begin(run.requester, run.places);
    const { start, ended } = this.#options;
    void start(item, run.requester).then((result) => {
      this.#running.delete(item);
      this.#places.end(run.requester, run.places, run.hasLeft);
      ended?.(result, item, run.requester);
      this.#fill();
    });
  }
}

interface SlotsOptions extends Shares {
  /** Work of one key that may wait. Further work is refused as `rate_limited`. */
  readonly maxWaiting: number;
  /** Seconds after which a refused client may try again: the time of one or two pieces of work. */
  readonly retryAfter: number;
  /** Names the work in the refusal, in the plural: `readings of whole collections`. */
  readonly work: string;
}

/** A caller's turn: it begins once there is a place, and holds the place until it ends. */
interface Turn {
  readonly places: number;
  readonly begun: PromiseWithResolvers<void>;
  readonly ended: PromiseWithResolvers<void>;
}

interface TurnOptions {
  /** At most `perKey`. Default: 1. */
  readonly places?: number;
  /** Ends the wait. Default: the signal of the budget that the caller runs on. */
  readonly signal?: AbortSignal | undefined;
}

/** Runs callers' work at once up to its shares. Further work waits for its turn. */
export class FairSlots {
  readonly #options: SlotsOptions;
  readonly #lane: Lane<Turn>;

  constructor(options: SlotsOptions) {
    this.#options = options;
    const start = ({ begun, ended }: Turn) => {
      begun.resolve();
      return ended.promise;
    };
    this.#lane = new Lane({ shares: options, placesOf: ({ places }) => places, start });
  }

  /**
   * @param work gets a function that gives its places back while it goes on
   * @throws Refusal `rate_limited` if too much work of the key waits; the signal's reason if it aborts first; errors of
   * `work`
   */
  async run<T>(
    requester: Requester,
    work: (leave: () => void) => Promise<T>,
    { places = 1, signal = Budget.current?.signal }: TurnOptions = {},
  ): Promise<T> {
    signal?.throwIfAborted();
    const turn: Turn = { places, begun: Promise.withResolvers(), ended: Promise.withResolvers() };
    this.#lane.add(turn, requester);
    if (this.#lane.isWaiting(turn)) await this.#wait(turn, requester, signal);
    try {
      return await work(() => this.#lane.leave(turn));
    } finally {
      turn.ended.resolve();
    }
  }

  /** Resolves when the turn has begun. */
  async #wait(turn: Turn, requester: Requester, signal: AbortSignal | undefined): Promise<void> {
    const { maxWaiting, retryAfter, work } = this.#options;
    if ((this.#lane.count(requester) - 1) * turn.places >= maxWaiting) {
      this.#lane.delete(turn);
      const text = `too many ${work} of this key wait already, at most ${maxWaiting}: wait for their answers`;
      throw new Refusal("rate_limited", text, { retryAfter });
    }
    const leave = () => {
      if (this.#lane.delete(turn)) turn.begun.reject(signal?.reason);
    };
    signal?.addEventListener("abort", leave, { once: true });
    try {
      await turn.begun.promise;
    } finally {
      signal?.removeEventListener("abort", leave);
    }
  }
}

/** A caller that waits for a run. */
interface Waiter {
  readonly budget: Budget | undefined;
}

/** A run that several callers share. */
interface Flight<T> {
  readonly result: Promise<T>;
  readonly controller: AbortController;
  /** What the run counts on; undefined for the service's own. */
  readonly budget: Budget | undefined;
  /** Callers that still wait. The first one pays. */
  readonly waiting: Set<Waiter>;
}

/** Runs work once at a time by key: calls that come while it runs share its result. */
export class SingleFlight<K, T> {
  readonly #flights = new Map<K, Flight<T>>();

  /**
   * Starts the work, or joins the run in progress. The run counts on the budget of the caller that started it. When that
   * caller's client is gone, the next caller pays for the rest. The run ends when all callers' clients are gone, and
   * its result ends what still runs for it.
   * @throws errors of `work`; the reason of the caller's own signal
   */
  async run(key: K, work: () => Promise<T>): Promise<T> {
    Budget.current?.signal?.throwIfAborted();
    const known = this.#flights.get(key);
    const flight = known ?? this.#begin(key, work);
    try {
      return await this.#wait(key, flight);
    } catch (error) {
      // The other caller has spent its budget or is gone, and this one has its own.
      const isOfOther = error instanceof OverBudget || (isAbort(error) && Budget.current?.signal?.aborted !== true);
      if (known !== undefined && isOfOther) return this.run(key, work);
      throw error;
    }
  }

  #begin(key: K, work: () => Promise<T>): Flight<T> {
    const controller = new AbortController();
    const payer = Budget.current;
    const budget = payer && new Budget({ payer, signal: controller.signal });
    const begun = budget === undefined ? work() : budget.run(work);
    const result = begun.finally(() => {
      this.#end(key, flight);
      // A result may come before the end of all the work for it, such as a word about how far a search is.
      controller.abort(new DOMException("the work is done", "AbortError"));
    });
    const flight: Flight<T> = { result, controller, budget, waiting: new Set() };
    this.#flights.set(key, flight);
    return flight;
  }

  #end(key: K, flight: Flight<T>): void {
    if (this.#flights.get(key) === flight) this.#flights.delete(key);
  }

  async #wait(key: K, flight: Flight<T>): Promise<T> {
    const waiter: Waiter = { budget: Budget.current };
    const signal = waiter.budget?.signal;
    flight.waiting.add(waiter);
    if (signal === undefined) return flight.result;
    const { promise: gone, reject } = Promise.withResolvers<never>();
    const leave = () => {
      reject(signal.reason);
      flight.waiting.delete(waiter);
      const next = [...flight.waiting].find(({ budget }) => budget !== undefined)?.budget;
      if (next !== undefined) flight.budget?.passTo(next);
      if (flight.waiting.size > 0) return;
      this.#end(key, flight);
      flight.controller.abort(signal.reason);
    };
    signal.addEventListener("abort", leave, { once: true });
    try {
      return await Promise.race([flight.result, gone]);
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  has(key: K): boolean {
    return this.#flights.has(key);
  }

  /** Keys of the running work. */
  keys(): K[] {
    return [...this.#flights.keys()];
  }
}

/** Returns the work as a function that runs it once at a time. */
export function singleFlight<T>(work: () => Promise<T>): () => Promise<T> {
  const flight = new SingleFlight<true, T>();
  return () => flight.run(true, work);
}
