/**
 * A chain whose headers have the blooms and roots of the blocks that they settle, as Avalanche has since Helicon. Honest
 * endpoints are believed in each mode of verification, and a lie about old blocks is found once they are settled.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import type { RpcProxy, RpcProxyOptions } from "../support/rpc-proxy.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";
import { startSettlingNode } from "../support/settling-chain.ts";

const TOKENS = 90;
const MODES = ["sample", "headers", "receipts"] as const;

interface WireLog {
  readonly address: string;
  readonly blockNumber: string;
  readonly topics: readonly string[];
}

let anvil: Anvil;
let nft: Deployed;
let next = TOKENS;
const started: { stop(): Promise<void> }[] = [];

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400 });
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Settled", "STL"]);
  for (let id = 0; id < TOKENS; id++) await mint(id);
}, 300_000);
afterAll(() => anvil.stop());
afterEach(async () => {
  for (const one of started.splice(0).reverse()) await one.stop();
});

const mint = (id: number) => transact(anvil, nft.contract, "mint", [anvil.accounts[1 + (id % 7)], BigInt(id)]);
const height = async () => Number(await anvil.send("eth_blockNumber"));

async function nodeOf(options: RpcProxyOptions & { readonly fork?: number } = {}): Promise<RpcProxy> {
  const proxy = await startSettlingNode(anvil.url, { ...options, send: anvil.send });
  started.push(proxy);
  return proxy;
}

async function serviceOf(rpcUrl: string, env: Record<string, string> = {}): Promise<TestService> {
  const service = await startTestService({ rpcUrl, logUrl: temporaryLogUrl(), env });
  started.push(service);
  return service;
}

async function metric(service: TestService, name: string): Promise<number> {
  const text = await (await service.fetch("/metrics")).text();
  const lines = text.split("\n").filter((line) => line.startsWith(`${name}{`));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
}

const idsOf = ({ body }: { body: { result: { token_id: string }[] } }) =>
  body.result.map(({ token_id }) => Number(token_id)).sort((a, b) => a - b);
const allIds = () => Array.from({ length: next }, (_, id) => id);

/** Drops the log of a token's mint, wherever it is asked for. */
const without = (isDropped: (log: WireLog) => boolean): NonNullable<RpcProxyOptions["onResult"]> => {
  return ({ method }, result) =>
    method === "eth_getLogs" ? (result as WireLog[]).filter((log) => !isDropped(log)) : result;
};
const isOf = (log: WireLog, id: number) => Number(log.topics[3] ?? -1) === id;

describe.each(MODES)("VERIFY=%s", (VERIFY) => {
  for (const fork of [1, 40]) {
    test(`believes an honest endpoint, before and after the fork at block ${fork}, and follows it`, async () => {
      const node = await nodeOf({ fork });
      const service = await serviceOf(node.url, { VERIFY });
      expect(idsOf(await synced(service, nft.address, await height()))).toEqual(allIds());
      for (let more = 0; more < 8; more++) await mint(next++);
      expect(idsOf(await synced(service, nft.address, await height()))).toEqual(allIds());
      expect(await metric(service, "rpc_lies_total")).toBe(0);
      expect(await metric(service, "rpc_missed_logs_total")).toBe(0);
      expect(await metric(service, "indexing_failures_total")).toBe(0);
      // A reading by blooms takes each header, and some more at the ends of its ranges.
      if (VERIFY === "headers") expect(node.count()).toBeLessThan(4 * (await height()));
      if (VERIFY === "sample") expect(node.count("eth_getBlockReceipts")).toBeLessThan(20);
    }, 60_000);
  }
});

describe.each(["headers", "receipts"] as const)("VERIFY=%s", (VERIFY) => {
  test("finds a log of a settled block that the endpoint leaves out", async () => {
    const node = await nodeOf({ onResult: without((log) => isOf(log, 17) || isOf(log, 41)) });
    const service = await serviceOf(node.url, { VERIFY });
    expect(idsOf(await synced(service, nft.address, await height()))).toEqual(allIds());
    expect(await metric(service, "rpc_missed_logs_total")).toBe(2);
  });

  test("reads a followed block again once a header settles it and shows that a log was left out", async () => {
    let left = -1;
    const node = await nodeOf({ onResult: without((log) => isOf(log, left)) });
    const service = await serviceOf(node.url, { VERIFY });
    await synced(service, nft.address, await height());
    left = next;
    await mint(next++);
    // Others than this contract fill the blocks that settle it.
    for (let quiet = 0; quiet < 9; quiet++) await anvil.mine();
    const page = await eventually("the missing token is listed", async () => {
      const answer = await service.get(`/api/v2/nft/${nft.address}?limit=500`);
      return answer.body.status === "SYNCED" && answer.body.result.length === next ? answer : undefined;
    });
    expect(idsOf(page)).toEqual(allIds());
    expect(await metric(service, "rpc_missed_logs_total")).toBeGreaterThan(0);
  });

  // Three blocks are settled together.
  test.each([0, 1, 2])("reads it again if %d blocks of its settlement were followed before it", async (before) => {
    let left = -1;
    const node = await nodeOf({ onResult: without((log) => isOf(log, left)) });
    const service = await serviceOf(node.url, { VERIFY });
    while ((await height()) % 3 !== before) await anvil.mine();
    await synced(service, nft.address, await height());
    left = next;
    await mint(next++);
    await synced(service, nft.address, await height());
    // The rest of its settlement, and the header that settles it, are one step.
    await anvil.mine(9);
    const page = await eventually("the missing token is listed", async () => {
      const answer = await service.get(`/api/v2/nft/${nft.address}?limit=500`);
      return answer.body.status === "SYNCED" && answer.body.result.length === next ? answer : undefined;
    });
    expect(idsOf(page)).toEqual(allIds());
  });
});

test("VERIFY=receipts refuses receipts of a settled block that lack a log", async () => {
  const node = await nodeOf({
    onResult: ({ method }, result) => {
      if (method === "eth_getLogs") return (result as WireLog[]).filter((log) => !isOf(log, 17));
      if (method !== "eth_getBlockReceipts") return result;
      const receipts = result as { readonly logs: readonly WireLog[] }[];
      return receipts.map((one) =>
        one.logs.some((log) => isOf(log, 17)) ? { ...one, logs: [], logsBloom: EMPTY } : one,
      );
    },
  });
  const service = await serviceOf(node.url, { VERIFY: "receipts" });
  await service.get(`/api/v2/nft/${nft.address}`);
  const row = await eventually("the collection is in doubt", async () => {
    const { body } = await service.get(`/api/collections/eth/${nft.address}`);
    return body.inDoubt === null || body.inDoubt === undefined ? undefined : body;
  });
  expect(row.status).toBe("failing");
  expect(row.inDoubt.reason).toContain("receipts match the block's header");
});

const EMPTY = `0x${"0".repeat(512)}`;
