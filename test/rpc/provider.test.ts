/**
 * One endpoint over a real socket: requests of one event-loop turn go into one batch, each gets its own answer, and a
 * refusal is classified by its meaning.
 */
import { afterAll, describe, expect, test } from "bun:test";
import { Budget } from "../../src/core/budget.ts";
import { systemClock } from "../../src/core/clock.ts";
import { Secrets, secretsOfUrl } from "../../src/core/secrets.ts";
import { noteRequest } from "../../src/core/turns.ts";
import { decodeTransfers } from "../../src/events/columns.ts";
import { DecodePool } from "../../src/rpc/decode/decode-pool.ts";
import { TRANSFER } from "../../src/rpc/decode/transfer-topics.ts";
import { EndpointProvider } from "../../src/rpc/endpoint/provider.ts";
import type { DecodeJob } from "../../src/rpc/port.ts";
import { RpcError } from "../../src/rpc/rpc-errors.ts";

interface Call {
  readonly id: number;
  readonly method: string;
  readonly params: readonly unknown[];
}

/** The methods of each received request. */
let seen: string[][] = [];
let respond: (calls: readonly Call[], isBatch: boolean) => unknown = () => undefined;
const server = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  fetch: async (request) => {
    const asked = (await request.json()) as Call | Call[];
    const calls = Array.isArray(asked) ? asked : [asked];
    seen.push(calls.map(({ method }) => method));
    const said = await respond(calls, Array.isArray(asked));
    return said instanceof Response ? said : Response.json(said);
  },
});
let chainId = "0x1";
const echo = ({ id, method, params }: Call) => ({
  jsonrpc: "2.0",
  id,
  result: method === "eth_chainId" ? chainId : [method, ...params],
});
const plainly = (calls: readonly Call[], isBatch: boolean) => (isBatch ? calls.map(echo) : echo(calls[0] as Call));
const decoder = new DecodePool(1);
const create = (url = `http://127.0.0.1:${server.port}`) =>
  new EndpointProvider({
    url,
    label: "eth#1",
    chainId: 1,
    timeoutMs: 5_000,
    maxBytes: 1 << 20,
    clock: systemClock,
    decoder,
    onRequest: () => undefined,
  });
/** Returns a provider that has already asked the node for its chain id. */
const open = async () => {
  const provider = create();
  respond = plainly;
  await provider.request("hello", []);
  return provider;
};
afterAll(async () => {
  decoder.close();
  await server.stop(true);
});
const failureOf = (asked: Promise<unknown>): Promise<RpcError> =>
  asked.then(
    () => {
      throw new Error("the request should have failed");
    },
    (error: RpcError) => error,
  );

test("sends the requests of one turn as one batch, answered in any order, and a single one without a batch", async () => {
  const provider = await open();
  respond = (calls, isBatch) => (isBatch ? calls.map(echo).reverse() : plainly(calls, false));
  seen = [];
  const answers = await Promise.all(["a", "b", "c"].map((method, i) => provider.request(method, [i])));
  expect(answers).toEqual([
    ["a", 0],
    ["b", 1],
    ["c", 2],
  ]);
  expect(await provider.request("d", [])).toEqual(["d"]);
  expect(seen).toEqual([["a", "b", "c"], ["d"]]);
});

test("asks for the node's chain id with the first request only", async () => {
  const provider = create();
  respond = plainly;
  seen = [];
  expect(await provider.request("a", [])).toEqual(["a"]);
  expect(await provider.request("b", [])).toEqual(["b"]);
  expect(seen).toEqual([["a", "eth_chainId"], ["b"]]);
});

