/**
 * Limits rates. Token buckets limit named callers, who may use up at once what they saved. A window limits what this
 * service asks of another one, which counts in windows.
 */
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
    return isEnough ? 0 : this.wait(name, rate, count);
  }

  /** The ms until the name's bucket has so many tokens; 0 if it has them. @param count at most `capacity` */
  wait(name: string, rate: Rate, count: number): number {
    return Math.max(0, ((count - this.left(name, rate)) * rate.fillMs) / rate.capacity);
  }

  /** Takes tokens for work that was done already. The bucket may go into debt, at most as much as it holds. */
  charge(name: string, rate: Rate, count: number): void {
    if (count > 0) this.#set(name, Math.max(-rate.capacity, this.left(name, rate) - count));
  }

  #set(name: string, tokens: number): void {
    this.#buckets.set(name, { tokens, at: this.#clock.monotonic() });
  }
}

/** Allows a number of starts in any stretch of a length, wherever it begins. */
export class RateWindow {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #count: number;
  readonly #ms: number;
  /** Times of the last starts, at most `#count`. The oldest one is at `#oldest` once there are so many. */
  readonly #starts: number[] = [];
  #oldest = 0;

  constructor(clock: Pick<Clock, "monotonic">, { count, ms }: { readonly count: number; readonly ms: number }) {
    this.#clock = clock;
    this.#count = count;
    this.#ms = ms;
  }

  /** Starts, and returns 0. Otherwise returns the ms until the next start is free. */
  take(): number {
    const now = this.#clock.monotonic();
    if (this.#starts.length < this.#count) {
      this.#starts.push(now);
      return 0;
    }
    const free = (this.#starts[this.#oldest] as number) + this.#ms;
    if (free > now) return free - now;
    this.#starts[this.#oldest] = now;
    this.#oldest = (this.#oldest + 1) % this.#count;
    return 0;
  }
}
