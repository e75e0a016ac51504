/**
 * A node over synthetic collections, in a process of its own: JSON-RPC over HTTP, with answers built from prepared
 * bytes. In: `ChainOptions` as JSON, the first argument. Out: its port on standard output once it is ready. Besides
 * JSON-RPC: `/stats`, `/reset`, `/hold` and `/release` of all logs, and `/faults?share=0.02&seed=1`, which makes that
 * share of later answers a 429, a 500, a truncated answer or a dropped connection.
 */
import { createRandom, type Random } from "../../local-chain/random.ts";
import { Calls } from "./calls.ts";
import { blockHash, quantity } from "./hex.ts";
import { History } from "./history.ts";
import { type ChainOptions, DEFAULT_MAX_LOGS, FIRST_BLOCK, MULTICALL3, QUIET_END, UNFINALISED } from "./options.ts";

interface RpcRequest {
  readonly id: number | string;
  readonly method: string;
  readonly params: readonly unknown[];
}

interface LogFilter {
  readonly fromBlock?: string;
  readonly toBlock?: string;
  readonly address?: string | readonly string[];
  readonly topics?: readonly (string | readonly string[] | null)[];
}

const options = JSON.parse(process.argv[2] ?? "") as ChainOptions;
const { latencyMs = 0, maxBlocks = Number.POSITIVE_INFINITY, maxLogs = DEFAULT_MAX_LOGS, saysLimit = true } = options;
const list = options.collections.map((collection, position) => new History(collection, position));
const histories = new Map(list.map((history) => [history.address, history]));
const final = Math.max(FIRST_BLOCK, ...list.map(({ lastBlock }) => lastBlock)) + QUIET_END;
const head = final + UNFINALISED;
const calls = new Calls(histories, head);
const now = Math.floor(Date.now() / 1_000);
const [noLogs, anyLogs] = [`0x${"0".repeat(512)}`, `0x${"f".repeat(512)}`];
const CODE = `0x${"60806040".repeat(64)}`;
const HEADERS = { "content-type": "application/json" };

let requests: Record<string, number> = {};
let ranges: [number, number][] = [];
let [sent, faults, http] = [0, 0, 0];
let share = 0;
let luck: Random = createRandom(1);
let held: PromiseWithResolvers<void> | undefined;

const numberOf = (tag: unknown): number => {
  if (tag === "latest" || tag === "pending") return head;
  if (tag === "finalized" || tag === "safe") return final;
  return tag === "earliest" ? 0 : Number(tag);
};

function blockOf(tag: unknown): unknown {
  const number = numberOf(tag);
  if (number > head) return null;
  return {
    number: quantity(number),
    hash: blockHash(number),
    parentHash: blockHash(number - 1),
    timestamp: quantity(now - (head - number) * 12),
    logsBloom: list.some((history) => history.hasLogsIn(number)) ? anyLogs : noLogs,
    nonce: "0x0000000000000000",
    difficulty: "0x0",
    gasLimit: "0x1c9c380",
    gasUsed: "0xd1b6a2",
    miner: `0x${"95".repeat(20)}`,
    extraData: "0x",
    transactions: [],
    uncles: [],
  };
}

const textOf = (id: unknown, part: { result: unknown } | { error: { code: number; message: string } }): string =>
  JSON.stringify({ jsonrpc: "2.0", id, ...part });

