/**
 * A node whose final block is far below its head: by thousands of blocks, by a million, for ever, or until it jumps. The
 * head is followed all the same, and what is known of the blocks between stays bounded.
 */
import { afterAll, expect, test } from "bun:test";
import { loadChainState } from "../../src/chain/view.ts";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { chainStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { type LongChain, startLongChain } from "../support/long-chain.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

const OPERATOR = "operator-key-0123456789";
const stops: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const stop of stops) await stop();
});

interface Following {
  readonly node: LongChain;
  readonly logUrl: string;
  readonly service: TestService;
}

async function follow(node: LongChain, logUrl = temporaryLogUrl(), env = {}): Promise<Following> {
  const service = await startTestService({ rpcUrl: node.url, logUrl, env: { OPERATOR_KEYS: OPERATOR, ...env } });
  stops.unshift(() => service.stop());
  return { node, logUrl, service };
}

/** A chain with a token minted in the final blocks, one in the middle of those above, and one close to the head. */
async function chainBehind(lag: number, final = 1_000): Promise<LongChain> {
  const node = await startLongChain(final + lag, final);
  stops.push(() => node.stop());
  node.transfers = [500, final + Math.floor(lag / 2), final + lag - 3].map((block, at) => ({
    ...{ block, id: at + 1, from: 0, to: at + 1 },
  }));
  return node;
}

const status = async (service: TestService) =>
  (await service.get("/api/status", { "x-api-key": OPERATOR })).body.chains[0];
const owners = ({ body }: { body: { result: { owner_of: string }[] } }) => body.result.map(({ owner_of }) => owner_of);
const heldHeaders = async (logUrl: string) => {
  const log = await openLog(logUrl, systemClock, silentLogger);
  try {
    const { headers, sinceCheckpoint } = await loadChainState(log, chainStream(1));
    return { count: headers.size, sinceCheckpoint };
  } finally {
    await log.close();
  }
};

for (const lag of [6_000, 50_000, 1_000_000]) {
  test(`a chain whose final block is ${lag} blocks below its head is followed at its head from the first request on`, async () => {
    const { node, service, logUrl } = await follow(await chainBehind(lag));
    const page = await synced(service, node.contract, node.head);
    expect(owners(page)).toEqual([1, 2, 3].map(node.holder));
    expect(page.headers.get("x-finality")).toBe("latest");
    expect(page.headers.get("x-as-of-block")).toBe(String(node.head));
    expect(await status(service)).toMatchObject({ state: "following", head: { number: node.head }, finalized: 1_000 });
    // The node was asked for the newest headers, and not for each of those above the final block.
    expect(node.count("eth_getBlockByNumber")).toBeLessThan(2_500);
    // A page of a block above the final one is not final, below it is.
    const [above, below] = [node.head - 100, 900];
    for (const [block, finality] of [[above, "latest"] as const, [below, "finalized"] as const]) {
      const old = await service.get(`/api/v2/nft/${node.contract}?as_of_block=${block}`);
      expect([block, old.status, old.headers.get("x-finality")]).toEqual([block, 200, finality]);
    }
    await service.stop();
    stops.shift();
    expect((await heldHeaders(logUrl)).count).toBeLessThan(1_100);
  }, 300_000);
}

test("a final block that stands still for ever does not stop the head, and one that jumps is the status's at once", async () => {
  const { node, service } = await follow(await chainBehind(4_000));
  await synced(service, node.contract, node.head);
  for (let step = 1; step <= 4; step++) {
    node.head += 1_500;
    node.transfers.push({ block: node.head, id: 1, from: step, to: step + 1 });
    const page = await synced(service, node.contract, node.head);
    expect(owners(page)[0]).toBe(node.holder(step + 1));
    expect((await status(service)).finalized).toBe(1_000);
  }
  node.final = 7_777;
  await eventually("the tag's block is the final one", async () => {
    node.head++;
    await synced(service, node.contract, node.head);
    const { finalized } = await status(service);
    expect([1_000, 7_777]).toContain(finalized);
    return finalized === 7_777 || undefined;
  });
}, 300_000);

