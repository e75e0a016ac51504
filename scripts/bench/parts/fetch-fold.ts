/**
 * What reading a history costs at least: the ranges are fetched, parsed as JSON and folded into who owns what; nothing
 * is checked, stored or served. A process of its own, as the service is. In: node, address, topics and ranges as JSON
 * on the first argument's path. Out: what was folded and the ms it took, as JSON.
 */
import { quantity } from "../chain/hex.ts";

export interface FoldTask {
  readonly url: string;
  readonly address: string;
  readonly topics: readonly string[];
  readonly ranges: readonly (readonly [number, number])[];
  /** Read and folded before the clock starts. */
  readonly warmUp?: readonly (readonly [number, number])[];
  /** Requests under way at a time. */
  readonly inFlight: number;
  /** Read the bytes and leave it at that: what the node itself can do. */
  readonly unread?: boolean;
}

export interface FoldResult {
  readonly ms: number;
  readonly logs: number;
  readonly tokens: number;
  /** Of unread answers. */
  readonly bytes: number;
}

interface WireLog {
  readonly topics: readonly string[];
  readonly data: string;
  readonly blockNumber: string;
}

const {
  url,
  address,
  topics,
  ranges,
  warmUp = [],
  inFlight,
  unread = false,
} = (await Bun.file(process.argv[2] ?? "").json()) as FoldTask;
let bytes = 0;
const ask = async ([from, to]: readonly [number, number], index: number): Promise<{ result: WireLog[] }> => {
  const filter = { address, topics: [topics], fromBlock: quantity(from), toBlock: quantity(to) };
  const payload = JSON.stringify({ jsonrpc: "2.0", id: index, method: "eth_getLogs", params: [filter] });
  const headers = { "content-type": "application/json" };
  const response = await fetch(url, { method: "POST", body: payload, headers });
  if (unread) {
    const { byteLength } = await response.arrayBuffer();
    bytes += byteLength;
    return { result: [] };
  }
  return JSON.parse(await response.text()) as { result: WireLog[] };
};

const owners = new Map<string, string>();
let logs = 0;
const fold = (result: readonly WireLog[]): void => {
  for (const { topics, data } of result) {
    if (data === "0x") owners.set(topics[3] as string, topics[2] as string);
    else owners.set(data.slice(2, 66) + topics[3], data.slice(66));
  }
  logs += result.length;
};

for (const [index, range] of warmUp.entries()) fold((await ask(range, index)).result);
owners.clear();
logs = 0;
bytes = 0;
const started = performance.now();
const queue: Promise<{ result: WireLog[] }>[] = [];
for (let next = 0; next < ranges.length || queue.length > 0; ) {
  while (next < ranges.length && queue.length < inFlight) queue.push(ask(ranges[next] as [number, number], next++));
  fold(((await queue.shift()) as { result: WireLog[] }).result);
}
const ms = performance.now() - started;
process.stdout.write(JSON.stringify({ ms, logs, tokens: owners.size, bytes } satisfies FoldResult));
process.exit(0);
