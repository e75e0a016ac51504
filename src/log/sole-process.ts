/**
 * Finds out whether another running service uses the same SQLite file, by a lease that each of them asks for. A process
 * that crashed renews nothing, and commands of the command line take no lease. Several processes need PostgreSQL.
 */
import type { Clock } from "../core/clock.ts";
import type { Logger } from "../core/logger.ts";
import type { EventLog } from "./event-log.ts";

const LEASE = "serve/log";
const TTL_MS = 6_000;
const RENEW_MS = 2_000;
/** A lease that is held for so long was renewed: a process that crashed has lost it by then. */
const ALIVE_MS = TTL_MS + RENEW_MS;

interface SoleOptions {
  readonly log: Pick<EventLog, "acquireLease" | "releaseLease">;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Identifies this process. */
  readonly holder: string;
}

/** Says once if another process serves from the same file. Runs until the signal aborts. */
export async function watchSoleProcess(
  { log, clock, logger, holder }: SoleOptions,
  signal: AbortSignal,
): Promise<void> {
  let refusedSince: number | undefined;
  let isSaid = false;
  while (!signal.aborted) {
    const asked = clock.monotonic();
    const isHeld = await log.acquireLease(LEASE, holder, TTL_MS).catch(() => undefined);
    if (isHeld === true) refusedSince = undefined;
    else if (isHeld === false) refusedSince ??= asked;
    if (!isSaid && refusedSince !== undefined && asked - refusedSince >= ALIVE_MS) {
      isSaid = true;
      logger.warn(
        {},
        "another process serves from the same SQLite file: each waits for the other's writes, and one may stop the other. " +
          "Stop one of them, or let EVENT_LOG_URL name a PostgreSQL database for several processes",
      );
    }
    await clock.sleep(RENEW_MS, signal).catch(() => undefined);
  }
  await log.releaseLease(LEASE, holder).catch(() => undefined);
}
