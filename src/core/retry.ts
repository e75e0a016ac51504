/**
 * The one retry loop. It reads one flag (`retryable`), backs off exponentially with full jitter, and tells its caller
 * of each failure so that metrics and logs see every attempt.
 */
import type { Clock } from "./clock.ts";
import { isRetryable } from "./errors.ts";

export interface RetryOptions {
  readonly clock: Clock;
  /** Attempts in all, the first included. */
  readonly attempts: number;
  /** Upper bound of the first wait in ms; doubles each time. */
  readonly baseMs: number;
  readonly maxMs: number;
  readonly signal?: AbortSignal;
  /** Called after each failed attempt; may return the least wait in ms (a `Retry-After`). */
  readonly onFailure?: (error: unknown, attempt: number) => number | undefined;
}

/** The wait before attempt `attempt + 1` (attempts count from 1): between half and all of the doubled base. */
export function backoffMs(clock: Clock, attempt: number, baseMs: number, maxMs: number): number {
  const ceiling = Math.min(maxMs, baseMs * 2 ** (attempt - 1));
  return ceiling / 2 + (clock.random() * ceiling) / 2;
}

/** Runs `operation` until it succeeds, fails for good, or the attempts are used up; then throws its last error. */
export async function retry<T>(operation: (attempt: number) => Promise<T>, options: RetryOptions): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await operation(attempt);
    } catch (error) {
      const least = options.onFailure?.(error, attempt) ?? 0;
      if (options.signal?.aborted || !isRetryable(error) || attempt >= options.attempts) throw error;
      const wait = Math.max(least, backoffMs(options.clock, attempt, options.baseMs, options.maxMs));
      await options.clock.sleep(wait, options.signal);
    }
  }
}
