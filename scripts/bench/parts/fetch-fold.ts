/**
 * The floor of reading a history: fetches ranges, parses them as JSON and folds them into owners. Verifies, stores and
 * serves nothing. A process of its own, like the service. In: a file with node, address, topics and ranges as JSON.
 * Out: counts and ms as JSON.
 */
import { quantity } from "../chain/hex.ts";

export interface FoldTask {
  readonly url: string;
  readonly address: string;
  readonly topics: readonly string[];
  readonly ranges: readonly (readonly [number, number])[];
  /** Ranges read and folded before the measured ones. */
  readonly warmUp?: readonly (readonly [number, number])[];
  /** Requests in flight. */
  readonly inFlight: number;
  /** True to read the bytes only: the limit of the node itself. */
  readonly unread?: boolean;
}

export interface FoldResult {
  readonly ms: number;
  readonly logs: number;
  readonly tokens: number;
  /** Bytes of the answers. */
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
