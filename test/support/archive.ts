/**
 * A server of SQD's Portal protocol, made from a chain's own history, which can be wrong in many ways. In: a chain, and
 * the faults, drawn by seed so that a run can be repeated. Out: the address of a data set on a free port.
 */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { Bloom } from "../../src/rpc/decode/bloom.ts";
import { headerHash } from "../../src/rpc/decode/header-hash.ts";
import { zstdBomb } from "./bombs.ts";

export interface ArchivedLog {
  readonly address: string;
  readonly topics: readonly string[];
  readonly data: string;
  readonly logIndex: number;
  readonly transactionIndex: number;
  readonly transactionHash: string;
}

/** A block's header with the fields of the protocol, and its logs. */
export interface ArchivedBlock {
  readonly header: Readonly<Record<string, unknown>> & { readonly number: number; readonly hash: string };
  readonly logs: readonly ArchivedLog[];
}

interface LogRequest {
  readonly address?: readonly string[];
  readonly topic0?: readonly string[];
  readonly topic1?: readonly string[];
  readonly topic2?: readonly string[];
  readonly topic3?: readonly string[];
}

export interface ArchiveQuery {
  readonly fromBlock: number;
  readonly toBlock: number;
  readonly parentBlockHash?: string;
  readonly fields: {
    readonly block: Readonly<Record<string, boolean>>;
    readonly log: Readonly<Record<string, boolean>>;
  };
  readonly logs: readonly LogRequest[];
}

/** A chain's history. */
export interface ArchiveChain {
  /** The newest block that the archive has. */
  head(): Promise<number>;
  /** The blocks with one of these logs, the first and the last block of the range, in rising order. */
  blocks(query: ArchiveQuery): Promise<ArchivedBlock[]>;
}

/** Ways to be wrong. The first ones change what is told, the others how. */
export const LIES = ["omit", "omit pair", "forge", "forge well", "another branch", "wrong time"] as const;
export const TROUBLES = ["cut", "cut in a line", "repeat", "reorder", "empty", "break off"] as const;
/** Ways to make no progress, or too little. */
export const STALLS = ["hang", "drip", "wait an hour", "one block", "too large", "down", "bomb"] as const;
export type ArchiveFault = (typeof LIES)[number] | (typeof TROUBLES)[number] | (typeof STALLS)[number];

export interface ArchiveOptions {
  readonly faults?: readonly ArchiveFault[];
  /** Share of the blocks with a log, or of the answers, that have a fault. Default: 1 of 10. */
  readonly rate?: number;
  readonly seed?: number;
  /** Requests for blocks after which answers stall no longer. Default: they always may. */
  readonly stalls?: number;
  /** Time that each answer takes, in ms. */
  readonly latencyMs?: number;
  /** The archive's first block. */
  readonly startBlock?: number;
  /** Changes what is told: blocks with a log, and the first and last one of the range. */
  readonly tell?: (blocks: readonly ArchivedBlock[], query: ArchiveQuery) => Promise<readonly ArchivedBlock[]>;
  /** Most blocks with a log per answer. */
  readonly mostBlocks?: number;
  /** True for a log that it leaves out of every answer. */
  readonly omits?: (log: ArchivedLog, block: number) => boolean;
  /** Answers instead, by the number of the request. */
  readonly onRequest?: (query: ArchiveQuery, index: number, headers: Headers) => Response | undefined;
}

export interface TestArchive {
  /** The address of the data set. */
  readonly url: string;
  readonly queries: readonly ArchiveQuery[];
  /** Faults that were committed, by kind. */
  readonly committed: ReadonlyMap<ArchiveFault, number>;
  /** True from now on if the archive is gone. */
  isGone: boolean;
  stop(): Promise<void>;
}

/** A number in [0, 1) that depends on the words alone. */
const drawn = (...words: readonly (string | number)[]): number =>
  Number(Bun.hash.wyhash(words.join(" ")) >> 11n) / 2 ** 53;

const salted = (text: string) => `0x${Bun.CryptoHasher.hash("sha256", text, "hex")}`;

