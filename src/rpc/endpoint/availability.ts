/**
 * One endpoint as the pool sees it: whether it is available, how fast it is, and how much it takes. All times are
 * monotonic, in ms: a jump of the wall clock must not bench an endpoint for a day.
 */
import type { Clock } from "../../core/clock.ts";
import { isRetryable } from "../../core/errors.ts";
import type { Endpoint } from "../port.ts";
import { faultText, isUnknownRefusal, RpcError } from "../rpc-errors.ts";
import { SpanController } from "./capabilities.ts";

/**
 * Why an endpoint rests. To bench an endpoint is to start a rest: the pool prefers the other endpoints meanwhile.
 * - `lied`: it gave a wrong answer. Nothing ends this rest early.
 * - `behind`: another endpoint has newer blocks. Ends early when the endpoint has caught up.
 * - `paused`: it sent `Retry-After`, and a request would only prolong the pause. Nothing ends this rest early: a
 *   success may be the answer to a request from before the pause.
 * - `failed`: its last requests failed. Ends early with the first success.
 */
export type RestReason = "lied" | "behind" | "paused" | "failed";

/** Of two rests that end together, the first one here is shown. */
const REASONS: readonly RestReason[] = ["lied", "behind", "paused", "failed"];

const FAILED_BASE_MS = 500;
const FAILED_MAX_MS = 60_000;
const LIED_MS = 300_000;
/** A lag of one block is over by then. A stuck node is checked this often. */
const BEHIND_MS = 30_000;
/** An endpoint that failed takes part in failover if its rest ends this soon: a short failure may be over. */
const SHORT_REST_MS = 1_000;
/** After this many single blocks refused in a row, the refusals are not about the size of the blocks. */
const MAX_REFUSED_BLOCKS = 3;
/** Pruned history does not come back. A refusal for size may be over sooner. */
const LACKS_HISTORY_MS = 300_000;

const smoothed = (before: number, ms: number): number => before * 0.8 + ms * 0.2;

class EndpointHealth {
  /** Failures in a row. */
  failures = 0;
  /** True once it has answered a request. */
  hasAnswered = false;
  /** The last fault in words. */
  fault: string | null = null;
  /** Smoothed response time in ms. */
  latency = 0;
  /** Time until which other endpoints are preferred for history. All other requests are unaffected. */
  lacksHistoryUntil = 0;
  readonly window = new CongestionWindow();
  readonly span = new SpanController();
  /**
   * End of each rest; in the past if the endpoint does not rest for that reason. Rests may overlap, and the endpoint is
   * available when all are over. Only `lied` and `behind` exclude each other: a wrong answer weighs more.
   */
  readonly #until: Record<RestReason, number> = { lied: 0, behind: 0, paused: 0, failed: 0 };
  #failedAt = Number.NEGATIVE_INFINITY;
  /** Refusals of history with an unknown reason, since the endpoint last gave history. */
  #unknownRefusals = 0;
  /** Single blocks that it refused and another endpoint had, since it last gave history. */
  #refusedBlocks = 0;

  /** The reason of the rest that ends last; undefined if all are over. */
  restReason(now: number): RestReason | undefined {
    const until = this.availableFrom;
    return until <= now ? undefined : REASONS.find((one) => this.#until[one] === until);
  }

  /** The end of all rests. In the past if the endpoint is available. */
  get availableFrom(): number {
    const { lied, behind, paused, failed } = this.#until;
    return Math.max(lied, behind, paused, failed);
  }

  get pausedUntil(): number {
    return this.#until.paused;
  }

  #rests(reason: RestReason, now: number): boolean {
    return this.#until[reason] > now;
  }