test("accepts no answer or refusal of a node on another chain, until its chain id is right", async () => {
  const provider = create();
  chainId = "0x89";
  respond = plainly;
  const error = await failureOf(provider.request("a", []));
  expect([error.kind, error.retryable]).toEqual(["lie", true]);
  expect(error.message).toBe("the endpoint is of chain 137, not of chain 1");
  const reverted = { code: 3, message: "execution reverted" };
  respond = (calls) =>
    calls.map((call) => (call.method === "bad" ? { jsonrpc: "2.0", id: call.id, error: reverted } : echo(call)));
  expect((await failureOf(provider.request("bad", []))).kind).toBe("lie");
  const job = { address: `0x${"ab".repeat(20)}`, fromBlock: 1, toBlock: 2 } as unknown as DecodeJob;
  respond = plainly;
  expect((await failureOf(provider.transfers(job, new AbortController().signal))).kind).toBe("lie");
  chainId = "0x1";
  expect(await provider.request("a", [])).toEqual(["a"]);
  seen = [];
  await provider.request("b", []);
  expect(seen).toEqual([["b"]]);
});

test("trusts a node that does not support eth_chainId, but not one that fails to answer it", async () => {
  const provider = create();
  const unknown = { code: -32601, message: "the method eth_chainId does not exist/is not available" };
  const [none, busy] = [unknown, { code: 429, message: "too many requests" }];
  const saying = (error: object) => (calls: readonly Call[]) =>
    calls.map((call) => (call.method === "eth_chainId" ? { jsonrpc: "2.0", id: call.id, error } : echo(call)));
  respond = saying(busy);
  expect((await failureOf(provider.request("a", []))).kind).toBe("rate");
  respond = saying(none);
  expect(await provider.request("a", [])).toEqual(["a"]);
});

test("treats a chain id of null as a passing failure of a gateway, not as another chain", async () => {
  const provider = create();
  respond = (calls) => calls.map(({ id }) => ({ jsonrpc: "2.0", id, result: null }));
  expect(await failureOf(provider.request("a", []))).toMatchObject({ kind: "transient" });
  respond = plainly;
  expect(await provider.request("a", [])).toEqual(["a"]);
});

test("splits long batches, by number and by length", async () => {
  const provider = await open();
  respond = plainly;
  seen = [];
  await Promise.all(Array.from({ length: 250 }, (_, i) => provider.request("m", [i])));
  expect(seen.map(({ length }) => length).sort((a, b) => a - b)).toEqual([50, 100, 100]);
  seen = [];
  const long = "x".repeat(400_000);
  await Promise.all([1, 2, 3].map((i) => provider.request("m", [i, long])));
  expect(seen.map(({ length }) => length).sort()).toEqual([1, 2]);
});

test("fails each request of a batch alone, and handles refusals without an id, missing answers and a null error", async () => {
  const provider = await open();
  const error = { code: 3, message: "execution reverted" };
  respond = (calls) =>
    calls.map((call) => (call.method === "bad" ? { jsonrpc: "2.0", id: call.id, error } : echo(call)));
  const [good, bad] = await Promise.allSettled([provider.request("good", []), provider.request("bad", [])]);
  expect(good).toEqual({ status: "fulfilled", value: ["good"] });
  expect((bad as PromiseRejectedResult).reason).toBeInstanceOf(RpcError);

  respond = () => ({ jsonrpc: "2.0", id: null, error: { code: 429, message: "too many requests" } });
  expect((await failureOf(provider.request("m", []))).kind).toBe("rate");
  respond = (calls) => calls.slice(1).map(echo);
  const [missing, there] = await Promise.allSettled([provider.request("first", []), provider.request("second", [])]);
  expect(((missing as PromiseRejectedResult).reason as RpcError).kind).toBe("transient");
  expect(there).toEqual({ status: "fulfilled", value: ["second"] });
  respond = ([call]) => ({ ...echo(call as Call), error: null });
  expect(await provider.request("m", [1])).toEqual(["m", 1]);
});

