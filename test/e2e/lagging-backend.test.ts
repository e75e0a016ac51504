/**
 * Two nodes behind one URL, one of which is two blocks behind and refuses newer ones in its client's words, or says
 * nothing. That is a lag: collections stay complete, and no subscriber hears of a failure.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { type Intervention, type RpcCall, type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { startTestService, synced, TEST_KEY, temporaryLogUrl } from "../support/service.ts";

/** What a node answers about a block above its head: a refusal of logs, or "silent", as clients did until 2025. */
const DIALECTS: readonly (readonly [client: string, refusal: { code: number; message: string } | "silent"])[] = [
  ["geth and reth", { code: -32602, message: "block range extends beyond current head block" }],
  ["geth before, reth, nitro", { code: -32602, message: "invalid block range params" }],
  ["hyperliquid", { code: -32602, message: "invalid block range" }],
  ["bsc", { code: -32000, message: "header not found" }],
  ["besu", { code: -32000, message: "Block not found" }],
  ["erigon", { code: -32000, message: "end (31) is greater than latest block (29)" }],
  ["avalanche", { code: -32000, message: "requested to block 31 after last accepted block 29" }],
  ["openethereum", { code: -32015, message: "One of the blocks specified in filter cannot be found" }],
  ["a client that no list has", { code: -32099, message: "der Mond ist nicht aufgegangen" }],
  ["an old client", "silent"],
];
const LAG = 2;

let anvil: Anvil;
beforeAll(async () => {
  anvil = await startAnvil();
});
afterAll(() => anvil.stop());

const height = async () => Number(await anvil.send("eth_blockNumber"));

/** Answers every other HTTP request, with all calls of its batch, like a node whose head is two blocks lower. */
async function startPair(refusal: (typeof DIALECTS)[number][1]): Promise<RpcProxy> {
  const lagging = async ({ method, params }: RpcCall): Promise<Intervention | undefined> => {
    const head = (await height()) - LAG;
    const [given] = params;
    const isAbove = (tag: unknown) => typeof tag === "string" && tag.startsWith("0x") && Number(tag) > head;
    const block = async (number: number) => ({
      result: await anvil.send("eth_getBlockByNumber", [`0x${number.toString(16)}`, false]),
    });
    if (method === "eth_blockNumber") return { result: `0x${head.toString(16)}` };
    if (method === "eth_getBlockByNumber") {
      if (given === "latest") return block(head);
      return isAbove(given) ? { result: null } : undefined;
    }
    if (method === "eth_getBlockReceipts") return isAbove(given) ? { result: null } : undefined;
    if (method !== "eth_getLogs") return undefined;
    const { fromBlock, toBlock } = given as { fromBlock?: string; toBlock?: string };
    if (!isAbove(toBlock)) return undefined;
    if (refusal !== "silent") return { error: refusal };
    if (isAbove(fromBlock)) return { result: [] };
    const last = `0x${head.toString(16)}`;
    return { result: await anvil.send("eth_getLogs", [{ ...(given as object), toBlock: last }]) };
  };
  const proxy: RpcProxy = await startRpcProxy(anvil.url, {
    onRequest: (call) => (proxy.requests % 2 === 0 ? undefined : lagging(call)),
  });
  return proxy;
}

test.each(DIALECTS)(
  "%s: a backend that is behind is no failure of a collection",
  async (_client, refusal) => {
    const nft: Deployed = await deploy(anvil, await contractArtifact("PlainNft"), ["Lag", "LAG"]);
    const owner = anvil.accounts[1] as string;
    for (let id = 0; id < 4; id++) await transact(anvil, nft.contract, "mint", [owner, BigInt(id)]);
    await anvil.mine(4);
    const proxy = await startPair(refusal);
    const service = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
    await synced(service, nft.address, (await height()) - LAG);
    const kinds: string[] = [];
    const socket = new WebSocket(service.socketUrl, { headers: { "x-api-key": TEST_KEY } } as never);
    socket.onmessage = ({ data }) => {
      const { type, inDoubt } = JSON.parse(String(data)) as { type: string; inDoubt?: unknown };
      kinds.push(inDoubt === undefined ? type : `${type} in doubt`);
    };
    socket.onopen = () => socket.send(JSON.stringify({ action: "subscribe", chain: "eth", address: nft.address }));
    let looks = 0;
    let syncing = 0;
    for (let id = 4; id < 12; id++) {
      await transact(anvil, nft.contract, "mint", [owner, BigInt(id)]);
      const { body } = await service.get(`/api/v2/nft/${nft.address}`);
      looks++;
      if (body.status !== "SYNCED") syncing++;
    }
    const { body } = await synced(service, nft.address, await height());
    expect(body.result).toHaveLength(12);
    expect([looks, syncing]).toEqual([8, 0]);
    expect(kinds.filter((kind) => kind === "failed" || kind.endsWith("in doubt"))).toEqual([]);
    socket.close();
    await service.stop();
    await proxy.stop();
  },
  60_000,
);
