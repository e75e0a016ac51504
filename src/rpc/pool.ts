/**
 * The endpoints of one chain: who is asked next, who rests, how much each takes. An endpoint that fails is benched for a
 * while that doubles with each failure in a row; one that lied rests longest. A request that takes far longer than its
 * endpoint's do is asked of another as well, and the first answer counts. One retry loop serves all requests.
 */
import type { Clock } from "../core/clock.ts";
import { AppError, type ErrorMeta } from "../core/errors.ts";
import { retry } from "../core/retry.ts";
import type { Endpoint } from "./endpoint.ts";
import { RpcError } from "./errors.ts";
import { Health } from "./health.ts";
import { type Failover, firstOf, isOwnRefusal, Refusals } from "./refusals.ts";

const RETRY_BASE_MS = 200;
const RETRY_MAX_MS = 10_000;
/** A `Retry-After` up to this is waited out by who asks; beyond it nobody is there for the time being. */
const HELD_MAX_MS = 10_000;
/** A straggler: slower than this, and than four times what its endpoint takes. */
const HEDGE_MIN_MS = 1_000;
const HEDGE_FACTOR = 4;

/** Who has not answered by then is not waited for where everybody is asked. */
const ALL_MS = 3_000;

export interface PoolOptions {
  readonly chain: string;
  readonly endpoints: readonly Endpoint[];
  readonly clock: Clock;
  /** Hears of each request that was also sent to a second endpoint. */
  readonly onHedge?: () => void;
  /** Hears when an endpoint was caught lying, with its label. */
  readonly onLiar?: (label: string) => void;
  /** Hears when an endpoint is passed over because others have newer blocks, with its label. */
  readonly onBehind?: (label: string) => void;
}

export interface RunOptions {
  /** Attempts in all; background work can wait longer than a user. */
  readonly attempts?: number;
  readonly signal?: AbortSignal;
  readonly meta?: ErrorMeta;
  /** Which refusals of one endpoint are asked of others; `lacking` unless told. */
  readonly failover?: Failover;
}

type Operation<T> = (endpoint: Endpoint, abandoned: AbortSignal) => Promise<T>;
/** Asks for `span` blocks, in as many ranges of one request as `parts` says where the endpoint takes that. */
type BulkOperation<T> = (endpoint: Endpoint, span: number, abandoned: AbortSignal, parts: number) => Promise<T>;

