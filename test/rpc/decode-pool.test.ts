/**
 * Answers that the decode worker fetches itself, over real sockets. Its errors are the same as on this thread, an
 * abandoned request delays no other, and no URL appears in an error.
 */
import { afterAll, expect, test } from "bun:test";
import { type AddressInfo, connect, createServer } from "node:net";
import type { AppError } from "../../src/core/errors.ts";
import type { Address } from "../../src/core/hex.ts";
import { decodeTransfers } from "../../src/events/columns.ts";
import { decodeAnswer } from "../../src/rpc/decode/answer.ts";
import { DecodePool, unwrapReply } from "../../src/rpc/decode/decode-pool.ts";
import { TRANSFER } from "../../src/rpc/decode/transfer-topics.ts";
import type { HttpTarget } from "../../src/rpc/http.ts";
import type { DecodeJob } from "../../src/rpc/port.ts";
import { RpcError } from "../../src/rpc/rpc-errors.ts";

const ADDRESS = `0x${"ab".repeat(20)}` as Address;
const KEY = "a-key-in-the-path";
const job: DecodeJob = { address: ADDRESS, fromBlock: 1, toBlock: 9, forms: ["erc721"] };
const topic = (value: number): string => `0x${value.toString(16).padStart(64, "0")}`;
const log = {
  address: ADDRESS,
  topics: [TRANSFER, topic(0), topic(7), topic(42)],
  data: "0x",
  blockHash: topic(5),
  blockNumber: "0x5",
  transactionHash: topic(6),
  transactionIndex: "0x0",
  logIndex: "0x1",
  removed: false,
};
const answer = JSON.stringify({ jsonrpc: "2.0", id: 1, result: [log] });

/** Number of requests that the server has begun to answer and doesn't finish. */
let hanging = 0;
let wake = (): void => undefined;
let gone = 0;

const server = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  idleTimeout: 30,
  fetch: async (request) => {
    switch (new URL(request.url).searchParams.get("as")) {
      case "refusal":
        return Response.json({
          jsonrpc: "2.0",
          id: 1,
          error: { code: -32005, message: "query returned more than 10000 results" },
        });
      case "busy":
        return new Response("slow down", { status: 429, headers: { "retry-after": "7" } });
      case "down":
        return new Response("no", { status: 502 });
      case "cut":
        return new Response(answer.slice(0, 80));
      case "large":
        return new Response("x".repeat(5_000));
      case "hang":
        hanging++;
        request.signal.addEventListener("abort", () => {
          gone++;
          wake();
        });
        wake();
        return new Promise<Response>(() => undefined);
      default:
        return new Response(answer);
    }
  },
});
const pool = new DecodePool(2);
afterAll(async () => {
  pool.close();
  await server.stop(true);
});

const target = (as: string, more: Partial<HttpTarget> = {}): HttpTarget => ({
  url: `http://127.0.0.1:${server.port}/${KEY}?as=${as}`,
  label: "eth#1",
  timeoutMs: 10_000,
  maxBytes: 4_096,
  ...more,
});
const ask = (at: HttpTarget, signal = new AbortController().signal) =>
  pool.fetch(at, "{}", job, { endpoint: at.label, fromBlock: 1 }, signal);
const failureOf = (asked: Promise<unknown>): Promise<AppError> =>
  asked.then(
    () => {
      throw new Error("the request should have failed");
    },
    (error: AppError) => error,
  );

