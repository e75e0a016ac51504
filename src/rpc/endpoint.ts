/** One endpoint as the pool sees it; implemented over ethers by `provider.ts`, and by the simulation. */
import type { DecodedRange, DecodeJob } from "./decode-answer.ts";
import type { BlockHeader } from "./port.ts";

/** Decoded logs of consecutive ranges, and the headers that were asked for with them; undefined for one it lacks. */
export interface PartsAnswer {
  readonly decoded: DecodedRange;
  readonly headers: readonly (BlockHeader | undefined)[];
}

/** A range, and the filter of its logs: the parameter of an `eth_getLogs`. */
export interface RangeFilter {
  readonly fromBlock: number;
  readonly toBlock: number;
  readonly filter: object;
}

export interface Endpoint {
  /** Stands for the URL in logs, metrics and errors: `eth#1`. */
  readonly label: string;
  /** One request; its answer's `result`. @throws RpcError */
  request(method: string, params: unknown[]): Promise<unknown>;
  /** The transfers in the logs of `filter`, the parameter of an `eth_getLogs`, decoded as `job` says. @throws RpcError */
  transfers(filter: object, job: DecodeJob, signal: AbortSignal): Promise<DecodedRange>;
  /**
   * As `transfers`, of several ranges in one request, so that one node answers for all of it, with the headers of some
   * blocks: the first before the logs, the others after them. Undefined where the endpoint takes no batches for now.
   * @throws RpcError; `range` when any of the ranges, or all of them together, are too large
   */
  readonly transfersInParts?:
    | ((
        parts: readonly RangeFilter[],
        headers: readonly number[],
        job: DecodeJob,
        signal: AbortSignal,
      ) => Promise<PartsAnswer>)
    | undefined;
  destroy(): void;
}
