/** What applies to all routes under `/api` for operators: bodies, parameters, scopes, and a process that lost the log. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { LIMITS } from "../../src/config.ts";
import { systemClock } from "../../src/core/clock.ts";
import { eventually, startTestService, TEST_KEY, type TestService, temporaryLogUrl } from "../support/service.ts";

const OPERATOR = "operator-key-0123456789";

type Body = NonNullable<RequestInit["body"]>;

let service: TestService;
/** Ms by which the process's clock is ahead, as after a pause. */
let paused = 0;

beforeAll(async () => {
  service = await startTestService({
    rpcUrl: "http://127.0.0.1:9/",
    logUrl: temporaryLogUrl(),
    env: { OPERATOR_KEYS: OPERATOR },
    clock: { ...systemClock, monotonic: () => systemClock.monotonic() + paused },
  });
});
afterAll(() => service.stop());

async function ask(method: string, path: string, body?: Body, key = OPERATOR) {
  const init = { method, headers: { "x-api-key": key }, ...(body === undefined ? {} : { body }) };
  const response = await service.fetch(path, init);
  // biome-ignore lint/suspicious/noExplicitAny: tests read single fields of bodies
  const answer: any = await response.json();
  return { status: response.status, headers: response.headers, body: answer };
}

test("refuse a body that is too long with words, whether its length is announced or not", async () => {
  const long = JSON.stringify({ name: "x".repeat(LIMITS.maxRequestBody) });
  const unannounced = new ReadableStream({
    start: (controller) => {
      for (let at = 0; at < long.length; at += 1_000) controller.enqueue(Buffer.from(long.slice(at, at + 1_000)));
      controller.close();
    },
  });
  for (const body of [long, unannounced]) {
    const { status, headers, body: answer } = await ask("POST", "/api/keys", body);
    expect([status, answer.code, answer.details]).toEqual([413, "too_large", { parameter: "body" }]);
    expect(answer.message).toContain(String(LIMITS.maxRequestBody));
    expect(headers.get("x-request-id")).not.toBeNull();
  }
  expect((await ask("GET", "/api/keys")).status).toBe(200);
});

test("refuse a body of many megabytes with words, too", async () => {
  for (const path of ["/api/keys", "/api/collections"]) {
    const { status, headers, body } = await ask("POST", path, "x".repeat(5_000_000));
    expect([status, body.code, body.details]).toEqual([413, "too_large", { parameter: "body" }]);
    expect(headers.get("x-request-id")).not.toBeNull();
  }
});

test("answer a method that a path doesn't have with the ones that it has", async () => {
  const one = `/api/collections/eth/0x${"12".repeat(20)}`;
  for (const [path, allowed] of [
    [`${one}/reindex`, "POST"],
    [`${one}/refresh`, "POST"],
    ["/api/keys/shop", "DELETE"],
    ["/api/keys/shop/rotate", "POST"],
  ] as const) {
    const { status, headers, body } = await ask("GET", path);
    expect([path, status, body.code, headers.get("allow")]).toEqual([path, 405, "method_not_allowed", allowed]);
  }
  expect((await ask("GET", "/api/nothing")).status).toBe(404);
});

test("tell an unknown chain from one that is not enabled", async () => {
  const address = `0x${"12".repeat(20)}`;
  const refusal = async (method: string, path: string, body?: Body) => {
    const answer = await ask(method, path, body);
    return [answer.status, answer.body.code, answer.body.details?.parameter, answer.body.message];
  };
  for (const path of ["", "/holders", "/tokens", "/export", "/estimate"]) {
    expect(await refusal("GET", `/api/collections/fantom/${address}${path}`)).toEqual([
      ...[400, "chain_not_enabled", "chain"],
      "chain fantom is not enabled on this server; enabled: eth",
    ]);
    const [, code, , message] = await refusal("GET", `/api/collections/nowhere/${address}${path}`);
    expect(code).toBe("invalid_parameter");
    expect(message).toContain("arbitrum (0xa4b1)");
  }
  const item = (chain: string) => JSON.stringify({ items: [{ chain, address }] });
  expect((await refusal("POST", "/api/collections", item("fantom"))).slice(0, 3)).toEqual([
    ...[400, "chain_not_enabled", "items.0.chain"],
  ]);
  expect((await refusal("POST", "/api/collections", item("nowhere"))).slice(0, 3)).toEqual([
    ...[400, "invalid_parameter", "items.0.chain"],
  ]);
});

