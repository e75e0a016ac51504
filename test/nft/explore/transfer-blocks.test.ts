/**
 * Pages of transfers whose times and transactions are asked of the node, one transfer in each block: a page has as many
 * blocks as its question pays for, and its cursor goes on behind them.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../../scripts/local-chain/contracts.ts";
import { type Body, startTestService, synced, type TestService, temporaryLogUrl } from "../../support/service.ts";

const ADMIN = "admin-key-0123456789";
/** More than the 64 blocks that may be reverted, and more than two pages of them. */
const BLOCKS = 200;
const MAX_CALLS = 100;

let anvil: Anvil;
let nft: Deployed;
beforeAll(async () => {
  anvil = await startAnvil();
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Spread", "S"]);
  for (let id = 1; id <= BLOCKS; id++) await transact(anvil, nft.contract, "mint", [anvil.accounts[1], BigInt(id)]);
});
afterAll(() => anvil?.stop());

/** Calls of the node that keys of scope `read` have paid for. */
async function callsOf(service: TestService): Promise<number> {
  const { body } = await service.get("/api/keys", { "x-api-key": ADMIN });
  return body.result.find(({ scope }: Body) => scope === "read").cost.calls.day;
}

/** All pages, each with the calls that it took. */
async function pagesOf(service: TestService, query: string): Promise<{ result: Body[]; calls: number }[]> {
  const pages: { result: Body[]; calls: number }[] = [];
  for (let cursor = ""; ; ) {
    const before = await callsOf(service);
    const path = `/api/collections/eth/${nft.address}/transfers?limit=500&${query}&cursor=${encodeURIComponent(cursor)}`;
    const { status, body } = await service.get(cursor === "" ? path.replace("&cursor=", "") : path);
    expect(status).toBe(200);
    pages.push({ result: body.result, calls: (await callsOf(service)) - before });
    if (body.cursor === null) return pages;
    cursor = body.cursor;
  }
}

const FULL = {
  "times=true&transactions=true": { pages: 6, fields: ["time", "transaction"] },
  "transactions=true": { pages: 6, fields: ["transaction"] },
  "times=true": { pages: 3, fields: ["time"] },
};

test.each(Object.entries(FULL))("%s", async (query, { pages: most, fields }) => {
  // A new process has neither headers nor transactions in memory.
  const service = await startTestService({
    rpcUrl: anvil.url,
    logUrl: temporaryLogUrl(),
    env: { OPERATOR_KEYS: ADMIN },
  });
  try {
    await synced(service, nft.address, Number(await anvil.send("eth_blockNumber")));
    const pages = await pagesOf(service, query);
    expect(pages.length).toBeGreaterThan(1);
    expect(pages.length).toBeLessThanOrEqual(most);
    for (const { calls } of pages) expect(calls).toBeLessThanOrEqual(MAX_CALLS);
    const rows = pages.flatMap(({ result }) => result);
    expect(rows.map(({ tokenId }) => Number(tokenId))).toEqual(Array.from({ length: BLOCKS }, (_, i) => BLOCKS - i));
    for (const field of fields) expect(rows.map((row) => row[field])).not.toContain(null);
  } finally {
    await service.stop();
  }
});

test("a page that asks the node for nothing has all of them", async () => {
  const service = await startTestService({
    rpcUrl: anvil.url,
    logUrl: temporaryLogUrl(),
    env: { OPERATOR_KEYS: ADMIN },
  });
  try {
    await synced(service, nft.address, Number(await anvil.send("eth_blockNumber")));
    expect((await pagesOf(service, "times=false")).map(({ result }) => result.length)).toEqual([BLOCKS]);
  } finally {
    await service.stop();
  }
});
