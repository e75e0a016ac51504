/**
 * The chain's head as the service reports it: metrics and headers always agree with pages, and a node that went back is
 * reported and not trusted.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { recordingLogger, WARN } from "../support/logged.ts";
import { type Intervention, type RpcCall, type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

const { logger, lines } = recordingLogger("info");

let anvil: Anvil;
let proxy: RpcProxy;
let service: TestService;
let nft: Deployed;
let token: Deployed;
let decide: (call: RpcCall) => Intervention | undefined = () => undefined;

const height = async (): Promise<number> => Number(await anvil.send("eth_blockNumber"));
const mint = (id: number) => transact(anvil, nft.contract, "mint", [anvil.accounts[1], BigInt(id)]);
const page = (query = "") => service.get(`/api/v2/nft/${nft.address}?${query}`);

async function metric(name: string): Promise<number> {
  const text = await (await service.fetch("/metrics")).text();
  return Number(new RegExp(`^${name}\\{chain="eth"\\} (\\S+)$`, "m").exec(text)?.[1] ?? Number.NaN);
}

beforeAll(async () => {
  anvil = await startAnvil();
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Head", "HD"]);
  token = await deploy(anvil, await contractArtifact("TestToken"), ["Token", "TKN", 18]);
  await mint(1);
  await anvil.send("anvil_mine", ["0x60"]);
  proxy = await startRpcProxy(anvil.url, { onRequest: (call) => decide(call) });
  service = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl(), logger });
  await synced(service, nft.address, await height());
});
afterAll(async () => {
  await service.stop();
  await proxy.stop();
  await anvil.stop();
});

test("reports the head of the served pages in metrics and headers at every moment", async () => {
  for (let id = 2; id <= 20; id++) {
    const minted = mint(id);
    for (let i = 0; i < 5; i++) {
      const before = Number((await page()).headers.get("x-as-of-block"));
      const followed = await metric("chain_followed_head");
      const after = Number((await page()).headers.get("x-as-of-block"));
      expect(followed).toBeGreaterThanOrEqual(before);
      expect(followed).toBeLessThanOrEqual(after);
    }
    await minted;
  }
  const head = await height();
  await synced(service, nft.address, head);
  const { timestamp } = (await anvil.send("eth_getBlockByNumber", ["latest", false])) as { timestamp: string };
  const { headers } = await page();
  expect(headers.get("x-as-of-time")).toBe(new Date(Number(timestamp) * 1_000).toISOString());
  expect(headers.get("access-control-expose-headers")).toContain("x-as-of-time");
  expect(await metric("chain_blocks_behind_head")).toBe(0);
  expect(await metric("chain_head_age_seconds")).toBeCloseTo(Math.max(0, Date.now() / 1_000 - Number(timestamp)), -1);
});

test("keeps the time of a page along its cursor, and gives long final blocks a time too", async () => {
  const first = await page("limit=5");
  await mint(100);
  await synced(service, nft.address, await height());
  const next = await page(`limit=5&cursor=${first.body.cursor}`);
  expect(next.headers.get("x-as-of-time")).toBe(first.headers.get("x-as-of-time"));
  expect(next.headers.get("x-as-of-time")).not.toBeNull();
  const old = await page("as_of_block=5");
  const { timestamp } = (await anvil.send("eth_getBlockByNumber", ["0x5", false])) as { timestamp: string };
  expect(old.headers.get("x-as-of-time")).toBe(new Date(Number(timestamp) * 1_000).toISOString());
});

test("reports a node that went back to its first block, and serves nothing of it as the present", async () => {
  const head = await height();
  await synced(service, nft.address, head);
  const genesis = await anvil.send("eth_getBlockByNumber", ["0x0", false]);
  // The node answers as if it had been killed and restarted on an empty folder.
  decide = ({ method, params }) => {
    if (method === "eth_blockNumber") return { result: "0x0" };
    if (method === "eth_getBlockByNumber") return { result: Number(params[0]) > 0 ? null : genesis };
    if (method === "eth_call" || method === "eth_getCode") return { result: "0x" };
    return method === "eth_getLogs" ? { result: [] } : undefined;
  };
  const said = await eventually("a warning", async () => lines.find(({ msg }) => msg.startsWith("the node went back")));
  expect(said).toMatchObject({ level: WARN, head, nodeHead: 0 });
  expect(await metric("chain_node_head")).toBe(0);
  expect(await metric("chain_followed_head")).toBe(head);
  const listing = await page();
  expect([listing.status, listing.headers.get("x-as-of-block")]).toEqual([200, String(head)]);
  const quote = await service.get(`/api/v2/erc20/${token.address}/price`);
  expect([quote.status, quote.body.code]).toEqual([503, "chain_unavailable"]);
  expect(quote.headers.get("retry-after")).not.toBeNull();
  const stranger = await service.get(`/api/v2/nft/${token.address}`);
  expect(stranger.body).toMatchObject({ status: "SYNCING", result: [] });
  decide = () => undefined;
  await mint(200);
  await synced(service, nft.address, await height());
  expect(lines.find(({ msg }) => msg === "the node has caught up")).toBeDefined();
  expect((await service.get(`/api/v2/erc20/${token.address}/price`)).status).toBe(404);
});
