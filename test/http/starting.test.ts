/** Before the log is open the service is live but not ready, and refuses all other requests. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { systemClock } from "../../src/core/clock.ts";
import { startServer } from "../../src/http/server.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(30_000);

test("answers 200 on /health/live and 503 on every other path while it starts", async () => {
  const server = startServer({ host: "127.0.0.1", port: 0, prefix: "", clock: systemClock, serving: () => undefined });
  const status = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${server.port}${path}`);
    expect(response.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
    return response.status;
  };
  expect(await status("/health/live")).toBe(200);
  expect(await status("/health/live/")).toBe(200);
  expect(await status("/health/ready")).toBe(503);
  expect(await status(`/api/v2/nft/0x${"1".repeat(40)}`)).toBe(503);
  await server.stop();
});
