/** One endpoint as the pool sees it; implemented over ethers by `provider.ts`, and by the simulation. */
export interface Endpoint {
  /** Stands for the URL in logs, metrics and errors: `eth#1`. */
  readonly label: string;
  /** One request; its answer's `result`. @throws RpcError */
  request(method: string, params: unknown[]): Promise<unknown>;
  /** The whole JSON-RPC answer as bytes; may hold an error instead of a result. @throws RpcError */
  raw(method: string, params: unknown[], signal?: AbortSignal): Promise<Uint8Array>;
  destroy(): void;
}
