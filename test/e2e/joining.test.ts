/**
 * How a collection joins the followed head, on a real chain behind a proxy that counts: what the follower has been told
 * is not asked for again, and still finds what an endpoint left out.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

// Real parts, on machines that have others to serve: the runner's five seconds would kill them in the middle.
setDefaultTimeout(30_000);

/** Below anvil's head, by its default: that many blocks are not final. */
const UNFINALISED = 64;
let anvil: Anvil;
let proxy: RpcProxy;
let service: TestService;
let first: Deployed;
let second: Deployed;
/** The block whose logs no `eth_getLogs` answer has. */
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

/** Numbers of blocks whose headers were asked for since the last look. */
function headersAsked(): number[] {
  const numbers = proxy.calls
    .filter(({ method, params }) => method === "eth_getBlockByNumber" && String(params[0]).startsWith("0x"))
    .map(({ params }) => Number(params[0]));
  proxy.reset();
  return numbers;
}

test("the first collection has the follower read the headers that are not final", async () => {
  const { body } = await synced(service, first.address);
  expect(body.result).toHaveLength(1);
  expect(new Set(headersAsked()).size).toBeGreaterThanOrEqual(UNFINALISED);
});

test("the second one is checked by those, and what was left out of its logs is found", async () => {
  const { body } = await synced(service, second.address);
  expect((body.result as { token_id: string }[]).map(({ token_id }) => token_id).sort()).toEqual(["1", "2"]);
  // The end of the final history and the head, which says on which branch the node is.
  expect(headersAsked().length).toBeLessThan(8);
});

test("the head is the node's at the moment of joining, not the one of the last poll", async () => {
  await transact(anvil, second.contract, "mint", [anvil.accounts[3], 3n]);
  const third = await deploy(anvil, await contractArtifact("PlainNft"), ["Third", "THREE"]);
  await transact(anvil, third.contract, "mint", [anvil.accounts[3], 7n]);
  const { body } = await synced(service, third.address);
  expect(body.result).toHaveLength(1);
});
