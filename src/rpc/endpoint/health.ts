/**
 * The state of one endpoint at run time: failures, benches with their reasons, latency, and request sizes. All times
 * are monotonic, in ms: a jump of the wall clock must not bench an endpoint for a day.
 */
import { isRetryable } from "../../core/errors.ts";
import type { Endpoint } from "../port.ts";
import { isUnknownRefusal, RpcError } from "../rpc-errors.ts";
import { SpanController } from "./span.ts";

// Congestion window of one endpoint: how many bulk requests it takes at once. Like in TCP, it grows by one per window
// of successes and halves after an overload. It does not hold back requests of users.

const FIRST = 4;
const MAX = 16;

class CongestionWindow {
  inFlight = 0;
  #size = FIRST;

  get size(): number {
    return Math.floor(this.#size);
  }

  get hasRoom(): boolean {
    return this.inFlight < this.size;
  }

  succeeded(): void {
    this.#size = Math.min(MAX, this.#size + 1 / this.#size);
  }

  /** Halves the window, after the endpoint sent "too many requests" or was too slow. */
  overloaded(): void {
    this.#size = Math.max(1, this.#size / 2);
  }
}

// Decides how a request goes on after one endpoint refuses it: which refusals lead to another endpoint, and which error
// is thrown if no endpoint answers. Pure; the pool makes the requests.

/**
 * - `none`: no failover; the caller reacts to every refusal.
 * - `lacking`: the endpoint lacks a method or a state.
 * - `any`: also a refusal for size, where the request cannot be made smaller.
 */
export type Failover = "none" | "lacking" | "any";

/** The endpoints that refused one request for a reason of their own. They are not asked for it again. */
export class Refusals {
  readonly askAll = new Map<Endpoint, RpcError>();

  add(endpoint: Endpoint, error: RpcError): void {
    this.askAll.set(endpoint, error);
  }

  /** The error if no endpoint answers. Prefers a refusal for size, because the caller can request less. */
  get error(): RpcError | undefined {
    const errors = [...this.askAll.values()];
    return errors.find(({ kind }) => kind === "range") ?? errors[0];
  }
}

/** True if another endpoint may accept what this one refused. */
export function isEndpointRefusal(error: unknown, failover: Failover): error is RpcError {
  if (failover === "none" || !(error instanceof RpcError)) return false;
  const isLacking = error.kind === "unsupported" || error.kind === "state_unavailable";
  return isLacking || (error.kind === "range" && failover === "any");
}

/**
 * Returns the first success of two attempts. If both fail, throws by priority: an error of the request itself, a
 * retryable error, a refusal that concerns one endpoint only.
 */
export async function firstSuccess<T>(a: Promise<T>, b: Promise<T>): Promise<T> {
  try {
    return await Promise.any([a, b]);
  } catch (error) {
    const { errors } = error as AggregateError;
    const isOwn = (one: unknown) => isEndpointRefusal(one, "any");
    throw errors.find((one) => !isRetryable(one) && !isOwn(one)) ?? errors.find((one) => !isOwn(one)) ?? errors[0];
  }
}

const BENCH_BASE_MS = 500;
const BENCH_MAX_MS = 60_000;
const LIAR_BENCH_MS = 300_000;
/** Bench of an endpoint that is behind. A lag of one block is over by then; a stuck node is checked this often. */
const BEHIND_MS = 30_000;
/** An endpoint with at most this much bench left still takes part in failover: a short failure may be over. */
const SHORT_REST_MS = 1_000;
/** After this many single blocks refused in a row, the refusals are not about the size of the blocks. */
const FEW = 3;
/** Pruned history does not come back. A refusal for size may be over sooner. */
const LACKS_HISTORY_MS = 300_000;

const smoothed = (before: number, ms: number): number => before * 0.8 + ms * 0.2;

export class Health {
  /** Failures in a row. */
  failures = 0;
  /** Smoothed response time in ms. */
  latency = 0;
  readonly window = new CongestionWindow();
  readonly span = new SpanController();
  /** Time of the last failure. */
  #failedAt = Number.NEGATIVE_INFINITY;
  /** End of the bench for failures. The first success ends it as well. */
  #benchedUntil = 0;
  /** End of the bench for wrong or old answers. A success does not end it. */
  #distrustedUntil = 0;
  #isBehind = false;
  #lacksHistoryUntil = 0;
  /** Refusals of history with an unknown reason, since the endpoint last gave history. */
  #unknownRefusals = 0;
  /** Single blocks that it refused and another endpoint had, since it last gave history. */
  #refusedBlocks = 0;
  /**
   * End of the pause that the endpoint itself asked for (`Retry-After`). A request before it would only prolong the
   * pause. A success does not end it: a request from before the pause may still succeed.
   */
  #heldUntil = 0;