/** The whole answer to `eth_getLogs`: copied bytes between a head and a tail. */
function logsAnswer(id: unknown, filter: LogFilter): Uint8Array | string {
  const [from, to] = [numberOf(filter.fromBlock ?? "latest"), Math.min(head, numberOf(filter.toBlock ?? "latest"))];
  const blocks = to - from + 1;
  if (blocks > maxBlocks) {
    const message = saysLimit ? `exceed maximum block range: ${maxBlocks}` : "block range is too large";
    return textOf(id, { error: { code: -32005, message } });
  }
  const addresses = filter.address === undefined ? undefined : [filter.address].flat().map((one) => one.toLowerCase());
  const topics = filter.topics?.[0] === undefined ? undefined : [filter.topics[0]].flat();
  const parts = list
    .filter(({ address, topic }) => addresses?.includes(address) !== false && topics?.includes(topic) !== false)
    .map((history) => ({ history, start: history.at(from), end: history.at(to + 1) }));
  const count = parts.reduce((sum, { start, end }) => sum + end - start, 0);
  if (count > maxLogs) {
    return textOf(id, { error: { code: -32005, message: `query returned more than ${maxLogs} results` } });
  }
  ranges.push([from, to]);
  sent += count;
  const start = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":[`;
  const room = parts.reduce((sum, { history, start, end }) => sum + history.bytesOf(end - start), 0);
  const bytes = Buffer.allocUnsafeSlow(start.length + room + 2);
  bytes.write(start, "latin1");
  let at = start.length;
  for (const { history, start, end } of parts) at = history.copy(start, end, bytes, at);
  // The tail replaces the last log's comma.
  if (count > 0) at--;
  bytes[at] = 93;
  bytes[at + 1] = 125;
  return bytes.subarray(0, at + 2);
}

/** The logs of a block, or of a range, as objects. */
function logsIn(from: number, to: number, addresses?: readonly string[]): Record<string, unknown>[] {
  return list
    .filter(({ address }) => addresses?.includes(address) !== false)
    .flatMap((history) => {
      const [start, end] = [history.at(from), history.at(to + 1)];
      const bytes = Buffer.allocUnsafeSlow(history.bytesOf(end - start));
      history.copy(start, end, bytes, 0);
      return JSON.parse(`[${bytes.toString("latin1").slice(0, -1)}]`) as Record<string, unknown>[];
    });
}

/** Blocks with a log that one answer of the archive holds. */
const ARCHIVE_BLOCKS = 20_000;
let archiveAnswers = 0;

/** Answers as SQD's Portal does: the first and the last block, and those with a log, a line each. */
async function archived(request: Request, url: URL): Promise<Response> {
  if (latencyMs > 0) await Bun.sleep(latencyMs);
  if (++archiveAnswers > (options.archiveAnswers ?? Number.POSITIVE_INFINITY))
    return new Response("gone", { status: 404 });
  if (url.pathname.endsWith("/finalized-head")) return Response.json({ number: final, hash: blockHash(final) });
  const { fromBlock, toBlock, logs } = (await request.json()) as {
    fromBlock: number;
    toBlock: number;
    logs: { address: string[] }[];
  };
  const [history] = list.filter(({ address }) => logs[0]?.address.includes(address) === true);
  const blocks = history?.blocksFrom(fromBlock, toBlock, ARCHIVE_BLOCKS) ?? [];
  const last = blocks.length === ARCHIVE_BLOCKS ? (blocks.at(-1) as number) : toBlock;
  const lines = new Map([fromBlock, ...blocks, last].map((number) => [number, [] as unknown[]]));
  for (const log of logsIn(fromBlock, last, logs[0]?.address)) {
    const { blockNumber, logIndex, transactionIndex, ...rest } = log;
    lines
      .get(Number(blockNumber))
      ?.push({ ...rest, logIndex: Number(logIndex), transactionIndex: Number(transactionIndex) });
  }
  const text = [...lines]
    .map(([number, own]) => {
      const timestamp = now - (head - number) * 12;
      const header = { number, hash: blockHash(number), parentHash: blockHash(number - 1), timestamp };
      return `${JSON.stringify({ header, ...(own.length === 0 ? {} : { logs: own }) })}\n`;
    })
    .join("");
  return new Response(Bun.zstdCompressSync(Buffer.from(text), { level: 1 }), {
    headers: { "content-encoding": "zstd" },
  });
}