/** Resolves when `holds` is true. It is checked whenever a request starts to hang or is given up. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) {
    await new Promise<void>((resolve) => {
      wake = resolve;
    });
  }
}

test("fetches and decodes an answer with the same result as on this thread", async () => {
  const { range, bytes } = await ask(target("good"));
  const raw = new TextEncoder().encode(answer);
  expect(bytes).toBe(raw.length);
  expect(range).toEqual(unwrapReply(decodeAnswer({ ...job, id: 1, raw }), {}));
  expect(decodeTransfers(range.transfers).count).toBe(1);
});

test.each([
  ["refusal", "range"],
  ["busy", "rate"],
  ["down", "transient"],
  ["cut", "transient"],
  ["large", "range"],
] as const)("fails for an answer of the kind %s as %s, with the place and without the URL", async (as, kind) => {
  const error = await failureOf(ask(target(as)));
  expect(error).toBeInstanceOf(RpcError);
  expect((error as RpcError).kind).toBe(kind);
  expect(error.meta).toMatchObject({ endpoint: "eth#1", fromBlock: 1 });
  expect(`${error.message} ${JSON.stringify(error.meta)} ${error.stack}`).not.toContain(KEY);
});

test("passes on the endpoint's Retry-After", async () => {
  expect(((await failureOf(ask(target("busy")))) as RpcError).retryAfterMs).toBe(7_000);
});

test.each([
  ["states no length", ""],
  ["states a false length", "content-length: 10\r\n"],
])("stops reading an endless answer that %s", async (_, said) => {
  const chunk = Buffer.concat([Buffer.from("10000\r\n"), Buffer.alloc(65_536, " "), Buffer.from("\r\n")]);
  const ENOUGH = 512;
  let sent = 0;
  const closed = Promise.withResolvers<void>();
  const endless = createServer((socket) => {
    const send = () => {
      while (sent < ENOUGH && !socket.destroyed) {
        sent++;
        if (!socket.write(chunk)) return;
      }
      if (sent === ENOUGH) socket.end("0\r\n\r\n");
    };
    socket.on("error", () => undefined).on("close", () => closed.resolve());
    socket.on("drain", send).once("data", () => {
      socket.write(`HTTP/1.1 200 OK\r\n${said}transfer-encoding: chunked\r\n\r\n`);
      send();
    });
  });
  await new Promise<void>((resolve) => endless.listen(0, "127.0.0.1", resolve));
  const { port } = endless.address() as AddressInfo;
  const failure = await failureOf(ask(target("", { url: `http://127.0.0.1:${port}/` })));
  expect(failure).toMatchObject({ kind: "range", message: "the answer is too large" });
  await closed.promise;
  endless.close();
  // The operating system's buffers took this much.
  expect(sent).toBeLessThan(ENOUGH);
});

test("fails if no server listens, and if the endpoint does not answer in time", async () => {
  const free = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => undefined } });
  const { port } = free;
  free.stop(true);
  await new Promise<void>((resolve) => connect(port, "127.0.0.1").on("error", () => resolve()));
  const refused = await failureOf(ask(target("", { url: `http://127.0.0.1:${port}/${KEY}` })));
  expect([(refused as RpcError).kind, refused.message.includes(KEY)]).toEqual(["transient", false]);
  const late = await failureOf(ask(target("hang", { timeoutMs: 50 })));
  expect([(late as RpcError).kind, late.message]).toEqual([
    "late",
    "the endpoint could not be reached: no answer within 50 ms",
  ]);
});

test("releases caller and endpoint at once on an abort, and answers other requests", async () => {
  const before = { hanging, gone };
  const abort = new AbortController();
  const asked = failureOf(ask(target("hang"), abort.signal));
  await until(() => hanging > before.hanging);
  abort.abort(new DOMException("enough", "AbortError"));
  expect((await asked).message).toBe("enough");
  await until(() => gone > before.gone);
  expect((await ask(target("good"))).range.count).toBe(1);
  expect((await failureOf(ask(target("good"), abort.signal))).message).toBe("enough");
});

test("rejects new and pending requests after its close", async () => {
  const other = new DecodePool(2);
  const before = hanging;
  const asked = failureOf(other.fetch(target("hang"), "{}", job, {}, new AbortController().signal));
  await until(() => hanging > before);
  other.close();
  expect((await asked).code).toBe("closed");
  const late = other.fetch(target("good"), "{}", job, {}, new AbortController().signal);
  expect((await failureOf(late)).code).toBe("closed");
});

/** More levels of nesting than a message between threads may have. */
const DEEP = 50_000;

test.each([
  ["a bare null", "null"],
  ["a refusal nested too deep to be passed on", `{"error":{"message":${"[".repeat(DEEP)}${"]".repeat(DEEP)}}}`],
])("answers other requests although the answer to one is %s", async (_, said) => {
  const one = new DecodePool(2);
  const before = hanging;
  const abort = new AbortController();
  const other = failureOf(one.fetch(target("hang"), "{}", job, {}, abort.signal));
  await until(() => hanging > before);
  const failure = await failureOf(one.decode(new TextEncoder().encode(said), job, { endpoint: "eth#2" }));
  expect(failure).toMatchObject({ kind: "transient", meta: { endpoint: "eth#2" } });
  expect(failure.message).not.toContain("decode worker crashed");
  abort.abort(new DOMException("enough", "AbortError"));
  expect((await other).message).toBe("enough");
  one.close();
});
