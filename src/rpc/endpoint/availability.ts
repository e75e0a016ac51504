/**
 * One endpoint as the pool sees it: whether it is available, how fast it is, and how much it takes. All times are
 * monotonic, in ms: a jump of the wall clock must not bench an endpoint for a day.
 */
import { faultText, isUnknownRefusal, type RpcError } from "../rpc-errors.ts";
import { SpanController } from "./span-controller.ts";

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

export class EndpointHealth {
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
  /** True if the last failure was an answer: the endpoint is up, and refused one request. */
  #hasRefused = false;
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
    return !this.#rests("paused", now) && (this.#hasRefused || !this.#rests("failed", now));
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
    this.#hasRefused = "rpcCode" in error.meta;
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
