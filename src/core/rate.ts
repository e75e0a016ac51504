/** Limits the rate of named callers: one token bucket for each name. */
import type { Clock } from "./clock.ts";

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

  /** The tokens of the name's bucket. Below 0 after a charge that it couldn't pay. */
  left(name: string, { capacity, fillMs }: Rate): number {
    const before = this.#buckets.get(name);
    if (before === undefined) return capacity;
    return Math.min(capacity, before.tokens + ((this.#clock.monotonic() - before.at) * capacity) / fillMs);
  }

  /** Takes tokens of the name's bucket if it has them. Returns 0, or else the ms until it has. @param count at most `capacity` */
  take(name: string, rate: Rate, count = 1): number {
    const left = this.left(name, rate);
    const isEnough = left >= count;
    this.#set(name, isEnough ? left - count : left);
    return isEnough ? 0 : ((count - left) * rate.fillMs) / rate.capacity;
  }

  /** Takes tokens for work that was done already. The bucket may go into debt, at most as much as it holds. */
  charge(name: string, rate: Rate, count: number): void {
    if (count > 0) this.#set(name, Math.max(-rate.capacity, this.left(name, rate) - count));
  }

  #set(name: string, tokens: number): void {
    this.#buckets.set(name, { tokens, at: this.#clock.monotonic() });
  }
}
