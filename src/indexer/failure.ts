/** Turns a failed or stalled attempt into a fact of the collection's stream, and schedules the next attempt. */
import type { Clock } from "../core/clock.ts";
import { messageOf } from "../core/errors.ts";
import { backoffMs } from "../core/retry.ts";
import type { IndexingFailed } from "../events/types.ts";
import type { IndexState } from "./headline.ts";

const RETRY_BASE_MS = 5_000;
const RETRY_MAX_MS = 3_600_000;

export interface Failure {
  readonly event: IndexingFailed;
  /** Change of the collection's headline. */
  readonly change: Pick<IndexState, "attempt" | "retryAt">;
  readonly waitMs: number;
}

/** Describes work without progress for `ms` ms. @param failure message of the newest request that failed meanwhile */
export function stallReason(doing: string, ms: number, failure: string | undefined): string {
  const cause = failure === undefined ? "no answer came yet" : `the last request failed: ${failure}`;
  return `${doing}, without progress for ${Math.round(ms / 1_000)} s; ${cause}`;
}

/** @param state the state at the start of the attempt */
export function failureOf(error: unknown, state: IndexState, clock: Clock): Failure {
  const attempt = state.attempt + 1;
  const waitMs = Math.round(backoffMs(clock, attempt, RETRY_BASE_MS, RETRY_MAX_MS));
  const change = { attempt, retryAt: clock.now() + waitMs };
  return { event: { type: "IndexingFailed", reason: messageOf(error), ...change }, change, waitMs };
}
