/** Collections that operators have indexed anew, removed or refreshed, over both engines of the log. */
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import WebSocket from "ws";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, read, transact } from "../../scripts/local-chain/contracts.ts";
import { sharedPostgres } from "../support/postgres.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

const KEY = "operator-key-0123456789";
const headers = { "x-api-key": KEY };
const env = { OPERATOR_KEYS: KEY, METADATA_ALLOW_PRIVATE: "true" };

let anvil: Anvil;
let minted = 0n;

beforeAll(async () => {
  anvil = await startAnvil();
});
afterAll(() => anvil?.stop());

async function collection(): Promise<Deployed> {
  const nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Plain", "PLN"]);
  for (let count = 0; count < 5; count++) await mint(nft);
  return nft;
}

const mint = (nft: Deployed) => transact(anvil, nft.contract, "mint", [anvil.accounts[Number(++minted % 5n)], minted]);

/** Asserts that the listing names the owners that the contract names. */
async function assertTrue(service: TestService, nft: Deployed): Promise<void> {
  const { body } = await synced(service, nft.address, Number(await anvil.send("eth_blockNumber")));
  expect(body.result.length).toBeGreaterThan(0);
  for (const { token_id, owner_of } of body.result) {
    expect(String(await read(nft.contract, "ownerOf", [BigInt(token_id)])).toLowerCase()).toBe(owner_of);
  }
}

const act = async (service: TestService, method: string, address: string, action = "", body?: object) => {
  const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
  const response = await service.fetch(`/api/collections/eth/${address}${action}`, init);
  // biome-ignore lint/suspicious/noExplicitAny: tests read single fields of bodies
  return { status: response.status, body: (await response.json()) as any };
};

const listed = async (service: TestService, address: string) =>
  (await service.get(`/api/collections?text=${address}`, headers)).body.result[0];

const engines: [string, () => Promise<string>][] = [
  ["SQLite", async () => temporaryLogUrl()],
  ["PostgreSQL", async () => (await sharedPostgres()).createDatabase()],
];