test("sends single requests to an endpoint that refused batches", async () => {
  const provider = await open();
  respond = (calls, isBatch) =>
    isBatch
      ? { jsonrpc: "2.0", id: null, error: { code: -32600, message: "batches are not supported" } }
      : plainly(calls, false);
  seen = [];
  expect(await Promise.all([provider.request("a", []), provider.request("b", [])])).toEqual([["a"], ["b"]]);
  expect(seen.map((methods) => methods.length)).toEqual([2, 1, 1]);
  expect(await Promise.all([provider.request("a", []), provider.request("b", [])])).toEqual([["a"], ["b"]]);
  expect(seen.map((methods) => methods.length)).toEqual([2, 1, 1, 1, 1]);
});

test.each(["too many requests in batch: 3 > 2", "batch request limit exceeded"])(
  "sends a batch again as single requests if a rate-limit message is about its length: %s",
  async (message) => {
    const provider = await open();
    respond = (calls, isBatch) =>
      isBatch ? { jsonrpc: "2.0", id: null, error: { code: -32600, message } } : plainly(calls, false);
    expect(await Promise.all(["a", "b", "c"].map((method) => provider.request(method, [])))).toEqual([
      ["a"],
      ["b"],
      ["c"],
    ]);
  },
);

test("treats a list with one refusal as a refusal of the whole batch, whatever id it has", async () => {
  const refusal = { jsonrpc: "2.0", error: { code: -32600, message: "batch too large" } };
  const methods = ["a", "b", "c"];
  for (const isNamed of [true, false]) {
    const provider = await open();
    respond = (calls, isBatch) =>
      isBatch ? [{ ...refusal, id: isNamed ? calls[0]?.id : null }] : plainly(calls, false);
    seen = [];
    const answers = await Promise.all(methods.map((method) => provider.request(method, [])));
    expect(answers).toEqual(methods.map((method) => [method]));
    // Single requests use separate connections, so they arrive in any order.
    expect([seen[0], seen.slice(1).sort()]).toEqual([methods, methods.map((method) => [method])]);
  }
});

test("sends a batch again as single requests after HTTP 400, but not after a status such as 401", async () => {
  const provider = await open();
  let status = 400;
  respond = (calls, isBatch) => (isBatch ? new Response("no", { status }) : plainly(calls, false));
  seen = [];
  expect(await Promise.all([provider.request("a", []), provider.request("b", [])])).toEqual([["a"], ["b"]]);
  expect(seen.map((methods) => methods.length)).toEqual([2, 1, 1]);
  const other = await open();
  status = 401;
  respond = (calls, isBatch) => (isBatch ? new Response("no", { status }) : plainly(calls, false));
  seen = [];
  const answers = await Promise.allSettled([other.request("a", []), other.request("b", [])]);
  expect(answers.map((answer) => answer.status)).toEqual(["rejected", "rejected"]);
  expect(seen).toEqual([["a", "b"]]);
});

test("respects a Retry-After for one batch although another batch is sent again as single requests", async () => {
  const provider = await open();
  const refused = Promise.withResolvers<void>();
  respond = async (calls, isBatch) => {
    if (!isBatch) refused.resolve();
    if (calls.length === 100) return { jsonrpc: "2.0", id: null, error: { code: -32600, message: "no batches" } };
    if (!isBatch) return plainly(calls, false);
    // By now the other batch has shown that the endpoint takes no batches.
    await refused.promise;
    return new Response("slow down", { status: 429, headers: { "retry-after": "7" } });
  };
  seen = [];
  const answers = await Promise.allSettled(Array.from({ length: 150 }, () => provider.request("a", [])));
  expect(answers.filter(({ status }) => status === "fulfilled")).toHaveLength(100);
  expect((answers.at(-1) as PromiseRejectedResult).reason).toMatchObject({ kind: "rate", retryAfterMs: 7_000 });
  expect(seen).toHaveLength(102);
});

test("tries batches again some time after a refusal", async () => {
  const provider = await open();
  let isDown = true;
  respond = (calls, isBatch) =>
    isBatch && isDown
      ? { jsonrpc: "2.0", id: null, error: { code: -32_000, message: "no backend is available" } }
      : plainly(calls, isBatch);
  const two = () => Promise.all([provider.request("a", []), provider.request("b", [])]);
  await two();
  isDown = false;
  for (let turn = 0; turn < 100; turn++) await two();
  seen = [];
  await two();
  expect(seen).toEqual([["a", "b"]]);
});

