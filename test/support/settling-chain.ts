/**
 * A node of a chain whose headers settle older blocks (ACP-194), made of a real node's blocks: bloom and receipts' root
 * of a header are those of the blocks that it settles, `finalized` is the newest settled block, and logs and receipts
 * stay with their block. Settling goes by threes: some headers settle three blocks, the others none.
 */
import { receiptsRoot } from "../../src/rpc/decode/hashes.ts";
import { type RpcCall, type RpcProxy, type RpcProxyOptions, startRpcProxy } from "./rpc-proxy.ts";

interface WireReceipt {
  readonly logsBloom: string;
}
type WireHeader = Readonly<Record<string, unknown>> & { readonly number: string };

/** Blocks that each settlement covers, and least blocks between a block and the header that settles it. */
const [AT_ONCE, LAG] = [3, 4];

/** The newest block that the header of this number settles. Block 0 settles itself. */
export const settledAt = (number: number): number => Math.max(0, Math.floor((number - LAG) / AT_ONCE) * AT_ONCE);

export interface SettlingOptions extends RpcProxyOptions {
  readonly send: (method: string, params: readonly unknown[]) => Promise<unknown>;
  /** First block with a header of the new kind. Default: 1. */
  readonly fork?: number;
}

/** Starts the node in front of `url`. `onResult` sees answers in the chain's form. */
export function startSettlingNode(url: string, options: SettlingOptions): Promise<RpcProxy> {
  const { send, fork = 1, onResult } = options;
  const receiptsOf = new Map<string, Promise<WireReceipt[]>>();
  const receipts = (number: number) => {
    const tag = `0x${number.toString(16)}`;
    const known = receiptsOf.get(tag) ?? (send("eth_getBlockReceipts", [tag]) as Promise<WireReceipt[]>);
    receiptsOf.set(tag, known);
    return known;
  };
  const settles = (number: number) => (number < fork ? number : Math.max(fork - 1, settledAt(number)));
  const inForm = async (header: WireHeader): Promise<WireHeader> => {
    const number = Number(header.number);
    if (number < fork) return header;
    const settled: WireReceipt[] = [];
    for (let one = settles(number - 1) + 1; one <= settles(number); one++) settled.push(...(await receipts(one)));
    const bloom = settled.reduce((all, { logsBloom }) => all | BigInt(logsBloom), 0n);
    return {
      ...header,
      logsBloom: `0x${bloom.toString(16).padStart(512, "0")}`,
      receiptsRoot: await receiptsRoot(settled),
      settledHeight: `0x${settles(number).toString(16)}`,
    };
  };
  const headerOf = async (call: RpcCall, result: unknown): Promise<unknown> => {
    if (call.method !== "eth_getBlockByNumber" || result === null) return result;
    if (call.params[0] !== "finalized") return inForm(result as WireHeader);
    const latest = Number(await send("eth_blockNumber", []));
    return inForm((await send("eth_getBlockByNumber", [`0x${settles(latest).toString(16)}`, false])) as WireHeader);
  };
  return startRpcProxy(url, {
    ...options,
    onResult: async (call, result) => {
      const formed = await headerOf(call, result);
      return onResult === undefined ? formed : onResult(call, formed);
    },
  });
}
