/**
 * API keys and their rate limit. Only SHA-256 hashes of keys are kept. A comparison takes the same time for every key,
 * valid or not. One token bucket per key.
 */
import { timingSafeEqual } from "node:crypto";
import type { Clock } from "../core/clock.ts";
import { ApiError } from "../core/errors.ts";

export class KeyRing {
  readonly #hashes: readonly Buffer[];

  /** @param hashes SHA-256 of the keys, hex */
  constructor(hashes: readonly string[]) {
    this.#hashes = hashes.map((hash) => Buffer.from(hash, "hex"));
  }

  /** Returns the index of the key. @throws ApiError 401 */
  check(key: string | null | undefined): number {
    if (key === null || key === undefined || key === "") {
      throw new ApiError(401, "missing_api_key", "API KEY missing from x-api-key header");
    }
    const index = this.find(key);
    if (index < 0) throw new ApiError(401, "invalid_api_key", "x-api-key: the API key is not valid on this server");
    return index;
  }

  /** Returns the index of the key, or -1. Compares every hash, so that the time reveals nothing. */
  find(key: string): number {
    const hash = Bun.SHA256.hash(key.slice(0, 256)) as Uint8Array;
    let found = -1;
    for (let index = 0; index < this.#hashes.length; index++) {
      if (timingSafeEqual(this.#hashes[index] as Buffer, hash)) found = index;
    }
    return found;
  }
}

export class RateLimiter {
  readonly #perMinute: number;
  readonly #clock: Clock;
  readonly #buckets = new Map<number, { tokens: number; at: number }>();

  constructor(perMinute: number, clock: Clock) {
    this.#perMinute = perMinute;
    this.#clock = clock;
  }

  /** Takes one token from the key's bucket, which holds one minute's worth. @throws ApiError 429 with Retry-After */
  take(key: number): void {
    const now = this.#clock.monotonic();
    const perMs = this.#perMinute / 60_000;
    const bucket = this.#bucketOf(key, now);
    bucket.tokens = Math.min(this.#perMinute, bucket.tokens + (now - bucket.at) * perMs);
    bucket.at = now;
    if (bucket.tokens < 1) {
      const seconds = Math.max(1, Math.ceil((1 - bucket.tokens) / perMs / 1_000));
      throw new ApiError(429, "rate_limited", "Rate limit exceeded", { headers: { "retry-after": String(seconds) } });
    }
    bucket.tokens--;
  }

  #bucketOf(key: number, now: number): { tokens: number; at: number } {
    const known = this.#buckets.get(key);
    if (known !== undefined) return known;
    const bucket = { tokens: this.#perMinute, at: now };
    this.#buckets.set(key, bucket);
    return bucket;
  }
}