test("sends a batch with too large an answer as single requests, and lets another endpoint try one that is still too large", async () => {
  const provider = await open();
  respond = (calls, isBatch) => {
    const isLarge = isBatch || calls.some(({ method }) => method === "large");
    return isLarge ? "x".repeat(2 << 20) : plainly(calls, isBatch);
  };
  expect(await Promise.all([provider.request("a", []), provider.request("b", [])])).toEqual([["a"], ["b"]]);
  expect(await failureOf(provider.request("large", []))).toMatchObject({ kind: "transient", retryable: true });
  respond = () => "x".repeat(2 << 20);
  expect(await failureOf(provider.request("eth_getLogs", [{}]))).toMatchObject({ kind: "range" });
});

test("delays no request for another one's answer without batches, or beside logs of many blocks", async () => {
  const provider = await open();
  const gate = Promise.withResolvers<void>();
  respond = async (calls, isBatch) => {
    if (calls.some(({ method, params }) => method === "slow" || (params[0] as { held?: true })?.held))
      await gate.promise;
    return plainly(calls, isBatch);
  };
  const wide = { fromBlock: "0x0", toBlock: "0xffff", held: true };
  const logs = provider.request("eth_getLogs", [wide]);
  expect(await Promise.all([provider.request("a", []), provider.request("b", [])])).toEqual([["a"], ["b"]]);
  const serve = respond;
  respond = (calls, isBatch) =>
    isBatch
      ? { jsonrpc: "2.0", id: null, error: { code: -32600, message: "batches are not supported" } }
      : serve(calls, isBatch);
  const slow = provider.request("slow", []);
  expect(await Promise.all([provider.request("a", []), provider.request("b", [])])).toEqual([["a"], ["b"]]);
  gate.resolve();
  expect(await slow).toEqual(["slow"]);
  expect(await logs).toEqual(["eth_getLogs", wide]);
});

test("rejects waiting and later requests after its close", async () => {
  const provider = await open();
  respond = plainly;
  seen = [];
  const waiting = failureOf(provider.request("m", []));
  provider.destroy();
  expect((await waiting).message).toContain("closed");
  expect((await failureOf(provider.request("m", []))).message).toContain("closed");
  expect(seen).toEqual([]);
});

test("describes a failed connection without its address", async () => {
  const refusing = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() });
  const gone = `127.0.0.1:${refusing.port}`;
  await refusing.stop(true);
  const elsewhere = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => Response.redirect("http://secret.invalid/key", 307),
  });
  const unknown = "secret-subdomain.invalid";
  for (const [address, word] of [
    [gone, "connection refused"],
    [unknown, /its host name (is unknown|could not be resolved)/],
  ] as const) {
    for (const scheme of ["http", "ws"]) {
      const provider = create(`${scheme}://${address}/secret-key`);
      const { kind, message } = await failureOf(provider.request("m", []));
      provider.destroy();
      expect([scheme, kind]).toEqual([scheme, "transient"]);
      expect(message).toMatch(word);
      expect(message).not.toMatch(/secret|invalid|127\.0\.0\.1|http|computer/);
    }
  }
  const { message } = await failureOf(create(`http://127.0.0.1:${elsewhere.port}/`).request("m", []));
  expect(message).toBe("the endpoint could not be reached: it answered with a redirect");
  await elsewhere.stop(true);
});

