/**
 * One URL in front of several nodes of which half lag: every page is true at its block, and at most a few polls late.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import { type Balancer, startBalancer } from "../support/balancer.ts";
import { startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

let anvil: Anvil;
let balancer: Balancer;
let service: TestService;
let nft: Deployed;

const height = async (): Promise<number> => Number(await anvil.send("eth_blockNumber"));
const mint = (id: number) => transact(anvil, nft.contract, "mint", [anvil.accounts[1], BigInt(id)]);
const TOKENS = 6;
/** A process tells others every five seconds that clients wait for blocks, and every two that the log is its own. */
const OTHER_WAITS: readonly number[] = [5_000, 2_000];
/** Waits of the follower and its requests, in ms. The audit and the lists have longer waits of their own. */
const waits: number[] = [];
const clock: Clock = {
  ...systemClock,
  sleep: (ms, signal) => {
    if (isWatched && !OTHER_WAITS.includes(ms)) waits.push(ms);
    return systemClock.sleep(ms, signal);
  },
};
let isWatched = false;

beforeAll(async () => {
  anvil = await startAnvil();
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Balanced", "BAL"]);
  await mint(1);
  await anvil.mine(80);
  balancer = await startBalancer(anvil.url, { share: 0.5, blocks: 12, seed: 7 });
  service = await startTestService({ rpcUrl: balancer.url, logUrl: temporaryLogUrl(), clock, minPollMs: 1_000 });
  await synced(service, nft.address, await height());
});
afterAll(async () => {
  await service.stop();
  await balancer.stop();
  await anvil.stop();
});

test("follows each block soon and exactly, whichever node answers", async () => {
  isWatched = true;
  for (let id = 2; id <= TOKENS; id++) {
    await mint(id);
    await anvil.mine(2);
    const page = await synced(service, nft.address, await height());
    expect(page.body.result.map(({ token_id }: { token_id: string }) => Number(token_id))).toEqual(
      Array.from({ length: id }, (_, i) => i + 1),
    );
  }
  expect(balancer.counts.behind).toBeGreaterThan(balancer.counts.all / 4);
  // With blocks every second, no failed poll or request is followed by a longer wait.
  expect(Math.max(...waits)).toBeLessThanOrEqual(1_000);
});
