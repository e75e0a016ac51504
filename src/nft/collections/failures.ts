/** The event of a failed attempt to index a collection, and the wait until the next one. Waits double with each failure. */
import { backoffMs, type Clock } from "../../core/clock.ts";
import { AppError, messageOf } from "../../core/errors.ts";
import type { IndexingFailed, LogsDoubted } from "../../events/types.ts";
import type { IndexState } from "./headline.ts";

const RETRY_BASE_MS = 5_000;
const RETRY_MAX_MS = 3_600_000;

interface Failure {
  readonly event: IndexingFailed | LogsDoubted;
  readonly waitMs: number;
}

/**
 * The ms until a collection's next attempt is due, 0 or less if it is. A time further ahead than any backoff was set by
 * another clock, and would keep the collection waiting for as long as that clock was ahead.
 */
export function msUntilRetry({ retryAt }: IndexState, clock: Clock): number {
  const wait = retryAt - clock.now();
  return wait > RETRY_MAX_MS ? 0 : wait;
}

/** @param state the state at the start of the attempt */
export function failureOf(error: unknown, state: IndexState, clock: Clock): Failure {
  const attempt = state.attempt + 1;
  const waitMs = Math.round(backoffMs(clock, attempt, RETRY_BASE_MS, RETRY_MAX_MS));
  const failed = { reason: messageOf(error), attempt, retryAt: clock.now() + waitMs };
  const block = error instanceof AppError && error.code === "logs_in_doubt" ? error.meta["block"] : undefined;
  if (typeof block === "number") return { event: { type: "LogsDoubted", block, ...failed }, waitMs };
  return { event: { type: "IndexingFailed", ...failed }, waitMs };
}
