/** Two archives that were asked the same question, compared by what they told of each block. */
import { describe, expect, test } from "bun:test";
import type { Address, Hash } from "../../src/core/hex.ts";
import { contentOfLogs, ToldBlocks } from "../../src/rpc/archive/witness.ts";
import type { ChainLog } from "../../src/rpc/port.ts";

const hashOf = (value: number) => `0x${value.toString(16).padStart(64, "0")}` as Hash;

const logAt = (blockNumber: number, logIndex: number, data = "0x01"): ChainLog => ({
  ...{
    address: `0x${"20".repeat(20)}` as Address,
    topics: [hashOf(1)],
    data,
    blockNumber,
    blockHash: hashOf(blockNumber),
  },
  ...{ transactionHash: hashOf(blockNumber), transactionIndex: 0, logIndex },
});

const LOGS = [logAt(5, 0), logAt(5, 1, "0x02"), logAt(9, 0), logAt(12, 3)];
const told = ToldBlocks.of(LOGS);

describe("what two archives told", () => {
  test("is the same although their answers end at other blocks, and count logs otherwise", () => {
    const other = new ToldBlocks();
    const counted = LOGS.map((log) => ({ ...log, logIndex: log.logIndex + 7 }));
    for (const blocks of [[12], [5, 9]]) {
      const part = counted.filter(({ blockNumber }) => blocks.includes(blockNumber));
      for (const [number, own] of Map.groupBy(part, ({ blockNumber }) => blockNumber)) {
        other.add({ number, hash: hashOf(number) }, contentOfLogs(own));
      }
    }
    expect(other.digest).toBe(told.digest);
    expect(told.firstDifference(other)).toBeUndefined();
  });

  test.each([
    ["an omitted log", LOGS.toSpliced(1, 1), 5],
    ["an omitted block", LOGS.toSpliced(2, 1), 9],
    ["a block too many", [...LOGS, logAt(40, 0)], 40],
    ["another order", [logAt(5, 1), logAt(5, 0, "0x02"), ...LOGS.slice(2)], 5],
    ["another log", LOGS.with(2, logAt(9, 0, "0x05")), 9],
    ["another branch", LOGS.with(3, { ...logAt(12, 3), blockHash: hashOf(99) }), 12],
    ["nothing", [], 5],
  ])("differs first where one of them has %s", (_, logs, block) => {
    const other = ToldBlocks.of(logs);
    expect(told.firstDifference(other)).toBe(block);
    expect(other.firstDifference(told)).toBe(block);
  });
});
