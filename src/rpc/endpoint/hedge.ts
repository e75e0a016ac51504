/** A hedged request: a second attempt at another endpoint when the first one is slow. The first success wins. */
import { isRetryable } from "../../core/errors.ts";
import { isEndpointRefusal } from "./selection.ts";

type Attempt<T> = (abandoned: AbortSignal) => Promise<T>;

interface Hedge<T> {
  readonly first: Attempt<T>;
  /** Returns the second attempt. Undefined if no endpoint is left for it. */
  readonly second: () => Attempt<T> | undefined;
  /** Calls `act` when the first attempt takes too long. Returns a function that cancels this. */
  readonly onLate: (act: () => void) => () => void;
  readonly signal: AbortSignal | undefined;
}

/** Makes the second attempt as well if the first one is late. Returns the first success and cancels the other one. */
export async function hedge<T extends object>({ first, second, onLate, signal }: Hedge<T>): Promise<T> {
  // Cancels what is left of the attempt after its first failure, or after another endpoint's answer.
  const over = new AbortController();
  const abandoned = signal === undefined ? over.signal : AbortSignal.any([signal, over.signal]);
  const { promise: late, resolve } = Promise.withResolvers<undefined>();
  const cancel = onLate(() => resolve(undefined));
  const attempt = first(abandoned);
  try {
    const early = await Promise.race([attempt, late]);
    if (early !== undefined) return early;
    const other = second();
    return await (other === undefined ? attempt : firstSuccess(attempt, other(abandoned)));
  } finally {
    cancel();
    over.abort(new DOMException("the attempt is over", "AbortError"));
  }
}

/**
 * Returns the first success of two attempts. If both fail, throws by priority: an error of the request itself, a
 * retryable error, a refusal that concerns one endpoint only.
 */
async function firstSuccess<T>(a: Promise<T>, b: Promise<T>): Promise<T> {
  try {
    return await Promise.any([a, b]);
  } catch (error) {
    const { errors } = error as AggregateError;
    const isOwn = (one: unknown) => isEndpointRefusal(one, "any");
    throw errors.find((one) => !isRetryable(one) && !isOwn(one)) ?? errors.find((one) => !isOwn(one)) ?? errors[0];
  }
}
