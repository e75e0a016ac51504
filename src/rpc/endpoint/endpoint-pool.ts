/**
 * The endpoints of one chain: selects the next one, benches those that fail, and limits the load of each. A bench
 * doubles with each failure in a row; a wrong answer benches longest. A request that is much slower than its endpoint
 * usually is goes to a second endpoint as well, and the first answer counts. One retry loop serves all requests.
 */
import type { Clock } from "../../core/clock.ts";
import { AppError, type ErrorMeta } from "../../core/errors.ts";
import { retry } from "../../core/retry.ts";
import type { Endpoint } from "../port.ts";
import { RpcError } from "../rpc-errors.ts";
import { type Failover, firstSuccess, Health, isEndpointRefusal, Refusals } from "./health.ts";

const RETRY_BASE_MS = 200;
const RETRY_MAX_MS = 10_000;
/** Longest `Retry-After` that a request waits for. Beyond it the request fails. */
const HELD_MAX_MS = 10_000;
/** A request is hedged after this time and after four times its endpoint's usual latency. */
const HEDGE_MIN_MS = 1_000;
const HEDGE_FACTOR = 4;

/** Where all endpoints are asked, wait at most this long for the slowest. */
const ALL_MS = 3_000;

export interface PoolOptions {
  readonly chain: string;
  readonly endpoints: readonly Endpoint[];
  readonly clock: Clock;
  /** Called for each request that was also sent to a second endpoint. */
  readonly onHedge?: () => void;
  /** Called with the label of an endpoint that gave a wrong answer. */
  readonly onLiar?: (label: string) => void;
  /** Called with the label of an endpoint that is benched because another one has newer blocks. */
  readonly onBehind?: (label: string) => void;
}

export interface RunOptions {
  /** Attempts in all. Background work can wait longer than a user. */
  readonly attempts?: number;
  readonly signal?: AbortSignal;
  readonly meta?: ErrorMeta;
  /** Refusals after which another endpoint is asked. Default: `lacking`. */
  readonly failover?: Failover;
}

