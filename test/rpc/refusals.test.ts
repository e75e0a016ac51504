/**
 * What operators read of a refusal: the node's answer, whole, without its URLs and keys, and advice that fits. A refused
 * key is no rate limit.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { TRANSFER } from "../../src/rpc/decode/transfer-topics.ts";
import { EndpointPool } from "../../src/rpc/endpoint/endpoint-pool.ts";
import { EndpointProvider } from "../../src/rpc/endpoint/provider.ts";
import { RpcChainReader } from "../../src/rpc/reading/reader.ts";
import { adviceOf, classifyHttpStatus, classifyRpcError } from "../../src/rpc/rpc-errors.ts";

const KEY = "s3cret-key-0123456789";
const CONTRACT = `0x${"ab".repeat(20)}` as Address;
const word = (n: number) => `0x${n.toString(16).padStart(64, "0")}`;
const HEADER = { number: "0x8", hash: word(8), parentHash: word(7), timestamp: "0x60" };

interface Call {
  readonly id: number;
  readonly method: string;
}

let server: ReturnType<typeof Bun.serve>;
let refuse: (calls: readonly Call[]) => Response;

beforeAll(() => {
  server = Bun.serve({
    port: 0,
    fetch: async (request) => refuse([(await request.json()) as Call | Call[]].flat()),
  });
});
afterAll(() => server.stop(true));

/** A reader over one endpoint, and the endpoint's status after a few failed reads. */
function open(): { reader: RpcChainReader; pool: EndpointPool } {
  const decoder = {
    decode: () => Promise.reject(new Error("not used")),
    fetch: () => Promise.reject(new Error("not used")),
    prepare: () => undefined,
  };
  const endpoint = new EndpointProvider({
    ...{ url: `http://127.0.0.1:${server.port}/v2/${KEY}`, label: "eth#1", chainId: 1, decoder, clock: systemClock },
    ...{ timeoutMs: 5_000, maxBytes: 1_000_000, onRequest: () => undefined },
  });
  const pool = new EndpointPool({ chain: "eth", endpoints: [endpoint], clock: systemClock });
  const common = { chainId: 1, multicall: CONTRACT, finalityDepth: 5, depthIsSet: true };
  return { reader: new RpcChainReader({ ...common, pool }), pool };
}

/** Answers calls by method: a result, or a JSON-RPC error. */
const answering = (refusals: Readonly<Record<string, object>>) => (calls: readonly Call[]) => {
  const results: Record<string, unknown> = { eth_chainId: "0x1", eth_getBlockByNumber: HEADER };
  const answers = calls.map(({ id, method }) => {
    const error = refusals[method];
    return { jsonrpc: "2.0", id, ...(error === undefined ? { result: results[method] ?? null } : { error }) };
  });
  return Response.json(answers.length === 1 ? answers[0] : answers);
};

describe("the reason of a read that failed", () => {
  test("is the node's answer and no guess, without keys and URLs", async () => {
    const message = `internal error: leveldb: not found (shard 7, https://node.example/${KEY}?a=1, key ${KEY})`;
    const missing = { code: -32_601, message: "the method does not exist" };
    const refused = { code: -32_603, message, data: { trace: "compaction of level 3" } };
    refuse = answering({ eth_getLogs: refused, eth_getBlockReceipts: missing });
    const { reader } = open();
    const filter = { addresses: [CONTRACT], topics: [TRANSFER], fromBlock: 8, toBlock: 8 };
    const { message: said } = (await reader.logs(filter).catch((error: unknown) => error)) as Error;
    expect(said).toContain("internal error: leveldb: not found (shard 7");
    expect(said).toContain("compaction of level 3");
    expect(said).not.toMatch(/exceed|limit|node\.example/);
    expect(said).not.toContain(KEY);
  });

  test("has the text of a refusal that is no JSON-RPC, bounded and on one line", async () => {
    const page = `<html><h1>Bad\n\nGateway</h1> of ${KEY} ${"x".repeat(5_000)}</html>`;
    refuse = () => new Response(page, { status: 502 });
    const { message } = (await open()
      .reader.head(1)
      .catch((error: unknown) => error)) as Error;
    expect(message).toContain("HTTP 502: Bad Gateway of [redacted]");
    expect(message.length).toBeLessThan(500);
  });

  test("keeps the data of a contract's revert out", () => {
    const revert = { code: 3, message: "execution reverted", data: `0x${"ab".repeat(500)}` };
    expect(classifyRpcError(revert, "eth_call", {}).message).toBe("eth_call refused: execution reverted");
  });
});

describe("an endpoint that refuses", () => {
  const REFUSALS = {
    key: {
      "with 401": () => new Response("no such key", { status: 401 }),
      "with 401 and a JSON-RPC error": () =>
        Response.json({ jsonrpc: "2.0", id: 1, error: { message: "denied" } }, { status: 401 }),
      "with 403": () => new Response("forbidden", { status: 403 }),
      "with words": answering({ eth_getBlockByNumber: { code: -32_600, message: "Must be authenticated!" } }),
    },
    rate: {
      "with 429": () => new Response("slow down", { status: 429 }),
      "with words": answering({ eth_getBlockByNumber: { code: -32_005, message: "rate limit exceeded" } }),
    },
  };
  const ADVICE = { key: "check the key", rate: "fewer requests" };
  for (const [kind, cases] of Object.entries(REFUSALS) as [keyof typeof REFUSALS, Record<string, typeof refuse>][]) {
    for (const [name, answer] of Object.entries(cases)) {
      test(`for its ${kind}, ${name}, is shown with advice for that`, async () => {
        refuse = answer;
        const { reader, pool } = open();
        await reader.head(4).catch(() => undefined);
        const { reason } = pool.status()[0] as { reason: string };
        expect(reason).toContain(ADVICE[kind]);
        expect(reason).not.toContain(ADVICE[kind === "key" ? "rate" : "key"]);
        expect(reason).not.toContain(KEY);
      });
    }
  }

  test("for money, or without a reason of its own, has advice of its own, or none", () => {
    expect(adviceOf(classifyHttpStatus(402, null, {}))).toContain("plan");
    expect(adviceOf(classifyHttpStatus(500, null, {}))).toBeUndefined();
    expect(adviceOf(new Error("401"))).toBeUndefined();
  });
});
