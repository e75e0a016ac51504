/**
 * The search of the whole life of a contract with decimals: its progress, its cost, and the nodes that send more than the
 * filter names. The node is a simulated chain with a busy ERC-20.
 */
import { afterEach, expect, test } from "bun:test";
import { AbiCoder, dataSlice, id, toBeHex } from "ethers";
import { type Clock, systemClock } from "../../../src/core/clock.ts";
import { quantity } from "../../../src/core/hex.ts";
import { TRANSFER } from "../../../src/rpc/decode/transfer-topics.ts";
import { IDENTITY } from "../../../src/rpc/reading/many-calls.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../../support/service.ts";

const HEAD = 60_000;
const DEPLOYED = 500;
/** Blocks that a first look searches. */
const FIRST_BLOCKS = 7_000;
const TOKEN = `0x${"20".repeat(20)}`;
const ALICE = `0x${"a1".repeat(20)}`;
const KEY = "operator-key-of-the-test";
const DECIMALS = dataSlice(id("decimals()"), 0, 4);
const NO_BATCHES = { jsonrpc: "2.0", id: null, error: { code: -32_600, message: "batches are not supported" } };

const word = (value: number | string): string => toBeHex(BigInt(value), 32);
const stops: (() => unknown)[] = [];

afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

interface NodeOptions {
  /** Logs of an ERC-20 in each block from the deployment on. */
  readonly perBlock?: number;
  /** Leaves out logs with fewer topics than the filter has places, as go-ethereum does. */
  readonly isExact?: boolean;
  /** Block with the only NFT. */
  readonly nftBlock?: number;
  readonly maxBlocks?: number;
  /** Requests for logs from this block on are answered when the gate opens. */
  readonly gate?: { readonly block: number; readonly opened: Promise<void> };
}

interface Asked {
  readonly from: number;
  readonly to: number;
  readonly logs: number;
}

interface Request {
  readonly id: number;
  readonly method: string;
  readonly params: readonly never[];
}

interface Filter {
  readonly topics: readonly unknown[];
  readonly fromBlock: string;
  readonly toBlock: string;
}

/** The URL of a node, and the ranges of logs that it was asked for. */
function startNode({ perBlock = 0, isExact = true, nftBlock = -1, maxBlocks = HEAD, gate }: NodeOptions) {
  const asked: Asked[] = [];
  const logAt = (block: number, index: number, topics: readonly string[], data: string) => ({
    ...{ address: TOKEN, topics, data, blockNumber: quantity(block), blockHash: word(block + 1), removed: false },
    ...{ transactionHash: word(1_000_000 + block), transactionIndex: "0x0", logIndex: quantity(index) },
  });
  const logsOf = async ({ topics, fromBlock, toBlock }: Filter): Promise<object> => {
    const [from, to] = [Number(fromBlock), Number(toBlock)];
    if (to - from >= maxBlocks)
      return { error: { code: -32_602, message: `exceed maximum block range: ${maxBlocks}` } };
    if (gate !== undefined && from >= gate.block) await gate.opened;
    const result: object[] = [];
    for (let block = Math.max(DEPLOYED, from); block <= Math.min(HEAD, to); block++) {
      const isHidden = isExact && topics.length === 4;
      for (let i = 0; i < perBlock && !isHidden; i++) {
        result.push(logAt(block, i, [TRANSFER, word(ALICE), word(TOKEN)], word(1)));
      }
      if (block === nftBlock) result.push(logAt(block, perBlock, [TRANSFER, word(0), word(ALICE), word(7)], "0x"));
    }
    asked.push({ from, to, logs: result.length });
    return { result };
  };
  const blockOf = (tag: string): object | null => {
    const number = tag === "latest" ? HEAD : tag === "finalized" ? HEAD - 64 : Number(tag);
    if (number > HEAD) return null;
    return {
      ...{ number: quantity(number), hash: word(number + 1), parentHash: word(number) },
      ...{ timestamp: quantity(1_700_000_000 + number * 12), logsBloom: `0x${"0".repeat(512)}` },
    };
  };
  const answer = async ({ method, params }: Request): Promise<object> => {
    if (method === "eth_chainId") return { result: "0x1" };
    if (method === "eth_blockNumber") return { result: quantity(HEAD) };
    if (method === "eth_getTransactionCount") return { result: "0x1" };
    if (method === "eth_getBlockByNumber") return { result: blockOf(params[0]!) };
    if (method === "eth_getCode") {
      const isThere = params[0] === TOKEN && (params[1] === "latest" || Number(params[1]) >= DEPLOYED);
      return { result: isThere ? "0x6001" : "0x" };
    }
    if (method === "eth_getLogs") return await logsOf(params[0]!);
    const { to, data } = params[0] as unknown as { to: string; data: string };
    const isDecimals = method === "eth_call" && to === TOKEN && data === DECIMALS;
    if (to === IDENTITY) return { result: data };
    if (isDecimals) return { result: AbiCoder.defaultAbiCoder().encode(["uint8"], [18]) };
    return { error: { code: 3, message: "execution reverted" } };
  };
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      const call = (await request.json()) as Request | Request[];
      // Batches are refused, because a held call would hold the other calls of its batch.
      if (Array.isArray(call)) return Response.json(NO_BATCHES);
      return Response.json({ jsonrpc: "2.0", id: call.id, ...(await answer(call)) });
    },
  });
  stops.push(() => server.stop(true));
  return { url: `http://127.0.0.1:${server.port}`, asked };
}

