/**
 * The endpoints of one chain: selects the one for each request, lets those rest that fail, and limits the load of each.
 * A request that is much slower than its endpoint usually is goes to a second endpoint as well, and the first answer
 * counts. One retry loop serves all requests; `Plan` says how they differ.
 */
import { troubleOfEndpoints } from "../../chains/trouble.ts";
import { Budget, OverBudget } from "../../core/budget.ts";
import { type Clock, retry, withTimeout } from "../../core/clock.ts";
import { AppError, type ErrorMeta } from "../../core/errors.ts";
import type { Endpoint, EndpointUsage } from "../port.ts";
import { faultText, type RangeHint, RpcError } from "../rpc-errors.ts";
import type { RestReason } from "./availability.ts";
import { hedge } from "./hedge.ts";
import { EndpointSelection, type Failover, isEndpointRefusal, Refusals } from "./selection.ts";
import type { SpanController } from "./span-controller.ts";

const RETRY_BASE_MS = 200;
const RETRY_MAX_MS = 10_000;
/** Longest `Retry-After` that a request waits for. Beyond it the request fails. */
const MAX_PAUSE_MS = 10_000;
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
  /** Called when an endpoint's state has changed, as its requests show it. */
  readonly onState?: (status: EndpointStatus) => void;
  /** Called with the label of an endpoint that gave a wrong answer. */
  readonly onLiar?: (label: string) => void;
  /** Called with the label of an endpoint that rests because another one has newer blocks. */
  readonly onBehind?: (label: string) => void;
}

/** One endpoint as operators see it. */
export interface EndpointStatus {
  readonly label: string;
  /** `unused` until the first answer; `failed` after some failures in a row. The rest are reasons to rest. */
  readonly state: "unused" | "available" | "wrong_chain" | RestReason;
  /** The fault in words, without the endpoint's URL; null while it is available. */
  readonly reason: string | null;
  /** Ms until other endpoints are no longer preferred; 0 if it does not rest. */
  readonly restsMs: number;
  readonly usage: EndpointUsage | undefined;
}

/** What the endpoint that reads history takes. */
export interface HistoryLimits {
  /** A copy of what was learned, to plan with. */
  readonly span: SpanController;
  /** Most blocks per request; null if no limit was met. */
  readonly maxBlocks: number | null;
  /** Most blocks that it gave logs of in one range; 0 if it gave none yet. */
  readonly answered: number;
  /** True if several ranges fit into one request. */
  readonly hasBatches: boolean;
  readonly endpoints: number;
}

/** Fewer failures in a row are retried without a word. */
const FAILURES_TO_TELL = 3;

export interface RunOptions {
  /** Attempts in all. Background work can wait longer than a user. */
  readonly attempts?: number;
  readonly signal?: AbortSignal;
  readonly meta?: ErrorMeta;
  /** Refusals after which another endpoint is asked. Default: `lacking`. */
  readonly failover?: Failover;
  /** True for the request by which the gate is decided. */
  readonly isUngated?: boolean;
}

type EndpointOperation<T> = (endpoint: Endpoint, abandoned: AbortSignal) => Promise<T>;
/** Requests `span` blocks, split into `parts` ranges of one request if the endpoint takes batches. */
type BulkOperation<T> = (endpoint: Endpoint, span: number, abandoned: AbortSignal, parts: number) => Promise<T>;

/** How a request selects its endpoints and makes its attempts. */
interface AttemptPlan<T> {
  readonly failover: Failover;
  /** Selects an endpoint that has not refused. Waits until one has room, if that counts. @throws the refusal if none */
  select(refusals: Refusals): Endpoint | Promise<Endpoint>;
  attempt(endpoint: Endpoint, refusals: Refusals): Promise<T>;
  release?(endpoint: Endpoint): void;
}

const NEVER = new AbortController().signal;

/** Endpoints that have not answered for this long, in ms, count as unreachable: most faults pass sooner. */
const UNREACHABLE_MS = 60_000;
/** Each poll finds anew that a chain skips block numbers. */
const SKIPPING_MS = 300_000;

