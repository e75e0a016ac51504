/**
 * Two replicas over a PostgreSQL log that goes back: a backup is restored under them, as after the promotion of a
 * standby without the last commits. Meanwhile the chain replaces the blocks that the lost records told of. No replica
 * serves an owner of the lost branch afterwards, and both recover by themselves.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, reorg, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { type Market, seedMarket } from "../../scripts/local-chain/market.ts";
import type { Address } from "../../src/core/hex.ts";
import { backUp } from "../support/backup.ts";
import { sharedPostgres } from "../support/postgres.ts";
import { eventually, startTestService, synced, type TestService, walkListing } from "../support/service.ts";

const TOKENS = 12;

let anvil: Anvil;
let nft: Deployed;
let market: Market;
let url: string;
let replicas: readonly [TestService, TestService];

beforeAll(async () => {
  anvil = await startAnvil();
  await placeMainnet(anvil);
  market = await seedMarket(anvil, { hours: 1 });
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Plain", "PLN"]);
  for (let id = 0; id < TOKENS; id++) await transact(anvil, nft.contract, "mint", [anvil.accounts[1], id]);
  url = await (await sharedPostgres()).createDatabase();
  const start = () =>
    startTestService({ rpcUrl: anvil.url, logUrl: url, env: { CURSOR_SECRET: "the same everywhere" } });
  replicas = [await start(), await start()];
  for (const replica of replicas) await synced(replica, nft.address);
});
afterAll(async () => {
  await Promise.all((replicas ?? []).map((replica) => replica.stop()));
  await anvil?.stop();
});

const height = async () => Number(await anvil.send("eth_blockNumber", []));

/** Transfers tokens from account 1, a block each. */
async function give(ids: readonly number[], to: number): Promise<void> {
  const from = anvil.accounts[1] as string;
  for (const id of ids) await transact(anvil, nft.contract, "transferFrom", [from, anvil.accounts[to], id], { from });
}

async function truth(): Promise<string[]> {
  const owners: string[] = [];
  for (let id = 0; id < TOKENS; id++)
    owners.push(((await nft.contract.getFunction("ownerOf")(id)) as string).toLowerCase());
  return owners;
}

async function ownersOn(replica: TestService): Promise<string[] | undefined> {
  const records = await walkListing(replica, nft.address, "limit=5").catch(() => undefined);
  return records?.map(({ owner_of }) => owner_of as Address);
}

test.each([1, 2])("serves the chain's owners and prices again after the log went back, round %d", async (round) => {
  const answered = (replica: TestService) => async () =>
    (await replica.get("/health/ready")).status === 200 ? true : undefined;
  const restore = await backUp(url);
  for (const replica of replicas) await eventually("the log answers", answered(replica));
  const [a, b, c, d, e] = [0, 2, 4, 6, 8].map((id) => id + round) as [number, number, number, number, number];
  await give([a, b], 2);
  const lost = await height();
  for (const replica of replicas) await synced(replica, nft.address, lost);
  const priced = await replicas[0].get(`/api/v2/erc20/${market.demo.address}/price`);
  expect(priced.status).toBe(200);
  const page = await replicas[0].get(`/api/v2/nft/${nft.address}?limit=5`);
  const cursor = encodeURIComponent(page.body.cursor);
  const ofLost = replicas.map((replica) => replica.fetch("/health/ready").then(({ status }) => status));
  expect(await Promise.all(ofLost)).toEqual([200, 200]);

  // The blocks of the lost records leave the chain, and others take their heights.
  await Promise.all([restore(), reorg(anvil, 2)]);
  await give([c, d], 3);
  const restored = performance.now();
  const now = await height();
  for (const replica of replicas) await synced(replica, nft.address, now);
  const seconds = (performance.now() - restored) / 1_000;
  const expected = await truth();
  for (const replica of replicas) expect(await ownersOn(replica)).toEqual(expected);
  for (const replica of replicas) {
    const { status, body } = await replica.get(`/api/v2/nft/${nft.address}?cursor=${cursor}`);
    expect([status, body.code]).toEqual([410, "cursor_reorged"]);
    expect((await replica.get(`/api/v2/erc20/${market.demo.address}/price`)).body).toMatchObject({
      usdPrice: priced.body.usdPrice,
    });
  }
  const metrics = await (await replicas[0].fetch("/metrics")).text();
  expect(metrics).toContain(`log_went_back_total ${round}`);
  expect(seconds).toBeLessThan(20);

  // Following goes on.
  await give([e], 4);
  const later = await height();
  for (const replica of replicas) await synced(replica, nft.address, later);
  for (const replica of replicas) expect(await ownersOn(replica)).toEqual(await truth());
});
