/** How many calls run in one request, and their results as its answer has them. */
import { Budget } from "../../core/budget.ts";
import { aggregatedResults } from "../call-batches.ts";
import type { CallResult, Endpoint } from "../port.ts";

export interface RunOfMany {
  readonly tag: string;
  /** Undefined: as much as the node gives. */
  readonly gas?: number;
  /** True if more lists of calls are answered at the same time: each is decoded in a turn of its own. */
  readonly isOneOfMany?: boolean;
  /** True for a part of calls that took too much gas together. */
  readonly isPart?: boolean;
  /** The calls as the data of `aggregate3`, if they are encoded already. */
  readonly data?: string;
}

/**
 * Makes a call that is never empty and never reverts. What an endpoint lacks is not concluded from its empty answers and
 * reverts before: it may run no call at the moment, and the conclusion would outlive that.
 * @param tag the block of the answers; the newest one by default
 * @throws RpcError `transient` if the endpoint runs no calls
 */
export type AssertRuns = (endpoint: Endpoint, tag?: string) => Promise<void>;

/** True for a result that only an endpoint gives that runs calls. One that runs none answers each with nothing or a revert. */
export const isProofOfRun = ({ ok, data }: CallResult): boolean => ok && data !== "0x";

/** The result of a call that reverted without data, or that the endpoint refused to run. */
export const FAILED: CallResult = { ok: false, data: "0x" };

export const OUT_OF_GAS_RESULT: CallResult = { ...FAILED, exceeds: "gas" };

export const TOO_LONG_RESULT: CallResult = { ...FAILED, exceeds: "bytes" };

/** Undefined if the data are no results of so many calls. */
export function readResults(data: string, calls: number): CallResult[] | undefined {
  try {
    return Budget.timed(() => aggregatedResults(data, calls));
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}
