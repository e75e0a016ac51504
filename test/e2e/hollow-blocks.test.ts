/**
 * Nodes that answer with no logs and no receipts although the headers' blooms name some: they dropped old blocks without
 * a word, or failed to store a new one. No collection is called complete by such an answer.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

const TOKENS = 30;
const MODES = ["sample", "headers", "receipts"] as const;

let anvil: Anvil;
let nft: Deployed;
/** Block of the 21st token's mint. */
let twentieth = 0;
const started: { stop(): Promise<void> }[] = [];

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400 });
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Hollow", "HLW"]);
  for (let id = 0; id < TOKENS; id++) {
    if (id === 20) twentieth = (await height()) + 1;
    await move("mint", [anvil.accounts[1], BigInt(id)]);
  }
  await anvil.mine(70);
}, 300_000);
afterAll(() => anvil.stop());
afterEach(async () => {
  for (const one of started.splice(0).reverse()) await one.stop();
});

const height = async () => Number(await anvil.send("eth_blockNumber"));
const move = (method: string, args: readonly unknown[]) =>
  transact(anvil, nft.contract, method, args, { from: anvil.accounts[1] as string });

/** A node without logs and receipts of some blocks. `isHeld` says of which it has them. */
async function nodeWith(isHeld: (block: number) => boolean): Promise<RpcProxy> {
  const proxy = await startRpcProxy(anvil.url, {
    onResult: ({ method, params }, result) => {
      if (method === "eth_getBlockReceipts" && !isHeld(Number(params[0]))) return [];
      if (method !== "eth_getLogs") return result;
      return (result as { blockNumber: string }[]).filter(({ blockNumber }) => isHeld(Number(blockNumber)));
    },
  });
  started.push(proxy);
  return proxy;
}

async function serviceOf(rpcUrl: string, VERIFY: string): Promise<TestService> {
  const service = await startTestService({ rpcUrl, logUrl: temporaryLogUrl(), env: { VERIFY } });
  started.push(service);
  return service;
}

const rowOf = async (service: TestService) => (await service.get(`/api/collections/eth/${nft.address}`)).body;

describe.each(MODES)("VERIFY=%s", (VERIFY) => {
  test("a node that dropped old logs without a word is named, with the block and the way out", async () => {
    const node = await nodeWith((block) => block >= twentieth);
    const service = await serviceOf(node.url, VERIFY);
    await service.get(`/api/v2/nft/${nft.address}`);
    const row = await eventually("the attempt fails", async () => {
      const found = await rowOf(service);
      return found.lastError ? found : undefined;
    });
    expect(row.status).toBe("failing");
    expect(row.lastError).toContain(`no logs before block ${twentieth}`);
    expect(row.lastError).toContain("RPC_URL_ETH");
    const page = await service.get(`/api/v2/nft/${nft.address}`);
    expect(page.body.status).toBe("SYNCING");
  });

  test("another endpoint that has the old logs is asked for them", async () => {
    const nodes = [await nodeWith((block) => block >= twentieth), await nodeWith(() => true)];
    const service = await serviceOf(nodes.map(({ url }) => url).join(), VERIFY);
    const { body } = await synced(service, nft.address, await height());
    expect(body.result).toHaveLength(TOKENS);
  });

  test("a followed block without its logs and receipts leaves the collection in doubt until they come", async () => {
    let hollow = -1;
    const node = await nodeWith((block) => block !== hollow);
    const service = await serviceOf(node.url, VERIFY);
    await synced(service, nft.address, await height());
    hollow = (await height()) + 1;
    const receiver = anvil.accounts[2] as string;
    const id = MODES.indexOf(VERIFY);
    await move("transferFrom", [anvil.accounts[1], receiver, BigInt(id)]);
    const row = await eventually("the collection is in doubt", async () => {
      const found = await rowOf(service);
      return found.inDoubt ? found : undefined;
    });
    expect(row.inDoubt).toMatchObject({ block: hollow, reason: expect.stringContaining("header") });
    expect((await service.get(`/api/v2/nft/${nft.address}`)).body.status).toBe("SYNCING");
    hollow = -1;
    const { body } = await eventually("the transfer is listed", () => synced(service, nft.address, 0), 30_000);
    expect(body.result[id].owner_of).toBe(receiver);
    expect((await rowOf(service)).inDoubt).toBeNull();
  }, 300_000);
});

test("blooms that are full and name transfers that were never there are no sign of dropped logs", async () => {
  const full = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400 });
  started.push(full);
  const noise = await deploy(full, await contractArtifact("NoiseEmitter"), []);
  const amounts = await deploy(full, await contractArtifact("UncountedAmounts"), []);
  // No block has a transfer of ERC-20 or ERC-721. Each bloom names one.
  for (let block = 0; block < 12; block++) await transact(full, noise.contract, "emitNoise", [BigInt(block), 900n]);
  await transact(full, amounts.contract, "mint", [full.accounts[1], 5n, 3n]);
  await full.mine(70);
  const service = await serviceOf(full.url, "sample");
  await synced(service, amounts.address);
});
