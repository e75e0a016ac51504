/** Waits for a promise, with a timeout. */
import type { Clock } from "./clock.ts";

/**
 * Returns the promise's value. Undefined if it does not settle within `ms` ms; it is not cancelled.
 * @throws the promise's rejection, if it comes in time
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