function answer({ id, method, params }: RpcRequest): Uint8Array | string {
  requests[method] = (requests[method] ?? 0) + 1;
  switch (method) {
    case "eth_getLogs":
      return logsAnswer(id, params[0] as LogFilter);
    case "eth_getBlockReceipts": {
      const number = numberOf(params[0]);
      return textOf(id, { result: [{ status: "0x1", logs: logsIn(number, number) }] });
    }
    case "eth_getBlockByNumber":
      return textOf(id, { result: blockOf(params[0]) });
    case "eth_blockNumber":
      return textOf(id, { result: quantity(head) });
    case "eth_chainId":
      return textOf(id, { result: "0x1" });
    case "eth_getTransactionCount":
      return textOf(id, { result: "0x1" });
    case "eth_getCode": {
      const address = String(params[0]).toLowerCase();
      const has = address === MULTICALL3 || (histories.has(address) && numberOf(params[1]) >= FIRST_BLOCK);
      return textOf(id, { result: has ? CODE : "0x" });
    }
    case "eth_call": {
      const { to, data } = params[0] as { to: string; data: string };
      const result = calls.answer(to, data);
      const reverted = { error: { code: 3, message: "execution reverted" } };
      return textOf(id, result === undefined ? reverted : { result });
    }
    default:
      return textOf(id, { error: { code: -32601, message: `the method ${method} does not exist` } });
  }
}

function body(request: RpcRequest | readonly RpcRequest[]): Uint8Array | string {
  if (!Array.isArray(request)) return answer(request as RpcRequest);
  const decoder = new TextDecoder();
  const parts = (request as readonly RpcRequest[]).map((one) => {
    const part = answer(one);
    return typeof part === "string" ? part : decoder.decode(part);
  });
  return `[${parts.join(",")}]`;
}

/** One of the ways in which an endpoint fails, in turn. */
function faulty(whole: Uint8Array | string): Response {
  const bytes = typeof whole === "string" ? Buffer.from(whole) : whole;
  const half = bytes.subarray(0, bytes.length >> 1);
  switch (faults++ % 4) {
    case 0:
      return new Response('{"error":"too many requests"}', { status: 429, headers: HEADERS });
    case 1:
      return new Response("upstream failed", { status: 500 });
    case 2:
      return new Response(half, { headers: HEADERS });
    default: {
      const broken = new ReadableStream({
        start: (controller) => controller.enqueue(half),
        pull: (controller) => controller.error(new Error("dropped on purpose")),
      });
      return new Response(broken, { headers: HEADERS });
    }
  }
}

function control(url: URL): Response {
  if (url.pathname === "/stats") return Response.json({ requests, ranges, logs: sent, faults, http });
  if (url.pathname === "/reset") [requests, ranges, sent, faults, http] = [{}, [], 0, 0, 0];
  if (url.pathname === "/hold") held = Promise.withResolvers();
  if (url.pathname === "/release") {
    held?.resolve();
    held = undefined;
  }
  if (url.pathname === "/faults") {
    share = Number(url.searchParams.get("share"));
    luck = createRandom(Number(url.searchParams.get("seed")));
  }
  return Response.json({ head, final, firstBlock: FIRST_BLOCK });
}

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  idleTimeout: 120,
  development: false,
  fetch: async (request) => {
    const url = new URL(request.url);
    if (url.pathname.startsWith("/datasets/")) return archived(request, url);
    if (request.method === "GET") return control(url);
    const asked = (await request.json()) as RpcRequest;
    http++;
    if (held !== undefined && asked.method === "eth_getLogs") await held.promise;
    const whole = body(asked);
    if (latencyMs > 0) await Bun.sleep(latencyMs);
    if (share > 0 && luck.below(1_000_000) < share * 1_000_000) return faulty(whole);
    return new Response(whole, { headers: HEADERS });
  },
  error: () => new Response(null, { status: 500 }),
});
process.stdout.write(`${server.port}\n`);
