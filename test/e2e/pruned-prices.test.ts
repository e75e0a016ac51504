/**
 * Prices behind a node that has pruned its old blocks, receipts, logs and states, and without an archive: today's price needs
 * none of them, and a past one is refused with the first block that can be read.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy } from "../../scripts/local-chain/contracts.ts";
import { MAINNET, placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { seedMarket } from "../../scripts/local-chain/market.ts";
import { createV2Pair } from "../../scripts/local-chain/pools.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { startTestService, type TestService, temporaryLogUrl } from "../support/service.ts";

const ETHER = 10n ** 18n;
const HISTORY = ["eth_getLogs", "eth_getBlockByNumber", "eth_getBlockReceipts"];
const STATE = ["eth_call", "eth_getBalance", "eth_getCode"];

let anvil: Anvil;
let proxy: RpcProxy;
let service: TestService;
let token: string;
let cut: number;

beforeAll(async () => {
  anvil = await startAnvil({ slotsInAnEpoch: 1, genesisTimestamp: Math.floor(Date.now() / 1_000) - 27 * 3_600 });
  await placeMainnet(anvil);
  await seedMarket(anvil);
  ({ address: token } = await deploy(anvil, await contractArtifact("TestToken"), ["Old", "OLD", 18]));
  await createV2Pair(anvil, {
    ...{ factory: MAINNET.uniswapV2Factory, tokenA: token, amountA: 1_000n * ETHER },
    ...{ tokenB: MAINNET.weth, amountB: 400n * ETHER },
  });
  await anvil.mine(300);
  cut = Number(await anvil.send("eth_blockNumber", [])) - 100;
  proxy = await startRpcProxy(anvil.url, {
    onRequest: ({ method, params }) => {
      const [first, second] = params as [{ fromBlock?: string }, string];
      if (STATE.includes(method)) {
        return Number(second) < cut ? { error: { code: -32_000, message: "missing trie node" } } : undefined;
      }
      if (!HISTORY.includes(method)) return undefined;
      const block = Number(method === "eth_getLogs" ? (first.fromBlock ?? Number.NaN) : first);
      return block < cut ? { error: { code: 4444, message: "pruned history unavailable" } } : undefined;
    },
  });
  const env = { ARCHIVE_URL_ETH: "off" };
  service = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl(), env });
}, 300_000);
afterAll(async () => {
  await service?.stop();
  await proxy?.stop();
  await anvil?.stop();
});

describe("behind a node that has pruned its history", () => {
  test("a price at the head is answered, with the figures that can be known", async () => {
    const { status, body } = await service.get(
      `/api/v2/erc20/${token}/price?include=percent_change,provenance,pair,depth`,
    );
    expect(status).toBe(200);
    expect(Number(body.usdPrice)).toBeGreaterThan(0);
  });

  test("a price at a block that is there is answered", async () => {
    const { status, body } = await service.get(`/api/v2/erc20/${token}/price?to_block=${cut + 10}`);
    expect(status).toBe(200);
    expect(Number(body.usdPrice)).toBeGreaterThan(0);
  });

  test("a price at a pruned block is refused with the first block that is there", async () => {
    const { status, body, headers } = await service.get(`/api/v2/erc20/${token}/price?to_block=${cut - 50}`);
    expect(status).toBe(409);
    expect(body).toMatchObject({ code: "history_pruned", details: { block: cut } });
    expect(headers.get("retry-after")).toBeNull();
  });

  test("a series has the points that can be read", async () => {
    const { status, body } = await service.get(`/api/prices/eth/${token}/series?from=${cut}&points=5`);
    expect(status).toBe(200);
    expect(body.result).toHaveLength(5);
  });
});
