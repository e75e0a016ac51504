/**
 * Every answer states how it may be cached. A refusal must not be stored: a cache in front of the service would give it
 * to the next client, whatever key that client has.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import sharp from "sharp";
import { startServer } from "../../src/api/server.ts";
import { errorResponse } from "../../src/api/wire/answers.ts";
import { systemClock } from "../../src/core/clock.ts";
import { Refusal } from "../../src/core/errors.ts";
import { createLogger } from "../../src/core/logger.ts";
import { openLog } from "../../src/log/open.ts";
import { startTestService, TEST_KEY, type TestService, temporaryLogUrl } from "../support/service.ts";

const NFT = `/api/v2/nft/0x${"ab".repeat(20)}`;
const PRICE = `/api/v2/erc20/0x${"ab".repeat(20)}/price`;
const METRICS_KEY = { authorization: "Bearer metrics-key-1" };

let service: TestService;
/** The path of a stored preview. */
let media: string;

beforeAll(async () => {
  const logUrl = temporaryLogUrl();
  service = await startTestService({
    rpcUrl: "http://127.0.0.1:9/",
    logUrl,
    env: { METRICS_KEY: "metrics-key-1", API_KEYS: `${TEST_KEY},limited-key-1`, RATE_LIMIT_PER_MINUTE: "200" },
  });
  const picture = await sharp({ create: { width: 100, height: 50, channels: 3, background: "#0a0" } })
    .webp()
    .toBuffer();
  const log = await openLog(logUrl, systemClock, createLogger("silent"));
  media = `/media/${(await log.putBlob(new Uint8Array(picture))).slice(2)}/100`;
  await log.close();
});
afterAll(() => service?.stop());

const cachingOf = async (path: string, init: RequestInit = {}): Promise<[number, string | null]> => {
  const response = await service.fetch(path, { redirect: "manual", ...init });
  await response.arrayBuffer();
  return [response.status, response.headers.get("cache-control")];
};

const LIMITED = { headers: { "x-api-key": "limited-key-1" } };
const REFUSED: readonly [number, string, RequestInit?][] = [
  [400, `${NFT}?limit=0`],
  [400, `${PRICE}?chain=polygon`],
  [400, `${NFT}?cursor=${"a".repeat(9_000)}`],
  [401, NFT, { headers: { "x-api-key": "" } }],
  [401, NFT, { headers: { "x-api-key": "wrong-key-1" } }],
  [401, "/api/v2/nope", { headers: { "x-api-key": "" } }],
  [401, "/metrics"],
  [404, "/nope"],
  [404, "/api/v2/nope"],
  [404, `/media/${"0".repeat(64)}/100`],
  [404, "/swagger/plugin"],
  [405, NFT, { method: "POST" }],
  [405, "/swagger", { method: "DELETE" }],
  [426, "/api/v2/ws"],
  [400, "/api/v2/ws", { method: "GET", headers: { upgrade: "websocket", connection: "Upgrade" } }],
  [503, PRICE],
];

test("forbids storing errors of every kind", async () => {
  for (const [status, path, init = {}] of REFUSED) {
    for (const method of init.method === undefined ? ["GET", "HEAD"] : [init.method]) {
      expect([path, ...(await cachingOf(path, { ...init, method }))]).toEqual([path, status, "no-store"]);
    }
  }
});

test("forbids storing the refusal of a client over its rate limit", async () => {
  let last = await cachingOf(NFT, LIMITED);
  for (let i = 0; i < 300 && last[0] === 200; i++) last = await cachingOf(NFT, LIMITED);
  expect(last).toEqual([429, "no-store"]);
});

test("forbids storing answers to errors thrown in a handler, known or unknown", () => {
  const known = new Refusal("cursor_reorged", "gone", { retryAfter: 1 });
  for (const error of [known, new Refusal("not_indexed_yet", "not yet"), new Error("a defect"), undefined]) {
    expect(errorResponse(error).headers.get("cache-control")).toBe("no-store");
  }
});

test("states for successful answers how they may be cached", async () => {
  const etag = (await service.fetch(NFT)).headers.get("etag") as string;
  const expected: [string, RequestInit, number, string][] = [
    [NFT, {}, 200, "private, no-cache"],
    [NFT, { headers: { "if-none-match": etag } }, 304, "private, no-cache"],
    [NFT, { method: "OPTIONS" }, 204, "no-store"],
    ["/health/live", {}, 200, "no-store"],
    ["/health/ready", {}, 200, "no-store"],
    ["/metrics", { headers: METRICS_KEY }, 200, "no-store"],
    ["/", {}, 200, "no-cache"],
    ["/console/app.js", {}, 200, "no-cache"],
    ["/console/app.css", {}, 200, "no-cache"],
    ["/console/proof.js", {}, 200, "no-cache"],
    ["/swagger", {}, 200, "no-cache"],
    ["/swagger/json", {}, 200, "no-cache"],
    ["/swagger/start.js", {}, 200, "public, max-age=86400"],
    ["/swagger/dark.css", {}, 200, "public, max-age=86400"],
    ["/swagger/swagger-ui.css", {}, 200, "public, max-age=86400"],
    ["/swagger/swagger-ui-bundle.js", {}, 200, "public, max-age=86400"],
    [media, {}, 200, "public, max-age=31536000, immutable"],
  ];
  for (const [path, init, status, caching] of expected) {
    expect([path, ...(await cachingOf(path, init))]).toEqual([path, status, caching]);
    if (init.method !== undefined) continue;
    expect([path, ...(await cachingOf(path, { ...init, method: "HEAD" }))]).toEqual([path, status, caching]);
  }
});

test("makes the OpenAPI document once, whatever its query", async () => {
  const etag = (await service.fetch("/swagger/json")).headers.get("etag") as string;
  const timeOf = async (pathOf: (at: number) => string, status: number): Promise<number> => {
    const began = performance.now();
    for (let at = 0; at < 100; at++) {
      const answer = await service.fetch(pathOf(at), { headers: { "if-none-match": etag } });
      expect(answer.status).toBe(status);
      await answer.arrayBuffer();
    }
    return performance.now() - began;
  };
  // The other document is made for each request, and has a fifteenth of the bytes.
  const other = await timeOf((at) => `/asyncapi.json?x=${at}`, 200);
  expect(await timeOf((at) => `/swagger/json?x=${at}`, 304)).toBeLessThan(other);
});

test("forbids storing answers given before the log is open", async () => {
  const server = startServer({ host: "127.0.0.1", port: 0, prefix: "", clock: systemClock, serving: () => undefined });
  for (const [path, status] of [
    ["/health/live", 200],
    ["/health/ready", 503],
  ] as const) {
    const response = await fetch(`http://127.0.0.1:${server.port}${path}`);
    expect([path, response.status, response.headers.get("cache-control")]).toEqual([path, status, "no-store"]);
  }
  await server.stop();
});