async function start(rpcUrl: string, logUrl = temporaryLogUrl(), clock: Clock = systemClock): Promise<TestService> {
  const service = await startTestService({ rpcUrl, logUrl, clock, env: { OPERATOR_KEYS: KEY } });
  stops.unshift(() => service.stop());
  return service;
}

const rowOf = async (service: TestService) =>
  (await service.get(`/api/collections/eth/${TOKEN}`, { "x-api-key": KEY })).body;

const isNoNft = (service: TestService) =>
  eventually("the token is no NFT", async () => {
    const row = await rowOf(service);
    return row.status === "not_nft" ? row : undefined;
  });

test("shows how far the search is, and continues it after a restart", async () => {
  const opened = Promise.withResolvers<void>();
  stops.push(() => opened.resolve());
  const gate = { block: 30_000, opened: opened.promise };
  const node = startNode({ maxBlocks: 1_000, gate });
  const logUrl = temporaryLogUrl();
  const first = await start(node.url, logUrl);
  const percents = new Set<number>();
  await first.get(`/api/v2/nft/${TOKEN}`);
  await eventually("the search is held, and shows its share of the contract's life", async () => {
    const { status, percent } = await rowOf(first);
    if (status === "requested") percents.add(percent);
    const last = Math.max(...node.asked.map(({ to }) => to));
    const share = Math.floor(((last - DEPLOYED + 1) * 100) / (HEAD - DEPLOYED + 1));
    return last >= gate.block - 1 && percent === share ? true : undefined;
  });
  expect(percents.size).toBeGreaterThan(1);
  expect([...percents]).toEqual([...percents].sort((a, b) => a - b));
  expect((await first.get(`/api/v2/nft/${TOKEN}`)).body).toMatchObject({ status: "SYNCING", result: [] });
  await first.stop();

  const before = node.asked.length;
  opened.resolve();
  const second = await start(node.url, logUrl);
  expect(await isNoNft(second)).toMatchObject({ percent: 100 });
  expect((await second.get(`/api/v2/nft/${TOKEN}`)).body).toMatchObject({ status: "SYNCED", result: [] });
  const again = node.asked.slice(before).filter(({ from }) => from > DEPLOYED + FIRST_BLOCKS && from < gate.block);
  expect(again).toEqual([]);
});

test.each([
  ["leaves out logs with fewer topics", true],
  ["sends logs with fewer topics as well", false],
])("finds one NFT log among all transfers of an ERC-20 if the node %s", async (_what, isExact) => {
  const node = startNode({ perBlock: 2, isExact, nftBlock: 41_234 });
  const service = await start(node.url);
  await service.get(`/api/v2/nft/${TOKEN}`);
  expect((await synced(service, TOKEN)).body.result).toMatchObject([{ token_id: "7", owner_of: ALICE }]);
});

test.each([
  ["leaves out logs with fewer topics", true, 30],
  // 119,000 logs, 2,000 in an answer.
  ["sends logs with fewer topics as well", false, 120],
])("calls an ERC-20 no NFT after few and small answers if the node %s", async (_what, isExact, most) => {
  const node = startNode({ perBlock: 2, isExact });
  const service = await start(node.url);
  await service.get(`/api/v2/nft/${TOKEN}`);
  await isNoNft(service);
  expect(Math.max(...node.asked.map(({ to }) => to))).toBe(HEAD);
  expect(node.asked.length).toBeLessThan(most);
  expect(Math.max(...node.asked.map(({ logs }) => logs))).toBeLessThan(10_000);
});

test("does not search its life again when a client asks again", async () => {
  let ahead = 0;
  const clock: Clock = { ...systemClock, now: () => systemClock.now() + ahead };
  const node = startNode({ perBlock: 1 });
  const service = await start(node.url, temporaryLogUrl(), clock);
  await service.get(`/api/v2/nft/${TOKEN}`);
  await isNoNft(service);
  const before = node.asked.length;
  ahead += 600_000;
  await service.get(`/api/v2/nft/${TOKEN}`);
  await eventually("the newest blocks were searched", async () =>
    node.asked.slice(before).some(({ to }) => to === HEAD) ? true : undefined,
  );
  const old = node.asked.slice(before).filter(({ to }) => to > DEPLOYED + FIRST_BLOCKS && to < HEAD - 64);
  expect(old).toEqual([]);
});
