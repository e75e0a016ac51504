/** Waiting with a bound. */
import type { Clock } from "./clock.ts";

/**
 * What a promise resolves with; undefined when it has not settled within so many milliseconds, and is not waited for any
 * longer. @throws what it rejects with by then
 */
export async function within<T>(clock: Clock, ms: number, settling: Promise<T>): Promise<{ value: T } | undefined> {
  const { promise: late, resolve } = Promise.withResolvers<undefined>();
  const cancel = clock.after(ms, () => resolve(undefined));
  try {
    return await Promise.race([settling.then((value) => ({ value })), late]);
  } finally {
    cancel();
  }
}
