/**
 * Runs work under a lease: acquires it, renews it while the work runs, releases it at the end. A holder that loses the
 * lease is aborted. One that was paused, and does not know it yet, is refused by the log's expected versions. Work may
 * also hand its lease over to another process, and a process with many leases lets one with none go first.
 */
import { type Clock, withTimeout } from "../core/clock.ts";
import { AppError } from "../core/errors.ts";
import type { EventLog } from "../log/event-log.ts";

/** Time to live. After it, another process takes over a dead holder's work. */
const TTL_MS = 3_000;
export const RENEW_MS = 1_000;
/**
 * A process that holds leases of the same kind gives a free one back once, and asks again after this time. A process
 * with none asks each second and comes first. Each further lease adds some time, so that of two such processes the one
 * with fewer leases usually comes first. Bounded, because nobody does the work meanwhile: 1.1 s to 2 s.
 */
const YIELD_MS = RENEW_MS + 100;
const YIELD_MORE_MS = 150;
const YIELD_MAX_MS = 2_000;

export interface Lease {
  /** Aborted when the lease is lost or handed over, or the service stops. */
  readonly signal: AbortSignal;
  /** @throws AppError `lease_lost` or `lease_handed_over` */
  assertHeld(): void;
  /**
   * Releases the lease at once, for another process, and aborts the signal. The work may take long to end, if it waits
   * for a node that hangs. Its late writes are refused like those of a holder that lost its lease.
   */
  handOver(reason: string): void;
}

/** Reports of the leases of this process, for metrics. Names are like `follow/1`. */
export interface LeaseObserver {
  /** The lease is held from now on, or no longer. */
  held(name: string, isHeld: boolean): void;
  lost(name: string): void;
  handedOver(name: string): void;
}

interface LeasesOptions {
  readonly log: Pick<EventLog, "acquireLease" | "releaseLease">;
  readonly clock: Clock;
  /** Identifies this process. */
  readonly holder: string;
  readonly observer?: LeaseObserver | undefined;
}

interface WaitOptions {
  readonly signal: AbortSignal;
  /** Called for each request that is refused because another process holds the lease. */
  readonly onRefused?: () => void;
}

/** True if the work was aborted because it handed its lease over. */
export const isHandedOver = (error: unknown): boolean =>
  error instanceof AppError && error.code === "lease_handed_over";

/** The leases of this process. */
export class Leases {
  readonly holder: string;
  readonly #options: LeasesOptions;
  readonly #held = new Set<string>();

  constructor(options: LeasesOptions) {
    this.holder = options.holder;
    this.#options = options;
  }

  /** True while work of this process runs under the lease. */
  holds(name: string): boolean {
    return this.#held.has(name);
  }

  /** Waits for the lease and runs `work` while it is held. @throws the reason of its signal, and any error of `work` */
  async run<T>(name: string, { signal, onRefused }: WaitOptions, work: (lease: Lease) => Promise<T>): Promise<T> {
    const { log, clock, holder } = this.#options;
    for (let hasYielded = false; ; ) {
      let asked = clock.monotonic();
      while (!(await log.acquireLease(name, holder, TTL_MS))) {
        onRefused?.();
        hasYielded = false;
        await clock.sleep(RENEW_MS, signal);
        asked = clock.monotonic();
      }
      const others = this.#othersOf(name);
      if (hasYielded || others === 0) return await this.#hold(name, { asked, signal }, work);
      await log.releaseLease(name, holder);
      hasYielded = true;
      await clock.sleep(Math.min(YIELD_MAX_MS, YIELD_MS + (others - 1) * YIELD_MORE_MS), signal);
    }
  }

  /** Like `run`, but does not wait. Undefined if another holder has the lease. */
  async tryRun<T>(
    name: string,
    signal: AbortSignal,
    work: (lease: Lease) => Promise<T>,
  ): Promise<{ result: T } | undefined> {
    const { log, clock, holder } = this.#options;
    const asked = clock.monotonic();
    if (!(await log.acquireLease(name, holder, TTL_MS))) return undefined;
    return { result: await this.#hold(name, { asked, signal }, work) };
  }

  /** Number of other leases of the same kind. */
  #othersOf(name: string): number {
    const kind = kindOf(name);
    let count = 0;
    for (const held of this.#held) if (held !== name && kindOf(held) === kind) count++;
    return count;
  }

  /** @param asked monotonic time of the request for the lease. Its time to live begins no earlier. */
  async #hold<T>(
    name: string,
    { asked, signal: stopping }: { readonly asked: number; readonly signal: AbortSignal },
    work: (lease: Lease) => Promise<T>,
  ): Promise<T> {
    const { observer } = this.#options;
    /** Ends the work. */
    const gone = new AbortController();
    /** Ends the renewal. */
    const over = new AbortController();
    const signal = AbortSignal.any([stopping, gone.signal]);
    const lease: Lease = {
      signal,
      assertHeld: () => {
        if (gone.signal.aborted) throw gone.signal.reason;
        stopping.throwIfAborted();
      },
      handOver: (reason) => {
        if (signal.aborted || over.signal.aborted) return;
        gone.abort(new AppError(`the lease ${name} was handed over: ${reason}`, { code: "lease_handed_over" }));
        over.abort();
        observer?.handedOver(name);
      },
    };
    this.#held.add(name);
    observer?.held(name, true);
    const renewing = this.#renew(name, asked, over.signal).then((isLost) => {
      this.#held.delete(name);
      observer?.held(name, false);
      if (!isLost) return;
      observer?.lost(name);
      gone.abort(new AppError(`the lease ${name} was lost`, { code: "lease_lost", retryable: false }));
    });
    try {
      return await work(lease);
    } finally {
      over.abort();
      await renewing;
    }
  }

  /** Renews the lease until `over`, and releases it then. Returns true if it was lost before. */
  async #renew(name: string, asked: number, over: AbortSignal): Promise<boolean> {
    const { log, clock, holder } = this.#options;
    for (let heldUntil = asked + TTL_MS; ; ) {
      await clock.sleep(RENEW_MS, over).catch(() => undefined);
      if (over.aborted) break;
      const askedAgain = clock.monotonic();
      // Renew even after the time to live: usually no other process has taken the lease meanwhile.
      const isHeld = await this.#renewed(name, Math.max(RENEW_MS, heldUntil - askedAgain));
      if (isHeld !== undefined) heldUntil = isHeld ? askedAgain + TTL_MS : 0;
      if (clock.monotonic() >= heldUntil) return true;
    }
    await log.releaseLease(name, holder).catch(() => undefined);
    return false;
  }

  /** Renews the lease. Undefined if the log does not answer in time: the lease stays valid until its time is over. */
  async #renewed(name: string, withinMs: number): Promise<boolean | undefined> {
    const { log, clock, holder } = this.#options;
    const answer = log.acquireLease(name, holder, TTL_MS).catch(() => undefined);
    return (await withTimeout(clock, withinMs, answer))?.value;
  }
}

/** The first part of a lease's name: `follow`, `metadata` or `index`. */
const kindOf = (name: string): string => name.slice(0, name.indexOf("/"));
