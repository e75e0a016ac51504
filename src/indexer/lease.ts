/**
 * Work under a lease: taken, renewed while the work runs, given up when it ends. A holder that loses it is aborted; one
 * that was paused and does not know it yet is refused by the log's expected versions.
 */
import type { Clock } from "../core/clock.ts";
import { AppError } from "../core/errors.ts";
import type { EventLog } from "../log/port.ts";

/** A dead holder's work is taken over after this. */
const TTL_MS = 3_000;
const RENEW_MS = 1_000;

export interface Lease {
  /** Aborted when the lease is lost or the service stops. */
  readonly signal: AbortSignal;
  /** @throws AppError `lease_lost` */
  assertHeld(): void;
}

export interface LeaseOptions {
  readonly log: EventLog;
  readonly clock: Clock;
  readonly name: string;
  readonly holder: string;
  readonly signal: AbortSignal;
}

/** Waits for the lease, runs `work` while it is held, releases it. @throws AppError `lease_lost`, and what `work` throws */
export async function withLease<T>(options: LeaseOptions, work: (lease: Lease) => Promise<T>): Promise<T> {
  const { log, clock, name, holder, signal } = options;
  while (!(await log.acquireLease(name, holder, TTL_MS))) await clock.sleep(RENEW_MS, signal);
  return holdLease(options, work);
}

/** As `withLease`, but gives up at once when somebody else holds it: then undefined. */
export async function tryLease<T>(
  options: LeaseOptions,
  work: (lease: Lease) => Promise<T>,
): Promise<{ result: T } | undefined> {
  if (!(await options.log.acquireLease(options.name, options.holder, TTL_MS))) return undefined;
  return { result: await holdLease(options, work) };
}

async function holdLease<T>(options: LeaseOptions, work: (lease: Lease) => Promise<T>): Promise<T> {
  const { log, clock, name, holder } = options;
  const lost = new AbortController();
  const signal = AbortSignal.any([options.signal, lost.signal]);
  const lease: Lease = {
    signal,
    assertHeld: () => {
      if (lost.signal.aborted) throw lost.signal.reason;
      options.signal.throwIfAborted();
    },
  };
  const done = new AbortController();
  const renewing = renew();
  try {
    return await work(lease);
  } finally {
    done.abort();
    await renewing;
    if (!lost.signal.aborted) await log.releaseLease(name, holder).catch(() => undefined);
  }

  async function renew(): Promise<void> {
    let heldUntil = clock.monotonic() + TTL_MS;
    for (;;) {
      await clock.sleep(RENEW_MS, done.signal).catch(() => undefined);
      if (done.signal.aborted) return;
      try {
        if (await log.acquireLease(name, holder, TTL_MS)) heldUntil = clock.monotonic() + TTL_MS;
        else heldUntil = 0;
      } catch {
        // The log did not answer: the lease still runs for what is left of it.
      }
      if (clock.monotonic() >= heldUntil) {
        lost.abort(new AppError(`the lease ${name} was lost`, { code: "lease_lost", retryable: false }));
        return;
      }
    }
  }
}
