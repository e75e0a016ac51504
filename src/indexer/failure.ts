/** What a failed or stalled attempt at a collection becomes: a fact of its stream, and the time of the next one. */
import type { Clock } from "../core/clock.ts";
import { messageOf } from "../core/errors.ts";
import { backoffMs } from "../core/retry.ts";
import type { IndexingFailed } from "../events/types.ts";
import type { IndexState } from "./headline.ts";

const RETRY_BASE_MS = 5_000;
const RETRY_MAX_MS = 3_600_000;

export interface Failure {
  readonly event: IndexingFailed;
  /** To the collection's headline. */
  readonly change: Pick<IndexState, "attempt" | "retryAt">;
  readonly waitMs: number;
}

/** What is told of work that has not moved for so many ms. @param failure of the newest request that failed meanwhile */
export function stallReason(doing: string, ms: number, failure: string | undefined): string {
  const cause = failure === undefined ? "no answer came yet" : `the last request failed: ${failure}`;
  return `${doing}, without progress for ${Math.round(ms / 1_000)} s; ${cause}`;
}

/** @param state as it was when the attempt began */
export function failureOf(error: unknown, state: IndexState, clock: Clock): Failure {
  const attempt = state.attempt + 1;
  const waitMs = Math.round(backoffMs(clock, attempt, RETRY_BASE_MS, RETRY_MAX_MS));
  const change = { attempt, retryAt: clock.now() + waitMs };
  return { event: { type: "IndexingFailed", reason: messageOf(error), ...change }, change, waitMs };
}