test("removes the endpoint's key and host from a refusal that quotes them", async () => {
  const provider = create(`http://127.0.0.1:${server.port}/v2/s3cret-key-0123456789?token=another%20secret`);
  const quoting = `key s3cret-key-0123456789 (another secret) of 127.0.0.1:${server.port}/v2 may not do this`;
  respond = ([call]) => ({ jsonrpc: "2.0", id: call?.id, error: { code: -32000, message: quoting } });
  const { message } = await failureOf(provider.request("m", []));
  expect(message).toBe("m refused: key [redacted] ([redacted]) of [redacted]/v2 may not do this");
  const job = { address: `0x${"ab".repeat(20)}`, fromBlock: 1, toBlock: 2 } as unknown as DecodeJob;
  chainId = "0x1";
  const bulk = await failureOf(provider.transfers(job, new AbortController().signal));
  expect(bulk.message).not.toMatch(/s3cret|another secret|127\.0/);
});

test("removes keys from a long refusal wherever it is cut", async () => {
  const key = "s3cret-key-0123456789";
  const provider = create(`http://127.0.0.1:${server.port}/v2/${key}`);
  for (const cut of [1_000, 2_000]) {
    for (let before = cut - 40; before < cut; before++) {
      const message = `${"x".repeat(before)}${key} is unknown`;
      respond = ([call]) => ({ jsonrpc: "2.0", id: call?.id, error: { code: -32000, message } });
      expect((await failureOf(provider.request("m", []))).message).not.toContain("s3");
    }
  }
});

test.each(["?s3cret-key", "?auth=Bearer%20s3cret-key", "?a=1;key=s3cret-key", "?k=ab+s3cret-key", "key=s3cret-key"])(
  "removes a key that is quoted as /%s",
  (rest) => {
    expect(new Secrets(secretsOfUrl(`https://rpc.example.com/${rest}`)).redact("no such key: s3cret-key")).toBe(
      "no such key: [redacted]",
    );
  },
);

test("removes a key in another case, as part of the host name and as a password", async () => {
  const secrets = new Secrets(secretsOfUrl("https://mine:pw1234@Tenant4567.eth.example.com/v2/"));
  const said = "TENANT4567.ETH.example.com: project tenant4567 of Mine is out of credits; bad password PW1234 for /v2";
  expect(secrets.redact(said)).toBe(
    "[redacted]: project [redacted] of [redacted] is out of credits; bad password [redacted] for /v2",
  );
  expect(new Secrets(secretsOfUrl("http://10.0.0.7/")).redact("block range of 10.0.0.7 exceeds 10000")).toBe(
    "block range of [redacted] exceeds 10000",
  );
});

