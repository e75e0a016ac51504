/** A proxy that delays each answer of a node and counts how many calls had to wait for an earlier answer. */
import { type Intervention, type RpcCall, type RpcProxy, startRpcProxy } from "./rpc-proxy.ts";

export interface LatentProxy extends RpcProxy {
  /** Length of the longest chain of calls in which each call arrived after the answer to the one before. */
  depth(): number;
}

/** Delays each answer by `ms`. `refuse` may answer instead of the node, after the same delay. */
export async function latentProxy(
  target: string,
  ms: number,
  refuse: (call: RpcCall) => Intervention | undefined = () => undefined,
): Promise<LatentProxy> {
  let answered = 0;
  let deepest = 0;
  const proxy = await startRpcProxy(target, {
    onRequest: async (call) => {
      const depth = answered + 1;
      deepest = Math.max(deepest, depth);
      const late = Bun.sleep(ms).then(() => {
        answered = Math.max(answered, depth);
      });
      const refusal = refuse(call);
      if (refusal === undefined) return { delayUntil: late };
      await late;
      return refusal;
    },
  });
  const reset = (): void => {
    answered = 0;
    deepest = 0;
    proxy.reset();
  };
  // Spreading the proxy would copy its counters once.
  return Object.assign(Object.create(proxy) as RpcProxy, { reset, depth: () => deepest });
}
