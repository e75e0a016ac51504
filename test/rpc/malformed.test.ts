/** An endpoint that is quick to answer what is no answer, beside a sound one: what it says is its own fault, and no fact. */
import { expect, test } from "bun:test";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { TRANSFER } from "../../src/rpc/decode/topics.ts";
import { EndpointPool } from "../../src/rpc/endpoint/endpoint-pool.ts";
import type { BlockHeader, Endpoint } from "../../src/rpc/port.ts";
import { RpcChainReader } from "../../src/rpc/reader.ts";
import { RpcError } from "../../src/rpc/rpc-errors.ts";
import { ADDRESS, hashOf, logsBloom, topics } from "./support/doubtful-block.ts";

const MULTICALL = `0x${"c".repeat(40)}` as Address;

type Answers = Readonly<Record<string, (params: unknown[]) => unknown>>;

const HEADER = { number: "0x8", hash: hashOf(8), parentHash: hashOf(7), timestamp: "0x60", logsBloom };

/** What a sound node says of block 8, in which the contract has one transfer. */
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
      transfers: () => Promise.reject(new Error("not asked")),
      destroy: () => undefined,
    }),
  );
  const pool = new EndpointPool({ chain: "eth", endpoints, clock: systemClock });
  return new RpcChainReader({ chainId: 1, pool, multicall: MULTICALL, finalityDepth: 5, depthIsSet: true });
}

/** Of one that answers one method with nonsense, and of a sound one. */
const besideSound = (method: string, answer: unknown) => readerOf({ ...SOUND, [method]: () => answer }, SOUND);

test("a newest block that is none is asked of the others", async () => {
  const reader = besideSound("eth_getBlockByNumber", null);
  expect((await reader.head()).number).toBe(8);
});

test("code, a count or an answer that is none is not taken for that there is nothing", async () => {
  for (const answer of [null, 7, {}]) {
    expect(await besideSound("eth_getCode", answer).code(ADDRESS, 8)).toBe("0x6001");
    expect(await besideSound("eth_getTransactionCount", answer).transactionCount(ADDRESS)).toBe(7);
    const called = await besideSound("eth_call", answer).calls([{ to: ADDRESS, data: "0x" }], 8);
    expect(called).toEqual([{ ok: true, data: "0x1234" }]);
  }
});

test("no logs at all are no lie: who said so is asked soon again, if for what the other one lacks", async () => {
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

test("receipts or a bloom that are none do not keep a block in doubt", async () => {
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

test("a node that has not come to Multicall3 yet does not cost the others theirs for good", async () => {
  let asked = 0;
  let isYoung = true;
  const results = `0x${["20", "14"].map((word) => word.padStart(64, "0")).join("")}`;
  const eth_call = ([call]: unknown[]) => {
    asked++;
    return (call as { to: string }).to === ADDRESS || isYoung ? "0x" : results;
  };
  const reader = readerOf({ ...SOUND, eth_call });
  const calls = Array.from({ length: 20 }, () => ({ to: ADDRESS, data: "0x12345678" }));
  await reader.calls(calls, "latest");
  expect(asked).toBe(21);
  isYoung = false;
  for (let look = 0; look < 100; look++) await reader.calls(calls, "latest");
  asked = 0;
  // Cut off after the number of results: it was asked for them all.
  await reader.calls(calls, "latest").catch(() => undefined);
  expect(asked).toBeLessThan(5);
});
