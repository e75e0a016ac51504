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
