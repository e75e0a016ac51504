/** A public URL with a path, behind a proxy that keeps it or strips it. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import WebSocket from "ws";
import { startTestService, TEST_KEY, type TestService, temporaryLogUrl } from "../support/service.ts";

const PUBLIC_URL = "https://data.example/evm";
const CONTRACT = `0x${"12".repeat(20)}`;

let service: TestService;
beforeAll(async () => {
  const env = { PUBLIC_URL };
  service = await startTestService({ rpcUrl: "http://127.0.0.1:9/", logUrl: temporaryLogUrl(), env });
});
afterAll(() => service?.stop());

test.each(["", "/evm"])("serves everything below the path, with %p before the request's", async (before) => {
  for (const [name, count] of [
    ["swagger", 4],
    ["console", 2],
  ] as const) {
    const page = await (await service.fetch(`${before}/${name === "console" ? "" : name}`)).text();
    const assets = [...page.matchAll(/(?:src|href)="(\/[^"]+)">/g)].map((match) => match[1] as string);
    expect(assets.filter((asset) => asset.startsWith(`/evm/${name}/`))).toHaveLength(count);
    for (const asset of assets) expect((await service.fetch(asset.replace("/evm", before))).status).toBe(200);
  }
  expect(await (await service.fetch(`${before}/swagger/start.js`)).text()).toContain('"/evm/swagger/json"');
  const document = (await service.get(`${before}/swagger/json`)).body;
  expect(document.servers).toEqual([{ url: PUBLIC_URL }]);
  expect((await service.get(`${before}/api/v2/nft/${CONTRACT}?limit=1`)).status).toBe(200);
  expect((await fetch(new URL(`${before}/api/v2/nft/${CONTRACT}`, `http://127.0.0.1:${service.port}`))).status).toBe(
    401,
  );
  const socket = new WebSocket(`ws://127.0.0.1:${service.port}${before}/api/v2/ws`, {
    headers: { "x-api-key": TEST_KEY },
  });
  await new Promise((resolve, reject) => socket.on("open", resolve).on("error", reject));
  socket.close();
});

test("knows no other prefix", async () => {
  for (const path of ["/evmx/health/live", "/other/health/live"]) expect((await service.fetch(path)).status).toBe(404);
});

test.each(["", "/api"])(
  "tells a path that looks like a route from the route, with %p before the request's",
  async (before) => {
    const env = { PUBLIC_URL: "https://data.example/api" };
    const other = await startTestService({ rpcUrl: "http://127.0.0.1:9/", logUrl: temporaryLogUrl(), env });
    const statusOf = async (path: string) => (await other.fetch(`${before}${path}`, { redirect: "manual" })).status;
    const paths = [`/api/v2/nft/${CONTRACT}?limit=1`, "/health/live", "/swagger", "/swagger/json", "/metrics", "/"];
    expect(await Promise.all(paths.map(statusOf))).toEqual([200, 200, 200, 200, 200, 200]);
    // The route refuses the key's scope. A path without a route would be 404.
    expect(await statusOf("/api/collections")).toBe(403);
    await other.stop();
  },
);
