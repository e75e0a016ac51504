/** What operators see: progress and faults of collections and endpoints, the same on every replica. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { recordingLogger } from "../support/logged.ts";
import { schemaFaults } from "../support/schemas.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

const KEY = "operator-key-0123456789";
const headers = { "x-api-key": KEY };
const env = { OPERATOR_KEYS: KEY };

let anvil: Anvil;
let other: Anvil;
let nft: Deployed;
let service: TestService;
const { logger, lines } = recordingLogger("info");

beforeAll(async () => {
  anvil = await startAnvil();
  other = await startAnvil({ chainId: 137 });
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Plain", "PLN"]);
  for (let id = 1n; id <= 3n; id++) await transact(anvil, nft.contract, "mint", [anvil.accounts[1], id]);
  const rpc = { RPC_URL_POLYGON: other.url, RPC_URL_BSC: other.url, RPC_URL_PALM: "http://127.0.0.1:9/" };
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env: { ...env, ...rpc }, logger });
});
afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
  await other?.stop();
});

/** Requests collections and returns the body of the answer. */
// biome-ignore lint/suspicious/noExplicitAny: tests read single fields of bodies
async function request(items: readonly object[]): Promise<any> {
  return (await service.fetch("/api/collections", { method: "POST", headers, body: JSON.stringify({ items }) })).json();
}

test("requests collections, and lists them with their facts once they are indexed", async () => {
  const items = [{ address: nft.address }, { chain: "polygon", address: nft.address }];
  const asked = await request(items);
  expect(asked.items).toEqual([
    { chain: "eth", address: nft.address, before: null },
    { chain: "polygon", address: nft.address, before: null },
  ]);
  await synced(service, nft.address);
  const found = await eventually("the collection is counted", async () => {
    const { body } = await service.get("/api/collections?chain=eth", headers);
    expect(await schemaFaults(service, "CollectionList", body)).toEqual([]);
    return body.result[0].type === null ? undefined : body;
  });
  const [listed] = found.result;
  expect(listed).toMatchObject({
    ...{ chain: "eth", address: nft.address, name: "Plain", symbol: "PLN", type: "ERC721", status: "following" },
    ...{ percent: 100, transfers: 3, nfts: 3, attempts: 0, lastError: null, nextTry: null, secondsLeft: null },
  });
  expect(listed.calls).toBeGreaterThan(3);
  expect(listed.bytes).toBeGreaterThan(300);
  expect(Date.parse(listed.finishedAt)).toBeGreaterThanOrEqual(Date.parse(listed.requestedAt));
  expect((await request(items.slice(0, 1))).items[0].before).toBe("following");
  const line = await eventually("the completion is logged", async () =>
    lines.find(({ msg }) => msg.startsWith("indexed")),
  );
  expect(line.msg).toMatch(/^indexed eth 0x[0-9a-f]{40} "Plain" 3 NFTs · 3 transfers · \d+ calls · [\d.]+ s$/);
});

test("reports the log, the leases, and each chain with the state and the bill of its endpoints", async () => {
  await service.get(`/api/v2/nft/${nft.address}?chain=bsc`, headers);
  await service.get(`/api/v2/nft/${nft.address}?chain=palm`, headers);
  const status = await eventually("all states are noticed", async () => {
    const { body } = await service.get("/api/status", headers);
    expect(await schemaFaults(service, "ServiceStatus", body)).toEqual([]);
    const states = Object.fromEntries(
      body.chains.map((chain: { name: string; state: string }) => [chain.name, chain.state]),
    );
    const isSettled = states["bsc"] === "wrong_chain" && states["palm"] === "unreachable";
    return isSettled && states["eth"] === "following" ? body : undefined;
  });
  expect(status.log).toMatchObject({ engine: "sqlite", writable: true });
  expect(status.leases).toContainEqual({ what: "follow/1", holder: status.instance });
  const [eth, bsc, palm] = ["eth", "bsc", "palm"].map((name) =>
    status.chains.find((one: { name: string }) => one.name === name),
  );
  const [endpoint] = eth.endpoints;
  expect(endpoint).toMatchObject({ label: "eth#1", state: "available", reason: null, restsUntil: null });
  expect(endpoint.calls.hour.eth_getLogs).toBeGreaterThan(0);
  const { eth_getLogs = 0, eth_call = 0 } = endpoint.calls.hour;
  expect(endpoint.units.hour).toBeGreaterThanOrEqual(60 * eth_getLogs + 26 * eth_call);
  expect(endpoint.bytes.day).toBeGreaterThan(1_000);
  expect(endpoint.latencyMs.p50).toBeGreaterThan(0);
  expect(bsc.endpoints[0]).toMatchObject({ state: "wrong_chain", reason: "it is of chain 137" });
  expect(palm.endpoints[0]).toMatchObject({ state: "failed", reason: expect.stringMatching(/connect/i) });
  expect(JSON.stringify(status)).not.toContain("127.0.0.1");
  // A fault is logged a second later, in one line with others of its kind.
  const told = await eventually("the fault is logged", async () => {
    const found = lines.filter((line) => line["endpoint"] === "bsc#1" && line["state"] === "wrong_chain");
    return found.length > 0 ? found : undefined;
  });
  expect(told.map(({ msg }) => msg)).toEqual(["an endpoint is of another chain and is not used"]);
});

test("filters and pages the list, and names a parameter that is wrong", async () => {
  const list = async (query: string) => (await service.get(`/api/collections?${query}`, headers)).body;
  const all = (await list("limit=500")).result;
  expect(all.map((one: { chain: string }) => one.chain)).toEqual(
    ["eth", "polygon", "bsc", "palm"].sort((a, b) => order(a) - order(b)),
  );
  const paged: unknown[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const page: { cursor: string | null; result: unknown[] } = await list(`limit=1&cursor=${cursor}`);
    paged.push(...page.result.map((one) => (one as { chain: string }).chain));
    cursor = page.cursor;
  }
  expect(paged).toEqual(all.map((one: { chain: string }) => one.chain));
  expect((await list("text=pLaI")).result).toHaveLength(1);
  expect((await list("status=following&chain=bsc")).result).toEqual([]);
  for (const [query, name] of [
    ["limit=0", "limit"],
    ["status=done", "status"],
    ["cursor=x", "cursor"],
    ["chain=x", "chain"],
  ]) {
    expect((await list(query as string)).details).toEqual({ parameter: name });
  }
  expect((await request([{ address: "0x12" }])).details).toEqual({ parameter: "items.0.address" });
});

/** Streams are listed in the order of their names: by the digits of the chain's id. */
const order = (name: string): number => ["eth", "palm", "polygon", "bsc"].indexOf(name);

test("counts each transfer of a batch, before and after the collection is measured", async () => {
  const items = await deploy(anvil, await contractArtifact("MultiToken"), ["Items", "ITM", ""]);
  const to = anvil.accounts[1] as string;
  // One id twice, and an amount of zero: three transfers, of which the ledger keeps fewer entries.
  await transact(anvil, items.contract, "mintBatch", [to, [1n, 1n, 2n], [5n, 6n, 0n]]);
  await request([{ address: items.address }]);
  const listed = async () =>
    (await service.get(`/api/collections?text=${items.address.toLowerCase()}`, headers)).body.result[0];
  const measured = await eventually("the collection is measured", async () => {
    const entry = await listed();
    return entry.type === null ? undefined : entry;
  });
  expect([measured.type, measured.transfers]).toEqual(["ERC1155", 3]);
});
