/** API keys over two replicas: scopes, rotation, revocation, limits, and the way back after a lost first key. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import WebSocket from "ws";
import { AppError } from "../../src/core/errors.ts";
import { keysStream } from "../../src/events/types.ts";
import type { EventLog } from "../../src/log/event-log.ts";
import { openLog } from "../../src/log/open.ts";
import { runCli } from "../support/cli.ts";
import { createSilentDatabase, sharedPostgres } from "../support/postgres.ts";
import { eventually, startTestService, type TestService, temporaryLogUrl } from "../support/service.ts";

const OPERATOR = "operator-key-0123456789";
const RPC = "http://127.0.0.1:9/";
const ADDRESS = `0x${"ab".repeat(20)}`;

const as = (key: string) => ({ "x-api-key": key });

/** Sends JSON with the operator's key. */
async function send(service: TestService, method: string, path: string, body?: unknown, key = OPERATOR) {
  const init = { method, headers: as(key), ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
  const response = await service.fetch(path, init);
  // biome-ignore lint/suspicious/noExplicitAny: tests read single fields of bodies
  const answer: any = await response.json();
  return { status: response.status, headers: response.headers, body: answer };
}

const statusFor = async (service: TestService, key: string): Promise<number> =>
  (await service.fetch(`/api/v2/nft/${ADDRESS}`, { headers: as(key) })).status;

const servers: [string, () => Promise<string>, number][] = [
  ["PostgreSQL", async () => (await sharedPostgres()).createDatabase(), 1_000],
  ["PostgreSQL without LISTEN", createSilentDatabase, 2_000],
  ["SQLite", async () => temporaryLogUrl(), 2_000],
];

describe.each(servers)("two replicas over %s", (_name, createDatabase, withinMs) => {
  let replicas: [TestService, TestService];
  let logUrl: string;
  /** Reads of the keys that will fail on the second replica. */
  let failures = 0;

  const failing: typeof openLog = async (...options) => {
    const log = await openLog(...options);
    return new Proxy(log, {
      get: (target, name) => {
        const value = Reflect.get(target, name);
        if (typeof value !== "function") return value;
        if (name !== "read") return value.bind(target);
        return (...parameters: Parameters<EventLog["read"]>) => {
          if (parameters[0] !== keysStream || failures === 0) return target.read(...parameters);
          failures--;
          return Promise.reject(new AppError("the log does not answer", { code: "log_unavailable" }));
        };
      },
    });
  };

  beforeAll(async () => {
    logUrl = await createDatabase();
    const env = { OPERATOR_KEYS: OPERATOR };
    replicas = [
      await startTestService({ rpcUrl: RPC, logUrl, env }),
      await startTestService({ rpcUrl: RPC, logUrl, env, openLog: failing }),
    ];
  });
  afterAll(async () => {
    for (const replica of replicas) await replica.stop();
  });

  /** Adds a key on the first replica. Resolves when the second one knows it, with a socket there. */
  async function addKey(name: string) {
    const [first, second] = replicas;
    const { status, body } = await send(first, "POST", "/api/keys", { name });
    expect([status, body.name, body.key.length]).toEqual([200, name, 43]);
    const added = performance.now();
    const isKnown = async () => (await statusFor(second, body.key)) === 200 || undefined;
    await eventually("the other replica knows the key", isKnown);
    expect(performance.now() - added).toBeLessThan(withinMs);
    const socket = new WebSocket(second.socketUrl, { headers: as(body.key) });
    await new Promise((resolve) => socket.on("open", resolve));
    const closed = new Promise<number>((resolve) => socket.on("close", resolve));
    const isRefused = async () => (await statusFor(second, body.key)) === 401 || undefined;
    return { key: body.key as string, closed, isRefused };
  }

  test("both refuse a key that one of them revoked, and close its sockets with 1008", async () => {
    const [first] = replicas;
    const { key, closed, isRefused } = await addKey("shop");
    const began = performance.now();
    const left = await send(first, "DELETE", "/api/keys/shop");
    expect(left.body.result.map(({ name }: { name: string }) => name)).not.toContain("shop");
    expect(await statusFor(first, key)).toBe(401);
    await eventually("the key is refused", isRefused);
    expect(await closed).toBe(1_008);
    expect(performance.now() - began).toBeLessThan(withinMs);
  });

  test("both refuse a key that the command line revoked in the log", async () => {
    const [first] = replicas;
    const { key, closed, isRefused } = await addKey("console");
    const { code, out } = await runCli(["keys", "revoke", "console"], { EVENT_LOG_URL: logUrl });
    const ended = performance.now();
    expect([code, out]).toEqual([0, "revoked console\n"]);
    await eventually("the key is refused", isRefused);
    await eventually("it is refused there, too", async () => (await statusFor(first, key)) === 401 || undefined);
    expect(performance.now() - ended).toBeLessThan(withinMs);
    expect(await closed).toBe(1_008);
  });

  test("both close the sockets of a rotated key at the end of its grace period", async () => {
    const [first, second] = replicas;
    const { key, closed, isRefused } = await addKey("rotated");
    const { body } = await send(first, "POST", "/api/keys/rotated/rotate", { graceSeconds: 3 });
    const isKnown = async () => (await statusFor(second, body.key)) === 200 || undefined;
    await eventually("the new text is valid", isKnown);
    expect(await statusFor(second, key)).toBe(200);
    await eventually("the former text is refused", isRefused);
    expect(await closed).toBe(1_008);
    expect(await statusFor(second, body.key)).toBe(200);
  });

  test("a replica reads again what it could not read, so it misses no revocation", async () => {
    const [first] = replicas;
    const { closed, isRefused } = await addKey("missed");
    failures = 3;
    expect((await send(first, "DELETE", "/api/keys/missed")).status).toBe(200);
    await eventually("the key is refused", isRefused);
    expect([failures, await closed]).toEqual([0, 1_008]);
  });
});

describe("keys", () => {
  let replicas: [TestService, TestService];

  beforeAll(async () => {
    const logUrl = await (await sharedPostgres()).createDatabase();
    const start = () => startTestService({ rpcUrl: RPC, logUrl, env: { OPERATOR_KEYS: OPERATOR } });
    replicas = [await start(), await start()];
  });
  afterAll(async () => {
    for (const replica of replicas) await replica.stop();
  });

  test("lets a rotated key's former text live for the grace period only", async () => {
    const [first, second] = replicas;
    const before = (await send(first, "POST", "/api/keys", { name: "bot", scope: "operate" })).body.key;
    const after = (await send(first, "POST", "/api/keys/bot/rotate", { graceSeconds: 2 })).body.key;
    expect(await statusFor(first, before)).toBe(200);
    await eventually("the new text is valid", async () => (await statusFor(second, after)) === 200 || undefined);
    await eventually("the former text is refused", async () => (await statusFor(second, before)) === 401 || undefined);
    expect(await statusFor(second, after)).toBe(200);
    const atOnce = (await send(second, "POST", "/api/keys/bot/rotate", { graceSeconds: 0 }, after)).body.key;
    expect([await statusFor(second, after), await statusFor(second, atOnce)]).toEqual([401, 200]);
  });

  test("gives each key its scope and its own rate", async () => {
    const [first] = replicas;
    const { body } = await send(first, "POST", "/api/keys", { name: "slow", requestsPerMinute: 2 });
    const refused = await send(first, "GET", "/api/status", undefined, body.key);
    expect([refused.status, refused.body.code]).toEqual([403, "forbidden"]);
    expect(refused.body.message).toContain("scope operate");
    expect([await statusFor(first, body.key), await statusFor(first, body.key)]).toEqual([200, 429]);
    expect(await statusFor(first, OPERATOR)).toBe(200);
    const listed = (await send(first, "GET", "/api/keys")).body.result;
    const slow = listed.find((key: { name: string }) => key.name === "slow");
    expect(slow).toMatchObject({ scope: "read", source: "log", requestsPerMinute: 2, requestsToday: 3 });
    expect(Date.now() - Date.parse(slow.lastUse)).toBeLessThan(120_000);
    expect(JSON.stringify(listed)).not.toContain(body.key);
  });

  test("names what is wrong with a change", async () => {
    const [first] = replicas;
    await send(first, "POST", "/api/keys", { name: "twice" });
    const codes = async (method: string, path: string, body?: unknown) => {
      const answer = await send(first, method, path, body);
      return [answer.status, answer.body.code, answer.body.message.split(":")[0]];
    };
    expect(await codes("POST", "/api/keys", { name: "twice" })).toEqual([409, "conflict", expect.any(String)]);
    expect(await codes("POST", "/api/keys", { name: "No Spaces" })).toEqual([400, "invalid_parameter", "name"]);
    expect(await codes("POST", "/api/keys", { name: "x", scope: "root" })).toEqual([400, "invalid_parameter", "scope"]);
    expect(await codes("POST", "/api/keys", { name: "x", requestsPerMinute: 0 })).toEqual([
      ...[400, "invalid_parameter", "requestsPerMinute"],
    ]);
    expect(await codes("POST", "/api/keys", "x")).toEqual([400, "invalid_parameter", "body"]);
    expect(await codes("DELETE", "/api/keys/OPERATOR_KEYS%231")).toEqual([409, "conflict", expect.any(String)]);
    expect(await codes("DELETE", "/api/keys/unknown")).toEqual([404, "not_found", expect.any(String)]);
    expect(await codes("PUT", "/api/keys")).toEqual([405, "method_not_allowed", expect.any(String)]);
  });

  test("shows no page of another origin what operators read", async () => {
    const [first] = replicas;
    for (const key of [OPERATOR, "wrong-key-0123"]) {
      const { headers } = await send(first, "GET", "/api/status", undefined, key);
      expect([headers.get("access-control-allow-origin"), headers.get("cache-control")]).toEqual([null, "no-store"]);
    }
    const preflight = await first.fetch("/api/status", { method: "OPTIONS", headers: as(OPERATOR) });
    expect([preflight.status, preflight.headers.get("access-control-allow-origin")]).toEqual([405, null]);
  });
});

test("makes a key that may operate at the first start, and accepts keys of the environment beside it", async () => {
  const logUrl = temporaryLogUrl();
  const made: string[] = [];
  const onKeyMade = (key: string) => made.push(key);
  const first = await startTestService({ rpcUrl: RPC, logUrl, env: { API_KEYS: "" }, onKeyMade });
  const [key] = made as [string];
  const added = (await send(first, "POST", "/api/keys", { name: "mine", scope: "operate" }, key)).body.key;
  await first.stop();
  const second = await startTestService({ rpcUrl: RPC, logUrl, env: { OPERATOR_KEYS: OPERATOR }, onKeyMade });
  try {
    expect(made).toHaveLength(1);
    for (const valid of [key, added, OPERATOR]) expect(await statusFor(second, valid)).toBe(200);
    expect((await send(second, "DELETE", "/api/keys/first", undefined, added)).status).toBe(200);
    expect(await statusFor(second, key)).toBe(401);
  } finally {
    await second.stop();
  }
});
