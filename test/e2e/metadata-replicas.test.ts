/**
 * Two services over one PostgreSQL: one fetches metadata, the other only serves. The fetching service also fetches what
 * clients of the other one view, and the other one takes over when it is gone.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { type RecordingWire, recordingWire } from "../support/metadata/wire.ts";
import { sharedPostgres } from "../support/postgres.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { eventually, startTestService, synced, type TestService } from "../support/service.ts";

const PUBLIC = "93.184.215.14";
const SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>';

let anvil: Anvil;
let nft: Deployed;
/** Number of tokens after the first test. */
let supply = 20;
let web: ReturnType<typeof Bun.serve>;
const wires: RecordingWire[] = [];
const services: TestService[] = [];

async function start(logUrl: string, rpcUrl = anvil.url): Promise<TestService> {
  const wire = recordingWire({ names: { "content.example": [PUBLIC] }, ports: { [PUBLIC]: web.port as number } });
  wires.push(wire);
  const service = await startTestService({ rpcUrl, logUrl, metadataWire: wire });
  services.push(service);
  return service;
}

beforeAll(async () => {
  web = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request) =>
      request.url.endsWith(".svg")
        ? new Response(SVG)
        : Response.json({ name: "shared", image: "https://content.example/picture.svg" }),
  });
  anvil = await startAnvil();
  nft = await deploy(anvil, await contractArtifact("StoryNft"), ["Shared", "SHR"]);
  await transact(anvil, nft.contract, "mintMany", [anvil.accounts[1], 1, 12]);
  await transact(anvil, nft.contract, "setBase", ["https://content.example/", ".json"]);
}, 300_000);
afterAll(async () => {
  for (const service of services) await service.stop();
  await anvil?.stop();
  await web?.stop(true);
});

const allResolved = (service: TestService, count: number) =>
  eventually(
    `${count} tokens are resolved`,
    async () => {
      const { body } = await service.get(`/api/v2/nft/${nft.address}?limit=500`);
      const known = body.result.filter((record: { metadata: string | null }) => record.metadata !== null);
      return known.length === count ? body.result : undefined;
    },
    30_000,
  );

test("is fetched by one service, served by both, fetched for viewers of either, and survives the fetcher's end", async () => {
  const logUrl = await (await sharedPostgres()).createDatabase();
  const first = await start(logUrl);
  await synced(first, nft.address);
  await allResolved(first, 12);
  const second = await start(logUrl);
  await synced(second, nft.address);
  await allResolved(second, 12);
  expect(wires[1]?.attempts).toEqual([]);

  // A picture is examined only after a client has viewed it, here a client of the service that doesn't fetch.
  const [record] = await eventually("the picture has been examined", async () => {
    const { body } = await second.get(`/api/v2/nft/${nft.address}?limit=1&media_items=true`);
    return body.result[0].media.status === "success" ? body.result : undefined;
  });
  const preview = await second.fetch(new URL(record.media.media_collection.low.url).pathname);
  expect([preview.status, preview.headers.get("content-type")]).toEqual([200, "image/webp"]);
  expect(wires[1]?.attempts).toEqual([]);

  await first.stop();
  services.shift();
  await transact(anvil, nft.contract, "mintMany", [anvil.accounts[1], 13, 8]);
  await allResolved(second, 20);
  expect(wires[1]?.attempts.length).toBeGreaterThanOrEqual(8);
}, 300_000);

test.each(["refuses", "hangs"])(
  "is fetched by the other service if the fetcher's node %s",
  async (how) => {
    const logUrl = await (await sharedPostgres()).createDatabase();
    let isDown = false;
    const node = await startRpcProxy(anvil.url, { onRequest: () => (isDown ? { status: 502 } : undefined) });
    const first = await start(logUrl, node.url);
    await synced(first, nft.address);
    await allResolved(first, supply);
    const second = await start(logUrl);
    await synced(second, nft.address);
    const before = wires.at(-1)?.attempts.length;
    expect(before).toBe(0);
    if (how === "refuses") isDown = true;
    else node.pause();
    await transact(anvil, nft.contract, "mintMany", [anvil.accounts[1], supply + 1, 4]);
    supply += 4;
    await allResolved(second, supply);
    expect(wires.at(-1)?.attempts.length).toBeGreaterThanOrEqual(4);
    isDown = false;
    node.resume();
    for (const service of services.splice(0)) await service.stop();
    await node.stop();
  },
  60_000,
);
