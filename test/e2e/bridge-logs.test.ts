/**
 * Two endpoints, one of which lacks the logs of a bridge. No header's bloom has them, so that no bloom tells which endpoint
 * is right. The contract does: it is asked for its owners, and the collection is read again until they agree.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { AbiCoder, keccak256, zeroPadValue } from "ethers";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { recordingLogger } from "../support/logged.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import {
  eventually,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

const TOKENS = 50;
/** Storage slot of the owners in OpenZeppelin's ERC721, after name and symbol. */
const OWNERS_SLOT = 2;
/** Selector of `ownerOf(uint256)`. */
const OWNER_OF = "6352211e";
const NO_BLOOM = `0x${"0".repeat(512)}`;

interface WireLog {
  readonly blockNumber: string;
}

let anvil: Anvil;
let nft: Deployed;
let next = TOKENS;
/** Blocks with a log of the bridge. */
const bridged = new Set<number>();
const started: { stop(): Promise<void> }[] = [];

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400 });
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Bridged", "BRG"]);
  for (let id = 0; id < TOKENS; id++) await mint(id, id % 2 === 0);
  await anvil.mine(70);
}, 300_000);
afterAll(() => anvil.stop());
afterEach(async () => {
  for (const one of started.splice(0).reverse()) await one.stop();
});

const height = async () => Number(await anvil.send("eth_blockNumber"));

async function mint(id: number, isOfBridge: boolean): Promise<void> {
  if (isOfBridge) bridged.add((await height()) + 1);
  await transact(anvil, nft.contract, "mint", [anvil.accounts[1 + (id % 5)], BigInt(id)]);
}

/** @param hasRoots false for headers whose root is not that of the receipts, as on a chain with other receipts */
async function nodeOf({ hasBridge, hasRoots }: { hasBridge: boolean; hasRoots: boolean }): Promise<RpcProxy> {
  const proxy = await startRpcProxy(anvil.url, {
    onResult: ({ method, params }, result) => {
      if (method === "eth_getBlockByNumber" && result !== null) {
        const header = result as { readonly number: string };
        const roots = hasRoots ? {} : { receiptsRoot: `0x${"12".repeat(32)}` };
        return { ...header, ...roots, ...(bridged.has(Number(header.number)) ? { logsBloom: NO_BLOOM } : {}) };
      }
      if (hasBridge) return result;
      if (method === "eth_getLogs") {
        return (result as WireLog[]).filter(({ blockNumber }) => !bridged.has(Number(blockNumber)));
      }
      if (method !== "eth_getBlockReceipts" || !bridged.has(Number(params[0]))) return result;
      return (result as object[]).map((receipt) => ({ ...receipt, logs: [], logsBloom: NO_BLOOM }));
    },
  });
  started.push(proxy);
  return proxy;
}

async function pairOf(hasRoots: boolean, VERIFY: string): Promise<TestService> {
  const nodes = [await nodeOf({ hasBridge: false, hasRoots }), await nodeOf({ hasBridge: true, hasRoots })];
  const rpcUrl = nodes.map(({ url }) => url).join();
  const service = await startTestService({ rpcUrl, logUrl: temporaryLogUrl(), env: { VERIFY }, auditMs: 200 });
  started.push(service);
  return service;
}

const whole = (service: TestService) =>
  eventually(
    "all tokens are listed",
    async () => {
      const { body } = await service.get(`/api/v2/nft/${nft.address}?limit=500`);
      return body.status === "SYNCED" && body.result.length === next ? body : undefined;
    },
    30_000,
  );

describe.each(["sample", "headers", "receipts"])("VERIFY=%s", (VERIFY) => {
  for (const hasRoots of [true, false]) {
    test(`all tokens are listed, also those that come later; receipts make the root: ${hasRoots}`, async () => {
      const service = await pairOf(hasRoots, VERIFY);
      await synced(service, nft.address, (await height()) - 70);
      await whole(service);
      for (let more = 0; more < 4; more++) await mint(next++, more % 2 === 0);
      await anvil.mine(2);
      await whole(service);
      const { body } = await service.get(`/api/collections/eth/${nft.address}`);
      expect([body.status, body.inDoubt]).toEqual(["following", null]);
    }, 90_000);
  }
});

