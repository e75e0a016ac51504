/**
 * What is known of one endpoint while the service runs: how often it failed, how long it rests and what for, how quick it
 * is and how much it takes. Times are on the clock's monotonic scale: a wall clock that jumps must not bench anybody for
 * a day.
 */
import { isUnknownRefusal, type RpcError } from "./errors.ts";
import { SpanController } from "./span.ts";
import { Window } from "./window.ts";

const BENCH_BASE_MS = 500;
const BENCH_MAX_MS = 60_000;
const LIAR_BENCH_MS = 300_000;
/** A node that lags by a block has caught up by then; one that is stuck is looked at this often. */
const BEHIND_MS = 30_000;
/** A failure may pass within so long; who has failed oftener is not waited for where another has answered, if with no. */
const SHORT_REST_MS = 1_000;
/** Single blocks refused in a row that say that it is not their size. */
const FEW = 3;
/** What a node has pruned does not come back; that another one takes larger answers may be over sooner. */
const LACKS_HISTORY_MS = 300_000;

const smoothed = (before: number, ms: number): number => before * 0.8 + ms * 0.2;

export class Health {
  /** In a row. */
  failures = 0;
  /** Smoothed ms of an answer. */
  latency = 0;
  readonly window = new Window();
  readonly span = new SpanController();
  /** When it failed last. */
  #failedAt = Number.NEGATIVE_INFINITY;
  /** For failures: over with the first success. */
  #benchedUntil = 0;
  /** For what it says, however well it answers. */
  #outUntil = 0;
  #isBehind = false;
  #lacksHistoryUntil = 0;
  /** Refusals of history, in words or by a status that tell no reason, since it last gave some. */
  #unknownRefusals = 0;
  /** Single blocks that it refused, and others had, since it last gave history. */
  #refusedBlocks = 0;
  /**
   * Until when it said itself that it will not answer (`Retry-After`): to ask earlier is to be refused for longer. What
   * was under way then may still be answered, and says nothing against it.
   */
  #heldUntil = 0;

  /** Until when others are asked by preference; in the past when it is free. */
  get restsUntil(): number {
    return Math.max(this.#benchedUntil, this.#outUntil, this.#heldUntil);
  }

  /** Whether it may be asked what another one has refused: not if what it says is in doubt, or it is down. */
  standsIn(now: number): boolean {
    return this.#outUntil <= now && this.#heldUntil <= now && this.#benchedUntil - now <= SHORT_REST_MS;
  }

  /** Until when history is asked of others by preference. */
  get lacksHistoryUntil(): number {
    return this.#lacksHistoryUntil;
  }

  get heldUntil(): number {
    return this.#heldUntil;
  }

  /** Whether it is likely to answer, whatever that is worth. */
  answers(now: number): boolean {
    return this.#benchedUntil <= now && this.#heldUntil <= now;
  }

  /** It answered within `ms`. */
  succeeded(ms: number): void {
    this.failures = 0;
    this.#benchedUntil = 0;
    this.latency = smoothed(this.latency, ms);
    this.window.succeeded();
  }

  /** Another one has answered before it what it was asked `ms` ago, logs of so many blocks. */
  outrun(ms: number, blocks: number): void {
    this.latency = smoothed(this.latency, ms);
    this.window.overloaded();
    this.span.tookTooLong(blocks);
  }

  /** A request that was begun at `started` failed. */
  failed({ retryAfterMs }: RpcError, started: number, now: number): void {
    this.window.overloaded();
    if (retryAfterMs !== undefined) this.#heldUntil = Math.max(this.#heldUntil, now + retryAfterMs);
    // Under way when it last failed: sixteen at once are one fault, which is not to bench it for a minute.
    if (started < this.#failedAt) return;
    this.#failedAt = now;
    this.failures++;
    const doubled = Math.min(BENCH_MAX_MS, BENCH_BASE_MS * 2 ** (this.failures - 1));
    this.#benchedUntil = now + Math.max(doubled, retryAfterMs ?? 0);
  }

  /** It was caught giving a wrong answer. */
  lied(now: number): void {
    this.#outUntil = now + LIAR_BENCH_MS;
    this.#isBehind = false;
  }

  /** Others have newer blocks. */
  fellBehind(now: number): void {
    if (this.#outUntil > now && !this.#isBehind) return;
    this.#outUntil = now + BEHIND_MS;
    this.#isBehind = true;
  }

  /** It gave so many logs of so many blocks, in so many ranges. */
  gaveHistory(blocks: number, logs: number, parts: number): void {
    this.#refusedBlocks = 0;
    this.#unknownRefusals = 0;
    this.span.succeeded(blocks, logs, parts);
  }

  /** Whether it has refused history more than once in a row for a reason that is not known: its size may be one. */
  refusedAgain(error: RpcError): boolean {
    return error.kind === "transient" && isUnknownRefusal(error) && ++this.#unknownRefusals > 1;
  }

  /** It refused history that another endpoint has. One block alone may be more than it answers; it says so of some. */
  lackedHistory(now: number, isOfSize: boolean): void {
    if (isOfSize && ++this.#refusedBlocks < FEW) return;
    this.#refusedBlocks = 0;
    this.#lacksHistoryUntil = now + LACKS_HISTORY_MS;
    this.span.restart();
  }

  /** Nobody has newer blocks. */
  caughtUp(): void {
    if (!this.#isBehind) return;
    this.#outUntil = 0;
    this.#isBehind = false;
  }
}