describe.each(engines)("two processes over %s", (_engine, freshLog) => {
  let services: [TestService, TestService];

  beforeAll(async () => {
    const logUrl = await freshLog();
    const start = () => startTestService({ rpcUrl: anvil.url, logUrl, env });
    services = [await start(), await start()];
  });
  afterAll(async () => {
    for (const service of services) await service.stop();
  });

  test("index a collection anew above its versions, and refuse cursors and subscriptions from before", async () => {
    const nft = await collection();
    for (const service of services) await synced(service, nft.address);
    const [first, second] = services;
    const { cursor } = (await first.get(`/api/v2/nft/${nft.address}?limit=1`)).body;
    const socket = new WebSocket(second.socketUrl, { headers });
    const messages: { type: string; version: number; gap?: boolean; resume?: string }[] = [];
    socket.on("message", (data) => messages.push(JSON.parse(String(data))));
    await new Promise((resolve) => socket.on("open", resolve));
    socket.send(JSON.stringify({ action: "subscribe", chain: "eth", address: nft.address }));
    await eventually("it is told as complete", async () => messages.find(({ type }) => type === "indexed"));
    const before = messages.at(-1) as (typeof messages)[number];
    // Both orders: the process that follows, and the other one.
    for (const service of services) {
      expect(await act(service, "POST", nft.address, "/reindex")).toMatchObject({ status: 200 });
      await eventually("it is complete again", async () => {
        const { status, requestedAt, finishedAt } = await listed(service, nft.address);
        return status === "following" && Date.parse(finishedAt) >= Date.parse(requestedAt) ? true : undefined;
      });
    }
    await mint(nft);
    for (const service of services) await assertTrue(service, nft);
    const indexed = await eventually("it is told as complete again", async () => {
      const all = messages.filter(({ type }) => type === "indexed");
      return all.length >= 2 ? all : undefined;
    });
    expect(indexed.at(-1)?.version).toBeGreaterThan(before.version);
    expect(messages.some(({ type, gap }) => type === "status" && gap === true)).toBe(true);
    for (const service of services) {
      const refused = await service.get(`/api/v2/nft/${nft.address}?cursor=${cursor}`);
      expect([refused.status, refused.body.code]).toEqual([410, "cursor_reorged"]);
    }
    const again = messages.length;
    socket.send(JSON.stringify({ action: "subscribe", chain: "eth", address: nft.address, since: before.resume }));
    const status = await eventually("a status", async () =>
      messages.slice(again).find(({ type }) => type === "status"),
    );
    expect(status.gap).toBe(true);
    socket.close();
  });

  test("stop following a removed collection, until a client requests it again", async () => {
    const nft = await collection();
    const [first, second] = services;
    await synced(first, nft.address);
    expect(await act(second, "DELETE", nft.address)).toMatchObject({ status: 200, body: { before: "following" } });
    await mint(nft);
    await eventually("it is listed as removed", async () => {
      return (await listed(first, nft.address)).status === "removed" ? true : undefined;
    });
    // The first request after the removal is known indexes it again, and says so.
    const answer = await eventually("the removal is known", async () => {
      const page = await first.get(`/api/v2/nft/${nft.address}`);
      return page.body.status === "SYNCING" ? page : undefined;
    });
    expect([answer.status, answer.body.result]).toEqual([200, []]);
    for (const service of services) await assertTrue(service, nft);
    expect((await listed(second, nft.address)).status).toBe("following");
  });

  test("index a removed collection again at an operator's request, and say what it was", async () => {
    const nft = await collection();
    const [first, second] = services;
    await synced(first, nft.address);
    await act(first, "DELETE", nft.address);
    const body = JSON.stringify({ items: [{ address: nft.address }] });
    const answer = await second.fetch("/api/collections", { method: "POST", headers, body });
    expect(await answer.json()).toEqual({
      items: [{ chain: "eth", address: nft.address.toLowerCase(), before: "removed" }],
    });
    await eventually("it is followed again", async () => {
      return (await listed(first, nft.address)).status === "following" ? true : undefined;
    });
    for (const service of services) await assertTrue(service, nft);
  });

  test("name a collection that was never requested, and one without metadata", async () => {
    const [first] = services;
    const unknown = `0x${"77".repeat(20)}`;
    for (const [method, action] of [
      ["POST", "/reindex"],
      ["POST", "/refresh"],
      ["DELETE", ""],
    ] as const) {
      expect(await act(first, method, unknown, action)).toMatchObject({ status: 404, body: { code: "not_found" } });
    }
    const bad = await act(first, "POST", "0x12", "/reindex");
    expect([bad.status, bad.body.details]).toEqual([400, { parameter: "address" }]);
  });

  test("fetch metadata again, of one token or of all", async () => {
    let version = 1;
    const web = Bun.serve({ port: 0, fetch: () => Response.json({ name: `version ${version}` }) });
    const nft = await deploy(anvil, await contractArtifact("StoryNft"), ["Stories", "STO"]);
    const stories = ["1", "2"].map((name) => `http://127.0.0.1:${web.port}/${name}.json`);
    await transact(anvil, nft.contract, "mintStories", [anvil.accounts[1], 1, stories]);
    const [first, second] = services;
    await synced(first, nft.address);
    const names = async (): Promise<string[]> => {
      const { body } = await first.get(`/api/v2/nft/${nft.address}?normalizeMetadata=true`);
      return body.result.map((one: { normalized_metadata: { name: string } }) => one.normalized_metadata.name);
    };
    const shows = (expected: string[]) =>
      eventually(`the names are ${expected}`, async () => (Bun.deepEquals(await names(), expected) ? true : undefined));
    await shows(["version 1", "version 1"]);
    version = 2;
    expect((await act(second, "POST", nft.address, "/refresh", { tokenIds: ["2"] })).status).toBe(200);
    await shows(["version 1", "version 2"]);
    version = 3;
    expect((await act(first, "POST", nft.address, "/refresh")).status).toBe(200);
    await shows(["version 3", "version 3"]);
    const wrong = await act(first, "POST", nft.address, "/refresh", { tokenIds: ["1", "x"] });
    expect(wrong.body.details).toEqual({ parameter: "tokenIds.1" });
    await web.stop(true);
  });
});

test("a stream damaged by flipped bytes is repaired by a new index, and the verifier goes on behind it", async () => {
  const nft = await collection();
  const logUrl = temporaryLogUrl();
  const start = () => startTestService({ rpcUrl: anvil.url, logUrl, env: { ...env, SNAPSHOT_DIR: "off" } });
  const before = await start();
  await synced(before, nft.address);
  await before.stop();
  const database = new Database(logUrl.slice("sqlite://".length));
  const damaged = database.run(
    `UPDATE events SET data = CAST(replace(data, x'22', x'23') AS BLOB)
     WHERE stream_id = (SELECT id FROM streams WHERE name = ?)`,
    [`nft/1/${nft.address}`],
  );
  expect(damaged.changes).toBeGreaterThan(1);
  database.close();
  const verify = async () => {
    const script = join(import.meta.dir, "../../scripts/verify.ts");
    const child = Bun.spawn([process.execPath, script, logUrl], { stdout: "pipe", stderr: "pipe" });
    return { out: await new Response(child.stdout).text(), code: await child.exited };
  };
  expect((await verify()).code).toBe(1);
  const service = await start();
  try {
    expect((await service.get(`/api/v2/nft/${nft.address}`)).status).toBe(500);
    expect((await act(service, "POST", nft.address, "/reindex")).status).toBe(200);
    await mint(nft);
    await assertTrue(service, nft);
  } finally {
    await service.stop();
  }
  const again = await start();
  await assertTrue(again, nft);
  await again.stop();
  const { out, code } = await verify();
  expect([code, out.includes("where it was indexed anew")]).toEqual([0, true]);
});