export async function startArchive(chain: ArchiveChain, options: ArchiveOptions = {}): Promise<TestArchive> {
  const { faults = [], rate = 0.1, seed = 1, latencyMs = 0, startBlock = 0, mostBlocks = 1_000_000 } = options;
  const { stalls = Number.POSITIVE_INFINITY } = options;
  const queries: ArchiveQuery[] = [];
  const committed = new Map<ArchiveFault, number>();
  const has = (fault: ArchiveFault, ...place: readonly (string | number)[]): boolean => {
    if (!faults.includes(fault) || drawn(seed, fault, ...place) >= rate) return false;
    committed.set(fault, (committed.get(fault) ?? 0) + 1);
    return true;
  };
  const { omits = () => false } = options;
  const told = (blocks: readonly ArchivedBlock[]): ArchivedBlock[] => {
    const all = blocks.map(({ header, logs }) => ({
      header: { ...header } as Record<string, unknown>,
      logs: logs.filter((log) => !omits(log, header.number)),
    }));
    for (const [at, block] of all.entries()) {
      const { number } = block.header as { number: number };
      const [first] = block.logs;
      if (first === undefined) continue;
      if (has("omit", number)) block.logs = block.logs.slice(1);
      if (has("omit pair", number)) omitPair(all as unknown as MutableBlock[], at);
      if (has("wrong time", number)) block.header["timestamp"] = Number(block.header["timestamp"]) + 12;
      const forged = { ...first, topics: [...first.topics.slice(0, 2), topicOf(0xbad), ...first.topics.slice(3)] };
      if (has("forge", number)) block.logs = [forged, ...block.logs.slice(1)];
      if (has("forge well", number)) {
        block.logs = [forged, ...block.logs.slice(1)];
        const bloom = new Bloom();
        for (const log of block.logs) bloom.add(log);
        block.header["logsBloom"] = `0x${bloom.value.toString(16).padStart(512, "0")}`;
        block.header["hash"] = headerHash(block.header) ?? block.header["hash"];
      }
    }
    if (has("another branch", blocks[0]?.header.number ?? 0)) {
      for (const { header } of all) header["hash"] = salted(String(header["hash"]));
    }
    return all as unknown as ArchivedBlock[];
  };
  const archive = { queries, committed, isGone: false };
  const stalled = (at: string): (typeof STALLS)[number] | undefined =>
    queries.length > stalls ? undefined : STALLS.find((stall) => has(stall, at));
  const respond = async (path: string, given: string, headers: Headers): Promise<Response | Broken> => {
    if (archive.isGone) return new Response("gone", { status: 503 });
    if (latencyMs > 0) await Bun.sleep(latencyMs);
    const head = await chain.head();
    if (path.endsWith("/finalized-head")) {
      const [block] = await chain.blocks(allOf(head, head));
      return Response.json(block === undefined ? null : { number: head, hash: block.header.hash });
    }
    const query = JSON.parse(given) as ArchiveQuery;
    queries.push(query);
    const instead = options.onRequest?.(query, queries.length - 1, headers);
    if (instead !== undefined) return instead;
    if (query.fromBlock > head) return new Response(null, { status: 204 });
    if (query.fromBlock < startBlock) {
      return new Response(`Bad request: dataset starts from block ${startBlock}`, { status: 400 });
    }
    // An answer that is asked for again may be sound.
    const at = `${query.fromBlock} ${queries.length}`;
    const stall = stalled(at);
    if (stall === "hang") return { drips: "" };
    if (stall === "wait an hour") return new Response("", { status: 429, headers: { "retry-after": "3600" } });
    if (stall === "too large") return new Response("the result exceeds the size limit", { status: 413 });
    if (stall === "down") return new Response("no available workers", { status: 503 });
    if (stall === "bomb") return new Response(zstdBomb(2 ** 31), { headers: { "content-encoding": "zstd" } });
    const toBlock = stall === "one block" ? query.fromBlock : Math.min(query.toBlock, head);
    const there = await chain.blocks({ ...query, toBlock });
    const { tell = async () => there } = options;
    const blocks = cutAfter(told(await tell(there, { ...query, toBlock })), mostBlocks);
    if (has("empty", at)) return encoded("", headers);
    let lines = blocks.map((block) => lineOf(block, query));
    if (has("cut", at)) lines = lines.slice(0, Math.max(1, Math.floor(lines.length * drawn(seed, at))));
    if (has("repeat", at)) lines.splice(1, 0, lines[0] as string);
    if (lines.length > 2 && has("reorder", at)) lines.splice(1, 2, lines[2] as string, lines[1] as string);
    const text = lines.map((line) => `${line}\n`).join("");
    if (lines.length > 1 && has("cut in a line", at)) return encoded(text.slice(0, text.length - 20), headers);
    if (lines.length > 1 && has("break off", at)) return { half: text.slice(0, Math.floor(text.length / 2)) };
    if (stall === "drip") return { drips: text };
    return encoded(text, headers);
  };
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const headers = new Headers(request.headers as Record<string, string>);
    const answer = await respond(request.url ?? "", Buffer.concat(chunks).toString(), headers);
    if (!(answer instanceof Response)) {
      response.writeHead(200, { "content-type": "application/jsonl" });
      if ("half" in answer) response.write(answer.half, () => response.destroy());
      else drip(response, answer.drips);
      return;
    }
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    response.end(Buffer.from(await answer.arrayBuffer()));
  });
  const listening = Promise.withResolvers<void>();
  server.listen(0, "127.0.0.1", listening.resolve);
  await listening.promise;
  const { port } = server.address() as AddressInfo;
  return Object.assign(archive, {
    url: `http://127.0.0.1:${port}/datasets/ethereum-mainnet`,
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}

/** An answer that doesn't end as it should: it breaks off after half, or drips, or hangs if there is nothing to drip. */
type Broken = { readonly half: string } | { readonly drips: string };

/** Sends the header, and a byte a second until the client is gone. */
function drip(response: ServerResponse, text: string): void {
  let at = 0;
  response.flushHeaders();
  const timer = setInterval(() => void (at < text.length && response.write(text[at++] as string)), 1_000);
  response.on("close", () => clearInterval(timer));
}

interface MutableBlock {
  readonly header: { readonly number: number };
  logs: readonly ArchivedLog[];
}

/** Omits two transfers of one token, A to B and B to A, if there are such: its owner is then the right one. */
function omitPair(blocks: readonly MutableBlock[], from: number): void {
  const [first] = blocks[from]?.logs ?? [];
  if (first === undefined) return;
  const [, sender, receiver, token] = first.topics;
  for (const block of blocks.slice(from + 1)) {
    const next = block.logs.find(({ topics }) => topics[3] === token);
    if (next === undefined) continue;
    if (next.topics[1] !== receiver || next.topics[2] !== sender) return;
    (blocks[from] as MutableBlock).logs = (blocks[from] as MutableBlock).logs.filter((log) => log !== first);
    block.logs = block.logs.filter((log) => log !== next);
    return;
  }
}

const topicOf = (value: number) => `0x${value.toString(16).padStart(64, "0")}`;

const allOf = (fromBlock: number, toBlock: number): ArchiveQuery => ({
  ...{ fromBlock, toBlock, logs: [] },
  fields: { block: { number: true, hash: true }, log: {} },
});

/** The first blocks that hold `most` blocks with a log. */
function cutAfter(blocks: ArchivedBlock[], most: number): ArchivedBlock[] {
  let touched = 0;
  const end = blocks.findIndex(({ logs }) => logs.length > 0 && ++touched > most);
  return end < 0 ? blocks : blocks.slice(0, end);
}

function lineOf({ header, logs }: ArchivedBlock, { fields }: ArchiveQuery): string {
  const only = (object: object, chosen: Readonly<Record<string, boolean>>) =>
    Object.fromEntries(Object.entries(object).filter(([name]) => chosen[name] === true));
  const own = logs.map((log) => only(log, fields.log));
  return JSON.stringify({ header: only(header, fields.block), ...(own.length === 0 ? {} : { logs: own }) });
}

/** The Portal compresses each answer, whether it was asked to or not. */
function encoded(text: string, asked: Headers): Response {
  const isZstd = asked.get("accept-encoding")?.includes("zstd") === true;
  const body = isZstd ? Bun.zstdCompressSync(Buffer.from(text)) : gzipSync(Buffer.from(text));
  const headers = { "content-encoding": isZstd ? "zstd" : "gzip", "content-type": "application/jsonl" };
  return new Response(body, { headers });
}

/** The history of a node, read through JSON-RPC. */
export function archiveOfNode(url: string): ArchiveChain {
  const send = async (calls: readonly { readonly method: string; readonly params: readonly unknown[] }[]) => {
    const payload = calls.map((call, id) => ({ jsonrpc: "2.0", id, ...call }));
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(payload),
      keepalive: false,
    });
    const answers = (await response.json()) as { readonly id: number; readonly result: unknown }[];
    return answers.sort((a, b) => a.id - b.id).map(({ result }) => result);
  };
  const hex = (value: number) => `0x${value.toString(16)}`;
  return {
    head: async () => {
      const [block] = await send([{ method: "eth_getBlockByNumber", params: ["finalized", false] }]);
      return Number((block as { number: string }).number);
    },
    blocks: async ({ fromBlock, toBlock, logs: requests }) => {
      const filters = requests.map(({ address, topic0 = null, topic1 = null, topic2 = null, topic3 = null }) => {
        const topics = [topic0, topic1, topic2, topic3];
        while (topics.at(-1) === null) topics.pop();
        return {
          method: "eth_getLogs",
          params: [{ fromBlock: hex(fromBlock), toBlock: hex(toBlock), address, topics }],
        };
      });
      const answers = filters.length === 0 ? [] : await send(filters);
      const byBlock = new Map<number, ArchivedLog[]>([
        [fromBlock, []],
        [toBlock, []],
      ]);
      for (const log of answers.flat() as Record<string, string>[]) {
        const number = Number(log["blockNumber"]);
        const own = byBlock.get(number) ?? [];
        byBlock.set(number, own);
        const [logIndex, transactionIndex] = [Number(log["logIndex"]), Number(log["transactionIndex"])];
        if (own.every((one) => one.logIndex !== logIndex)) {
          own.push({ ...(log as unknown as ArchivedLog), logIndex, transactionIndex });
        }
      }
      const numbers = [...byBlock.keys()].sort((a, b) => a - b);
      const headers = await send(
        numbers.map((number) => ({ method: "eth_getBlockByNumber", params: [hex(number), false] })),
      );
      return numbers.map((number, at) => {
        const wire = headers[at] as Record<string, unknown>;
        const header = { ...wire, number, hash: String(wire["hash"]), timestamp: Number(wire["timestamp"]) };
        return { header, logs: (byBlock.get(number) as ArchivedLog[]).sort((a, b) => a.logIndex - b.logIndex) };
      });
    },
  };
}
