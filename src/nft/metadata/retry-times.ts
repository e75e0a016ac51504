/**
 * When a token is fetched again: after a failure with a growing backoff, and when clients read a token whose metadata is
 * old. In: the outcomes in the book. Out: times.
 */
import type { MetadataBook } from "./book.ts";
import { isPermanent } from "./resolve/failure.ts";

const FIRST_RETRY_MS = 2_000;
/** First backoff after a failure caused by the URI itself, which does not pass in seconds. */
const FIRST_STUBBORN_RETRY_MS = 3_600_000;
const MAX_RETRY_MS = 3 * 86_400_000;
/** Least time between two refreshes of a token that clients read. */
export const MIN_REFRESH_MS = 600_000;
/** A token that clients read is refreshed after this time at the latest. */
const MAX_REFRESH_MS = 7 * 86_400_000;

/** Backoff in ms after so many consecutive failures: from seconds to days. */
export function retryMs(failures: number, stubborn: boolean): number {
  const first = stubborn ? FIRST_STUBBORN_RETRY_MS : FIRST_RETRY_MS;
  return Math.min(MAX_RETRY_MS, first * 2 ** Math.min(40, Math.max(0, failures - 1)));
}

/** When a failed slot is due again, in ms since the epoch; undefined if its last attempt did not fail. */
export function retryAt(book: MetadataBook, slot: number): number | undefined {
  const failures = book.failures(slot);
  if (failures === 0) return undefined;
  const newest = book.newest(slot);
  if (newest?.reason === undefined) return undefined;
  // Jitter of up to a quarter, so that slots that failed at the same time are not due at the same time.
  const spread = 1 + (slot % 16) / 64;
  return newest.time + retryMs(failures, isPermanent(newest.reason)) * spread;
}

/** True if the slot should be fetched again when a client reads it: less often the longer its content is unchanged. */
export function isRefreshDue(book: MetadataBook, slot: number, now: number): boolean {
  const newest = book.newest(slot);
  if (newest === undefined) return true;
  const quiet = newest.reason === undefined ? newest.time - book.unchangedSince(slot) : 0;
  return now - newest.time >= Math.min(MAX_REFRESH_MS, Math.max(MIN_REFRESH_MS, quiet));
}
