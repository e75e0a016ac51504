/** One endpoint as the pool uses it. Implemented over ethers by `provider.ts`, and by the simulation. */
import type { DecodedRange, DecodeJob } from "./decode-answer.ts";
import type { BlockHeader } from "./port.ts";

/** Decoded logs of consecutive ranges, and the requested headers. A header that the endpoint lacks is undefined. */
export interface PartsAnswer {
  readonly decoded: DecodedRange;
  readonly headers: readonly (BlockHeader | undefined)[];
}

/** A range and the `eth_getLogs` parameter for it. */
export interface RangeFilter {
  readonly fromBlock: number;
  readonly toBlock: number;
  readonly filter: object;
}

export interface Endpoint {
  /** Replaces the URL in logs, metrics and errors: `eth#1`. */
  readonly label: string;
  /** Sends one request and returns the answer's `result`. @throws RpcError */
  request(method: string, params: unknown[]): Promise<unknown>;
  /** Requests the logs of `filter` (the `eth_getLogs` parameter) and decodes their transfers. @throws RpcError */
  transfers(filter: object, job: DecodeJob, signal: AbortSignal): Promise<DecodedRange>;
  /**
   * Like `transfers`, for several ranges and the headers of some blocks in one request, so that one node answers all of
   * it. The first header goes before the logs, the rest after them. Undefined while the endpoint refuses batches.
   * @throws RpcError, of kind `range` if one range, or all of them together, are too large
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