test("a reorganisation thousands of blocks deep is undone to the newest known common block, also after a restart", async () => {
  const { node, service, logUrl } = await follow(await chainBehind(9_000));
  const first = await synced(service, node.contract, node.head);
  const { cursor } = (await service.get(`/api/v2/nft/${node.contract}?limit=1`)).body;
  const deep = node.head - 3_000;
  const old = (await service.get(`/api/v2/nft/${node.contract}?limit=1&as_of_block=${deep + 10}`)).body.cursor;
  const kept = (await service.get(`/api/v2/nft/${node.contract}?limit=1&as_of_block=800`)).body;
  expect(owners(first)).toHaveLength(3);
  // The newest mint moves to another block and owner.
  node.transfers = node.transfers.with(2, { block: deep + 50, id: 9, from: 0, to: 9 });
  node.fork(deep);
  node.head += 2;
  const after = await synced(service, node.contract, node.head);
  expect(owners(after)).toEqual([1, 2, 9].map(node.holder));
  for (const orphaned of [cursor, old]) {
    const { status: code, body } = await service.get(`/api/v2/nft/${node.contract}?cursor=${orphaned}`);
    expect([code, body.code]).toEqual([410, "cursor_reorged"]);
  }
  expect(kept.cursor).toBeNull();
  const asked = node.count("eth_getBlockByNumber");
  await service.stop();
  stops.shift();
  // It starts from the log, and asks for a few headers only.
  node.head += 5;
  const again = await follow(node, logUrl);
  expect(owners(await synced(again.service, node.contract, node.head))).toEqual([1, 2, 9].map(node.holder));
  expect(node.count("eth_getBlockByNumber") - asked).toBeLessThan(50);
  const late = await again.service.get(`/api/v2/nft/${node.contract}?cursor=${cursor}`);
  expect([late.status, late.body.code]).toEqual([410, "cursor_reorged"]);
}, 300_000);

test("a collection far below the head joins in parts, and a reorganisation meanwhile takes them back", async () => {
  const lag = 120_000;
  const { node, service } = await follow(await chainBehind(lag));
  let parts = 0;
  const gate = Promise.withResolvers<void>();
  node.instead = ({ method, params }) => {
    const filter = params?.[0] as { fromBlock?: string } | undefined;
    if (method !== "eth_getLogs" || Number(filter?.fromBlock) < 1_001) return undefined;
    // The chain forks below the parts that were read, as soon as some are written.
    if (++parts === 5) {
      node.transfers = node.transfers.with(1, { block: 2_000, id: 7, from: 0, to: 7 });
      node.fork(1_500);
      node.head += 3;
      gate.resolve();
    }
    return undefined;
  };
  await service.get(`/api/v2/nft/${node.contract}`);
  await gate.promise;
  const page = await synced(service, node.contract, node.head);
  expect(owners(page)).toEqual([1, 7, 3].map(node.holder));
  expect(parts).toBeGreaterThan(12);
}, 300_000);

test("with VERIFY=headers the headers of all blocks of a join are read, in parts", async () => {
  const { node, service } = await follow(await chainBehind(5_000), temporaryLogUrl(), { VERIFY: "headers" });
  const page = await synced(service, node.contract, node.head);
  expect(owners(page)).toEqual([1, 2, 3].map(node.holder));
  expect(node.count("eth_getBlockByNumber")).toBeGreaterThan(5_000);
}, 300_000);

test("a depth of more than four thousand blocks can be set", async () => {
  const { node, service } = await follow(await chainBehind(30_000), temporaryLogUrl(), { FINALITY_DEPTH_ETH: "20000" });
  await synced(service, node.contract, node.head);
  expect((await status(service)).finalized).toBe(node.head - 20_000);
}, 300_000);
