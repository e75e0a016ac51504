/**
 * A node that refuses the usual things in words of its own: long batches, wide ranges, old state, the finalized tag,
 * receipts. Indexing and following rely on what it does answer.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { type Intervention, type RpcCall, type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

const [STATES, BLOCKS, BATCH] = [128, 40, 12];
const refusal: Intervention = { error: { code: -32_099, message: "nuqneH" } };
const STATE_METHODS = ["eth_call", "eth_getCode", "eth_getBalance", "eth_getTransactionCount"];

let anvil: Anvil;
let nft: Deployed;
const services: TestService[] = [];
const proxies: RpcProxy[] = [];

const mint = (id: bigint) => transact(anvil, nft.contract, "mint", [anvil.accounts[1], id]);
const height = async (): Promise<number> => Number(await anvil.send("eth_blockNumber"));

beforeAll(async () => {
  anvil = await startAnvil();
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Old", "OLD"]);
  for (let id = 1n; id <= 5n; id++) await mint(id);
  await anvil.send("anvil_mine", ["0x1f4"]);
  await mint(6n);
});
afterAll(async () => {
  for (const service of services) await service.stop();
  for (const proxy of proxies) await proxy.stop();
  await anvil.stop();
});

/** @param wide the refusal of a range of too many blocks */
async function serviceOn(wide: Intervention): Promise<{ service: TestService; proxy: RpcProxy }> {
  let head = await height();
  const decide = ({ method, params }: RpcCall): Intervention | undefined => {
    if (method === "eth_getBlockByNumber" && params[0] === "finalized") return refusal;
    if (method === "eth_getBlockReceipts") return refusal;
    if (STATE_METHODS.includes(method) && params[1] !== "latest" && Number(params[1]) <= head - STATES) return refusal;
    if (method !== "eth_getLogs") return undefined;
    const { fromBlock, toBlock } = params[0] as { fromBlock?: string; toBlock?: string };
    return Number(toBlock) - Number(fromBlock) >= BLOCKS ? wide : undefined;
  };
  const proxy = await startRpcProxy(anvil.url, { onRequest: decide, maxBatch: { calls: BATCH, refusal } });
  proxies.push(proxy);
  const service = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
  services.push(service);
  head = await height();
  return { service, proxy };
}

test.each([
  ["words", refusal],
  ["a status", { status: 400, body: "nuqneH" }],
] as const)(
  "indexes and follows a collection older than the node's state (wide ranges refused by %s)",
  async (_how, wide) => {
    const { service } = await serviceOn(wide);
    const first = await synced(service, nft.address, await height());
    expect(first.body.result.map(({ token_id }: { token_id: string }) => token_id).slice(0, 6)).toEqual([
      "1",
      "2",
      "3",
      "4",
      "5",
      "6",
    ]);
    const id = BigInt(100 + services.length);
    await mint(id);
    const then = await synced(service, nft.address, await height());
    expect(then.body.result.at(-1).token_id).toBe(String(id));
  },
);
