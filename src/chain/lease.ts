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
const RENEW_MS = 1_000;
/**
 * A process that holds leases of the same kind gives a free one back once, and asks again after this time. A process
 * with none asks each second and comes first. Each further lease adds some time, so that of two such processes the one
 * with fewer leases usually comes first. Bounded, because no process does the work meanwhile: 1.3 s to 2 s.
 */
const YIELD_MS = RENEW_MS + 300;
const YIELD_MORE_MS = 100;
const YIELD_MAX_MS = 2_000;
/**
 * A process that waits for a lease says so in the log, with the number of its leases: by a lease on that request. One
 * that holds at least two more looks for such a request once a minute, and hands over at most one lease then.
 */
const SHARE_MS = 60_000;
const REQUEST_TTL_MS = 60_000;
const REQUEST_RENEW_MS = 20_000;
/** After that it doesn't ask for the lease, so that the other process comes first: within 1 s, or 3 s if that yields. */
const SHARED_MS = 5_000;

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

interface Renewal {
  /** Monotonic time of the request for the lease. */
  readonly asked: number;
  readonly over: AbortSignal;
  /** Hands the lease over to a process that asks for it. */
  readonly share: () => void;
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
  /** In the order in which they are offered to other processes. */
  readonly #held = new Set<string>();
  /** Leases that no other process has held since this one did, as far as it knows. It doesn't yield these. */
  readonly #own = new Set<string>();
  /** Requests of this process to share a lease, and the monotonic time of the last renewal. */
  readonly #requests = new Map<string, number>();
  /** Monotonic time of the last search for requests, by kind. */
  readonly #searched = new Map<string, number>();
  /** Leases that were handed over on request, and the monotonic time until which they are left to other processes. */
  readonly #shared = new Map<string, number>();

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
    const rest = (this.#shared.get(name) ?? 0) - clock.monotonic();
    if (rest > 0) await clock.sleep(rest, signal);
    for (let hasYielded = false; ; ) {
      let asked = clock.monotonic();
      while (!(await log.acquireLease(name, holder, TTL_MS))) {
        onRefused?.();
        hasYielded = false;
        this.#own.delete(name);
        await this.#request(name);
        await clock.sleep(RENEW_MS, signal);
        asked = clock.monotonic();
      }
      const others = this.#othersOf(name);
      if (hasYielded || others === 0 || this.#own.has(name)) return await this.#hold(name, { asked, signal }, work);
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

  /** Asks the holder of a lease to share, if that has more leases. A request needs no answer, and may get lost. */
  async #request(name: string): Promise<void> {
    const { log, clock, holder } = this.#options;
    const request = requestFor(name, this.#othersOf(name));
    const now = clock.monotonic();
    if (now - (this.#requests.get(request) ?? Number.NEGATIVE_INFINITY) < REQUEST_RENEW_MS) return;
    this.#requests.set(request, now);
    await log.acquireLease(request, holder, REQUEST_TTL_MS).catch(() => false);
  }

  /** Takes back requests that name an outdated number of leases. */
  async #withdraw(kind: string): Promise<void> {
    const { log, holder } = this.#options;
    for (const request of [...this.#requests.keys()]) {
      if (!request.startsWith(requestFor(kind))) continue;
      this.#requests.delete(request);
      await log.releaseLease(request, holder).catch(() => undefined);
    }
  }

  /** True if it is time to look whether a process with at least two leases less waits for this one, and one does. */
  async #isRequested(name: string): Promise<boolean> {
    const { log, clock, holder } = this.#options;
    const kind = kindOf(name);
    const others = this.#othersOf(name);
    const [first] = [...this.#held].filter((held) => kindOf(held) === kind);
    const now = clock.monotonic();
    if (others === 0 || first !== name) return false;
    const last = this.#searched.get(kind);
    if (last === undefined) this.#searched.set(kind, now);
    if (last === undefined || now - last < SHARE_MS) return false;
    this.#searched.set(kind, now);
    // The next search is for another lease. The waiting process may not know this chain.
    this.#held.delete(name);
    this.#held.add(name);
    for (let count = 0; count < others; count++) {
      const request = requestFor(name, count);
      if (!(await log.acquireLease(request, holder, REQUEST_TTL_MS))) return true;
      await log.releaseLease(request, holder);
    }
    return false;
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
    if (kindOf(name) !== "index") this.#own.add(name);
    observer?.held(name, true);
    const share = () => {
      this.#shared.set(name, this.#options.clock.monotonic() + SHARED_MS);
      lease.handOver("a process with fewer leases waits for it");
    };
    const renewing = this.#renew(name, { asked, over: over.signal, share }).then((isLost) => {
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
  async #renew(name: string, { asked, over, share }: Renewal): Promise<boolean> {
    const { log, clock, holder } = this.#options;
    // Neither this nor a search for requests may delay a renewal.
    void this.#withdraw(kindOf(name));
    for (let heldUntil = asked + TTL_MS; ; ) {
      await clock.sleep(RENEW_MS, over).catch(() => undefined);
      if (over.aborted) break;
      const askedAgain = clock.monotonic();
      // Renew even after the time to live: usually no other process has taken the lease meanwhile.
      const isHeld = await this.#renewed(name, Math.max(RENEW_MS, heldUntil - askedAgain));
      if (isHeld !== undefined) heldUntil = isHeld ? askedAgain + TTL_MS : 0;
      if (clock.monotonic() >= heldUntil) return true;
      const requested = this.#isRequested(name).catch(() => false);
      if (isHeld && (await withTimeout(clock, RENEW_MS, requested))?.value) share();
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
const kindOf = (name: string): string => name.split("/", 1)[0] as string;

/** The request of a process with `count` leases for this one; without `count`, the start of requests for a kind. */
const requestFor = (name: string, count?: number): string =>
  count === undefined ? `wanted/${name}/` : `wanted/${name}/${count}`;
