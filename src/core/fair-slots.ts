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

  /** Removes and returns the item whose turn it is among the keys that may go on; undefined without any. */
  take(mayGoOn: (requester: Requester) => boolean = () => true): { item: T; requester: Requester } | undefined {
    for (const lane of this.#lanes) {
      for (const [key, items] of lane) {
        const [item] = items as Set<T>;
        const requester = this.#requesters.get(item as T) as Requester;
        if (!mayGoOn(requester)) continue;
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

  /** True if a place is free for the key. */
  isFreeFor({ key, isOperator }: Requester): boolean {
    const { places, perKey, forOperators } = this.#shares;
    if (this.#total >= places) return false;
    return isOperator || (this.#ofReaders < places - forOperators && (this.#held.get(key) ?? 0) < perKey);
  }

  begin({ key, isOperator }: Requester): void {
    this.#total++;
    if (isOperator) return;
    this.#ofReaders++;
    this.#held.set(key, (this.#held.get(key) ?? 0) + 1);
  }

  end({ key, isOperator }: Requester): void {
    this.#total--;
    if (isOperator) return;
    this.#ofReaders--;
    const left = (this.#held.get(key) ?? 0) - 1;
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

/** Runs work at once up to its shares. Further work waits for its turn. */
export class FairSlots {
  readonly #options: SlotsOptions;
  readonly #places: FairPlaces;
  readonly #waiting = new FairQueue<() => void>();

  constructor(options: SlotsOptions) {
    this.#options = options;
    this.#places = new FairPlaces(options);
  }

  /** @throws Refusal `rate_limited` if too much work of the key waits; the signal's reason if it aborts first; errors of `work` */
  async run<T>(requester: Requester, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    if (this.#places.isFreeFor(requester)) this.#places.begin(requester);
    else await this.#turn(requester, signal);
    try {
      return await work();
    } finally {
      this.#places.end(requester);
      this.#fill();
    }
  }

  #fill(): void {
    for (;;) {
      const next = this.#waiting.take((requester) => this.#places.isFreeFor(requester));
      if (next === undefined) return;
      this.#places.begin(next.requester);
      next.item();
    }
  }

  #turn(requester: Requester, signal: AbortSignal | undefined): Promise<void> {
    const { maxWaiting, retryAfter, work } = this.#options;
    if (this.#waiting.count(requester) >= maxWaiting) {
      const text = `too many ${work} of this key wait already, at most ${maxWaiting}: wait for their answers`;
      throw new Refusal("rate_limited", text, { retryAfter: retryAfter });
    }
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiting.delete(go);
        reject(signal?.reason);
      };
      const go = () => {
        signal?.removeEventListener("abort", leave);
        resolve();
      };
      this.#waiting.add(go, requester);
      signal?.addEventListener("abort", leave, { once: true });
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
