/**
 * What a request is taken to ask for, over sockets that say it as no library would: hosts of any length, none at all, whole
 * URLs. Keys and rate hold for whatever is answered, and whoever has a key is served by any name.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { connect } from "node:net";
import { startTestService, TEST_KEY, type TestService, temporaryLogUrl } from "../support/service.ts";

// Real parts, on machines that have others to serve: the runner's five seconds would kill them in the middle.
setDefaultTimeout(30_000);

const NFT = `/api/v2/nft/0x${"ab".repeat(20)}`;
let service: TestService;

beforeAll(async () => {
  service = await startTestService({ rpcUrl: "http://127.0.0.1:9/", logUrl: temporaryLogUrl() });
});
afterAll(() => service.stop());

/** Sends lines as they are and resolves with the whole answer. */
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
const HOSTS = ["a", "ab", "abc", "abcd", "a:1", "evm", "nft.example", "[::1]", "a?b", "a#b"];

test("no key, no answer, whatever the host is called", async () => {
  for (const host of HOSTS) {
    for (const before of ["", "/", "/x", "/xx", "/xxx", "/xxxx"]) {
      const get = (line: string) => raw([line, `Host: ${host}`, "Connection: close"]);
      for (const target of [before + NFT, `http://${host}${before}${NFT}`]) {
        const answer = await get(`GET ${target} HTTP/1.1`);
        expect([target, host, statusOf(answer)]).not.toEqual([target, host, 200]);
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

test("no key, no answer, however the path is said", async () => {
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

test("with a key, an answer, whatever the host is called, or without any", async () => {
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

test("the rate holds, too", async () => {
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