  /** Time until which other endpoints are preferred. In the past if the endpoint is free. */
  get availableFrom(): number {
    return Math.max(this.#benchedUntil, this.#distrustedUntil, this.#heldUntil);
  }

  /** True if it may take a request that another endpoint refused: it is up, and its answers are not in doubt. */
  isFitForFailover(now: number): boolean {
    return this.#distrustedUntil <= now && this.#heldUntil <= now && this.#benchedUntil - now <= SHORT_REST_MS;
  }

  /** Time until which other endpoints are preferred for history. */
  get lacksHistoryUntil(): number {
    return this.#lacksHistoryUntil;
  }

  get pausedUntil(): number {
    return this.#heldUntil;
  }

  /** True if it is likely to answer, even if its answers are in doubt. */
  isReachable(now: number): boolean {
    return this.#benchedUntil <= now && this.#heldUntil <= now;
  }

  /** Records an answer after `ms`. */
  succeeded(ms: number): void {
    this.failures = 0;
    this.#benchedUntil = 0;
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
  failed({ retryAfterMs }: RpcError, started: number, now: number): void {
    this.window.overloaded();
    if (retryAfterMs !== undefined) this.#heldUntil = Math.max(this.#heldUntil, now + retryAfterMs);
    // The request began before the last failure. Sixteen parallel failures are one fault and must not bench the
    // endpoint for a minute.
    if (started < this.#failedAt) return;
    this.#failedAt = now;
    this.failures++;
    const doubled = Math.min(BENCH_MAX_MS, BENCH_BASE_MS * 2 ** (this.failures - 1));
    this.#benchedUntil = now + Math.max(doubled, retryAfterMs ?? 0);
  }

  /** Benches the endpoint for a wrong answer. */
  lied(now: number): void {
    this.#distrustedUntil = now + LIAR_BENCH_MS;
    this.#isBehind = false;
  }

  /** Benches the endpoint because another endpoint has newer blocks. */
  fellBehind(now: number): void {
    if (this.#distrustedUntil > now && !this.#isBehind) return;
    this.#distrustedUntil = now + BEHIND_MS;
    this.#isBehind = true;
  }

  /** Records an answer of `logs` logs for `blocks` blocks in `parts` ranges. */
  gaveHistory(blocks: number, logs: number, parts: number): void {
    this.#refusedBlocks = 0;
    this.#unknownRefusals = 0;
    this.span.succeeded(blocks, logs, parts);
  }

  /** Counts refusals of history with an unknown reason. True from the second in a row: the size may be the reason. */
  countUnknownRefusal(error: RpcError): boolean {
    return error.kind === "transient" && isUnknownRefusal(error) && ++this.#unknownRefusals > 1;
  }

  /** Records refused history that another endpoint has. A refusal for size counts only after a few single blocks. */
  lackedHistory(now: number, isOfSize: boolean): void {
    if (isOfSize && ++this.#refusedBlocks < FEW) return;
    this.#refusedBlocks = 0;
    this.#lacksHistoryUntil = now + LACKS_HISTORY_MS;
    this.span.restart();
  }

  /** Ends the bench for being behind: the endpoint has the newest block. */
  caughtUp(): void {
    if (!this.#isBehind) return;
    this.#distrustedUntil = 0;
    this.#isBehind = false;
  }
}
