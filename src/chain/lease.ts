/**
 * Runs work under a lease: acquires it, renews it while the work runs, releases it at the end. A holder that loses the
 * lease is aborted. One that was paused, and does not know it yet, is refused by the log's expected versions.
 */
import { type Clock, withTimeout } from "../core/clock.ts";
import { AppError } from "../core/errors.ts";
import type { EventLog } from "../log/event-log.ts";

/** Time to live. After it, another process takes over a dead holder's work. */
const TTL_MS = 3_000;
const RENEW_MS = 1_000;

export interface Lease {
  /** Aborted when the lease is lost or the service stops. */
  readonly signal: AbortSignal;
  /** @throws AppError `lease_lost` */
  assertHeld(): void;
}

interface LeaseOptions {
  readonly log: EventLog;
  readonly clock: Clock;
  readonly name: string;
  readonly holder: string;
  readonly signal: AbortSignal;
}

/** Waits for the lease and runs `work` while it is held. @throws AppError `lease_lost`, and any error of `work` */
export async function withLease<T>(options: LeaseOptions, work: (lease: Lease) => Promise<T>): Promise<T> {
  const { log, clock, name, holder, signal } = options;
  let asked = clock.monotonic();
  while (!(await log.acquireLease(name, holder, TTL_MS))) {
    await clock.sleep(RENEW_MS, signal);
    asked = clock.monotonic();
  }
  return holdLease(options, asked, work);
}

/** Like `withLease`, but does not wait. Undefined if another holder has the lease. */
export async function tryLease<T>(
  options: LeaseOptions,
  work: (lease: Lease) => Promise<T>,
): Promise<{ result: T } | undefined> {
  const asked = options.clock.monotonic();
  if (!(await options.log.acquireLease(options.name, options.holder, TTL_MS))) return undefined;
  return { result: await holdLease(options, asked, work) };
}

/** @param asked monotonic time of the request for the lease. Its time to live begins no earlier. */
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
      // Renew even after the time to live: usually no other process has taken the lease meanwhile.
      const isHeld = await renewed(Math.max(RENEW_MS, heldUntil - askedAgain));
      if (isHeld !== undefined) heldUntil = isHeld ? askedAgain + TTL_MS : 0;
      if (clock.monotonic() >= heldUntil) {
        lost.abort(new AppError(`the lease ${name} was lost`, { code: "lease_lost", retryable: false }));
        return;
      }
    }
  }

  /** Renews the lease. Undefined if the log does not answer in time: the lease stays valid until its time is over. */
  async function renewed(withinMs: number): Promise<boolean | undefined> {
    const answer = log.acquireLease(name, holder, TTL_MS).catch(() => undefined);
    return (await withTimeout(clock, withinMs, answer))?.value;
  }
}