test("a start asks no contract for its owners that was compared before", async () => {
  const nodes = [await nodeOf({ hasBridge: true, hasRoots: true }), await nodeOf({ hasBridge: true, hasRoots: true })];
  const rpcUrl = nodes.map(({ url }) => url).join();
  const logUrl = temporaryLogUrl();
  const askedOwners = () =>
    nodes.flatMap(({ calls }) =>
      calls.filter(({ method, params }) => method === "eth_call" && JSON.stringify(params).includes(OWNER_OF)),
    ).length;
  const first = await startTestService({ rpcUrl, logUrl });
  await synced(first, nft.address, await height());
  await eventually("the owners are compared", async () => (askedOwners() > 0 ? true : undefined));
  await first.stop();
  const before = askedOwners();
  const second = await startTestService({ rpcUrl, logUrl });
  started.push(second);
  for (let more = 0; more < 3; more++) {
    await anvil.mine();
    await synced(second, nft.address, await height());
  }
  expect(askedOwners()).toBe(before);
}, 300_000);

test("owners that no log explains are in doubt until the receipts show that the contract contradicts itself", async () => {
  const node = await nodeOf({ hasBridge: true, hasRoots: true });
  const service = await startTestService({ rpcUrl: node.url, logUrl: temporaryLogUrl(), auditMs: 100 });
  started.push(service);
  await synced(service, nft.address, await height());
  const doubts: (string | undefined)[] = [];
  const socket = new WebSocket(service.socketUrl, { headers: { "x-api-key": TEST_KEY } } as never);
  socket.onmessage = ({ data }) => {
    const { type, status, inDoubt } = JSON.parse(String(data));
    if (type === "status") doubts.push(inDoubt === undefined ? status : `${status}: ${inDoubt.reason}`);
  };
  socket.onopen = () => socket.send(JSON.stringify({ action: "subscribe", chain: "eth", address: nft.address }));
  await eventually("the subscription is there", async () => doubts[0]);
  // Token 3 changes its owner without a log.
  const slot = keccak256(AbiCoder.defaultAbiCoder().encode(["uint256", "uint256"], [3, OWNERS_SLOT]));
  const thief = anvil.accounts[8] as string;
  await anvil.send("anvil_setStorageAt", [nft.address, slot, zeroPadValue(thief, 32)]);
  await anvil.mine();
  await eventually("the doubt is settled", async () => (doubts.length === 3 ? true : undefined), 60_000);
  expect(doubts).toEqual([
    "SYNCED",
    expect.stringMatching(/^SYNCED: token 3: the logs give 1 to .*the contract 0$/),
    "SYNCED",
  ]);
  const { body } = await service.get(`/api/collections/eth/${nft.address}`);
  expect([body.status, body.inDoubt]).toEqual(["following", null]);
  socket.close();
}, 300_000);

test("a doubt stays while an endpoint is silent that may know why", async () => {
  const nodes = [await nodeOf({ hasBridge: true, hasRoots: true }), await nodeOf({ hasBridge: true, hasRoots: true })];
  const { logger, lines } = recordingLogger("info");
  const rpcUrl = nodes.map(({ url }) => url).join();
  const service = await startTestService({ rpcUrl, logUrl: temporaryLogUrl(), auditMs: 100, logger });
  started.push(service);
  await synced(service, nft.address, await height());
  await nodes[1]?.stop();
  const slot = keccak256(AbiCoder.defaultAbiCoder().encode(["uint256", "uint256"], [5, OWNERS_SLOT]));
  await anvil.send("anvil_setStorageAt", [nft.address, slot, zeroPadValue(anvil.accounts[8] as string, 32)]);
  await anvil.mine();
  const stays = () => lines.find(({ msg }) => msg === "owners stay in doubt");
  const line = await eventually("the second reading can't tell", async () => stays(), 60_000);
  expect(line).toMatchObject({
    chain: "eth",
    why: expect.stringMatching(/^not every endpoint tells the logs of block/),
  });
  const { body } = await service.get(`/api/collections/eth/${nft.address}`);
  expect(body.inDoubt).toMatchObject({ reason: expect.stringMatching(/^token [35]: the logs give 1 to/) });
}, 300_000);
