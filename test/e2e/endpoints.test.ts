/**
 * Two endpoints of one chain. The faster, preferred one falls behind: it stops taking blocks, or it stays on a losing
 * branch. The service must follow the other one.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, reorg, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { chainStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { type LatentProxy, latentProxy } from "../support/latency.ts";
import { type Intervention, type RpcCall, type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

/** Number of newest blocks that a frozen node answers from memory. Older blocks are the same on both. */
const REMEMBERED = 40;
/** Delay that always makes the other endpoint the faster one, in ms. */
const LATE_MS = 30;

interface FreezableNode extends RpcProxy {
  /** Freezes the node at the present chain. */
  freeze(): Promise<void>;
  thaw(): void;
}

async function freezable(anvil: Anvil): Promise<FreezableNode> {
  let known: Map<number, unknown> | undefined;
  const behind = async ({ method, params }: RpcCall): Promise<Intervention | undefined> => {
    if (known === undefined) return undefined;
    const newest = Math.max(...known.keys());
    const lowest = Math.min(...known.keys());
    if (method === "eth_getCode" || method === "eth_getTransactionCount") {
      const block = params[1] === "latest" ? newest : Number(params[1]);
      if (block > newest) return { error: { code: -32_000, message: "header not found" } };
      return { result: await anvil.send(method, [params[0], `0x${block.toString(16)}`]) };
    }
    if (method === "eth_blockNumber") return { result: `0x${newest.toString(16)}` };
    if (method === "eth_getBlockByNumber") {
      const number = params[0] === "latest" ? newest : Number(params[0]);
      // Only the real node moves its finalized tag, and final blocks are the same on all branches.
      return Number.isNaN(number) || number < lowest ? undefined : { result: known.get(number) ?? null };
    }
    if (method === "eth_getLogs") {
      const { blockHash, toBlock } = params[0] as { blockHash?: string; toBlock?: string };
      const isKnown = blockHash === undefined && Number(toBlock) < lowest;
      return isKnown ? undefined : { error: { code: -32_000, message: "block not found: header not found" } };
    }
    return undefined;
  };
  const proxy = await startRpcProxy(anvil.url, { onRequest: behind });
  return Object.assign(Object.create(proxy) as RpcProxy, {
    freeze: async () => {
      const newest = Number(await anvil.send("eth_blockNumber"));
      const numbers = Array.from({ length: REMEMBERED }, (_, i) => newest - i);
      const block = (number: number) => anvil.send("eth_getBlockByNumber", [`0x${number.toString(16)}`, false]);
      known = new Map(await Promise.all(numbers.map(async (number) => [number, await block(number)] as const)));
    },
    thaw: () => {
      known = undefined;
    },
  });
}

const logUrl = temporaryLogUrl();
let anvil: Anvil;
let quick: FreezableNode;
let late: LatentProxy;
let service: TestService;
let nft: Deployed;

const mint = (id: bigint) => transact(anvil, nft.contract, "mint", [anvil.accounts[1], id]);
const height = async (): Promise<number> => Number(await anvil.send("eth_blockNumber"));

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400 });
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Two Nodes", "TWO"]);
  await anvil.mine(80);
  await mint(1n);
  quick = await freezable(anvil);
  late = await latentProxy(anvil.url, LATE_MS);
  service = await startTestService({ rpcUrl: `${late.url},${quick.url}`, logUrl });
  await synced(service, nft.address, await height());
  // By now the service knows which endpoint is faster.
  await mint(2n);
  await synced(service, nft.address, await height());
});

afterAll(async () => {
  await service?.stop();
  for (const proxy of [quick, late]) await proxy?.stop();
  await anvil?.stop();
});

test("skips an endpoint that stops taking blocks", async () => {
  await quick.freeze();
  await mint(3n);
  await anvil.mine(2);
  const { body } = await synced(service, nft.address, await height());
  expect(body.result).toHaveLength(3);
  quick.thaw();
});

test("identifies a contract deployed after the frozen endpoint's last block", async () => {
  const fresh = await startTestService({ rpcUrl: `${late.url},${quick.url}`, logUrl: temporaryLogUrl() });
  try {
    // The service knows which endpoint is faster, and has not yet found out that it lags.
    await synced(fresh, nft.address, await height());
    await quick.freeze();
    const young = await deploy(anvil, await contractArtifact("PlainNft"), ["Young", "YNG"]);
    await transact(anvil, young.contract, "mint", [anvil.accounts[1], 1n]);
    const { body } = await synced(fresh, young.address, await height());
    expect(body.result).toHaveLength(1);
  } finally {
    await fresh.stop();
    quick.thaw();
  }
});

test("does not return to a losing branch on which one endpoint stays", async () => {
  await quick.freeze();
  await reorg(anvil, 2);
  await mint(4n);
  const { body } = await synced(service, nft.address, await height());
  expect(body.result).toHaveLength(4);
  for (let i = 0; i < 5; i++) {
    await anvil.mine();
    await synced(service, nft.address, await height());
  }
  await service.stop();
  const log = await openLog(logUrl, systemClock, silentLogger);
  const events = await log.read(chainStream(1));
  await log.close();
  expect(events.filter(({ event }) => event.type === "ChainReverted")).toHaveLength(1);
});
