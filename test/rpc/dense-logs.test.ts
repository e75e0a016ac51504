/** Dense logs: one request asks for no more logs than the request thread may read at once. */
import { expect, test } from "bun:test";
import type { AppError } from "../../src/core/errors.ts";
import { type Address, quantity } from "../../src/core/hex.ts";
import { TRANSFER } from "../../src/rpc/decode/transfer-topics.ts";
import { EndpointPool } from "../../src/rpc/endpoint/endpoint-pool.ts";
import type { Endpoint } from "../../src/rpc/port.ts";
import { RpcChainReader } from "../../src/rpc/reading/reader.ts";
import { hashOf } from "../support/doubtful-block.ts";
import { ProcessClock, Scheduler } from "../support/simulation/scheduler.ts";

const ADDRESS = `0x${"a".repeat(40)}` as Address;
const PER_BLOCK = 40;
const DENSE_UNTIL = 4_000;

/** A chain with forty logs per block at first and none later. It records the requests. */
function dense() {
  const answers: { blocks: number; logs: number }[] = [];
  const logsOf = (block: number) =>
    Array.from({ length: block <= DENSE_UNTIL ? PER_BLOCK : 0 }, (_, index) => ({
      address: ADDRESS,
      topics: [TRANSFER],
      data: "0x",
      blockNumber: quantity(block),
      blockHash: hashOf(block),
      logIndex: quantity(index),
    }));
  const endpoint: Endpoint = {
    label: "eth#1",
    async request(_method, [filter]) {
      const { fromBlock, toBlock } = filter as { fromBlock: string; toBlock: string };
      const [from, to] = [Number(fromBlock), Number(toBlock)];
      const numbers = Array.from({ length: Math.max(0, Math.min(to, DENSE_UNTIL) - from + 1) }, (_, i) => from + i);
      const logs = numbers.flatMap(logsOf);
      answers.push({ blocks: to - from + 1, logs: logs.length });
      return logs;
    },
    transfers: () => Promise.reject(new Error("this endpoint is never called for transfers")),
    destroy: () => undefined,
  };
  const clock = new ProcessClock(new Scheduler(1));
  const pool = new EndpointPool({ chain: "eth", endpoints: [endpoint], clock });
  const reader = new RpcChainReader({ chainId: 1, pool, multicall: ADDRESS, finalityDepth: 5, depthIsSet: true });
  const read = (fromBlock: number, toBlock: number, room: { maxLogs?: number } = {}) =>
    reader.logs({ addresses: [ADDRESS], topics: [TRANSFER], fromBlock, toBlock, ...room });
  return { answers, read };
}

test("reads a long dense gap in answers of bounded size, and an empty one in a single request", async () => {
  const { answers, read } = dense();
  // As a follower reads after a stop.
  for (let from = 1; from <= DENSE_UNTIL; from += 2_000) expect(await read(from, from + 1_999)).toHaveLength(80_000);
  expect(answers.filter(({ logs }) => logs > 15_000).length).toBeLessThanOrEqual(4);
  answers.length = 0;
  await read(DENSE_UNTIL + 1, DENSE_UNTIL + 5_000_000);
  expect(answers.length).toBeLessThan(12);
  answers.length = 0;
  await read(DENSE_UNTIL + 1, DENSE_UNTIL + 5_000_000);
  expect(answers).toEqual([{ blocks: 5_000_000, logs: 0 }]);
});

test("refuses a caller with a bound on logs before all logs have been read", async () => {
  const { answers, read } = dense();
  // From here on each answer is small.
  await read(1, 2_000);
  await read(1, 2_000);
  answers.length = 0;
  const most = 40_000;
  const refused = await read(1, DENSE_UNTIL, { maxLogs: most }).catch((error: AppError) => error.code);
  expect(refused).toBe("too_many_logs");
  expect(answers.reduce((sum, { logs }) => sum + logs, 0)).toBeLessThan(2 * most);
  expect(await read(1, 1_000, { maxLogs: most })).toHaveLength(most);
});