describe("a batch with its last calls refused for size", () => {
  /** Answers `most` calls of a batch and refuses the rest, as go-ethereum does. */
  const cutAt = (most: number, error: object) => (calls: readonly Call[], isBatch: boolean) =>
    isBatch
      ? calls.map((call, i) => (i < most ? echo(call) : { jsonrpc: "2.0", id: call.id, error }))
      : plainly(calls, false);
  const many = (provider: EndpointProvider, count: number) =>
    Promise.all(Array.from({ length: count }, (_, i) => provider.request("m", [i])));
  const expected = (count: number) => Array.from({ length: count }, (_, i) => ["m", i]);

  test.each([
    ["go-ethereum's words", { code: -32_003, message: "response too large" }],
    ["words of its own", { code: -32_099, message: "nuqneH" }],
  ])("in %s is completed by single requests, and later batches are smaller", async (_what, error) => {
    const provider = await open();
    respond = cutAt(30, error);
    seen = [];
    expect(await many(provider, 100)).toEqual(expected(100));
    expect(seen.map(({ length }) => length).sort((a, b) => b - a)).toEqual([100, 30, 30, 9, 1]);
    seen = [];
    expect(await many(provider, 60)).toEqual(expected(60));
    expect(seen.map(({ length }) => length)).toEqual([30, 30]);
    respond = plainly;
    for (let i = 0; i < 60; i++) await many(provider, 60);
    seen = [];
    await many(provider, 60);
    expect(seen.map(({ length }) => length)).toEqual([60]);
  });

  test("is distinguished from a call that fails for its own reason", async () => {
    const provider = await open();
    const [large, reverted] = [
      { code: -32_003, message: "response too large" },
      { code: 3, message: "execution reverted" },
    ];
    respond = (calls, isBatch) => {
      const answerOf = (call: Call, i: number) => {
        const error = i === 2 ? reverted : i > 4 ? large : undefined;
        return error === undefined ? echo(call) : { jsonrpc: "2.0", id: call.id, error };
      };
      return isBatch ? calls.map(answerOf) : plainly(calls, false);
    };
    const all = Array.from({ length: 8 }, (_, i) => provider.request("eth_call", [i]));
    const failed = (await Promise.allSettled(all)).flatMap(({ status }, i) => (status === "rejected" ? [i] : []));
    // The server reverts the third call of every batch. Only call 2 was ever third.
    expect(failed).toEqual([2]);
  });

  test("costs one more request if the calls are refused alone as well", async () => {
    const provider = await open();
    const error = { code: -32_000, message: "nuqneH" };
    respond = (calls, isBatch) => {
      const answers = calls.map((call) =>
        call.method === "bad" ? { jsonrpc: "2.0", id: call.id, error } : echo(call),
      );
      return isBatch ? answers : answers[0];
    };
    seen = [];
    const outcomes = await Promise.allSettled(["a", "bad", "bad", "bad"].map((method) => provider.request(method, [])));
    expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "rejected", "rejected"]);
    expect(seen).toEqual([["a", "bad", "bad", "bad"], ["bad"]]);
  });

  test("is replaced by single requests after two failures with an HTTP 500", async () => {
    const provider = await open();
    respond = (calls, isBatch) => (isBatch ? new Response("nuqneH", { status: 500 }) : plainly(calls, false));
    const two = () => Promise.all([provider.request("a", []), provider.request("b", [])]);
    await failureOf(two());
    expect(await two()).toEqual([["a"], ["b"]]);
  });
});

