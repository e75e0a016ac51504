/**
 * When a token is asked for again: after a failure with a wait that grows from seconds to days, on a reader's request
 * the more seldom the longer nothing has changed. Pure arithmetic over a book.
 */
import type { MetadataBook } from "./book.ts";
import { isStubborn } from "./outcome.ts";

const FIRST_RETRY_MS = 2_000;
/** What the URI itself is to blame for does not pass in seconds. */
const FIRST_STUBBORN_RETRY_MS = 3_600_000;
const MAX_RETRY_MS = 3 * 86_400_000;
/** A token is refreshed on request at most this often, and at least after the longest of these waits. */
export const MIN_REFRESH_MS = 600_000;
const MAX_REFRESH_MS = 7 * 86_400_000;

/** The wait after so many failures in a row. */
export function retryMs(failures: number, stubborn: boolean): number {
  const first = stubborn ? FIRST_STUBBORN_RETRY_MS : FIRST_RETRY_MS;
  return Math.min(MAX_RETRY_MS, first * 2 ** Math.min(40, Math.max(0, failures - 1)));
}

/** When a slot whose last attempt failed is due again, ms since the epoch; undefined when it did not fail. */
export function retryAt(book: MetadataBook, slot: number): number | undefined {
  const failures = book.failures(slot);
  if (failures === 0) return undefined;
  const newest = book.newest(slot);
  if (newest?.reason === undefined) return undefined;
  // A quarter more for some than for others, so that what failed together does not come again together.
  const spread = 1 + (slot % 16) / 64;
  return newest.time + retryMs(failures, isStubborn(newest.reason)) * spread;
}

/** Whether a reader's interest is reason enough to ask for the slot again. */
export function isRefreshDue(book: MetadataBook, slot: number, now: number): boolean {
  const newest = book.newest(slot);
  if (newest === undefined) return true;
  const quiet = newest.reason === undefined ? newest.time - book.unchangedSince(slot) : 0;
  return now - newest.time >= Math.min(MAX_REFRESH_MS, Math.max(MIN_REFRESH_MS, quiet));
}
