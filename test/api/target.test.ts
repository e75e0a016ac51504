/**
 * Which path a request asks for, tested over raw sockets with requests that no library would send: hosts of any length,
 * no host, whole URLs. Key and rate limit apply to every path, and a client with a key is served under any host name.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { connect } from "node:net";
import { startTestService, TEST_KEY, type TestService, temporaryLogUrl } from "../support/service.ts";

const NFT = `/api/v2/nft/0x${"ab".repeat(20)}`;
let service: TestService;

beforeAll(async () => {
  service = await startTestService({ rpcUrl: "http://127.0.0.1:9/", logUrl: temporaryLogUrl() });
});
afterAll(() => service.stop());

/** Sends the lines unchanged and resolves with the whole answer. */
function raw(lines: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(service.port, "127.0.0.1", () => socket.write(`${lines.join("\r\n")}\r\n\r\n`));
    let said = "";
    socket.on("data", (bytes) => {
      said += bytes.toString("latin1");
    });
    socket.on("close", () => resolve(said));
    socket.on("error", reject);
  });
}

const statusOf = (answer: string): number => Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1]);
const bodyOf = (answer: string): string => answer.slice(answer.indexOf("\r\n\r\n") + 4);
const HOSTS = ["a", "ab", "abc", "abcd", "a:1", "evm", "nft.example", "[::1]", "a?b", "a#b"];

test("gives no data without a key, whatever the host header is", async () => {
  const consolePage = bodyOf(await raw(["GET / HTTP/1.0"]));
  for (const host of HOSTS) {
    for (const before of ["", "/", "/x", "/xx", "/xxx", "/xxxx"]) {
      const get = (line: string) => raw([line, `Host: ${host}`, "Connection: close"]);
      for (const target of [before + NFT, `http://${host}${before}${NFT}`]) {
        const answer = await get(`GET ${target} HTTP/1.1`);
        // A target whose path is only `/` gets the page that asks for a key, and nothing else.
        const isPage = bodyOf(answer) === consolePage;
        expect([target, host, statusOf(answer) === 200 && !isPage]).toEqual([target, host, false]);
        expect(answer).not.toContain("SYNCING");
      }
    }
  }
  const answers = [];
  for (let length = 0; length < 12; length++) {
    answers.push(await raw([`GET /${"x".repeat(length)}${NFT} HTTP/1.0`]));
    answers.push(await raw([`GET /x/${"x".repeat(length)}${NFT} HTTP/1.0`]));
  }
  for (const answer of answers) expect(answer).not.toContain("SYNCING");
});

test("gives no data without a key, however the path is written", async () => {
  const hostless = (target: string) => raw([`GET ${target} HTTP/1.0`]);
  const unnamed = (host: string) => (target: string) =>
    raw([`GET ${target} HTTP/1.1`, `Host:${host}`, "Connection: close"]);
  const price = `/api/v2/erc20/0x${"ab".repeat(20)}/price`;
  for (const ask of [hostless, unnamed(""), unnamed(" a/b"), unnamed(" nft.example"), unnamed(" a b")]) {
    for (const before of [
      "/x/..",
      "/.",
      "/%2e",
      "/x/%2E%2e",
      "/\\..",
      "/x\\..\\",
      "//..",
      "/x/..;",
      "/\t.",
      "/x?/..",
    ]) {
      for (const asked of [NFT, price]) {
        const said = [before + asked, (before + asked).replaceAll("/", "\\"), `${before}${asked}#/x`];
        for (const target of said) {
          const answer = await ask(target);
          expect([target, statusOf(answer)]).not.toEqual([target, 200]);
          expect(answer).not.toMatch(/SYNCING|chain_unavailable/);
        }
      }
    }
    expect(statusOf(await ask("/./swagger/plugin"))).not.toBe(200);
  }
});

