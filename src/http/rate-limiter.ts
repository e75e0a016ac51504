/** The rate of a key's requests. */
import type { Clock } from "../core/clock.ts";
import { Refusal } from "../core/errors.ts";
import { TokenBuckets } from "../core/fair-slots.ts";
import type { ApiKey } from "../operators/keys.ts";

const MINUTE_MS = 60_000;

/** Limits the rate of each key by a token bucket that holds one minute's worth. */
export class RateLimiter {
  readonly #buckets: TokenBuckets;

  constructor(clock: Clock) {
    this.#buckets = new TokenBuckets(clock);
  }

  /** Takes one request from the key's bucket. @throws Refusal 429 with Retry-After */
  take({ key, requestsPerMinute }: Pick<ApiKey, "key" | "requestsPerMinute">): void {
    const wait = this.#buckets.take(key, { capacity: requestsPerMinute, fillMs: MINUTE_MS });
    if (wait === 0) return;
    const seconds = Math.max(1, Math.ceil(wait / 1_000));
    throw new Refusal("rate_limited", "Rate limit exceeded", { retryAfter: seconds });
  }
}
