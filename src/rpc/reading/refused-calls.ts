/**
 * Whether an endpoint refuses to run a call, and why. Nodes refuse what is an option of theirs (calls without a contract,
 * bounds on gas) in words of their own, or close the connection.
 */
import type { Call, CallResult, Endpoint } from "../port.ts";
import { isUnknownRefusal, RpcError } from "../rpc-errors.ts";
import { callOn } from "./one-call.ts";
import { FAILED } from "./run-of-many.ts";

/**
 * - `known`: it said so in words that are known.
 * - `unknown`: it said so in words of its own.
 * - `lost`: it gave no proper answer. That may be a refusal, or a fault that is soon over.
 * - `stateless`: it lacks the state of the block. It may run the same call at another one.
 * - `lie`: its answer contradicts known facts.
 */
type CallRefusal = "known" | "unknown" | "lost" | "stateless" | "lie";

/** Why an endpoint did not run a call; undefined for an error that says nothing about what it can do. */
export function refusalOf(error: unknown): CallRefusal | undefined {
  if (!(error instanceof RpcError)) return undefined;
  switch (error.kind) {
    case "range":
    case "revert":
    case "unsupported":
      return "known";
    case "transient":
      return isUnknownRefusal(error) ? "unknown" : "lost";
    case "state_unavailable":
      return "stateless";
    case "lie":
      return "lie";
    case "rate":
    case "late":
      return undefined;
  }
}

/** True if an endpoint doesn't run a call like this at any block. */
export function isRefused(error: unknown): boolean {
  const refusal = refusalOf(error);
  return refusal !== undefined && refusal !== "stateless";
}

/** Runs a call that fails if the endpoint refuses it in known words. @throws RpcError for any other failure */
export async function callRefusable(endpoint: Endpoint, call: Call, tag: string, gas?: number): Promise<CallResult> {
  try {
    return await callOn(endpoint, call, tag, { gas });
  } catch (error) {
    if (refusalOf(error) === "known") return FAILED;
    throw error;
  }
}
