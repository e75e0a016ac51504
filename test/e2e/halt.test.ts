/**
 * A fork deeper than finality: the chain broke its own rule. Following stops, loudly; what was known until then is served,
 * marked, and said in the log once.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type Anvil, reorg, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { chainStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

// Real parts, on machines that have others to serve: the runner's five seconds would kill them in the middle.
setDefaultTimeout(30_000);

const logUrl = temporaryLogUrl();
let anvil: Anvil;
let service: TestService;
let nft: Deployed;

beforeAll(async () => {
  // Final is all but the newest two blocks.
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400, slotsInAnEpoch: 1 });
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Halting", "HLT"]);
  await anvil.mine(20);
  await transact(anvil, nft.contract, "mintMany", [anvil.accounts[1], 1, 5]);
  await anvil.mine(5);
  service = await startTestService({ rpcUrl: anvil.url, logUrl });
});

afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

const height = async (): Promise<number> => Number(await anvil.send("eth_blockNumber"));

test("what is known stays served and is marked, and a shallow fork after it does not unmark it", async () => {
  const head = await height();
  const before = await synced(service, nft.address, head);
  expect(before.headers.has("x-chain-status")).toBe(false);
  await eventually("the final block is followed", async () => {
    const { headers } = await service.get(`/api/v2/nft/${nft.address}`);
    return headers.get("x-as-of-block") === String(head) ? true : undefined;
  });

  await reorg(anvil, 12);
  await anvil.mine(3);
  const halted = await eventually("the chain is halted", async () => {
    const answer = await service.get(`/api/v2/nft/${nft.address}`);
    return answer.headers.get("x-chain-status") === "halted" ? answer : undefined;
  });
  expect(halted.body.result).toEqual(before.body.result);
  expect(halted.headers.get("x-as-of-block")).toBe(String(head));
  const metrics = await (await service.fetch("/metrics")).text();
  expect(metrics).toMatch(/^chain_halted\{chain="eth"\} 1$/m);

  await reorg(anvil, 1);
  await anvil.mine(2);
  expect((await service.get(`/api/v2/nft/${nft.address}`)).headers.get("x-chain-status")).toBe("halted");
});

test("after a restart it is still known, and in the log it is said once", async () => {
  await service.stop();
  service = await startTestService({ rpcUrl: anvil.url, logUrl });
  const answer = await service.get(`/api/v2/nft/${nft.address}`);
  expect([answer.body.result.length, answer.headers.get("x-chain-status")]).toEqual([5, "halted"]);
  await eventually("the node was looked at again", async () => {
    const metrics = await (await service.fetch("/metrics")).text();
    return /^chain_halted\{chain="eth"\} 1$/m.test(metrics) ? true : undefined;
  });
  await service.stop();
  const log = await openLog(logUrl, systemClock, silentLogger);
  const events = await log.read(chainStream(1));
  await log.close();
  expect(events.filter(({ event }) => event.type === "ChainHalted")).toHaveLength(1);
});
