/**
 * A node of a chain that may have millions of blocks: every header is computed from its number. It has one ERC-721
 * contract, whose transfers the test gives. Out: a URL on a free port, and a handle that moves head and final block, forks
 * the chain, and replaces answers.
 */
import type { Address, Hash } from "../../src/core/hex.ts";
import { TRANSFER } from "../../src/rpc/decode/transfer-topics.ts";
import { IDENTITY } from "../../src/rpc/reading/many-calls.ts";
import { logsBloomOf } from "./bloom.ts";

const word = (value: bigint | number) => `0x${BigInt(value).toString(16).padStart(64, "0")}` as Hash;
const quantity = (value: number): string => `0x${value.toString(16)}`;
const FALSE = word(0);
const NO_BLOOM = logsBloomOf([]);
const START = 1_600_000_000;

/** A transfer of the contract's token `id` to the holder `to`; a mint if `from` is 0. */
export interface LongTransfer {
  readonly block: number;
  readonly id: number;
  readonly from: number;
  readonly to: number;
}

interface Call {
  readonly id?: unknown;
  readonly method: string;
  readonly params?: readonly unknown[];
}
type Answer = { readonly result: unknown } | { readonly error: { readonly code: number; readonly message: string } };

export interface LongChain {
  readonly url: string;
  readonly contract: Address;
  /** Number of the newest block, and of the block that the node calls final. */
  head: number;
  final: number;
  transfers: LongTransfer[];
  /** Replaces the answer to a call; undefined leaves it as it is. */
  instead: (call: Call, answer: Answer) => Answer | undefined;
  /** True for numbers that have no block: the next block's parent is the one before them. */
  skips: (number: number) => boolean;
  /** Blocks from this one on are others from now on. The height stays. */
  fork(from: number): void;
  hash(number: number): Hash;
  /** Number of calls of a method so far. */
  count(method: string): number;
  /** The address of a holder. */
  holder(of: number): Address;
  stop(): Promise<void>;
}

/** @param secondsPerBlock the headers' times rise by so much */
export async function startLongChain(head: number, final: number, secondsPerBlock = 12): Promise<LongChain> {
  const forks: number[] = [];
  const counts = new Map<string, number>();
  const contract = `0x${"c0de".repeat(10)}` as Address;
  const branchOf = (number: number) => forks.findLastIndex((from) => from <= number) + 1;
  const hash = (number: number) => word((BigInt(branchOf(number) + 1) << 128n) + BigInt(number));

  const logsOf = (number: number) =>
    chain.transfers
      .filter(({ block }) => block === number)
      .map(({ id, from, to }, index) => ({
        address: contract,
        topics: [TRANSFER, word(from), word(to), word(id)],
        data: "0x",
        blockNumber: quantity(number),
        blockHash: hash(number),
        transactionHash: word(number * 1_000 + index),
        transactionIndex: quantity(index),
        logIndex: quantity(index),
      }));

  const blockOf = (tag: unknown) => {
    const number = tag === "latest" ? chain.head : tag === "finalized" ? chain.final : Number(tag);
    if (!(number >= 0 && number <= chain.head) || chain.skips(number)) return null;
    let parent = number - 1;
    while (chain.skips(parent)) parent--;
    const logs = logsOf(number);
    return {
      number: quantity(number),
      hash: hash(number),
      parentHash: hash(parent),
      timestamp: quantity(START + number * secondsPerBlock),
      logsBloom: logs.length === 0 ? NO_BLOOM : logsBloomOf(logs),
    };
  };

  const logs = ({ fromBlock, toBlock, address, topics }: Record<string, unknown>): Answer => {
    if (Number(toBlock) > chain.head) return { error: { code: -32_000, message: "block not found" } };
    const isAsked = address === undefined || [address].flat().includes(contract);
    const first = (topics as unknown[] | undefined)?.[0];
    const isTransfer = first === undefined || first === null || [first].flat().includes(TRANSFER);
    const inRange = ({ block }: LongTransfer) => block >= Number(fromBlock) && block <= Number(toBlock);
    const blocks = [...new Set(chain.transfers.filter(inRange).map(({ block }) => block))].sort((a, b) => a - b);
    return { result: isAsked && isTransfer ? blocks.flatMap(logsOf) : [] };
  };

  const call = ({ to, data }: { to?: string; data?: string }): Answer => {
    const isContract = to === contract;
    const isInterface = data?.startsWith("0x01ffc9a7") === true;
    if (to === IDENTITY) return { result: data };
    if (!isContract) return { result: "0x" };
    if (!isInterface) return { error: { code: 3, message: "execution reverted" } };
    const isTold = data.slice(10).startsWith("01ffc9a7") || data.slice(10).startsWith("80ac58cd");
    return { result: isTold ? word(1) : FALSE };
  };

  const answerTo = ({ method, params = [] }: Call): Answer => {
    switch (method) {
      case "eth_chainId":
        return { result: "0x1" };
      case "eth_blockNumber":
        return { result: quantity(chain.head) };
      case "eth_getBlockByNumber":
        return { result: blockOf(params[0]) };
      case "eth_getLogs":
        return logs(params[0] as Record<string, unknown>);
      case "eth_call":
        return call(params[0] as { to?: string; data?: string });
      case "eth_getCode":
        return { result: String(params[0]).toLowerCase() === contract ? "0x6001" : "0x" };
      case "eth_getTransactionCount":
        return { result: "0x0" };
      case "web3_clientVersion":
        return { result: "Long/1.0.0" };
      default:
        return { error: { code: -32_601, message: `the method ${method} does not exist/is not available` } };
    }
  };

  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: async (request) => {
      const body = (await request.json()) as Call | Call[];
      const answers = [body].flat().map((one) => {
        counts.set(one.method, (counts.get(one.method) ?? 0) + 1);
        const answer = answerTo(one);
        return { jsonrpc: "2.0", id: one.id, ...(chain.instead(one, answer) ?? answer) };
      });
      return Response.json(Array.isArray(body) ? answers : answers[0]);
    },
  });

  const chain: LongChain = {
    url: `http://127.0.0.1:${server.port}`,
    contract,
    head,
    final,
    transfers: [],
    instead: () => undefined,
    skips: () => false,
    fork: (from) => forks.push(from),
    hash,
    count: (method) => counts.get(method) ?? 0,
    holder: (of) => `0x${of.toString(16).padStart(40, "0")}` as Address,
    stop: () => server.stop(true),
  };
  return chain;
}
