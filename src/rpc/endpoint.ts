/** One endpoint as the pool sees it; implemented over ethers by `provider.ts`, and by the simulation. */
import type { DecodedRange, DecodeJob } from "./decode-answer.ts";

export interface Endpoint {
  /** Stands for the URL in logs, metrics and errors: `eth#1`. */
  readonly label: string;
  /** One request; its answer's `result`. @throws RpcError */
  request(method: string, params: unknown[]): Promise<unknown>;
  /** The transfers in the logs of `filter`, the parameter of an `eth_getLogs`, decoded as `job` says. @throws RpcError */
  transfers(filter: object, job: DecodeJob, signal: AbortSignal): Promise<DecodedRange>;
  destroy(): void;
}
