/**
 * Which endpoint a request goes to: the best one, the next one after a refusal, or one with room for a bulk request. The
 * pool makes the requests.
 */
import type { Clock } from "../../core/clock.ts";
import type { Endpoint } from "../port.ts";
import { RpcError } from "../rpc-errors.ts";
import { EndpointHealth } from "./availability.ts";

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
