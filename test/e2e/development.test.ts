/**
 * Nodes that report their newest block as final. A development node may revert it with `evm_revert`, so its blocks are
 * final by depth. A chain with instant finality is trusted. (`test/long` runs Hardhat and Ganache themselves.)
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, reorg, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { recordingLogger, WARN } from "../support/logged.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { eventually, startTestService, synced, temporaryLogUrl } from "../support/service.ts";

let anvil: Anvil;
let nft: Deployed;

const height = async (): Promise<number> => Number(await anvil.send("eth_blockNumber"));

beforeAll(async () => {
  anvil = await startAnvil();
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Dev", "DEV"]);
});
afterAll(() => anvil.stop());

test.each([
  ["HardhatNetwork/2.29.1/@ethereumjs/vm", true],
  ["Ganache/v7.9.2/EthereumJS TestRPC/v7.9.2/ethereum-js", true],
  ["anvil/v1.7.1", true],
  ["AvalancheGo/v1.13.0/linux-amd64", false],
])("treats %s as a development node: %p", async (client, isDevelopment) => {
  const { logger, lines } = recordingLogger("info");
  const proxy = await startRpcProxy(anvil.url, {
    onRequest: async ({ method, params }) => {
      if (method === "web3_clientVersion") return { result: client };
      const isTag = method === "eth_getBlockByNumber" && params[0] === "finalized";
      return isTag ? { result: await anvil.send("eth_getBlockByNumber", ["latest", false]) } : undefined;
    },
  });
  const service = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl(), logger });
  const page = () => service.get(`/api/v2/nft/${nft.address}`);
  await transact(anvil, nft.contract, "mint", [anvil.accounts[1], BigInt(await height())]);
  await anvil.mine(3);
  const before = await synced(service, nft.address, await height());
  expect(before.headers.get("x-finality")).toBe(isDevelopment ? "latest" : "finalized");
  const said = lines.filter(({ msg }) => msg.startsWith("a development node calls its head final"));
  expect(said).toEqual(
    isDevelopment ? [expect.objectContaining({ level: WARN, client: client.split("/")[0], depth: 64 })] : [],
  );
  expect(proxy.count("web3_clientVersion")).toBe(1);
  if (isDevelopment) {
    const hash = before.headers.get("x-as-of-hash");
    await reorg(anvil, 2);
    await eventually("the fork is followed", async () => {
      const { headers } = await page();
      return headers.get("x-as-of-hash") === hash ? undefined : true;
    });
    expect((await page()).headers.has("x-chain-status")).toBe(false);
  }
  await service.stop();
  await proxy.stop();
});
