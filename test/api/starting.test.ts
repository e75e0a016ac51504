/** Before the log is open the service is live but not ready, and answers nothing else. */
import { expect, test } from "bun:test";
import { startServer } from "../../src/api/server.ts";
import { systemClock } from "../../src/core/clock.ts";

test("answers for its health and closes every other connection unanswered while it starts", async () => {
  const server = startServer({ host: "127.0.0.1", port: 0, prefix: "", clock: systemClock, serving: () => undefined });
  const url = (path: string) => `http://127.0.0.1:${server.port}${path}`;
  const status = async (path: string) => {
    const response = await fetch(url(path));
    expect(response.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
    return response.status;
  };
  expect(await status("/health/live")).toBe(200);
  expect(await status("/health/live/")).toBe(200);
  expect(await status("/health/ready")).toBe(503);
  // A proxy takes no answer as a reason to ask another process, and passes on an answer.
  for (const path of [`/api/v2/nft/0x${"1".repeat(40)}`, "/metrics", "/", "/api/status", "/api/v2/ws"]) {
    const answer = await fetch(url(path), { keepalive: false }).catch((error: unknown) => error);
    expect([path, answer]).toEqual([path, expect.any(Error)]);
  }
  const socket = new WebSocket(url("/api/v2/ws").replace("http", "ws"));
  await new Promise((resolve) => socket.addEventListener("close", resolve));
  await server.stop();
});
