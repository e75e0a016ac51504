/** A chain that can't answer says so: in a header of each answer, and with 503 where nothing is known of a collection. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { eventually, startTestService, synced, temporaryLogUrl } from "../support/service.ts";

let right: Anvil;
let wrong: Anvil;
let nft: Deployed;

beforeAll(async () => {
  [right, wrong] = await Promise.all([startAnvil(), startAnvil({ chainId: 5 })]);
  nft = await deploy(right, await contractArtifact("PlainNft"), ["Right", "ONE"]);
  await transact(right, nft.contract, "mint", [right.accounts[1], 1n]);
});
afterAll(() => Promise.all([right?.stop(), wrong?.stop()]));

test("an endpoint of another chain", async () => {
  const logUrl = temporaryLogUrl();
  const before = await startTestService({ rpcUrl: right.url, logUrl });
  const known = await synced(before, nft.address, Number(await right.send("eth_blockNumber")));
  expect(known.headers.has("x-chain-status")).toBe(false);
  await before.stop();
  const service = await startTestService({ rpcUrl: wrong.url, logUrl });
  const unknown = await eventually("the fault is known", async () => {
    const answer = await service.get(`/api/v2/nft/0x${"12".repeat(20)}`);
    return answer.status === 503 ? answer : undefined;
  });
  expect(unknown.body).toMatchObject({ code: "chain_unavailable", details: { state: "wrong_chain" } });
  expect(unknown.body.message).toBe(
    "eth can't be read: its endpoints are of another chain; the operator sees which in /api/status",
  );
  expect(unknown.headers.get("retry-after")).toBe("30");
  const price = await service.get(`/api/v2/erc20/${nft.address}/price`);
  expect([price.status, price.body.code, price.body.details]).toEqual([
    ...[503, "chain_unavailable", { state: "wrong_chain" }],
  ]);
  // What is known stays readable, with the word that it may be old.
  const page = await service.get(`/api/v2/nft/${nft.address}`);
  expect([page.status, page.headers.get("x-chain-status")]).toEqual([200, "wrong_chain"]);
  expect(page.body.result.map(({ name }: { name: string }) => name)).toEqual(["Right"]);
  await service.stop();
});
