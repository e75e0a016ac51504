/**
 * How a collection joins the followed head, on a real chain behind a proxy that counts requests. The follower doesn't
 * request again what it already knows, and still finds logs that an endpoint omitted.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

/** Number of blocks below anvil's head that are not final by default. */
const UNFINALISED = 64;
let anvil: Anvil;
let proxy: RpcProxy;
let service: TestService;
let first: Deployed;
let second: Deployed;
/** Every `eth_getLogs` answer omits the logs of this block. */
let hidden = -1;

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400 });
  const artifact = await contractArtifact("PlainNft");
  first = await deploy(anvil, artifact, ["First", "ONE"]);
  second = await deploy(anvil, artifact, ["Second", "TWO"]);
  await anvil.mine(UNFINALISED * 2);
  for (const { contract } of [first, second]) await transact(anvil, contract, "mint", [anvil.accounts[1], 1n]);
  await anvil.mine(3);
  await transact(anvil, second.contract, "mint", [anvil.accounts[2], 2n]);
  hidden = Number(await anvil.send("eth_blockNumber", []));
  await anvil.mine(3);
  proxy = await startRpcProxy(anvil.url, {
    onResult: ({ method }, result) =>
      method === "eth_getLogs"
        ? (result as { blockNumber: string }[]).filter(({ blockNumber }) => Number(blockNumber) !== hidden)
        : result,
  });
  service = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
});

afterAll(async () => {
  await service?.stop();
  await proxy?.stop();
  await anvil?.stop();
});

/** Numbers of the headers that were requested since the last call. */
function headersAsked(): number[] {
  const numbers = proxy.calls
    .filter(({ method, params }) => method === "eth_getBlockByNumber" && String(params[0]).startsWith("0x"))
    .map(({ params }) => Number(params[0]));
  proxy.reset();
  return numbers;
}

test("makes the follower read the headers of blocks that are not final for the first collection", async () => {
  const { body } = await synced(service, first.address);
  expect(body.result).toHaveLength(1);
  expect(new Set(headersAsked()).size).toBeGreaterThanOrEqual(UNFINALISED);
});

test("checks the second collection by those headers, and finds its omitted logs", async () => {
  const { body } = await synced(service, second.address);
  expect((body.result as { token_id: string }[]).map(({ token_id }) => token_id).sort()).toEqual(["1", "2"]);
  // Only the end of the final history and the head, which shows the node's branch.
  expect(headersAsked().length).toBeLessThan(8);
});

test("joins at the node's head of that moment, not at the head of the last poll", async () => {
  await transact(anvil, second.contract, "mint", [anvil.accounts[3], 3n]);
  const third = await deploy(anvil, await contractArtifact("PlainNft"), ["Third", "THREE"]);
  await transact(anvil, third.contract, "mint", [anvil.accounts[3], 7n]);
  const { body } = await synced(service, third.address);
  expect(body.result).toHaveLength(1);
});
