/** A client that sends the body of its request a byte at a time holds its connection for a bounded time only. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { connect } from "node:net";
import { LIMITS } from "../../src/config.ts";
import { startTestService, TEST_KEY, type TestService, temporaryLogUrl } from "../support/service.ts";

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ rpcUrl: "http://127.0.0.1:1", logUrl: temporaryLogUrl() });
});
afterAll(async () => service?.stop());

/**
 * Sends a byte of a long body every tenth of a second until the connection ends. Returns what came, and the ms that it took.
 * @param first what is sent of the body at once
 */
async function drip(key: string, length: string, first = ""): Promise<{ readonly text: string; readonly ms: number }> {
  const began = performance.now();
  const socket = connect(service.port, "127.0.0.1");
  let text = "";
  socket.on("data", (data) => {
    text += data.toString("latin1");
  });
  socket.on("error", () => undefined);
  socket.write(`POST /api/v2/erc20/prices HTTP/1.1\r\nhost: x\r\nx-api-key: ${key}\r\n${length}\r\n\r\n${first}`);
  const timer = setInterval(() => socket.write(length.startsWith("transfer") ? "1\r\n \r\n" : " "), 100);
  await new Promise((resolve) => socket.once("close", resolve));
  clearInterval(timer);
  return { text, ms: performance.now() - began };
}

test.each(["content-length: 60000", "transfer-encoding: chunked"])(
  "without a valid key, and with %s",
  async (length) => {
    const { text, ms } = await drip("wrong-key-0123456789", length);
    expect(text).toStartWith("HTTP/1.1 401");
    expect(text.toLowerCase()).toContain("connection: close\r\n");
    expect(ms).toBeLessThan(LIMITS.bodyMs);
  },
  15_000,
);

test("with a body that is too long in the middle", async () => {
  const chunk = `400\r\n${" ".repeat(1024)}\r\n`;
  const sent = chunk.repeat(LIMITS.maxRequestBody / 1024 + 1);
  const { text, ms } = await drip(TEST_KEY, "transfer-encoding: chunked", sent);
  expect(text).toStartWith("HTTP/1.1 413");
  expect(text.toLowerCase()).toContain("connection: close\r\n");
  expect(ms).toBeLessThan(LIMITS.bodyMs);
}, 15_000);

test.each(["content-length: 60000", "transfer-encoding: chunked"])(
  "with a key, and with %s",
  async (length) => {
    const { text, ms } = await drip(TEST_KEY, length);
    // No whole head: the connection is broken.
    expect(text).not.toContain("\r\n\r\n");
    expect(ms).toBeGreaterThan(LIMITS.bodyMs - 1_000);
  },
  60_000,
);

test("and an answer to a whole body keeps the connection", async () => {
  const body = JSON.stringify({ tokens: [] });
  const answer = await service.fetch("/api/v2/erc20/prices", { method: "POST", body });
  expect([answer.status, answer.headers.get("connection")]).not.toContain("close");
});
