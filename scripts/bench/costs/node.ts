/**
 * A node that a bench can count: every call by method with the bytes of its answer. On demand it has no state of old blocks,
 * or takes few blocks per request for logs, as many public nodes do.
 */
import { type Intervention, startRpcProxy } from "../../../test/support/rpc-proxy.ts";

export interface CountedNode {
  readonly url: string;
  /** Calls by method, and bytes of results, since the last `reset`. */
  readonly calls: ReadonlyMap<string, number>;
  readonly bytes: number;
  reset(): void;
  /** Resolves once no call has come for `ms`. */
  quiet(ms: number): Promise<void>;
  stop(): Promise<void>;
}

interface CountedNodeOptions {
  /** Blocks below the head of which the node has states; all by default. */
  readonly states?: number;
  /** Blocks of one request for logs; all by default. */
  readonly span?: number;
}

const STATE_METHODS = ["eth_call", "eth_getCode", "eth_getBalance", "eth_getStorageAt", "eth_getProof"];
const LOOK_MS = 20;

/** @param head returns the newest block */
export async function countedNode(
  target: string,
  head: () => number,
  { states = Number.POSITIVE_INFINITY, span = Number.POSITIVE_INFINITY }: CountedNodeOptions = {},
): Promise<CountedNode> {
  const calls = new Map<string, number>();
  let bytes = 0;
  let lastMs = performance.now();
  const refusalOf = (method: string, params: readonly unknown[]): Intervention | undefined => {
    if (STATE_METHODS.includes(method)) {
      const at = Number(params.at(method === "eth_call" ? 1 : -1));
      if (at < head() - states)
        return { error: { code: -32_000, message: "missing trie node: state is not available" } };
    }
    if (method !== "eth_getLogs") return undefined;
    const { fromBlock, toBlock } = params[0] as { fromBlock?: string; toBlock?: string };
    if (Number(toBlock) - Number(fromBlock) < span) return undefined;
    return { error: { code: -32_602, message: `eth_getLogs is limited to a ${span} range` } };
  };
  const proxy = await startRpcProxy(target, {
    onRequest: ({ method, params }) => {
      lastMs = performance.now();
      calls.set(method, (calls.get(method) ?? 0) + 1);
      return refusalOf(method, params);
    },
    onResult: (_call, result) => {
      lastMs = performance.now();
      bytes += typeof result === "string" ? result.length : JSON.stringify(result).length;
      return result;
    },
  });
  return {
    url: proxy.url,
    calls,
    get bytes() {
      return bytes;
    },
    reset: () => {
      calls.clear();
      bytes = 0;
      proxy.reset();
    },
    quiet: async (ms) => {
      while (performance.now() - lastMs < ms) await Bun.sleep(LOOK_MS);
    },
    stop: proxy.stop,
  };
}