describe("several ranges in one request", () => {
  const word = (value: number) => `0x${value.toString(16).padStart(64, "0")}`;
  const address = `0x${"ab".repeat(20)}`;
  const logAt = (block: number) => ({
    address,
    topics: [TRANSFER, word(0), word(1), word(block)],
    data: "0x",
    blockNumber: `0x${block.toString(16)}`,
    blockHash: word(block),
    transactionHash: word(block),
    logIndex: "0x0",
  });
  const header = (tag: unknown) => ({
    number: tag,
    hash: word(Number(tag)),
    parentHash: word(Number(tag) - 1),
    timestamp: "0x1",
  });
  const answerOf = ({ id, method, params }: Call) => {
    if (method === "eth_getBlockByNumber") return { jsonrpc: "2.0", id, result: header(params[0]) };
    const { fromBlock } = params[0] as { fromBlock: string };
    return { jsonrpc: "2.0", id, result: Number(fromBlock) === 20 ? [] : [logAt(Number(fromBlock))] };
  };
  const filters = [10, 20, 30].map((fromBlock) => ({ fromBlock, toBlock: fromBlock + 9 }));
  const job = { address, fromBlock: 10, toBlock: 39, forms: ["erc721"] } as unknown as DecodeJob;
  const read = (provider: EndpointProvider) =>
    provider.transfersInParts?.call(provider, job, filters, [90, 39], new AbortController().signal);

  test.each([
    ["in order", (answers: unknown[]) => answers],
    ["in another order", (answers: unknown[]) => answers.toReversed()],
  ])("answered %s take one request with a header before and a header after the logs", async (_how, order) => {
    const provider = await open();
    respond = (calls) => order(calls.map(answerOf));
    seen = [];
    const answer = await read(provider);
    expect(seen).toEqual([["eth_getBlockByNumber", ...filters.map(() => "eth_getLogs"), "eth_getBlockByNumber"]]);
    expect(answer?.decoded).toMatchObject({ count: 2, logs: 2, lastBlock: 30, lastHash: word(30) });
    expect(answer?.headers.map((one) => one?.number)).toEqual([90, 39]);
    expect([...decodeTransfers(answer?.decoded.transfers as Uint8Array).blocks]).toEqual([10, 30]);
  });

  test("fail as a whole on any refusal, missing list, log of another contract or truncated answer", async () => {
    const provider = await open();
    const spoilt = (spoil: (one: Record<string, unknown>, call: Call) => unknown) => (calls: readonly Call[]) =>
      calls.map((call) => spoil(answerOf(call), call));
    const isLast = ({ params }: Call) => (params[0] as { fromBlock?: string }).fromBlock === "0x1e";
    const large = { code: -32_003, message: "response too large" };
    respond = spoilt((one, call) => (isLast(call) ? { id: one["id"], error: large } : one));
    expect(await failureOf(read(provider) as Promise<unknown>)).toMatchObject({ kind: "range" });
    respond = spoilt((one, call) => (isLast(call) ? { ...one, result: null } : one));
    expect(await failureOf(read(provider) as Promise<unknown>)).toMatchObject({ kind: "transient" });
    const foreign = { ...logAt(30), address: `0x${"cd".repeat(20)}` };
    respond = spoilt((one, call) => (isLast(call) ? { ...one, result: [foreign] } : one));
    expect(await failureOf(read(provider) as Promise<unknown>)).toMatchObject({ kind: "lie" });
    // A log inside the whole range, but outside the part that it answers.
    respond = spoilt((one, call) => (isLast(call) ? { ...one, result: [logAt(25)] } : one));
    expect(await failureOf(read(provider) as Promise<unknown>)).toMatchObject({ kind: "lie" });
    respond = (calls) => new Response(JSON.stringify(calls.map(answerOf)).slice(0, -40));
    expect(await failureOf(read(provider) as Promise<unknown>)).toMatchObject({ kind: "transient" });
    respond = () => ({ jsonrpc: "2.0", id: null, error: { code: -32_600, message: "batch too large" } });
    expect(await failureOf(read(provider) as Promise<unknown>)).toMatchObject({ kind: "range" });
  });

  test("are not used with an endpoint that takes no batches", async () => {
    const provider = await open();
    respond = (calls, isBatch) =>
      isBatch ? { jsonrpc: "2.0", id: null, error: { code: -32_600, message: "no batches" } } : plainly(calls, false);
    expect(provider.transfersInParts).toBeDefined();
    await Promise.all([provider.request("a", []), provider.request("b", [])]);
    expect(provider.transfersInParts).toBeUndefined();
  });
});