type Operation<T> = (endpoint: Endpoint, abandoned: AbortSignal) => Promise<T>;
/** Requests `span` blocks, split into `parts` ranges of one request if the endpoint takes batches. */
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

  /** Number of blocks for the next bulk request, by the endpoint that is likely to take it. */
  nextBulkSpan(): number {
    const endpoint = this.#pick(this.#archiveEndpoints(this.endpoints));
    const { span } = this.#healthOf(endpoint);
    return span.next() * this.#partsOf(endpoint);
  }

  /** Most ranges in one request to the endpoint. */
  #partsOf(endpoint: Endpoint): number {
    return endpoint.transfersInParts === undefined ? 1 : this.#healthOf(endpoint).span.parts;
  }

  /**
   * Runs `operation` on the best endpoint, and on other endpoints after failures and refusals.
   * @throws RpcError if the request itself is refused; AppError `chain_unavailable` if no endpoint answers
   */
  run<T>(operation: Operation<T>, options: RunOptions = {}): Promise<T> {
    const { failover = "lacking", signal } = options;
    const refusals = new Refusals();
    return this.#retrying(
      async () => {
        for (;;) {
          const endpoint = this.#pick(this.#candidates(refusals));
          await this.#waitForRetryAfter(endpoint, signal);
          try {
            return (await this.#hedged(endpoint, operation, refusals, signal)).value;
          } catch (error) {
            if (!isEndpointRefusal(error, failover)) throw error;
            refusals.add(endpoint, error);
          }
        }
      },
      { ...options, refusals },
    );
  }

  /**
   * Like `run`, for reading history: waits for room at an endpoint and says how many blocks to request from it. If that
   * many are refused, learns from it and retries with fewer, down to a single block.
   */
  bulk<T>(operation: BulkOperation<T>, blocks: number, options: RunOptions = {}): Promise<T> {
    const { signal } = options;
    const refusals = new Refusals();
    return this.#retrying(
      async () => {
        for (;;) {
          const endpoint = await this.#admitted(refusals, signal);
          try {
            await this.#waitForRetryAfter(endpoint, signal);
            const value = await this.#withLearnedSpan(endpoint, operation, { blocks, refusals, signal });
            for (const [one, error] of refusals.askAll) {
              this.#healthOf(one).lackedHistory(this.#clock.monotonic(), error.kind === "range");
            }
            return value;
          } catch (error) {
            if (!isEndpointRefusal(error, "any")) throw error;
            refusals.add(endpoint, error);
          } finally {
            this.#healthOf(endpoint).window.inFlight--;
            // Wakes all: the first one in the queue may not be able to use this endpoint.
            for (const wake of this.#waiting.splice(0)) wake();
          }
        }
      },
      { ...options, refusals },
    );
  }

  /** Requests as many blocks as the endpoint accepts. @throws RpcError `range` if it refuses even one */
  async #withLearnedSpan<T>(
    endpoint: Endpoint,
    operation: BulkOperation<T>,
    { blocks, refusals, signal }: { blocks: number; refusals: Refusals; signal: AbortSignal | undefined },
  ): Promise<T> {
    const health = this.#healthOf(endpoint);
    const { span } = health;
    for (;;) {
      const asked = span.take(blocks);
      const parts = Math.min(this.#partsOf(endpoint), Math.ceil(blocks / asked));
      const started = this.#clock.monotonic();
      const ask = (one: Endpoint, abandoned: AbortSignal) =>
        operation(one, Math.min(blocks, asked * parts), abandoned, parts);
      try {
        const { value, by } = await this.#hedged(endpoint, ask, refusals, signal);
        // The hedged request won and cancelled this endpoint's, which counts as a timeout here.
        if (by !== endpoint) health.lostHedge(this.#clock.monotonic() - started, asked);
        return value;
      } catch (error) {
        if (!(error instanceof RpcError)) throw error;
        if (parts > 1 && error.kind !== "rate" && error.kind !== "lie") {
          span.partsRefused(parts);
          if (error.kind === "range") continue;
          throw error;
        }
        if (error.kind === "late" || health.countUnknownRefusal(error)) span.tookTooLong(asked);
        if (error.kind !== "range" || asked === 1) {
          span.failed(asked);
          throw error;
        }
        span.refused(asked, error.hint);
      }
    }
  }

  /** Records an answer of `logs` logs to a request for `blocks` blocks in `parts` ranges. */
  recordHistory(endpoint: Endpoint, blocks: number, logs: number, parts = 1): void {
    this.#healthOf(endpoint).gaveHistory(blocks, logs, parts);
  }

  /** Returns the message of the newest failed request if it failed within the last `ms` ms. */
  failureWithin(ms: number): string | undefined {
    const failure = this.#lastFailure;
    return failure !== undefined && this.#clock.monotonic() - failure.at <= ms ? failure.message : undefined;
  }

  /** Returns a second endpoint, other than `than`, that is not benched and has not refused. */
  secondEndpoint(than: Endpoint, refusals?: Refusals): Endpoint | undefined {
    const now = this.#clock.monotonic();
    return this.endpoints.find(
      (one) => one !== than && refusals?.askAll.has(one) !== true && this.#healthOf(one).availableFrom <= now,
    );
  }

  /** Returns a second endpoint where one is required, a benched one if there is no other. */
  requiredSecondEndpoint(than: Endpoint): Endpoint | undefined {
    return this.secondEndpoint(than) ?? this.endpoints.find((one) => one !== than);
  }

  /** Benches an endpoint that gave a wrong answer. */
  benchLiar(endpoint: Endpoint): void {
    this.#healthOf(endpoint).lied(this.#clock.monotonic());
    this.#options.onLiar?.(endpoint.label);
  }

  /**
   * Runs `operation` on this endpoint only, with a second attempt. A failure counts against the endpoint.
   * @throws AppError `chain_unavailable` if it does not answer
   */
  runOn<T>(endpoint: Endpoint, operation: Operation<T>, options: RunOptions = {}): Promise<T> {
    const once = () => this.#once(endpoint, operation, options.signal);
    return this.#retrying(once, { attempts: 2, ...options, refusals: new Refusals() });
  }

  /** Asks every endpoint once and returns the early answers. Includes endpoints benched for wrong answers. */
  async all<T>(operation: Operation<T>): Promise<{ endpoint: Endpoint; value: T }[]> {
    const over = new AbortController();
    const late = this.#clock.sleep(ALL_MS, over.signal).catch(() => undefined);
    const now = this.#clock.monotonic();
    const able = this.endpoints.filter((one) => this.#healthOf(one).isReachable(now));
    const said = able.map((endpoint) =>
      this.#once(endpoint, operation, over.signal).then(
        (value) => ({ endpoint, value }),
        () => undefined,
      ),
    );
    const inTime = await Promise.all(said.map((one) => Promise.race([one, late])));
    over.abort(new DOMException("the time for answers is over", "AbortError"));
    return inTime.filter((one) => one !== undefined);
  }

  /** Benches an endpoint because another one has newer blocks, or ends such a bench. */
  setBehind(endpoint: Endpoint, isBehind: boolean): void {
    const health = this.#healthOf(endpoint);
    if (!isBehind) health.caughtUp();
    else {
      health.fellBehind(this.#clock.monotonic());
      this.#options.onBehind?.(endpoint.label);
    }
  }

  async #retrying<T>(once: () => Promise<T>, options: RunOptions & { readonly refusals: Refusals }): Promise<T> {
    const attempts = options.attempts ?? 4;
    // The caller can react to a timeout with a smaller request, so it becomes the cause even if other errors follow.
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
        // One endpoint answered with a refusal. Failures of the other endpoints are no reason to repeat its request.
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

  /** Waits until the endpoint's `Retry-After` is over. @throws RpcError `rate` if the wait is too long */
  async #waitForRetryAfter(endpoint: Endpoint, signal: AbortSignal | undefined): Promise<void> {
    const wait = this.#healthOf(endpoint).pausedUntil - this.#clock.monotonic();
    if (wait <= 0) return;
    if (wait > HELD_MAX_MS) {
      throw new RpcError("rate", "the endpoint asked for a long pause (Retry-After)", {
        meta: { endpoint: endpoint.label },
      });
    }
    await this.#clock.sleep(wait, signal);
  }

  /** Waits until an endpoint has room for one more bulk request. Takes a benched endpoint only if all are benched. */
  async #admitted(refusals: Refusals, signal: AbortSignal | undefined): Promise<Endpoint> {
    for (;;) {
      signal?.throwIfAborted();
      const now = this.#clock.monotonic();
      const able = this.#archiveEndpoints(this.#candidates(refusals));
      const free = this.#ranked(able).filter((one) => this.#healthOf(one).window.hasRoom);
      const endpoint =
        free.find((one) => this.#healthOf(one).availableFrom <= now) ??
        (this.#restUntil(able) > now ? free[0] : undefined);
      if (endpoint !== undefined) {
        this.#healthOf(endpoint).window.inFlight++;
        return endpoint;
      }
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  /** Returns the endpoints left to ask: all, or after a refusal those fit for failover. @throws the refusal if none */
  #candidates(refusals: Refusals): readonly Endpoint[] {
    if (refusals.error === undefined) return this.endpoints;
    const now = this.#clock.monotonic();
    const left = this.endpoints.filter((one) => !refusals.askAll.has(one) && this.#healthOf(one).isFitForFailover(now));
    if (left.length === 0) throw refusals.error;
    return left;
  }

  /** Returns the endpoints to ask for history. Leaves out those that lacked some recently, if another one is free. */
  #archiveEndpoints(able: readonly Endpoint[]): readonly Endpoint[] {
    const now = this.#clock.monotonic();
    const having = able.filter((one) => this.#healthOf(one).lacksHistoryUntil <= now);
    return having.some((one) => this.#healthOf(one).availableFrom <= now) ? having : able;
  }

  /** Returns the time when the first of these benches ends; in the past if an endpoint is free. */
  #restUntil(endpoints: readonly Endpoint[]): number {
    return Math.min(...endpoints.map((one) => this.#healthOf(one).availableFrom));
  }

  /** Runs one attempt, and hedges it on a second endpoint if it is slow. Returns the endpoint that answered as well. */
  async #hedged<T>(
    endpoint: Endpoint,
    operation: Operation<T>,
    refusals: Refusals,
    signal: AbortSignal | undefined,
  ): Promise<{ value: T; by: Endpoint }> {
    // Cancels what is left of the attempt after its first failure, or after another endpoint's answer.
    const over = new AbortController();
    const both = signal === undefined ? over.signal : AbortSignal.any([signal, over.signal]);
    let late: () => void = () => undefined;
    const straggling = new Promise<void>((resolve) => {
      late = resolve;
    });
    const patience = Math.max(HEDGE_MIN_MS, this.#healthOf(endpoint).latency * HEDGE_FACTOR);
    const cancel = this.endpoints.length === 1 ? () => undefined : this.#clock.after(patience, () => late());
    const ask = async (by: Endpoint) => ({ value: await this.#once(by, operation, both), by });
    const first = ask(endpoint);
    try {
      const early = await Promise.race([first, straggling]);
      if (early !== undefined) return early;
      const second = this.secondEndpoint(endpoint, refusals);
      if (second === undefined) return await first;
      this.#options.onHedge?.();
      return await firstSuccess(first, ask(second));
    } finally {
      cancel();
      over.abort(new DOMException("the attempt is over", "AbortError"));
    }
  }

  async #once<T>(endpoint: Endpoint, operation: Operation<T>, signal: AbortSignal | undefined): Promise<T> {
    const health = this.#healthOf(endpoint);
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

  /** Sorts endpoints: free ones by failures in a row, then latency; after them benched ones by the end of the bench. */
  #ranked(endpoints: readonly Endpoint[]): Endpoint[] {
    const now = this.#clock.monotonic();
    const rank = (endpoint: Endpoint) => {
      const { availableFrom, failures, latency } = this.#healthOf(endpoint);
      return [availableFrom > now ? availableFrom : 0, failures, latency] as const;
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

  /** The wait after a `Retry-After`: until an endpoint is free, if that is soon. Undefined: the normal backoff. */
  #waitHint({ retryAfterMs }: RpcError): number | undefined {
    const wait = this.#restUntil(this.endpoints) - this.#clock.monotonic();
    return retryAfterMs === undefined || wait > HELD_MAX_MS ? undefined : wait;
  }

  #healthOf(endpoint: Endpoint): Health {
    const health = this.#health.get(endpoint);
    if (health === undefined) throw new TypeError("the endpoint belongs to another pool");
    return health;
  }

  close(): void {
    for (const endpoint of this.endpoints) endpoint.destroy();
  }
}

const NEVER = new AbortController().signal;
