/**
 * Appends to streams that have several writers. A writer that loses the race either tries again from the stream's new
 * version, or leaves the stream as the winner wrote it.
 */
import { ConcurrencyError } from "../core/errors.ts";
import type { StreamName } from "../events/types.ts";
import type { Append, EventLog } from "./event-log.ts";

/** True if another writer moved the stream itself. False for a conflict of the guard, which no retry can resolve. */
export function isConflict(error: unknown, stream: StreamName): boolean {
  return error instanceof ConcurrencyError && error.stream === stream;
}

/**
 * Appends, with a retry after each conflict on the stream.
 * @param prepare returns the append for the stream's present version, or undefined if nothing is left to append. From
 * the second attempt on it must read the stream again.
 * @returns the new version; undefined if nothing was appended
 * @throws ConcurrencyError after `attempts` conflicts in a row, or for a conflict of the guard
 */
export async function appendWithRetry(
  log: EventLog,
  attempts: number,
  prepare: (attempt: number) => Promise<Append | undefined>,
): Promise<number | undefined> {
  for (let attempt = 1; ; attempt++) {
    const append = await prepare(attempt);
    if (append === undefined) return undefined;
    try {
      return await log.append(append);
    } catch (error) {
      if (!isConflict(error, append.stream) || attempt === attempts) throw error;
    }
  }
}

/** Appends, unless another writer has moved the stream. Returns false in that case. */
export async function appendUnlessMoved(log: EventLog, append: Append): Promise<boolean> {
  try {
    await log.append(append);
    return true;
  } catch (error) {
    if (!isConflict(error, append.stream)) throw error;
    return false;
  }
}
