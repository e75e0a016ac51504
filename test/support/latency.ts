/** A proxy in front of a node that answers late, and knows how many answers had to be awaited one after another. */
import { type Intervention, type RpcCall, type RpcProxy, startRpcProxy } from "./rpc-proxy.ts";

export interface LatentProxy extends RpcProxy {
  /** The longest chain of calls each of which arrived only after the one before it had been answered. */
  depth(): number;
}

/** Each answer is `ms` late. `refuse` may answer in the node's place, as late. */
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
  // Spread would freeze the counters.
  return Object.assign(Object.create(proxy) as RpcProxy, { reset, depth: () => deepest });
}
