/**
 * Work under a lease: taken, renewed while the work runs, given up when it ends. A holder that loses it is aborted; one
 * that was paused and does not know it yet is refused by the log's expected versions.
 */

import type { Clock } from "../core/clock.ts";
import { AppError } from "../core/errors.ts";
import { within } from "../core/within.ts";
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
  let asked = clock.monotonic();
  while (!(await log.acquireLease(name, holder, TTL_MS))) {
    await clock.sleep(RENEW_MS, signal);
    asked = clock.monotonic();
  }
  return holdLease(options, asked, work);
}

/** As `withLease`, but gives up at once when somebody else holds it: then undefined. */
export async function tryLease<T>(
  options: LeaseOptions,
  work: (lease: Lease) => Promise<T>,
): Promise<{ result: T } | undefined> {
  const asked = options.clock.monotonic();
  if (!(await options.log.acquireLease(options.name, options.holder, TTL_MS))) return undefined;
  return { result: await holdLease(options, asked, work) };
}

/** @param asked when the lease was asked for: it began to run then at the earliest */
async function holdLease<T>(options: LeaseOptions, asked: number, work: (lease: Lease) => Promise<T>): Promise<T> {
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
    let heldUntil = asked + TTL_MS;
    for (;;) {
      await clock.sleep(RENEW_MS, done.signal).catch(() => undefined);
      if (done.signal.aborted) return;
      const askedAgain = clock.monotonic();
      // Who was held up for longer than that asks all the same: as a rule nobody took it meanwhile.
      const isHeld = await renewed(Math.max(RENEW_MS, heldUntil - askedAgain));
      if (isHeld !== undefined) heldUntil = isHeld ? askedAgain + TTL_MS : 0;
      if (clock.monotonic() >= heldUntil) {
        lost.abort(new AppError(`the lease ${name} was lost`, { code: "lease_lost", retryable: false }));
        return;
      }
    }
  }

  /** What the log says by then; undefined when it says nothing: the lease still runs for what is left of it. */
  async function renewed(withinMs: number): Promise<boolean | undefined> {
    const answer = log.acquireLease(name, holder, TTL_MS).catch(() => undefined);
    return (await within(clock, withinMs, answer))?.value;
  }
}