describe("while several keys ask, a key", () => {
  const [greedy, honest] = ["greedy", "honest"].map((key) => ({ key, isOperator: false })) as [
    { key: string; isOperator: boolean },
    { key: string; isOperator: boolean },
  ];
  const as = <T>(owner: typeof greedy, work: () => Promise<T>, signal?: AbortSignal): Promise<T> =>
    new Budget({ owner, ...(signal && { signal }) }).run(work);
  /** Asks with a costly call in a turn of its own. */
  const costly = async (provider: EndpointProvider, name: string, owner: typeof greedy, signal?: AbortSignal) => {
    const answer = as(owner, () => provider.request("eth_call", [{ data: `0x${"00".repeat(2_000)}` }, name]), signal);
    answer.catch(() => undefined);
    await new Promise(setImmediate);
    return { answer };
  };

  /** Returns a provider whose node answers nothing before `release`, and the names of the calls that the node received. */
  const holding = async () => {
    const provider = await open();
    const names: unknown[] = [];
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    respond = async (calls, isBatch) => {
      names.push(...calls.map(({ params }) => params[1]));
      await held;
      return plainly(calls, isBatch);
    };
    const arrived = async (name: string) => {
      while (!names.includes(name)) await new Promise(setImmediate);
    };
    return { provider, names, release, arrived };
  };

  test("has two costly requests on their way, and the next ones when they are answered", async () => {
    const { provider, names, release, arrived } = await holding();
    for (const key of [greedy, honest]) noteRequest(key);
    const asked = [];
    for (const name of ["a", "b", "c", "d"]) asked.push(await costly(provider, name, greedy));
    asked.push(await costly(provider, "of another key", honest));
    await arrived("of another key");
    expect(names.toSorted()).toEqual(["a", "b", "of another key"]);
    release();
    await Promise.all(asked.map(({ answer }) => answer));
    expect(names).toHaveLength(5);
  });

  test("gets the whole of two batches at once that the node cuts", async () => {
    const provider = await open();
    for (const key of [greedy, honest]) noteRequest(key);
    const { promise: bothCame, resolve } = Promise.withResolvers<void>();
    const error = { code: -32_003, message: "response too large" };
    let batches = 0;
    respond = async (calls, isBatch) => {
      if (!isBatch) return plainly(calls, false);
      if (++batches === 2) resolve();
      await bothCame;
      return calls.map((call, i) => (i < 2 ? echo(call) : { jsonrpc: "2.0", id: call.id, error }));
    };
    const asked = [];
    for (const name of ["a", "b"]) {
      asked.push(as(greedy, () => Promise.all([0, 1, 2, 3].map((i) => provider.request(name, [i])))));
      await new Promise(setImmediate);
    }
    const expected = ["a", "b"].map((name) => [0, 1, 2, 3].map((i) => [name, i]));
    expect(await Promise.all(asked)).toEqual(expected);
  });

  test("sends what came before its turn in one batch, but logs of many blocks alone", async () => {
    const { provider, release, arrived } = await holding();
    for (const key of [greedy, honest]) noteRequest(key);
    const asked = [];
    for (const name of ["a", "b"]) asked.push(await costly(provider, name, greedy));
    await arrived("b");
    seen = [];
    for (const name of ["c", "d", "e"]) asked.push(await costly(provider, name, greedy));
    const logs = as(greedy, () => provider.request("eth_getLogs", [{ fromBlock: "0x1", toBlock: "0xffff" }]));
    await new Promise(setImmediate);
    release();
    await Promise.all([logs, ...asked.map(({ answer }) => answer)]);
    expect(seen.toSorted((a, b) => a.length - b.length)).toEqual([
      ["eth_getLogs"],
      ["eth_call", "eth_call", "eth_call"],
    ]);
  });

  test("does not ask for what nobody wants any more", async () => {
    const { provider, names, release } = await holding();
    for (const key of [greedy, honest]) noteRequest(key);
    const leaving = new AbortController();
    const asked = [];
    for (const name of ["a", "b"]) asked.push(await costly(provider, name, greedy));
    const unwanted = await costly(provider, "unwanted", greedy, leaving.signal);
    asked.push(await costly(provider, "c", greedy));
    leaving.abort(new Error("gone"));
    release();
    await Promise.all(asked.map(({ answer }) => answer));
    await expect(unwanted.answer).rejects.toThrow("gone");
    expect(names.toSorted()).toEqual(["a", "b", "c"]);
  });
});

test("a call that nobody wants any more lets those of others be repeated that were refused with it for size", async () => {
  const asks = (provider: EndpointProvider, name: string, signal?: AbortSignal) => {
    const answer = new Budget({ signal }).run(() => provider.request(name, []));
    answer.catch(() => undefined);
    return answer;
  };
  const provider = await open();
  const leaving = new AbortController();
  const error = { code: -32_003, message: "response too large" };
  respond = (calls, isBatch) => {
    if (!isBatch) return plainly(calls, false);
    leaving.abort();
    return calls.map((call, i) => (i < 1 ? echo(call) : { jsonrpc: "2.0", id: call.id, error }));
  };
  const answers = [
    asks(provider, "a"),
    asks(provider, "left", leaving.signal),
    asks(provider, "b"),
    asks(provider, "c"),
  ];
  await Promise.allSettled(answers);
  expect(await Promise.all([answers[0], answers[2], answers[3]])).toEqual([["a"], ["b"], ["c"]]);
});
