/**
 * Time and chance, and waiting: the clock, the one retry loop with exponential backoff and jitter, and timeouts.
 * Everything that must repeat in a simulation gets its `Clock`. The retry loop reads one flag of an error, `retryable`.
 */
import { isRetryable } from "./errors.ts";

export interface Clock {
  /** Milliseconds since 1970-01-01T00:00:00Z. */
  now(): number;
  /** Milliseconds on a scale that never goes backwards, for measuring durations. */
  monotonic(): number;
  /** A number in [0, 1), for jitter and sampling; never for secrets. */
  random(): number;
  /** Resolves after `ms` milliseconds. Rejects with the signal's reason on abort. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls back once after `ms` milliseconds. The returned function cancels that. */
  after(ms: number, callback: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  random: () => Math.random(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const onAbort = () => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      }, ms);
      signal?.addEventListener("abort", onAbort, { once: true });
    }),
  after: (ms, callback) => {
    const timer = setTimeout(callback, ms);
    return () => clearTimeout(timer);
  },
};

interface RetryOptions {
  readonly clock: Clock;
  /** Attempts in all, including the first. */
  readonly attempts: number;
  /** Upper bound of the first wait in ms. Doubles with each attempt. */
  readonly baseMs: number;
  readonly maxMs: number;
  readonly signal?: AbortSignal;
  /** Replaces the error's own flag `retryable`. */
  readonly shouldRetry?: (error: unknown) => boolean;
  /** Called after each failed attempt. May return the minimum wait in ms (a `Retry-After`). */
  readonly onFailure?: (error: unknown, attempt: number) => number | undefined;
}

/** Returns the ms to wait after attempt `attempt` (counted from 1): between half and all of the doubled base. */
export function backoffMs(clock: Clock, attempt: number, baseMs: number, maxMs: number): number {
  const ceiling = Math.min(maxMs, baseMs * 2 ** (attempt - 1));
  return ceiling / 2 + (clock.random() * ceiling) / 2;
}

/** Repeats `operation` until it succeeds. @throws its last error, if that is final or no attempt is left */
export async function retry<T>(operation: (attempt: number) => Promise<T>, options: RetryOptions): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await operation(attempt);
    } catch (error) {
      const least = options.onFailure?.(error, attempt) ?? 0;
      const { signal, attempts, shouldRetry = isRetryable } = options;
      if (signal?.aborted || !shouldRetry(error) || attempt >= attempts) throw error;
      const wait = Math.max(least, backoffMs(options.clock, attempt, options.baseMs, options.maxMs));
      await options.clock.sleep(wait, options.signal);
    }
  }
}

/**
 * Returns the promise's value. Undefined if it does not settle within `ms` ms; it is not cancelled.
 * @throws the promise's rejection, if it comes in time
 */
export async function withTimeout<T>(
  clock: Clock,
  ms: number,
  settling: Promise<T>,
): Promise<{ value: T } | undefined> {
  const { promise: late, resolve } = Promise.withResolvers<undefined>();
  const cancel = clock.after(ms, () => resolve(undefined));
  try {
    return await Promise.race([settling.then((value) => ({ value })), late]);
  } finally {
    cancel();
  }
}
