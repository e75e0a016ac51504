/** A block in doubt if one endpoint has no receipts, and the other's are unavailable or inconsistent. */
import { expect, test } from "bun:test";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import { TRANSFER } from "../../src/rpc/decode/transfer-topics.ts";
import { EndpointPool } from "../../src/rpc/endpoint/endpoint-pool.ts";
import type { BlockHeader, Endpoint, LogsInDoubt } from "../../src/rpc/port.ts";
import { logsOfReceipts } from "../../src/rpc/reading/block-logs.ts";
import { RpcChainReader } from "../../src/rpc/reading/reader.ts";
import { RpcError } from "../../src/rpc/rpc-errors.ts";
import { logsBloomOf } from "../support/bloom.ts";
import { ADDRESS, hashOf, logsBloom } from "../support/doubtful-block.ts";
import { ProcessClock, Scheduler } from "../support/simulation/scheduler.ts";
import { turnsDuring } from "../support/turns.ts";

const HEADER = { number: 8, hash: hashOf(8), parentHash: hashOf(7), timestamp: 96, logsBloom } as BlockHeader;
const FILTER = { addresses: [ADDRESS], topics: [TRANSFER], fromBlock: 8, toBlock: 8 };

const endpoint = (label: string, receipts: () => unknown, logs: () => unknown = () => []): Endpoint => ({
  label,
  request: async (method) => (method === "eth_getLogs" ? logs() : receipts()),
  transfers: () => Promise.reject(new Error("not asked")),
  destroy: () => undefined,
});

/** A clock whose waits are over at once. */
const quick: Clock = { ...systemClock, sleep: async () => undefined };

const noSuchMethod = () => {
  throw new RpcError("unsupported", "the method does not exist");
};
const down = () => {
  throw new RpcError("transient", "no connection");
};
const wrong = () => [{ logs: [], logsBloom: `0x${"0".repeat(512)}` }];
const odd = () => [{ logs: [], logsBloom: { toString: null } }];

/** Settles the block four times beside another endpoint. Returns how each time was settled. */
async function settledBeside(other: Endpoint): Promise<string[]> {
  const scheduler = new Scheduler(1);
  const clock = new ProcessClock(scheduler);
  const settledBy: string[] = [];
  const pool = new EndpointPool({ chain: "eth", endpoints: [endpoint("eth#1", noSuchMethod), other], clock });
  const watch = { missed: () => undefined, settled: (by: string) => settledBy.push(by) };
  const reader = new RpcChainReader({
    ...{ chainId: 1, multicall: ADDRESS, finalityDepth: 5, depthIsSet: true },
    ...{ pool, watch },
  });
  for (let look = 0; look < 4; look++) {
    let isOver = false;
    const reading = reader.completeLogs(FILTER, [HEADER]).finally(() => {
      isOver = true;
    });
    reading.catch(() => undefined);
    while (!isOver) if (!(await scheduler.step())) await new Promise<void>((resolve) => setImmediate(resolve));
    expect(await reading.catch((error: Error) => error.message)).toEqual([]);
  }
  return settledBy;
}

test("the block is settled without receipts at once if the endpoints that have receipts are down", async () => {
  expect(await settledBeside(endpoint("eth#2", down))).toHaveLength(4);
});

test("receipts that don't cover the header's bloom leave the block in doubt, although another endpoint has none", async () => {
  for (const receipts of [wrong, odd]) {
    const pool = new EndpointPool({
      ...{ chain: "eth", endpoints: [endpoint("eth#1", noSuchMethod), endpoint("eth#2", receipts)], clock: quick },
    });
    const reader = new RpcChainReader({
      ...{ chainId: 1, multicall: ADDRESS, finalityDepth: 5, depthIsSet: true, pool },
    });
    const doubts: LogsInDoubt[] = [];
    const onDoubt = (doubt: LogsInDoubt) => doubts.push(doubt);
    expect(await reader.completeLogs(FILTER, [HEADER], { onDoubt })).toEqual([]);
    expect(doubts).toEqual([{ contract: ADDRESS, block: 8, reason: expect.stringContaining("header") }]);
    await expect(reader.completeLogs(FILTER, [HEADER])).rejects.toThrow("block 8 can't be read");
  }
});

test("asks the same endpoint again for the logs if there is no second opinion", async () => {
  const settledBy = await settledBeside(endpoint("eth#2", noSuchMethod, down));
  expect(settledBy).toEqual(Array.from({ length: 4 }, () => "asking again"));
});

test("checks receipts against their blooms in slices, because a contract may write any number of topics", async () => {
  const COUNT = 2_000;
  const logs = Array.from({ length: COUNT }, (_, i) => ({
    address: ADDRESS,
    topics: [TRANSFER, hashOf(3 * i + 9), hashOf(3 * i + 10), hashOf(3 * i + 11)],
    ...{ data: "0x", blockNumber: "0x8", blockHash: HEADER.hash, logIndex: `0x${i.toString(16)}` },
  }));
  const receipt = { logs, logsBloom: logsBloomOf(logs) };
  const reading = async () => logsOfReceipts([receipt], { ...HEADER, logsBloom: receipt.logsBloom }, FILTER);
  const { value, turns } = await turnsDuring(reading);
  expect(value).toHaveLength(COUNT);
  expect(turns).toBeGreaterThan(COUNT / 100);
});