export class EndpointPool {
  readonly endpoints: readonly Endpoint[];
  readonly #options: PoolOptions;
  readonly #clock: Clock;
  readonly #health = new Map<Endpoint, Health>();
  readonly #waiting: (() => void)[] = [];
  #lastFailure: { readonly message: string; readonly at: number } | undefined;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.endpoints = options.endpoints;
    this.#clock = options.clock;
    for (const endpoint of options.endpoints) this.#health.set(endpoint, new Health());
  }

  /** Blocks to cut off for the endpoint that is likely next. */
  cut(): number {
    const endpoint = this.#pick(this.#historians(this.endpoints));
    const { span } = this.#of(endpoint);
    return span.next() * this.#partsOf(endpoint);
  }

  /** Ranges that one request to the endpoint may carry. */
  #partsOf(endpoint: Endpoint): number {
    return endpoint.transfersInParts === undefined ? 1 : this.#of(endpoint).span.parts;
  }

  /**
   * Runs `operation` on the best endpoint, on others after failures and refusals.
   * @throws RpcError when the refusal is about the request itself; AppError `chain_unavailable` when nobody answers
   */
  run<T>(operation: Operation<T>, options: RunOptions = {}): Promise<T> {
    const { failover = "lacking", signal } = options;
    const refusals = new Refusals();
    return this.#retrying(
      async () => {
        for (;;) {
          const endpoint = this.#pick(this.#left(refusals));
          await this.#released(endpoint, signal);
          try {
            return (await this.#hedged(endpoint, operation, refusals, signal)).value;
          } catch (error) {
            if (!isOwnRefusal(error, failover)) throw error;
            refusals.add(endpoint, error);
          }
        }
      },
      { ...options, refusals },
    );
  }

  /**
   * As `run`, for reading history: held back to what the endpoint takes at once, and told how many blocks to ask it for.
   * A refusal of that many is learned and is not the caller's to handle, down to a single block.
   */
  bulk<T>(operation: BulkOperation<T>, blocks: number, options: RunOptions = {}): Promise<T> {
    const { signal } = options;
    const refusals = new Refusals();
    return this.#retrying(
      async () => {
        for (;;) {
          const endpoint = await this.#admitted(refusals, signal);
          try {
            await this.#released(endpoint, signal);
            const value = await this.#asMany(endpoint, operation, { blocks, refusals, signal });
            for (const [one, error] of refusals.all) {
              this.#of(one).lackedHistory(this.#clock.monotonic(), error.kind === "range");
            }
            return value;
          } catch (error) {
            if (!isOwnRefusal(error, "any")) throw error;
            refusals.add(endpoint, error);
          } finally {
            this.#of(endpoint).window.inFlight--;
            // All of them: the first in the queue may not be able to use this very room.
            for (const wake of this.#waiting.splice(0)) wake();
          }
        }
      },
      { ...options, refusals },
    );
  }

  /** As many blocks as the endpoint answers. @throws RpcError `range` when that is not even one */
  async #asMany<T>(
    endpoint: Endpoint,
    operation: BulkOperation<T>,
    { blocks, refusals, signal }: { blocks: number; refusals: Refusals; signal: AbortSignal | undefined },
  ): Promise<T> {
    const health = this.#of(endpoint);
    const { span } = health;
    for (;;) {
      const asked = span.take(blocks);
      const parts = Math.min(this.#partsOf(endpoint), Math.ceil(blocks / asked));
      const started = this.#clock.monotonic();
      const ask = (one: Endpoint, abandoned: AbortSignal) =>
        operation(one, Math.min(blocks, asked * parts), abandoned, parts);
      try {
        const { value, by } = await this.#hedged(endpoint, ask, refusals, signal);
        // What it would have said in the end, it was not given the time to.
        if (by !== endpoint) health.outrun(this.#clock.monotonic() - started, asked);
        return value;
      } catch (error) {
        if (!(error instanceof RpcError)) throw error;
        if (parts > 1 && error.kind !== "rate" && error.kind !== "lie") {
          span.partsRefused(parts);
          if (error.kind === "range") continue;
          throw error;
        }
        if (error.kind === "late" || health.refusedAgain(error)) span.tookTooLong(asked);
        if (error.kind !== "range" || asked === 1) {
          span.failed(asked);
          throw error;
        }
        span.refused(asked, error.hint);
      }
    }
  }

  /** An answer of so many logs to a request for so many blocks, in so many ranges. */
  answered(endpoint: Endpoint, blocks: number, logs: number, parts = 1): void {
    this.#of(endpoint).gaveHistory(blocks, logs, parts);
  }

  /** What the newest failed request failed for, if that was within so many ms. */
  failureWithin(ms: number): string | undefined {
    const failure = this.#lastFailure;
    return failure !== undefined && this.#clock.monotonic() - failure.at <= ms ? failure.message : undefined;
  }

  /** A second opinion: an endpoint other than `than`, and none that has refused, that is not benched. */
  other(than: Endpoint, refusals?: Refusals): Endpoint | undefined {
    const now = this.#clock.monotonic();
    return this.endpoints.find(
      (one) => one !== than && refusals?.all.has(one) !== true && this.#of(one).restsUntil <= now,
    );
  }

  /** A second opinion where nothing goes without one: from an endpoint that rests, too, when no other is left. */
  witness(than: Endpoint): Endpoint | undefined {
    return this.other(than) ?? this.endpoints.find((one) => one !== than);
  }

  /** Takes an endpoint that was caught out of the rotation for a while. */
  benchLiar(endpoint: Endpoint): void {
    this.#of(endpoint).lied(this.#clock.monotonic());
    this.#options.onLiar?.(endpoint.label);
  }

  /**
   * What this very endpoint says, if with a second attempt; what it fails for counts against it.
   * @throws AppError `chain_unavailable` when it does not answer
   */
  only<T>(endpoint: Endpoint, operation: Operation<T>, options: RunOptions = {}): Promise<T> {
    const once = () => this.#once(endpoint, operation, options.signal);
    return this.#retrying(once, { attempts: 2, ...options, refusals: new Refusals() });
  }

  /** What every endpoint says that answers soon, each alone, also those that rest for what they said before. */
  async all<T>(operation: Operation<T>): Promise<{ endpoint: Endpoint; value: T }[]> {
    const over = new AbortController();
    const late = this.#clock.sleep(ALL_MS, over.signal).catch(() => undefined);
    const now = this.#clock.monotonic();
    const able = this.endpoints.filter((one) => this.#of(one).answers(now));
    const said = able.map((endpoint) =>
      this.#once(endpoint, operation, over.signal).then(
        (value) => ({ endpoint, value }),
        () => undefined,
      ),
    );
    const inTime = await Promise.all(said.map((one) => Promise.race([one, late])));
    over.abort(new DOMException("all that counts has been said", "AbortError"));
    return inTime.filter((one) => one !== undefined);
  }

  /** Has an endpoint rest for a while because others have newer blocks, or ends such a rest. */
  passOver(endpoint: Endpoint, isBehind: boolean): void {
    const health = this.#of(endpoint);
    if (!isBehind) health.caughtUp();
    else {
      health.fellBehind(this.#clock.monotonic());
      this.#options.onBehind?.(endpoint.label);
    }
  }

  async #retrying<T>(once: () => Promise<T>, options: RunOptions & { readonly refusals: Refusals }): Promise<T> {
    const attempts = options.attempts ?? 4;
    // That one of them took too long is what its caller can do something about, whatever the others fail for.
    let late: RpcError | undefined;
    try {
      return await retry(once, {
        clock: this.#clock,
        attempts,
        baseMs: RETRY_BASE_MS,
        maxMs: RETRY_MAX_MS,
        ...(options.signal === undefined ? {} : { signal: options.signal }),
        onFailure: (error) => {
          if (!(error instanceof RpcError)) return undefined;
          if (error.kind === "late") late = error;
          return this.#waitHint(error);
        },
      });
    } catch (error) {
      if (error instanceof RpcError && error.retryable) {
        // One has answered, if with a refusal; that the others cannot be had is no reason to ask it again.
        if (options.refusals.error !== undefined) throw options.refusals.error;
        const { chain } = this.#options;
        throw new AppError(`no endpoint of ${chain} gives a usable answer: ${error.message}`, {
          code: "chain_unavailable",
          retryable: true,
          meta: { chain, attempts, ...error.meta, ...options.meta },
          cause: late ?? error,
        });
      }
      throw error;
    }
  }

  /** Waits out what an endpoint that nobody can stand in for has asked for. @throws RpcError `rate` when that is long */
  async #released(endpoint: Endpoint, signal: AbortSignal | undefined): Promise<void> {
    const wait = this.#of(endpoint).heldUntil - this.#clock.monotonic();
    if (wait <= 0) return;
    if (wait > HELD_MAX_MS) {
      throw new RpcError("rate", "the endpoint asked to be left alone", { meta: { endpoint: endpoint.label } });
    }
    await this.#clock.sleep(wait, signal);
  }

  /** Waits until an endpoint that is not resting has room for one more bulk request. */
  async #admitted(refusals: Refusals, signal: AbortSignal | undefined): Promise<Endpoint> {
    for (;;) {
      signal?.throwIfAborted();
      const now = this.#clock.monotonic();
      const able = this.#historians(this.#left(refusals));
      const free = this.#ranked(able).filter((one) => this.#of(one).window.hasRoom);
      const endpoint =
        free.find((one) => this.#of(one).restsUntil <= now) ?? (this.#restUntil(able) > now ? free[0] : undefined);
      if (endpoint !== undefined) {
        this.#of(endpoint).window.inFlight++;
        return endpoint;
      }
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  /** Who may still be asked: once somebody has refused, only who can stand in. @throws the refusal when nobody can */
  #left(refusals: Refusals): readonly Endpoint[] {
    if (refusals.error === undefined) return this.endpoints;
    const now = this.#clock.monotonic();
    const left = this.endpoints.filter((one) => !refusals.all.has(one) && this.#of(one).standsIn(now));
    if (left.length === 0) throw refusals.error;
    return left;
  }

  /** Of these those that history is asked of: not who lacked some of late, while another one is there. */
  #historians(able: readonly Endpoint[]): readonly Endpoint[] {
    const now = this.#clock.monotonic();
    const having = able.filter((one) => this.#of(one).lacksHistoryUntil <= now);
    return having.some((one) => this.#of(one).restsUntil <= now) ? having : able;
  }

  /** When the first of them is free of its bench; in the past when one is free now. */
  #restUntil(endpoints: readonly Endpoint[]): number {
    return Math.min(...endpoints.map((one) => this.#of(one).restsUntil));
  }

  /** One attempt, and a second endpoint's beside it when the first takes too long; whose answer it is. */
  async #hedged<T>(
    endpoint: Endpoint,
    operation: Operation<T>,
    refusals: Refusals,
    signal: AbortSignal | undefined,
  ): Promise<{ value: T; by: Endpoint }> {
    // What one part of an attempt has failed for, or another endpoint has answered first, is not asked for any more.
    const over = new AbortController();
    const both = signal === undefined ? over.signal : AbortSignal.any([signal, over.signal]);
    let late: () => void = () => undefined;
    const straggling = new Promise<void>((resolve) => {
      late = resolve;
    });
    const patience = Math.max(HEDGE_MIN_MS, this.#of(endpoint).latency * HEDGE_FACTOR);
    const cancel = this.endpoints.length === 1 ? () => undefined : this.#clock.after(patience, () => late());
    const ask = async (by: Endpoint) => ({ value: await this.#once(by, operation, both), by });
    const first = ask(endpoint);
    try {
      const early = await Promise.race([first, straggling]);
      if (early !== undefined) return early;
      const second = this.other(endpoint, refusals);
      if (second === undefined) return await first;
      this.#options.onHedge?.();
      return await firstOf(first, ask(second));
    } finally {
      cancel();
      over.abort(new DOMException("the attempt is over", "AbortError"));
    }
  }

  async #once<T>(endpoint: Endpoint, operation: Operation<T>, signal: AbortSignal | undefined): Promise<T> {
    const health = this.#of(endpoint);
    const started = this.#clock.monotonic();
    try {
      const value = await operation(endpoint, signal ?? NEVER);
      health.succeeded(this.#clock.monotonic() - started);
      return value;
    } catch (error) {
      if (error instanceof RpcError) {
        this.#lastFailure = { message: `${endpoint.label}: ${error.message}`, at: this.#clock.monotonic() };
      }
      if (error instanceof RpcError && error.retryable) {
        if (error.kind === "lie") this.benchLiar(endpoint);
        else health.failed(error, started, this.#clock.monotonic());
      }
      throw error;
    }
  }

  /** Free endpoints first: those with the fewest failures, then the quickest; then those whose rest ends first. */
  #ranked(endpoints: readonly Endpoint[]): Endpoint[] {
    const now = this.#clock.monotonic();
    const rank = (endpoint: Endpoint) => {
      const { restsUntil, failures, latency } = this.#of(endpoint);
      return [restsUntil > now ? restsUntil : 0, failures, latency] as const;
    };
    return [...endpoints].sort((a, b) => {
      const [x, y] = [rank(a), rank(b)];
      return x[0] - y[0] || x[1] - y[1] || x[2] - y[2];
    });
  }

  #pick(endpoints: readonly Endpoint[]): Endpoint {
    const [best] = this.#ranked(endpoints);
    if (best === undefined) throw new AppError("the chain has no endpoint", { code: "chain_unavailable" });
    return best;
  }

  /**
   * A `Retry-After` is waited out until any endpoint is free, where that is soon; else who asks again is told that nobody is
   * there.
   */
  #waitHint({ retryAfterMs }: RpcError): number | undefined {
    const wait = this.#restUntil(this.endpoints) - this.#clock.monotonic();
    return retryAfterMs === undefined || wait > HELD_MAX_MS ? undefined : wait;
  }

  #of(endpoint: Endpoint): Health {
    const health = this.#health.get(endpoint);
    if (health === undefined) throw new TypeError("an endpoint of another pool");
    return health;
  }

  close(): void {
    for (const endpoint of this.endpoints) endpoint.destroy();
  }
}

const NEVER = new AbortController().signal;
