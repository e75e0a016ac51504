/**
 * One replica's node: a proxy in front of the chain that can be down, hang, stay at an old head or omit logs. It also
 * tells how often its replica asked for the head, because only the follower does so again and again.
 */
import { type Intervention, type RpcCall, type RpcProxy, startRpcProxy } from "../../test/support/rpc-proxy.ts";
import type { ChaosChain } from "./chain.ts";

/**
 * - `down`: connections break without an answer.
 * - `hung`: no answer comes until the fault ends.
 * - `stuck`: keeps the head of the moment at which the fault began, and has nothing newer.
 * - `lying`: leaves out all logs of one collection. The blocks' bloom filters show that they exist.
 */
export type NodeFault = "down" | "hung" | "stuck" | "lying";

export interface ChaosNode {
  readonly url: string;
  /** Questions for the newest block in the last seconds. */
  headQuestions(): number;
  disturb(fault: NodeFault): void;
  heal(): void;
  stop(): Promise<void>;
}

const RECENT_MS = 3_000;

type LogFilter = { fromBlock?: string; toBlock?: string };

export async function startChaosNode(chain: ChaosChain): Promise<ChaosNode> {
  const [liedAbout] = chain.collections;
  let fault: NodeFault | undefined;
  let frozen = 0;
  let healed = Promise.withResolvers<void>();
  let questions: number[] = [];

  const send = (method: string, params: readonly unknown[]) => chain.anvil.send(method, params);
  const hexOf = (number: number) => `0x${number.toString(16)}`;

  /** What a node knows that has no block above `frozen`. Undefined: the same as the chain. */
  const oldAnswer = async ({ method, params }: RpcCall): Promise<Intervention | undefined> => {
    const [first] = params;
    const isNewer = (tag: unknown) => typeof tag === "string" && /^0x/.test(tag) && Number(tag) > frozen;
    if (method === "eth_blockNumber") return { result: hexOf(frozen) };
    if (method === "eth_getBlockByNumber") {
      if (first === "latest" || first === "pending") return { result: await send(method, [hexOf(frozen), params[1]]) };
      return isNewer(first) ? { result: null } : undefined;
    }
    if (method === "eth_getBlockReceipts" && isNewer(first)) return { result: null };
    if (method !== "eth_getLogs") return undefined;
    const filter = first as LogFilter;
    if (isNewer(filter.fromBlock)) return { result: [] };
    return isNewer(filter.toBlock)
      ? { result: await send(method, [{ ...filter, toBlock: hexOf(frozen) }]) }
      : undefined;
  };

  const proxy: RpcProxy = await startRpcProxy(chain.anvil.url, {
    onRequest: (call) => {
      if (call.params[0] === "latest") questions.push(performance.now());
      if (fault === "down") return { drop: true };
      if (fault === "hung") return { delayUntil: healed.promise };
      return fault === "stuck" ? oldAnswer(call) : undefined;
    },
    onResult: ({ method }, result) => {
      if (fault !== "lying" || method !== "eth_getLogs") return result;
      return (result as { address: string }[]).filter(({ address }) => address.toLowerCase() !== liedAbout?.address);
    },
  });

  return {
    url: proxy.url,
    headQuestions: () => {
      const since = performance.now() - RECENT_MS;
      questions = questions.filter((at) => at > since);
      return questions.length;
    },
    disturb: (kind) => {
      frozen = chain.head.number;
      fault = kind;
    },
    heal: () => {
      fault = undefined;
      healed.resolve();
      healed = Promise.withResolvers<void>();
      // The proxy keeps every call for tests that count calls. A chaos run does not.
      proxy.reset();
    },
    stop: async () => {
      healed.resolve();
      await proxy.stop();
    },
  };
}
