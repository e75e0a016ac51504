/**
 * The endpoints of one chain: who is asked next, who rests. An endpoint that fails is benched for a while that doubles
 * with each failure in a row; one that lied rests longest. One retry loop serves all requests.
 */
import type { Clock } from "../core/clock.ts";
import { AppError, type ErrorMeta } from "../core/errors.ts";
import { retry } from "../core/retry.ts";
import type { Endpoint } from "./endpoint.ts";
import { RpcError } from "./errors.ts";

const BENCH_BASE_MS = 500;
const BENCH_MAX_MS = 60_000;
const LIAR_BENCH_MS = 300_000;
const RETRY_BASE_MS = 200;
const RETRY_MAX_MS = 10_000;

interface Health {
  failures: number;
  benchedUntil: number;
  /** Smoothed seconds of an answer. */
  latency: number;
}

export interface PoolOptions {
  readonly chain: string;
  readonly endpoints: readonly Endpoint[];
  readonly clock: Clock;
}

export interface RunOptions {
  /** Attempts in all; background work can wait longer than a user. */
  readonly attempts?: number;
  readonly signal?: AbortSignal;
  readonly meta?: ErrorMeta;
}

export class EndpointPool {
  readonly endpoints: readonly Endpoint[];
  readonly #chain: string;
  readonly #clock: Clock;
  readonly #health = new Map<Endpoint, Health>();

  constructor({ chain, endpoints, clock }: PoolOptions) {
    this.#chain = chain;
    this.endpoints = endpoints;
    this.#clock = clock;
    for (const endpoint of endpoints) this.#health.set(endpoint, { failures: 0, benchedUntil: 0, latency: 0 });
  }

  /**
   * Runs `operation` on the best endpoint, on others after failures.
   * @throws RpcError when the refusal is about the request itself; AppError `chain_unavailable` when nobody answers
   */
  async run<T>(operation: (endpoint: Endpoint) => Promise<T>, options: RunOptions = {}): Promise<T> {
    const attempts = options.attempts ?? 4;
    try {
      return await retry(() => this.#once(operation), {
        clock: this.#clock,
        attempts,
        baseMs: RETRY_BASE_MS,
        maxMs: RETRY_MAX_MS,
        ...(options.signal === undefined ? {} : { signal: options.signal }),
        onFailure: (error) => (error instanceof RpcError ? this.#waitHint(error) : undefined),
      });
    } catch (error) {
      if (error instanceof RpcError && error.retryable) {
        throw new AppError(`no endpoint of ${this.#chain} gives a usable answer: ${error.message}`, {
          code: "chain_unavailable",
          retryable: true,
          meta: { chain: this.#chain, attempts, ...error.meta, ...options.meta },
          cause: error,
        });
      }
      throw error;
    }
  }

  /** A second opinion: an endpoint other than `than` that is not benched. */
  other(than: Endpoint): Endpoint | undefined {
    const now = this.#clock.now();
    return this.endpoints.find((one) => one !== than && this.#of(one).benchedUntil <= now);
  }

  /** Takes an endpoint that was caught out of the rotation for a while. */
  benchLiar(endpoint: Endpoint): void {
    this.#of(endpoint).benchedUntil = this.#clock.now() + LIAR_BENCH_MS;
  }

  async #once<T>(operation: (endpoint: Endpoint) => Promise<T>): Promise<T> {
    const endpoint = this.#pick();
    const health = this.#of(endpoint);
    const started = this.#clock.monotonic();
    try {
      const value = await operation(endpoint);
      health.failures = 0;
      health.benchedUntil = 0;
      health.latency = health.latency * 0.8 + (this.#clock.monotonic() - started) * 0.0002;
      return value;
    } catch (error) {
      if (error instanceof RpcError && error.retryable) this.#bench(health, error);
      throw error;
    }
  }

  #bench(health: Health, error: RpcError): void {
    health.failures++;
    const doubled = Math.min(BENCH_MAX_MS, BENCH_BASE_MS * 2 ** (health.failures - 1));
    const rest = error.kind === "lie" ? LIAR_BENCH_MS : Math.max(doubled, error.retryAfterMs ?? 0);
    health.benchedUntil = this.#clock.now() + rest;
  }

  /** The free endpoint with the fewest failures, then the quickest; when all rest, the one whose rest ends first. */
  #pick(): Endpoint {
    const now = this.#clock.now();
    const rank = (endpoint: Endpoint) => {
      const { benchedUntil, failures, latency } = this.#of(endpoint);
      return [benchedUntil > now ? benchedUntil : 0, failures, latency] as const;
    };
    const [best] = [...this.endpoints].sort((a, b) => {
      const [x, y] = [rank(a), rank(b)];
      return x[0] - y[0] || x[1] - y[1] || x[2] - y[2];
    });
    if (best === undefined) throw new AppError("the chain has no endpoint", { code: "chain_unavailable" });
    return best;
  }

  /** With other endpoints free there is no reason to wait out one endpoint's Retry-After. */
  #waitHint(error: RpcError): number | undefined {
    const now = this.#clock.now();
    const free = this.endpoints.some((one) => this.#of(one).benchedUntil <= now);
    return free ? 0 : error.retryAfterMs;
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
