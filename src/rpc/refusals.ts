/**
 * What becomes of a request that one endpoint refuses: whether others are asked, and what is thrown when nobody answers.
 */
import { isRetryable } from "../core/errors.ts";
import type { Endpoint } from "./endpoint.ts";
import { RpcError } from "./errors.ts";

/**
 * - `none`: the caller knows better what to ask then.
 * - `lacking`: a method or a state that the endpoint does not have.
 * - `any`: also what is too much for it, where nothing less can be asked for.
 */
export type Failover = "none" | "lacking" | "any";

/** Who has refused one request for a reason that another endpoint need not have: it is not asked again. */
export class Refusals {
  readonly all = new Map<Endpoint, RpcError>();

  add(endpoint: Endpoint, error: RpcError): void {
    this.all.set(endpoint, error);
  }

  /** What is thrown when nobody else answers: one of size if there is any, for less can be asked for then. */
  get error(): RpcError | undefined {
    const errors = [...this.all.values()];
    return errors.find(({ kind }) => kind === "range") ?? errors[0];
  }
}

/** Whether an endpoint refuses for a reason that another one need not have. */
export function isOwnRefusal(error: unknown, failover: Failover): error is RpcError {
  if (failover === "none" || !(error instanceof RpcError)) return false;
  const isLacking = error.kind === "unsupported" || error.kind === "state_unavailable";
  return isLacking || (error.kind === "range" && failover === "any");
}

/**
 * The first success of two; when both fail, what is about the request rather than what may pass, and that rather than a
 * refusal of one of them.
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