  /** True if it may take a request that another endpoint refused: it is up, and its answers are not in doubt. */
  isFitForFailover(now: number): boolean {
    if (this.#rests("lied", now) || this.#rests("behind", now) || this.#rests("paused", now)) return false;
    return this.#until.failed - now <= SHORT_REST_MS;
  }

  /** True if it is likely to answer, even if its answers are in doubt. */
  isReachable(now: number): boolean {
    return !this.#rests("failed", now) && !this.#rests("paused", now);
  }

  /** Records an answer after `ms`. */
  succeeded(ms: number): void {
    this.failures = 0;
    this.hasAnswered = true;
    this.#until.failed = 0;
    this.latency = smoothed(this.latency, ms);
    this.window.succeeded();
  }

  /** Records that another endpoint answered first. The request started `ms` ago and was for logs of `blocks` blocks. */
  lostHedge(ms: number, blocks: number): void {
    this.latency = smoothed(this.latency, ms);
    this.window.overloaded();
    this.span.tookTooLong(blocks);
  }

  /** Records the failure of a request that began at `started`. */
  failed(error: RpcError, started: number, now: number): void {
    const { retryAfterMs = 0 } = error;
    this.fault = faultText(error);
    this.window.overloaded();
    if (retryAfterMs > 0) this.#until.paused = Math.max(this.#until.paused, now + retryAfterMs);
    // The request began before the last failure. Sixteen parallel failures are one fault and must not bench the
    // endpoint for a minute.
    if (started < this.#failedAt) return;
    this.#failedAt = now;
    this.failures++;
    const doubled = Math.min(FAILED_MAX_MS, FAILED_BASE_MS * 2 ** (this.failures - 1));
    this.#until.failed = now + Math.max(doubled, retryAfterMs);
  }

  lied(now: number, fault: string): void {
    this.fault = fault;
    this.#until.lied = now + LIED_MS;
    this.#until.behind = 0;
  }

  fellBehind(now: number): void {
    if (this.#rests("lied", now)) return;
    this.#until.behind = now + BEHIND_MS;
    this.fault = "another endpoint has newer blocks";
  }

  caughtUp(): void {
    this.#until.behind = 0;
  }

  /** Records an answer of `logs` logs for `blocks` blocks in `parts` ranges. */
  gaveHistory(blocks: number, logs: number, parts: number): void {
    this.#refusedBlocks = 0;
    this.#unknownRefusals = 0;
    this.span.succeeded(blocks, logs, parts);
  }

  /**
   * Learns from a failed request for `parts` ranges of `blocks` blocks. Returns true if a smaller one may succeed now.
   * 1. Several ranges together failed: the next request has fewer of them.
   * 2. A timeout, or a second unknown refusal in a row: later requests have fewer blocks. The size may be the reason.
   * 3. A refusal for size: fewer blocks, down to a single one.
   * 4. Any other failure says nothing about the size.
   */
  refusedHistory(error: RpcError, blocks: number, parts: number): boolean {
    const { span } = this;
    if (parts > 1 && error.kind !== "rate" && error.kind !== "lie") {
      span.partsRefused(parts);
      return error.kind === "range";
    }
    const isUnknown = error.kind === "transient" && isUnknownRefusal(error) && ++this.#unknownRefusals > 1;
    if (error.kind === "late" || isUnknown) span.tookTooLong(blocks);
    const isTooLarge = error.kind === "range" && blocks > 1;
    if (isTooLarge) span.refused(blocks, error.hint);
    else span.settle(blocks);
    return isTooLarge;
  }

  /** Records refused history that another endpoint has. A refusal for size counts only after a few single blocks. */
  lackedHistory(now: number, isOfSize: boolean): void {
    if (isOfSize && ++this.#refusedBlocks < MAX_REFUSED_BLOCKS) return;
    this.#refusedBlocks = 0;
    this.lacksHistoryUntil = now + LACKS_HISTORY_MS;
    this.span.restart();
  }
}

const FIRST_WINDOW = 4;
const MAX_WINDOW = 16;

/**
 * Congestion window of one endpoint: how many bulk requests it takes at once. Like in TCP, it grows by one per window
 * of successes and halves after an overload. It does not hold back requests of users.
 */
class CongestionWindow {
  inFlight = 0;
  #size = FIRST_WINDOW;

  get hasRoom(): boolean {
    return this.inFlight < Math.floor(this.#size);
  }

  succeeded(): void {
    this.#size = Math.min(MAX_WINDOW, this.#size + 1 / this.#size);
  }

  /** Halves the window, after the endpoint sent "too many requests" or was too slow. */
  overloaded(): void {
    this.#size = Math.max(1, this.#size / 2);
  }
}

// Which endpoint a request goes to: the best one, the next one after a refusal, one with room for a bulk request, and a
// second one for a slow attempt. The pool makes the requests.

/**
 * - `none`: no failover; the caller reacts to every refusal.
 * - `lacking`: the endpoint lacks a method or a state.
 * - `any`: also a refusal for size, where the request cannot be made smaller.
 */
export type Failover = "none" | "lacking" | "any";

/** The endpoints that refused one request for a reason of their own. They are not asked for it again. */
export class Refusals extends Map<Endpoint, RpcError> {
  /** The error if no endpoint answers. Prefers a refusal for size, because the caller can request less. */
  get error(): RpcError | undefined {
    const errors = [...this.values()];
    return errors.find(({ kind }) => kind === "range") ?? errors[0];
  }
}

/** True if another endpoint may accept what this one refused. */
export function isEndpointRefusal(error: unknown, failover: Failover): error is RpcError {
  if (failover === "none" || !(error instanceof RpcError)) return false;
  const isLacking = error.kind === "unsupported" || error.kind === "state_unavailable";
  return isLacking || (error.kind === "range" && failover === "any");
}

/** Selects among a chain's endpoints by their health. Selects a resting endpoint only if all endpoints rest. */
export class EndpointSelection {
  readonly #endpoints: readonly Endpoint[];
  readonly #clock: Clock;
  readonly #health = new Map<Endpoint, EndpointHealth>();
  /** Bulk requests that wait for room at an endpoint. */
  readonly #waiting: (() => void)[] = [];

  constructor(endpoints: readonly Endpoint[], clock: Clock) {
    this.#endpoints = endpoints;
    this.#clock = clock;
    for (const endpoint of endpoints) this.#health.set(endpoint, new EndpointHealth());
  }

  healthOf(endpoint: Endpoint): EndpointHealth {
    const health = this.#health.get(endpoint);
    if (health === undefined) throw new TypeError("the endpoint belongs to another pool");
    return health;
  }

  /** Returns the best endpoint that has not refused. @throws the refusal if none is left */
  best(refusals: Refusals): Endpoint {
    return this.#ranked(this.#candidates(refusals))[0]!;
  }

  bestForHistory(): Endpoint {
    return this.#ranked(this.#archiveEndpoints(this.#endpoints))[0]!;
  }

  /** Waits for room for one more bulk request, and takes it. @throws the refusal if no endpoint is left */
  async admit(refusals: Refusals, signal: AbortSignal | undefined): Promise<Endpoint> {
    for (;;) {
      signal?.throwIfAborted();
      const now = this.#clock.monotonic();
      const candidates = this.#archiveEndpoints(this.#candidates(refusals));
      const allRest = this.availableFrom(candidates) > now;
      const endpoint = this.#ranked(candidates).find((one) => {
        const { window, availableFrom } = this.healthOf(one);
        return window.hasRoom && (allRest || availableFrom <= now);
      });
      if (endpoint !== undefined) {
        this.healthOf(endpoint).window.inFlight++;
        return endpoint;
      }
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  release(endpoint: Endpoint): void {
    this.healthOf(endpoint).window.inFlight--;
    // Wakes all: the first one in the queue may not be able to use this endpoint.
    for (const wake of this.#waiting.splice(0)) wake();
  }

  /** Returns the first available endpoint that the test accepts. */
  available(accepts: (endpoint: Endpoint) => boolean): Endpoint | undefined {
    const now = this.#clock.monotonic();
    return this.#endpoints.find((one) => accepts(one) && this.healthOf(one).availableFrom <= now);
  }

  /** Returns the time when the first of these endpoints is available. In the past if one is available now. */
  availableFrom(endpoints: readonly Endpoint[] = this.#endpoints): number {
    return Math.min(...endpoints.map((one) => this.healthOf(one).availableFrom));
  }

  /** Returns all endpoints, or after a refusal those fit for failover. @throws the refusal if none is left */
  #candidates(refusals: Refusals): readonly Endpoint[] {
    if (refusals.error === undefined) return this.#endpoints;
    const now = this.#clock.monotonic();
    const fit = this.#endpoints.filter((one) => !refusals.has(one) && this.healthOf(one).isFitForFailover(now));
    if (fit.length === 0) throw refusals.error;
    return fit;
  }

  /** Leaves out the endpoints that lacked history recently, if another one is available. */
  #archiveEndpoints(candidates: readonly Endpoint[]): readonly Endpoint[] {
    const now = this.#clock.monotonic();
    const archives = candidates.filter((one) => this.healthOf(one).lacksHistoryUntil <= now);
    return this.availableFrom(archives) <= now ? archives : candidates;
  }

  /** Sorts endpoints: available ones by failures in a row, then latency; after them resting ones by the rest's end. */
  #ranked(endpoints: readonly Endpoint[]): Endpoint[] {
    const now = this.#clock.monotonic();
    const rank = (endpoint: Endpoint) => {
      const { availableFrom, failures, latency } = this.healthOf(endpoint);
      return [availableFrom > now ? availableFrom : 0, failures, latency] as const;
    };
    return [...endpoints].sort((a, b) => {
      const [x, y] = [rank(a), rank(b)];
      return x[0] - y[0] || x[1] - y[1] || x[2] - y[2];
    });
  }
}

type Attempt<T> = (abandoned: AbortSignal) => Promise<T>;

interface Hedge<T> {
  readonly first: Attempt<T>;
  /** Returns the second attempt. Undefined if no endpoint is left for it. */
  readonly second: () => Attempt<T> | undefined;
  /** Calls `act` when the first attempt takes too long. Returns a function that cancels this. */
  readonly onLate: (act: () => void) => () => void;
  readonly signal: AbortSignal | undefined;
}

/** Makes the second attempt as well if the first one is late. Returns the first success and cancels the other one. */
export async function hedge<T extends object>({ first, second, onLate, signal }: Hedge<T>): Promise<T> {
  // Cancels what is left of the attempt after its first failure, or after another endpoint's answer.
  const over = new AbortController();
  const abandoned = signal === undefined ? over.signal : AbortSignal.any([signal, over.signal]);
  const { promise: late, resolve } = Promise.withResolvers<undefined>();
  const cancel = onLate(() => resolve(undefined));
  const attempt = first(abandoned);
  try {
    const early = await Promise.race([attempt, late]);
    if (early !== undefined) return early;
    const other = second();
    return await (other === undefined ? attempt : firstSuccess(attempt, other(abandoned)));
  } finally {
    cancel();
    over.abort(new DOMException("the attempt is over", "AbortError"));
  }
}

/**
 * Returns the first success of two attempts. If both fail, throws by priority: an error of the request itself, a
 * retryable error, a refusal that concerns one endpoint only.
 */
async function firstSuccess<T>(a: Promise<T>, b: Promise<T>): Promise<T> {
  try {
    return await Promise.any([a, b]);
  } catch (error) {
    const { errors } = error as AggregateError;
    const isOwn = (one: unknown) => isEndpointRefusal(one, "any");
    throw errors.find((one) => !isRetryable(one) && !isOwn(one)) ?? errors.find((one) => !isOwn(one)) ?? errors[0];
  }
}
