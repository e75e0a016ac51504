/** A fast endpoint with malformed answers beside a sound one: its answers count as its own failures, never as facts. */
import { expect, test } from "bun:test";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { TRANSFER } from "../../src/rpc/decode/transfer-topics.ts";
import { EndpointPool } from "../../src/rpc/endpoint/endpoint-pool.ts";
import type { BlockHeader, Endpoint } from "../../src/rpc/port.ts";
import { IDENTITY } from "../../src/rpc/reading/many-calls.ts";
import { RpcChainReader } from "../../src/rpc/reading/reader.ts";
import { RpcError } from "../../src/rpc/rpc-errors.ts";
import { ADDRESS, hashOf, logsBloom, topics } from "../support/doubtful-block.ts";

const MULTICALL = `0x${"c".repeat(40)}` as Address;

type Answers = Readonly<Record<string, (params: unknown[]) => unknown>>;

const HEADER = { number: "0x8", hash: hashOf(8), parentHash: hashOf(7), timestamp: "0x60", logsBloom };

/** Answers of a sound node about block 8, in which the contract has one transfer. */
const SOUND: Answers = {
  eth_getBlockByNumber: () => HEADER,
  eth_getCode: () => "0x6001",
  eth_getTransactionCount: () => "0x7",
  eth_call: ([call]) => ((call as { to: string }).to === ADDRESS ? "0x1234" : "0x"),
  eth_getLogs: () => [],
  eth_getBlockReceipts: () => [{ logs: [log], logsBloom }],
};

const log = {
  address: ADDRESS,
  topics,
  data: "0x",
  blockNumber: "0x8",
  blockHash: hashOf(8),
  transactionHash: hashOf(1),
  logIndex: "0x0",
};

function readerOf(...nodes: Answers[]): RpcChainReader {
  const endpoints = nodes.map(
    (answers, index): Endpoint => ({
      label: `eth#${index + 1}`,
      request: async (method, params) => answers[method]?.(params),
      transfers: () => Promise.reject(new Error("this endpoint is never called for transfers")),
      destroy: () => undefined,
    }),
  );
  const pool = new EndpointPool({ chain: "eth", endpoints, clock: systemClock });
  return new RpcChainReader({ chainId: 1, pool, multicall: MULTICALL, finalityDepth: 5, depthIsSet: true });
}

/** A reader over an endpoint that answers one method with nonsense, and a sound one. */
const besideSound = (method: string, answer: unknown) => readerOf({ ...SOUND, [method]: () => answer }, SOUND);

test("asks the other endpoint if the newest block is malformed", async () => {
  const reader = besideSound("eth_getBlockByNumber", null);
  expect((await reader.head()).number).toBe(8);
});

test("does not treat malformed code, counts or call results as empty", async () => {
  for (const answer of [null, 7, {}]) {
    expect(await besideSound("eth_getCode", answer).code(ADDRESS, 8)).toBe("0x6001");
    expect(await besideSound("eth_getTransactionCount", answer).transactionCount(ADDRESS)).toBe(7);
    const called = await besideSound("eth_call", answer).calls([{ to: ADDRESS, data: "0x" }], 8);
    expect(called).toEqual([{ ok: true, data: "0x1234" }]);
  }
});

test("treats missing logs as a passing failure, so the endpoint is soon called again for state that the other lacks", async () => {
  for (const nothing of [null, undefined]) {
    const noState = () => {
      throw new RpcError("state_unavailable", "missing trie node");
    };
    const reader = readerOf({ ...SOUND, eth_getLogs: () => nothing }, { ...SOUND, eth_getCode: noState });
    const filter = { addresses: [ADDRESS], topics: [TRANSFER], fromBlock: 8, toBlock: 8 };
    expect(await reader.logs(filter)).toEqual([]);
    expect(await reader.code(ADDRESS, 8)).toBe("0x6001");
  }
});

test("settles a block in doubt despite malformed receipts or a malformed bloom", async () => {
  const filter = { addresses: [ADDRESS], topics: [TRANSFER], fromBlock: 8, toBlock: 8 };
  const header = { number: 8, hash: hashOf(8), parentHash: hashOf(7), timestamp: 96, logsBloom } as BlockHeader;
  for (const receipts of [[null], [7], [{ logs: [null] }], null]) {
    const found = await besideSound("eth_getBlockReceipts", receipts).completeLogs(filter, [header]);
    expect([receipts, found.length]).toEqual([receipts, 1]);
  }
  const odd = besideSound("eth_getBlockByNumber", { ...HEADER, logsBloom: `0x${"v".repeat(512)}` });
  const shown = (await odd.header(8)) as BlockHeader;
  expect(await odd.completeLogs(filter, [shown])).toBeArray();
});

test("keeps using Multicall3 on other endpoints although one node does not have it yet", async () => {
  let asked = 0;
  let isYoung = true;
  const results = `0x${["20", "14"].map((word) => word.padStart(64, "0")).join("")}`;
  const eth_call = ([call]: unknown[]) => {
    asked++;
    const { to, data } = call as { to: string; data: string };
    if (to === IDENTITY) return data;
    return to === ADDRESS || isYoung ? "0x" : results;
  };
  const reader = readerOf({ ...SOUND, eth_call });
  const calls = Array.from({ length: 20 }, () => ({ to: ADDRESS, data: "0x12345678" }));
  await reader.calls(calls, "latest");
  // Multicall3, creation code in its place, whether that runs at all, each call alone; and whether any call runs, each time
  // that all answers are empty.
  expect(asked).toBe(26);
  isYoung = false;
  for (let look = 0; look < 100; look++) await reader.calls(calls, "latest");
  asked = 0;
  // The answer ends after the number of results, so one Multicall3 was requested for all calls.
  await reader.calls(calls, "latest").catch(() => undefined);
  expect(asked).toBeLessThan(5);
});
