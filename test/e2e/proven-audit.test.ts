/** The self-audit proves a holding by the state of the block, so a node whose answers agree with its logs can't hide drift. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

const OWNER_OF = "0x6352211e";

let anvil: Anvil;
let proxy: RpcProxy;
let service: TestService;
let liar: Deployed;

beforeAll(async () => {
  anvil = await startAnvil();
  const [, logged, real] = anvil.accounts as [string, string, string];
  liar = await deploy(anvil, await contractArtifact("LyingNft"));
  await transact(anvil, liar.contract, "mint", [logged, real, 1]);
  proxy = await startRpcProxy(anvil.url, {
    // Whatever the state says, the node names the owner of the log.
    onResult: ({ method, params }, result) => {
      const { to, data = "" } = (params[0] ?? {}) as { to?: string; data?: string };
      const isAsked = method === "eth_call" && to === liar.address.toLowerCase() && data.startsWith(OWNER_OF);
      return isAsked && result !== "0x" ? `0x${logged.slice(2).padStart(64, "0")}` : result;
    },
  });
  service = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl(), auditMs: 50 });
  await synced(service, liar.address, liar.blockNumber + 1);
});

afterAll(async () => {
  await service?.stop();
  await proxy?.stop();
  await anvil?.stop();
});

test("drift that only the state shows is counted, and puts the collection in doubt", async () => {
  await eventually("drift is counted", async () => {
    const text = await (await service.fetch("/metrics")).text();
    const drift = Number(/^audit_drift_total\{chain="eth"\} (\d+)$/m.exec(text)?.[1]);
    return drift > 0 ? drift : undefined;
  });
  expect(proxy.count("eth_getProof")).toBeGreaterThan(0);
});