test("refuse bodies that are no JSON, no UTF-8, or have a field that they don't know", async () => {
  const refusal = async (path: string, body: Body) => {
    const answer = await ask("POST", path, body);
    return [answer.status, answer.body.details?.parameter];
  };
  expect(await refusal("/api/keys", "{")).toEqual([400, "body"]);
  expect(await refusal("/api/keys", new Uint8Array([0x22, 0xff, 0x22]))).toEqual([400, "body"]);
  expect(await refusal("/api/keys", "[".repeat(60_000))).toEqual([400, "body"]);
  expect(await refusal("/api/keys", '{"name":"typo","scpoe":"operate"}')).toEqual([400, "scpoe"]);
  expect(await refusal("/api/keys/typo/rotate", '{"grace":"24h"}')).toEqual([400, "grace"]);
  const item = JSON.stringify({ items: [{ chain: "eth", adress: "0x00" }] });
  expect(await refusal("/api/collections", item)).toEqual([400, "items.0.address"]);
  const { result } = (await ask("GET", "/api/keys")).body;
  expect(result.map(({ name }: { name: string }) => name)).toEqual(["API_KEYS#1", "OPERATOR_KEYS#1"]);
});

test("name query parameters that they ignore, also in errors", async () => {
  const named = async (path: string) => {
    const { status, headers } = await ask("GET", path);
    return [status, headers.get("x-unknown-parameters")];
  };
  expect(await named("/api/collections?limit=5&stauts=failed")).toEqual([200, "stauts"]);
  expect(await named("/api/collections?limit=0&stauts=failed")).toEqual([400, "stauts"]);
  expect(await named("/api/keys?limit=5")).toEqual([200, "limit"]);
  expect(await named("/api/collections?limit=5")).toEqual([200, null]);
});

test("tell a key of scope read nothing but the way out, not even which paths there are", async () => {
  for (const path of ["/api/keys", "/api/status", "/api/unknown"]) {
    const { status, body } = await ask("GET", path, undefined, TEST_KEY);
    expect([path, status, body.code]).toEqual([path, 403, "forbidden"]);
    expect(body.message).toMatch(/API_KEYS#1 is of scope read.* OPERATOR_KEYS.* keys add <name> --scope operate/);
  }
  const missing = await ask("GET", "/api/keys", undefined, "");
  expect([missing.status, missing.body.code]).toEqual([401, "missing_api_key"]);
  expect((await ask("GET", "/api/unknown")).status).toBe(404);
});

test("refuse operators while the process has not read the log for ten seconds", async () => {
  paused += 11_000;
  const { status, headers, body } = await ask("GET", "/api/keys");
  expect([status, body.code, headers.get("retry-after")]).toEqual([503, "log_unavailable", "1"]);
  // Other routes serve what memory has.
  expect((await ask("GET", `/api/v2/nft/0x${"ab".repeat(20)}`, undefined, TEST_KEY)).status).toBe(200);
  await eventually("the log is read again", async () => (await ask("GET", "/api/keys")).status === 200 || undefined);
});

test("a key of scope read gets the names of collections, and nothing else of their list", async () => {
  const address = `0x${"34".repeat(20)}`;
  await ask("POST", "/api/collections", JSON.stringify({ items: [{ chain: "eth", address }] }));
  const { status, body } = await ask("GET", "/api/collections?fields=names", undefined, TEST_KEY);
  const row = { chain: "eth", address, name: null, symbol: null, type: null, status: expect.any(String) };
  expect([status, body]).toEqual([200, { cursor: null, result: [row] }]);
  for (const [method, path] of [
    ["GET", "/api/collections"],
    ["GET", "/api/collections?fields=all"],
    ["POST", "/api/collections?fields=names"],
    ["GET", "/api/status?fields=names"],
  ] as const)
    expect([path, (await ask(method, path, undefined, TEST_KEY)).status]).toEqual([path, 403]);
  // The scope and the answer look at one value.
  for (const query of ["fields=names&fields=", "fields=names&fields=all", "fields=names&fields=names"]) {
    expect((await ask("GET", `/api/collections?${query}`, undefined, TEST_KEY)).status).toBe(400);
  }
  const wrong = await ask("GET", "/api/collections?fields=all");
  expect([wrong.status, wrong.body.details]).toEqual([400, { parameter: "fields" }]);
});
