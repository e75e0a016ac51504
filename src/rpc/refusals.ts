/**
 * Decides how a request goes on after one endpoint refuses it: which refusals lead to another endpoint, and which error
 * is thrown if no endpoint answers. Pure; the pool makes the requests.
 */
import { isRetryable } from "../core/errors.ts";
import type { Endpoint } from "./endpoint.ts";
import { RpcError } from "./errors.ts";

/**
 * - `none`: no failover; the caller reacts to every refusal.
 * - `lacking`: the endpoint lacks a method or a state.
 * - `any`: also a refusal for size, where the request cannot be made smaller.
 */
export type Failover = "none" | "lacking" | "any";

/** The endpoints that refused one request for a reason of their own. They are not asked for it again. */
export class Refusals {
  readonly all = new Map<Endpoint, RpcError>();

  add(endpoint: Endpoint, error: RpcError): void {
    this.all.set(endpoint, error);
  }

  /** The error if no endpoint answers. Prefers a refusal for size, because the caller can request less. */
  get error(): RpcError | undefined {
    const errors = [...this.all.values()];
    return errors.find(({ kind }) => kind === "range") ?? errors[0];
  }
}

/** True if another endpoint may accept what this one refused. */
export function isOwnRefusal(error: unknown, failover: Failover): error is RpcError {
  if (failover === "none" || !(error instanceof RpcError)) return false;
  const isLacking = error.kind === "unsupported" || error.kind === "state_unavailable";
  return isLacking || (error.kind === "range" && failover === "any");
}

/**
 * Returns the first success of two attempts. If both fail, throws by priority: an error of the request itself, a
 * retryable error, a refusal that concerns one endpoint only.
 */
export async function firstOf<T>(a: Promise<T>, b: Promise<T>): Promise<T> {
  try {
    return await Promise.any([a, b]);
  } catch (error) {
    const { errors } = error as AggregateError;
    const isOwn = (one: unknown) => isOwnRefusal(one, "any");
    throw errors.find((one) => !isRetryable(one) && !isOwn(one)) ?? errors.find((one) => !isOwn(one)) ?? errors[0];
  }
}