export class EndpointPool {
  readonly endpoints: readonly Endpoint[];
  readonly #options: PoolOptions;
  readonly #clock: Clock;
  readonly #selection: EndpointSelection;
  /** Requests in flight, and the monotonic time of the last answer, or since when there are any. */
  #pending = 0;
  #answeredAt = 0;
  /** Monotonic time since which all requests fail; undefined after an answer. */
  #failingSince: number | undefined;
  /** Endpoints whose chain skips block numbers, and the monotonic time until which that is known. */
  readonly #skipping = new Map<Endpoint, number>();
  /** The state of each endpoint that `onState` was last called with. */
  readonly #reported = new Map<Endpoint, EndpointStatus["state"]>();
  /** Awaited before each request. It throws while the endpoints must not be asked. */
  gate: (() => Promise<void>) | undefined;
  #lastFailure: { readonly message: string; readonly at: number } | undefined;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.endpoints = options.endpoints;
    this.#clock = options.clock;
    this.#selection = new EndpointSelection(options.endpoints, options.clock);
  }

  /** What keeps all endpoints from answering; undefined if one may answer. */
  trouble(): ReturnType<typeof troubleOfEndpoints> {
    const now = this.#clock.monotonic();
    // They answer, but the chain can't be followed with what they say.
    if (this.endpoints.every((endpoint) => (this.#skipping.get(endpoint) ?? now) > now)) return "unreachable";
    const trouble = troubleOfEndpoints(this.endpoints.map((endpoint) => this.#statusOf(endpoint).state));
    if (trouble !== "unreachable") return trouble;
    const since = this.#failingSince ?? now;
    return now - since >= UNREACHABLE_MS ? "unreachable" : undefined;
  }

  status(): readonly EndpointStatus[] {
    return this.endpoints.map((endpoint) => this.#statusOf(endpoint));
  }

  #statusOf(endpoint: Endpoint): EndpointStatus {
    const { label, otherChainId, usage } = endpoint;
    const now = this.#clock.monotonic();
    const health = this.#selection.healthOf(endpoint);
    const restsMs = Math.max(0, Math.round(health.availableFrom - now));
    const rest = { label, restsMs, usage };
    if (otherChainId !== undefined) {
      return { ...rest, state: "wrong_chain", reason: `it is of chain ${otherChainId}` };
    }
    const reason = health.restReason(now);
    if (reason !== undefined && reason !== "failed") return { ...rest, state: reason, reason: health.fault };
    if (health.failures >= FAILURES_TO_TELL) return { ...rest, state: "failed", reason: health.fault };
    return { ...rest, state: health.hasAnswered ? "available" : "unused", reason: null };
  }

  /** Reports the endpoint's state if it has changed. */
  #tellState(endpoint: Endpoint): void {
    const status = this.#statusOf(endpoint);
    if (status.state === "unused" || this.#reported.get(endpoint) === status.state) return;
    // The first state is no change, unless it is a fault.
    const isNews = this.#reported.has(endpoint) || status.state !== "available";
    this.#reported.set(endpoint, status.state);
    if (isNews) this.#options.onState?.(status);
  }

  /**
   * Runs `operation` on the best endpoint, and on other endpoints after failures and refusals.
   * @throws RpcError if the request itself is refused; AppError `chain_unavailable` if no endpoint answers
   */
  run<T>(operation: EndpointOperation<T>, options: RunOptions = {}): Promise<T> {
    const { failover = "lacking", signal } = options;
    return this.#request(options, {
      failover,
      select: (refusals) => this.#selection.best(refusals),
      attempt: async (endpoint, refusals) => {
        await this.#waitForRetryAfter(endpoint, signal);
        return (await this.#hedged(endpoint, operation, refusals, signal)).value;
      },
    });
  }

  /**
   * Like `run`, for reading history: waits for room at an endpoint and says how many blocks to request from it. If that
   * many are refused, learns from it and retries with fewer, down to a single block.
   */
  bulk<T>(operation: BulkOperation<T>, blocks: number, options: RunOptions = {}): Promise<T> {
    const { signal } = options;
    return this.#request(options, {
      failover: "any",
      select: (refusals) => this.#selection.admit(refusals, signal),
      attempt: async (endpoint, refusals) => {
        await this.#waitForRetryAfter(endpoint, signal);
        const value = await this.#withLearnedSpan(endpoint, operation, { blocks, refusals, signal });
        for (const [one, error] of refusals) {
          this.#selection.healthOf(one).lackedHistory(this.#clock.monotonic(), error.kind === "range");
        }
        return value;
      },
      release: (endpoint) => this.#selection.release(endpoint),
    });
  }

  /**
   * Runs `operation` on this endpoint only, with a second attempt. A failure counts against the endpoint.
   * @throws AppError `chain_unavailable` if it does not answer
   */
  runOn<T>(endpoint: Endpoint, operation: EndpointOperation<T>): Promise<T> {
    return this.#request(
      { attempts: 2 },
      { failover: "none", select: () => endpoint, attempt: () => this.#once(endpoint, operation, NEVER) },
    );
  }

  /** Asks every endpoint once and returns the early answers. Includes endpoints that rest for wrong answers. */
  async askAll<T>(operation: EndpointOperation<T>): Promise<{ endpoint: Endpoint; value: T }[]> {
    const over = new AbortController();
    const now = this.#clock.monotonic();
    const reachable = this.endpoints.filter((one) => this.#selection.healthOf(one).isReachable(now));
    const ask = async (endpoint: Endpoint) => {
      const answer = await withTimeout(this.#clock, ALL_MS, this.#once(endpoint, operation, over.signal));
      return answer && { endpoint, ...answer };
    };
    const answers = await Promise.allSettled(reachable.map(ask));
    over.abort(new DOMException("the time for answers is over", "AbortError"));
    // An endpoint that was not asked says nothing.
    const unasked = answers.find((one) => one.status === "rejected" && one.reason instanceof OverBudget);
    if (unasked?.status === "rejected") throw unasked.reason;
    return answers.flatMap((one) => (one.status === "fulfilled" ? (one.value ?? []) : []));
  }

  /** Makes one request to each endpoint, also to those that rest. Returns the time, and the value or the fault. */
  probe<T>(operation: EndpointOperation<T>): Promise<{ label: string; value?: T; ms: number; fault?: string }[]> {
    const ask = async (endpoint: Endpoint) => {
      const { label } = endpoint;
      const started = this.#clock.monotonic();
      const passed = () => this.#clock.monotonic() - started;
      try {
        const answer = await withTimeout(this.#clock, ALL_MS, this.#once(endpoint, operation, NEVER));
        return answer === undefined ? { label, ms: passed() } : { label, value: answer.value, ms: passed() };
      } catch (error) {
        return { label, ms: passed(), fault: faultText(error) };
      }
    };
    return Promise.all(this.endpoints.map(ask));
  }

  /** Returns an available endpoint other than `than`; with `isRequired` a resting one if there is no other. */
  secondEndpoint(than: Endpoint, isRequired = false): Endpoint | undefined {
    const second = this.#selection.available((one) => one !== than);
    return second ?? (isRequired ? this.endpoints.find((one) => one !== than) : undefined);
  }

  /** Number of blocks for the next bulk request, by the endpoint that is likely to take it. */
  nextBulkSpan(): number {
    const endpoint = this.#selection.bestForHistory();
    return this.#selection.healthOf(endpoint).span.next() * this.#partsOf(endpoint);
  }

  historyLimits(): HistoryLimits {
    const endpoint = this.#selection.bestForHistory();
    const { span } = this.#selection.healthOf(endpoint);
    const hasBatches = endpoint.transfersInParts !== undefined;
    return {
      span: span.copy(),
      maxBlocks: span.maxBlocks,
      answered: span.answered,
      hasBatches,
      endpoints: this.endpoints.length,
    };
  }

  /**
   * Asks the endpoint that reads history for logs of many blocks, of which none match, and learns what it takes.
   * @param ask makes the request. @returns false if it was refused for its size
   */
  async probeSpan(blocks: number, ask: (endpoint: Endpoint) => Promise<unknown>): Promise<boolean> {
    const endpoint = this.#selection.bestForHistory();
    const { span } = this.#selection.healthOf(endpoint);
    try {
      await this.#once(endpoint, ask, NEVER);
      span.probed(blocks);
      return true;
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      if (error.kind === "range") span.refused(blocks, error.hint);
      else if (error.kind === "late") span.tookTooLong(blocks);
      return false;
    }
  }

  /** Most blocks per request that every endpoint takes, if one named a limit. */
  get knownLimit(): number | undefined {
    const limits = this.endpoints.flatMap((endpoint) => this.#selection.healthOf(endpoint).span.maxBlocks ?? []);
    return limits.length === 0 ? undefined : Math.min(...limits);
  }

  /** Records a limit of blocks that an endpoint named outside of a backfill. */
  refusedSpan(blocks: number, hint: RangeHint): void {
    this.#selection.healthOf(this.#selection.bestForHistory()).span.refused(blocks, hint);
  }

  /** Records an answer of `logs` logs to a request for `blocks` blocks in `parts` ranges. */
  recordHistory(endpoint: Endpoint, blocks: number, logs: number, parts = 1): void {
    this.#selection.healthOf(endpoint).gaveHistory(blocks, logs, parts);
  }

  /** @param fault the wrong answer in words */
  benchLiar(endpoint: Endpoint, fault: string): void {
    this.#selection.healthOf(endpoint).lied(this.#clock.monotonic(), fault);
    this.#options.onLiar?.(endpoint.label);
    this.#tellState(endpoint);
  }

  /** Benches an endpoint because another one has newer blocks, or ends such a bench. */
  setBehind(endpoint: Endpoint, isBehind: boolean): void {
    const health = this.#selection.healthOf(endpoint);
    if (!isBehind) health.caughtUp();
    else {
      health.fellBehind(this.#clock.monotonic());
      this.#options.onBehind?.(endpoint.label);
      this.#tellState(endpoint);
    }
  }

  /** Returns the message of the newest failed request if it failed within the last `ms` ms. */
  failureWithin(ms: number): string | undefined {
    const failure = this.#lastFailure;
    return failure !== undefined && this.#clock.monotonic() - failure.at <= ms ? failure.message : undefined;
  }

  /** Ms since the last answer while requests are pending; 0 if none is. */
  silentMs(): number {
    return this.#pending === 0 ? 0 : this.#clock.monotonic() - this.#answeredAt;
  }

  close(): void {
    for (const endpoint of this.endpoints) endpoint.destroy();
  }

  /** Carries out a plan, and repeats it with backoff after retryable errors. @throws RpcError, AppError like `run` */
  async #request<T>(
    { attempts = 4, signal = Budget.current?.signal, meta, isUngated = false }: RunOptions,
    plan: AttemptPlan<T>,
  ): Promise<T> {
    if (!isUngated && this.gate !== undefined) await this.gate();
    const refusals = new Refusals();
    // The caller can react to a timeout with a smaller request, so it becomes the cause even if other errors follow.
    let late: RpcError | undefined;
    try {
      return await retry(() => this.#withFailover(plan, refusals), {
        clock: this.#clock,
        attempts,
        baseMs: RETRY_BASE_MS,
        maxMs: RETRY_MAX_MS,
        ...(signal === undefined ? {} : { signal }),
        onFailure: (error) => {
          if (!(error instanceof RpcError)) return undefined;
          if (error.kind === "late") late = error;
          return this.#waitHint(error);
        },
      });
    } catch (error) {
      if (!(error instanceof RpcError && error.retryable)) throw error;
      // One endpoint answered with a refusal. Failures of the other endpoints are no reason to repeat its request.
      if (refusals.error !== undefined) throw refusals.error;
      const { chain } = this.#options;
      throw new AppError(`no endpoint of ${chain} gives a usable answer: ${error.message}`, {
        code: "chain_unavailable",
        retryable: true,
        meta: { chain, attempts, ...error.meta, ...meta },
        cause: late ?? error,
      });
    }
  }

  /** Asks one endpoint after the other until one does not refuse for a reason of its own. */
  async #withFailover<T>({ failover, select, attempt, release }: AttemptPlan<T>, refusals: Refusals): Promise<T> {
    for (;;) {
      const endpoint = await select(refusals);
      try {
        return await attempt(endpoint, refusals);
      } catch (error) {
        if (!isEndpointRefusal(error, failover)) throw error;
        refusals.set(endpoint, error);
      } finally {
        release?.(endpoint);
      }
    }
  }

  /** Waits until the endpoint's `Retry-After` is over. @throws RpcError `rate` if the wait is too long */
  async #waitForRetryAfter(endpoint: Endpoint, signal: AbortSignal | undefined): Promise<void> {
    const wait = this.#selection.healthOf(endpoint).pausedUntil - this.#clock.monotonic();
    if (wait <= 0) return;
    if (wait > MAX_PAUSE_MS) {
      const meta = { endpoint: endpoint.label };
      throw new RpcError("rate", "the endpoint asked for a long pause (Retry-After)", { meta });
    }
    await this.#clock.sleep(wait, signal);
  }

  /** The wait after a `Retry-After`: until an endpoint is available, if that is soon. Undefined: the normal backoff. */
  #waitHint({ retryAfterMs }: RpcError): number | undefined {
    const wait = this.#selection.availableFrom() - this.#clock.monotonic();
    return retryAfterMs === undefined || wait > MAX_PAUSE_MS ? undefined : wait;
  }

  /** Requests as many blocks as the endpoint accepts. @throws RpcError `range` if it refuses even one */
  async #withLearnedSpan<T>(
    endpoint: Endpoint,
    operation: BulkOperation<T>,
    { blocks, refusals, signal }: { blocks: number; refusals: Refusals; signal: AbortSignal | undefined },
  ): Promise<T> {
    const health = this.#selection.healthOf(endpoint);
    for (;;) {
      const size = health.span.take(blocks);
      const parts = Math.min(this.#partsOf(endpoint), Math.ceil(blocks / size));
      const started = this.#clock.monotonic();
      const ask = (one: Endpoint, abandoned: AbortSignal) =>
        operation(one, Math.min(blocks, size * parts), abandoned, parts);
      try {
        const { value, by } = await this.#hedged(endpoint, ask, refusals, signal);
        // The hedged request won and cancelled this endpoint's, which counts as a timeout here.
        if (by !== endpoint) health.lostHedge(this.#clock.monotonic() - started, size);
        return value;
      } catch (error) {
        if (!(error instanceof RpcError && health.refusedHistory(error, size, parts))) throw error;
      }
    }
  }

  #partsOf(endpoint: Endpoint): number {
    return endpoint.transfersInParts === undefined ? 1 : this.#selection.healthOf(endpoint).span.parts;
  }

  /** The clock of the pool's requests. */
  get clock(): Clock {
    return this.#clock;
  }

  /** Runs one attempt, and hedges it on a second endpoint if it is slow. Returns the endpoint that answered as well. */
  #hedged<T>(
    endpoint: Endpoint,
    operation: EndpointOperation<T>,
    refusals: Refusals,
    signal: AbortSignal | undefined,
  ): Promise<{ value: T; by: Endpoint }> {
    const ask = async (by: Endpoint, abandoned: AbortSignal) => ({
      value: await this.#once(by, operation, abandoned),
      by,
    });
    const patience = Math.max(HEDGE_MIN_MS, this.#selection.healthOf(endpoint).latency * HEDGE_FACTOR);
    return hedge({
      first: (abandoned) => ask(endpoint, abandoned),
      second: () => {
        const second = this.#selection.available((one) => one !== endpoint && !refusals.has(one));
        if (second === undefined) return undefined;
        this.#options.onHedge?.();
        return (abandoned) => ask(second, abandoned);
      },
      onLate: (act) => (this.endpoints.length === 1 ? () => undefined : this.#clock.after(patience, act)),
      signal,
    });
  }

  /** Makes one request to one endpoint, and records its outcome. */
  async #once<T>(endpoint: Endpoint, operation: EndpointOperation<T>, abandoned: AbortSignal): Promise<T> {
    const health = this.#selection.healthOf(endpoint);
    const started = this.#clock.monotonic();
    if (this.#pending++ === 0) this.#answeredAt = started;
    try {
      const value = await operation(endpoint, abandoned);
      this.#answeredAt = this.#clock.monotonic();
      this.#failingSince = undefined;
      health.succeeded(this.#clock.monotonic() - started);
      this.#tellState(endpoint);
      return value;
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      const now = this.#clock.monotonic();
      this.#failingSince = error.retryable ? (this.#failingSince ?? now) : undefined;
      this.#lastFailure = { message: `${endpoint.label}: ${error.message}`, at: now };
      if (error.meta["skipsNumbers"] === true) this.#skipping.set(endpoint, now + SKIPPING_MS);
      if (error.kind === "lie") this.benchLiar(endpoint, error.message);
      else if (error.retryable && error.meta["isOptional"] !== true) health.failed(error, started, now);
      this.#tellState(endpoint);
      // A refusal is an answer.
      if (!error.retryable) this.#answeredAt = now;
      throw error;
    } finally {
      this.#pending--;
    }
  }
}
