/** A proxy that delays each answer of a node and counts how many calls had to wait for an earlier answer. */
import { type Intervention, type RpcCall, type RpcProxy, startRpcProxy } from "./rpc-proxy.ts";

export interface LatentProxy extends RpcProxy {
  /** Length of the longest chain of calls in which each call arrived after the answer to the one before. */
  depth(): number;
}

/** Waits until nothing has come for `ms` since the last call. */
class Quiet {
  readonly #ms: number;
  #until = 0;

  constructor(ms: number) {
    this.#ms = ms;
  }

  called(): void {
    this.#until = performance.now() + this.#ms;
  }

  async come(): Promise<void> {
    for (let left = this.#ms; left > 0; left = this.#until - performance.now()) await Bun.sleep(Math.ceil(left));
  }
}

/** Delays each answer by `ms`. `refuse` may answer instead of the node, after the same delay. */
export const latentProxy = (target: string, ms: number, refuse?: Refuse): Promise<LatentProxy> =>
  proxyOf(target, () => Bun.sleep(ms), refuse);

/**
 * Answers the calls of a round trip `ms` after the last one of them came. However slowly a loaded machine sends them,
 * none of them counts as one that waited for another's answer.
 */
export function roundProxy(target: string, ms: number, refuse?: Refuse): Promise<LatentProxy> {
  const rounds = new Map<number, Quiet>();
  return proxyOf(
    target,
    (depth) => {
      const quiet = rounds.get(depth) ?? new Quiet(ms);
      rounds.set(depth, quiet);
      quiet.called();
      return quiet.come();
    },
    refuse,
  );
}

type Refuse = (call: RpcCall) => Intervention | undefined;

async function proxyOf(
  target: string,
  wait: (depth: number) => Promise<void>,
  refuse: Refuse = () => undefined,
): Promise<LatentProxy> {
  let answered = 0;
  let deepest = 0;
  const proxy = await startRpcProxy(target, {
    onRequest: async (call) => {
      const depth = answered + 1;
      deepest = Math.max(deepest, depth);
      const late = wait(depth).then(() => {
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
