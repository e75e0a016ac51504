/** Unsupported methods on known paths: 405 with the list of supported methods, for any method name. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { request } from "node:http";
import { startTestService, TEST_KEY, type TestService, temporaryLogUrl } from "../support/service.ts";

const NFT = `/api/v2/nft/0x${"ab".repeat(20)}`;
const PRICE = `/api/v2/erc20/0x${"ab".repeat(20)}/price`;
const API_PATHS = [NFT, `${NFT}/`, `${NFT}?limit=0`, PRICE, "/api/v2/ws"];
const OTHER_PATHS = [
  ...[
    "/",
    "/console/app.js",
    "/console/app.css",
    "/console/proof.js",
    "/health/live",
    "/health/ready",
    "/metrics",
    `/media/${"0".repeat(64)}/100`,
  ],
  ...[
    "/swagger",
    "/swagger/json",
    "/swagger/swagger-ui.css",
    "/swagger/swagger-ui-bundle.js",
    "/swagger/start.js",
    "/swagger/dark.css",
  ],
];
const METHODS = ["POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"];

let service: TestService;

beforeAll(async () => {
  service = await startTestService({
    rpcUrl: "http://127.0.0.1:9/",
    logUrl: temporaryLogUrl(),
    env: { METRICS_KEY: "metrics-key-1" },
  });
});
afterAll(() => service?.stop());

interface Answer {
  readonly status: number | undefined;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

/** Sends a request with any method name. `fetch` accepts only some. */
const ask = (method: string, path: string, headers: Record<string, string> = {}): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const { port } = service;
    const options = { host: "127.0.0.1", port, method, path, headers: { "x-api-key": TEST_KEY, ...headers } };
    const sent = request(options, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        const { statusCode: status } = response;
        resolve({ status, headers: response.headers, text: Buffer.concat(chunks).toString() });
      });
    });
    sent.on("error", reject);
    sent.end();
  });

test("answers any unsupported method on a known path with 405 and Allow", async () => {
  for (const path of [...API_PATHS, ...OTHER_PATHS]) {
    const allow = API_PATHS.includes(path) ? "GET, HEAD, OPTIONS" : "GET, HEAD";
    for (const method of METHODS) {
      const { status, headers, text } = await ask(method, path);
      expect([method, path, status, headers["allow"]]).toEqual([method, path, 405, allow]);
      expect(JSON.parse(text)).toEqual({
        message: `method ${method} is not allowed; the methods of this path are ${allow}`,
        code: "method_not_allowed",
      });
      expect(headers["x-request-id"]).toMatch(/^[0-9a-f-]{36}$/);
    }
  }
});

test("answers OPTIONS where browsers of other origins may call, and 405 elsewhere", async () => {
  for (const path of API_PATHS) expect([path, (await ask("OPTIONS", path)).status]).toEqual([path, 204]);
  for (const path of OTHER_PATHS) {
    const { status, headers } = await ask("OPTIONS", path);
    expect([path, status, headers["allow"]]).toEqual([path, 405, "GET, HEAD"]);
  }
});

test("answers 405 to a WebSocket upgrade by another method than GET", async () => {
  const { status, headers } = await ask("POST", "/api/v2/ws", { upgrade: "websocket", connection: "Upgrade" });
  expect([status, headers["allow"]]).toEqual([405, "GET, HEAD, OPTIONS"]);
});

test("answers unknown paths with 404, and reports a missing key first", async () => {
  for (const path of ["/nope", "/api/v2/nope", "/api/v2/nft/", "/swagger/plugin", `${NFT}/more/and/more`]) {
    for (const method of METHODS) expect([path, (await ask(method, path)).status]).toEqual([path, 404]);
  }
  const { status, text } = await ask("POST", NFT, { "x-api-key": "" });
  expect([status, JSON.parse(text).code]).toEqual([401, "missing_api_key"]);
});

test("answers HEAD wherever it answers GET, with the same status and no body", async () => {
  for (const path of [...API_PATHS, ...OTHER_PATHS].filter((each) => each !== PRICE)) {
    const get = await ask("GET", path);
    const head = await ask("HEAD", path);
    expect([path, head.status, head.text]).toEqual([path, get.status, ""]);
  }
});
