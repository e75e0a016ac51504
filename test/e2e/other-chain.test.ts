/**
 * A log whose node is replaced by that of another chain with the same id: a test network that began anew, or another
 * development chain. One final block tells, before anything else is asked, and nothing of the other chain is recorded.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { openLog } from "../../src/log/open.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { eventually, startTestService, synced, temporaryLogUrl } from "../support/service.ts";

const HOUR_AGO = Math.floor(Date.now() / 1_000) - 86_400;
let first: Anvil;
let other: Anvil;
let nft: Deployed;

beforeAll(async () => {
  [first, other] = await Promise.all([
    startAnvil({ genesisTimestamp: HOUR_AGO, slotsInAnEpoch: 1 }),
    startAnvil({ genesisTimestamp: HOUR_AGO + 7, slotsInAnEpoch: 1 }),
  ]);
  nft = await deploy(first, await contractArtifact("PlainNft"), ["First", "ONE"]);
  await transact(first, nft.contract, "mint", [first.accounts[1], 1n]);
  for (let i = 0; i < 4; i++) await first.mine(300);
  // The same address has another contract there.
  await deploy(other, await contractArtifact("PlainNft"), ["Other", "TWO"]);
  for (let i = 0; i < 8; i++) await other.mine(300);
});
afterAll(() => Promise.all([first?.stop(), other?.stop()]));

/** Calls that find out: some polls ask for one block. */
const FEW = 25;

test("halts after a few calls, and records nothing of the other chain", async () => {
  const logUrl = temporaryLogUrl();
  const before = await startTestService({ rpcUrl: first.url, logUrl });
  await synced(before, nft.address, 1_200);
  // A request that is still open at the restart.
  await before.stop();
  const events = async () => {
    const log = await openLog(logUrl, systemClock, silentLogger);
    const streams = [];
    for (const kind of ["nft/", "chain/", "price/", "priced/", "metadata/"]) {
      for (const { stream } of await log.streams(kind, { limit: 100 })) streams.push(...(await log.read(stream)));
    }
    await log.close();
    return streams.map(({ event }) => event);
  };
  const recorded = (await events()).length;
  const proxy = await startRpcProxy(other.url);
  const service = await startTestService({ rpcUrl: proxy.url, logUrl });
  // A client asks for a contract and for a price meanwhile.
  await service.get(`/api/v2/nft/0x${"12".repeat(20)}`);
  await eventually(
    "the chain is halted",
    async () => {
      const answer = await service.get(`/api/v2/nft/${nft.address}`);
      return answer.headers.get("x-chain-status") === "halted" ? answer : undefined;
    },
    40_000,
  );
  expect(proxy.count()).toBeLessThanOrEqual(FEW);
  const page = await service.get(`/api/v2/nft/${nft.address}`);
  expect(page.body.result.map(({ name }: { name: string }) => name)).toEqual(["First"]);
  await service.stop();
  await proxy.stop();
  const types = (await events()).slice().map(({ type }) => type);
  expect(types.filter((type) => type === "ChainHalted")).toHaveLength(1);
  expect(types.length - recorded).toBeLessThanOrEqual(8);
  expect(types.filter((type) => type === "ContractIdentified")).toHaveLength(1);
});