test("refuses paths that a proxy may read differently, with a key and without, on HTTP and on the socket", async () => {
  const key = `x-api-key: ${TEST_KEY}`;
  const refused = [
    ...[
      "/media/..\\metrics",
      "/media/..\\metrics/",
      "/media/%2e%2e/metrics",
      "/media/.%2E/metrics",
      "/media/..%2fmetrics",
    ],
    ...[
      "/media/..%5Cmetrics",
      "/a//../../metrics",
      "/./metrics",
      "/metrics/.",
      "/metrics/..",
      "/%2e/metrics",
      "/api/v2/..\\keys",
    ],
    ...[
      "/api/v2/../keys",
      "/api/v2/%2E%2E/keys",
      "/api/v2/nft/../../status",
      `${NFT}%2f`,
      `/api/v2\\nft/0x${"ab".repeat(20)}`,
    ],
    ...["/swagger/..\\api\\status", "/x/../health/live", "http://h/media/../metrics", "/media/..\\..\\metrics"],
    `/${"a/".repeat(20)}${"../".repeat(20)}metrics`,
  ];
  for (const host of ["h", "nft.example.org", ""]) {
    for (const target of refused) {
      const answer = await raw([`GET ${target} HTTP/1.1`, `Host: ${host}`, key, "Connection: close"]);
      expect([target, host, statusOf(answer)]).toEqual([target, host, 400]);
      expect(answer).toContain("x-request-id: ");
      expect(JSON.parse(bodyOf(answer))).toMatchObject({ code: "invalid_parameter", details: { parameter: "url" } });
    }
  }
  const upgrade = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"];
  const nonce = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
  for (const target of ["/api/v2/x/..\\ws", "/api/v2/x/../ws", "/api/v2/%2e/ws"]) {
    const answer = await raw([`GET ${target} HTTP/1.1`, "Host: h", key, ...upgrade, nonce, "Connection: close"]);
    expect([target, statusOf(answer)]).toEqual([target, 400]);
  }
  // Other escapes, and dots that are no segment, stay.
  const served = [`${NFT}?chain=e%74h`, `${NFT}?cursor=&x=..%2f..\\`, `${NFT}/`, "/health/live/", "/%68ealth/live"];
  for (const target of served.slice(0, 4)) {
    const answer = await raw([`GET ${target} HTTP/1.1`, "Host: h", key, "Connection: close"]);
    expect([target, statusOf(answer)]).toEqual([target, 200]);
  }
  for (const target of ["/a...b", "/...", `/${"a/".repeat(30)}`, "/a//b", "/%252e%252e/metrics"]) {
    const answer = await raw([`GET ${target} HTTP/1.1`, "Host: h", key, "Connection: close"]);
    expect([target, statusOf(answer)]).toEqual([target, 404]);
  }
});

test("serves a client with a key, whatever the host header is, or without one", async () => {
  const key = `x-api-key: ${TEST_KEY}`;
  for (const host of ["a", "ab", "abc", "abcd", "evm", "nft.example:8080"]) {
    for (const path of [NFT, "/health/live"]) {
      const answer = await raw([`GET ${path} HTTP/1.1`, `Host: ${host}`, key, "Connection: close"]);
      expect([host, path, statusOf(answer)]).toEqual([host, path, 200]);
    }
    const whole = await raw([`GET http://${host}${NFT}?limit=7 HTTP/1.1`, `Host: ${host}`, key, "Connection: close"]);
    expect([host, statusOf(whole), whole.includes('"page_size":"7"')]).toEqual([host, 200, true]);
  }
  expect(statusOf(await raw([`GET ${NFT} HTTP/1.0`, key]))).toBe(200);
});

test("refuses a request with several hosts, or a host that is none, on every path and on the socket", async () => {
  const key = `x-api-key: ${TEST_KEY}`;
  const upgrade = ["Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="];
  const several = [
    ["Host: a.example", "Host: b.example"],
    ["Host: a.example", "Accept: x", "hOsT: a.example"],
    ["Host:", "Host: b.example"],
    ["Host: b.example", "Host:"],
    ["Host: a.example,b.example"],
    ...["a b", "a/b", "a@b", "a?b", "a#b", "a:b", "[::1", "a\\b", "\u00e9"].map((host) => [`Host: ${host}`]),
  ];
  for (const hosts of several) {
    for (const [method, path, more] of [
      ["GET", NFT, []],
      ["GET", "/health/live", []],
      ["POST", "/api/v2/erc20/prices", ["Content-Length: 0"]],
      ["GET", "/api/v2/ws", upgrade],
      ["GET", `http://a.example${NFT}`, []],
    ] as const) {
      const answer = await raw([`${method} ${path} HTTP/1.1`, ...hosts, key, ...more, "Connection: close"]);
      expect([hosts, path, statusOf(answer)]).toEqual([hosts, path, 400]);
      expect(JSON.parse(bodyOf(answer))).toMatchObject({ code: "invalid_parameter", details: { parameter: "host" } });
      expect(answer).toContain("x-request-id: ");
    }
  }
  for (const host of ["a_b.example", "[::1]:80", "10.0.0.7:3000", "xn--caf-dma.example."]) {
    const answer = await raw([`GET ${NFT} HTTP/1.1`, `Host: ${host}`, key, "Connection: close"]);
    expect([host, statusOf(answer)]).toEqual([host, 200]);
  }
  // The runtime's own answer, before the service sees the request.
  expect(statusOf(await raw([`GET ${NFT} HTTP/1.1`, key]))).toBe(400);
});

test("applies the rate limit to every spelling of a path", async () => {
  const limited = await startTestService({
    rpcUrl: "http://127.0.0.1:9/",
    logUrl: temporaryLogUrl(),
    env: { RATE_LIMIT_PER_MINUTE: "1" },
  });
  const before = service;
  service = limited;
  const key = `x-api-key: ${TEST_KEY}`;
  const statuses = [];
  for (let i = 0; i < 2; i++) {
    statuses.push(statusOf(await raw([`GET ${NFT} HTTP/1.1`, "Host: h", key, "Connection: close"])));
  }
  service = before;
  await limited.stop();
  expect(statuses).toEqual([200, 429]);
});
