/**
 * Fair shares of a limited resource: a queue that takes work in turns by key, operators first, and slots of which one
 * key holds only a part. Without it, one key that asks much delays all others.
 */
import type { Clock } from "./clock.ts";
import { Refusal } from "./errors.ts";

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
export class FairPlaces {
  readonly #shares: Shares;
  readonly #held = new Map<string, number>();
  #total = 0;
  #ofReaders = 0;

  constructor(shares: Shares) {
    this.#shares = shares;
  }

  /** True if places are free for the key. @param count at most `perKey` */
  isFreeFor(requester: Requester, count = 1): boolean {
    return this.hasShare(requester, count) && this.hasRoom(requester, count);
  }

  /** True if the key may hold more places. */
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

  end({ key, isOperator }: Requester, count = 1): void {
    this.#total -= count;
    if (isOperator) return;
    this.#ofReaders -= count;
    const left = (this.#held.get(key) ?? 0) - count;
    if (left > 0) this.#held.set(key, left);
    else this.#held.delete(key);
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

interface Waiting {
  readonly places: number;
  readonly go: () => void;
}

/** Runs work at once up to its shares. Further work waits for its turn. */
export class FairSlots {
  readonly #options: SlotsOptions;
  readonly #places: FairPlaces;
  readonly #waiting = new FairQueue<Waiting>();
  /** True while work in turn waits for more places than are free. Smaller work does not overtake it. */
  #isHeldUp = false;

  constructor(options: SlotsOptions) {
    this.#options = options;
    this.#places = new FairPlaces(options);
  }

  /**
   * @param places that the work takes, at most `perKey`
   * @throws Refusal `rate_limited` if too much work of the key waits; the signal's reason if it aborts first; errors of
   * `work`
   */
  async run<T>(
    requester: Requester,
    work: () => Promise<T>,
    { places = 1, signal }: { readonly places?: number; readonly signal?: AbortSignal } = {},
  ): Promise<T> {
    signal?.throwIfAborted();
    const mayBegin = requester.isOperator || !this.#isHeldUp;
    if (mayBegin && this.#places.isFreeFor(requester, places)) this.#places.begin(requester, places);
    else await this.#turn(requester, places, signal);
    try {
      return await work();
    } finally {
      this.#places.end(requester, places);
      this.#fill();
    }
  }

  #fill(): void {
    for (;;) {
      this.#isHeldUp = false;
      const next = this.#waiting.take((requester, { places }) => {
        if (this.#isHeldUp || !this.#places.hasShare(requester, places)) return false;
        this.#isHeldUp = !this.#places.hasRoom(requester, places);
        return !this.#isHeldUp;
      });
      if (next === undefined) return;
      this.#places.begin(next.requester, next.item.places);
      next.item.go();
    }
  }

  #turn(requester: Requester, places: number, signal: AbortSignal | undefined): Promise<void> {
    const { maxWaiting, retryAfter, work } = this.#options;
    if (this.#waiting.count(requester) * places >= maxWaiting) {
      const text = `too many ${work} of this key wait already, at most ${maxWaiting}: wait for their answers`;
      throw new Refusal("rate_limited", text, { retryAfter });
    }
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiting.delete(waiting);
        this.#fill();
        reject(signal?.reason);
      };
      const go = () => {
        signal?.removeEventListener("abort", leave);
        resolve();
      };
      const waiting = { places, go };
      this.#waiting.add(waiting, requester);
      signal?.addEventListener("abort", leave, { once: true });
      this.#fill();
    });
  }
}

// Limits the rate of named callers: one token bucket for each name.

interface Rate {
  /** Tokens of a full bucket. */
  readonly capacity: number;
  /** Time in ms in which an empty bucket fills. */
  readonly fillMs: number;
}

export class TokenBuckets {
  readonly #clock: Clock;
  readonly #buckets = new Map<string, { readonly tokens: number; readonly at: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Takes one token of the name's bucket. Returns 0, or without a token the ms until there is one. */
  take(name: string, { capacity, fillMs }: Rate): number {
    const now = this.#clock.monotonic();
    const perMs = capacity / fillMs;
    const before = this.#buckets.get(name) ?? { tokens: capacity, at: now };
    const tokens = Math.min(capacity, before.tokens + (now - before.at) * perMs);
    this.#buckets.set(name, { tokens: tokens < 1 ? tokens : tokens - 1, at: now });
    return tokens >= 1 ? 0 : (1 - tokens) / perMs;
  }
}
