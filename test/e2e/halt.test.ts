/**
 * A fork deeper than finality, which breaks the chain's own rule. Following stops with a clear report. The earlier
 * state is still served and marked, and the halt is recorded in the log once.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, reorg, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { chainStream, nftStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

const logUrl = temporaryLogUrl();
let anvil: Anvil;
let service: TestService;
let nft: Deployed;

beforeAll(async () => {
  // All blocks but the newest two are final.
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

test("serves the earlier state with a mark, which a later shallow fork does not remove", async () => {
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

test("keeps the halt after a restart, and records it in the log once", async () => {
  await service.stop();
  service = await startTestService({ rpcUrl: anvil.url, logUrl });
  const answer = await service.get(`/api/v2/nft/${nft.address}`);
  expect([answer.body.result.length, answer.headers.get("x-chain-status")]).toEqual([5, "halted"]);
  await eventually("the restarted service has polled the node", async () => {
    const metrics = await (await service.fetch("/metrics")).text();
    return /^chain_halted\{chain="eth"\} 1$/m.test(metrics) ? true : undefined;
  });
  await service.stop();
  const log = await openLog(logUrl, systemClock, silentLogger);
  const events = await log.read(chainStream(1));
  await log.close();
  expect(events.filter(({ event }) => event.type === "ChainHalted")).toHaveLength(1);
});

test("indexes the chain anew after forget-chain.ts, which refuses to run while a service follows it", async () => {
  const forget = async (...args: string[]) => {
    const script = Bun.spawn([process.execPath, "scripts/forget-chain.ts", ...args], {
      stdout: "pipe",
      stderr: "pipe",
    });
    const [code, out, err] = await Promise.all([script.exited, script.stdout.text(), script.stderr.text()]);
    return [code, `${out}${err}`.trim()] as const;
  };
  const other = await openLog(logUrl, systemClock, silentLogger);
  const stranger = nftStream(137, `0x${"ab".repeat(20)}` as Address);
  await other.append({ stream: stranger, events: [{ type: "IndexingRequested" }], expectedVersion: 0 });
  expect(await other.acquireLease("follow/1", "a service", 3_000)).toBe(true);
  expect(await forget("eth", logUrl)).toEqual([1, expect.stringContaining("stop it, then run this again")]);
  await other.releaseLease("follow/1", "a service");
  expect(await forget("no-chain", logUrl)).toEqual([1, expect.stringContaining("chain: must be one of")]);
  expect(await forget("eth", "sqlite:///nowhere/events.db")).toEqual([1, "there is no event log at that path"]);
  expect(await forget("eth", logUrl)).toEqual([0, expect.stringMatching(/^eth: [2-9] streams forgotten$/)]);
  expect((await other.head(stranger)).version).toBe(1);
  await other.close();

  // The fork removed the tokens, so they are minted again.
  await transact(anvil, nft.contract, "mintMany", [anvil.accounts[1], 1, 3]);
  service = await startTestService({ rpcUrl: anvil.url, logUrl });
  const answer = await synced(service, nft.address, await height());
  expect([answer.body.result.length, answer.headers.has("x-chain-status")]).toEqual([3, false]);
});
