/**
 * A malformed log is refused with its reason before anything is derived from it, because the event log is append-only.
 */
import { describe, expect, test } from "bun:test";
import { TRANSFER } from "../../src/rpc/decode/transfer-topics.ts";
import { verifyLogs } from "../../src/rpc/decode/verify-logs.ts";
import { RpcError } from "../../src/rpc/rpc-errors.ts";

const word = (digits: string) => `0x${digits.padStart(64, "0")}`;
const good = {
  address: `0x${"ab".repeat(20)}`,
  topics: [TRANSFER, word("1"), word("2"), word("3")],
  data: "0x",
  blockNumber: "0x5",
  blockHash: word("b5"),
  transactionHash: word("7"),
  logIndex: "0x2",
  removed: false,
};
const asked = { addresses: [], topics: [], fromBlock: 0, toBlock: 10 };

test("accepts upper case, decimals and plain numbers", () => {
  const [log] = verifyLogs([good], asked);
  expect(log).toMatchObject({ blockNumber: 5, logIndex: 2, topics: good.topics });
  const odd = {
    ...good,
    address: good.address.toUpperCase().replace("X", "x"),
    topics: good.topics.map((topic) => topic.toUpperCase().replace("X", "x")),
    blockHash: good.blockHash.toUpperCase().replace("X", "x"),
    blockNumber: "5",
    logIndex: 2,
  };
  expect(verifyLogs([odd], asked)).toEqual(verifyLogs([good], asked));
});

test("quotes no more of an invalid number than a number's length", () => {
  try {
    verifyLogs([{ ...good, blockNumber: "far ".repeat(10_000) }], asked);
  } catch (error) {
    expect(JSON.stringify((error as RpcError).meta).length).toBeLessThan(100);
  }
  expect.assertions(1);
});

describe("a log that comes twice", () => {
  const later = { ...good, logIndex: "0x3" };

  test("counts once, wherever its copies stand and however they are written", () => {
    const copy = { ...good, blockNumber: "5", blockHash: good.blockHash.toUpperCase().replace("X", "x") };
    const once = verifyLogs([good, later], asked);
    expect(verifyLogs([good, good, later, later], asked)).toEqual(once);
    expect(verifyLogs([good, later, copy, good], asked)).toEqual(once);
  });

  test("is refused if its copies differ in any field", () => {
    const changes = [
      { data: "0x01" },
      { topics: good.topics.slice(0, 3) },
      { topics: [...good.topics.slice(0, 3), word("4")] },
      { transactionHash: word("8") },
      { address: `0x${"cd".repeat(20)}` },
      { blockHash: word("b6") },
    ];
    for (const change of changes) {
      expect(() => verifyLogs([good, later, { ...good, ...change }], asked)).toThrow(RpcError);
    }
  });
});

describe("a list with a malformed log is refused as a lie, for", () => {
  const damaged = word("3").replace(/3$/, "g");
  const cases: Record<string, object> = {
    "a topic with a letter that is no hex digit": { topics: [...good.topics.slice(0, 3), damaged] },
    "an address in a topic with such a letter": { topics: [TRANSFER, word("z"), word("2"), word("3")] },
    "a topic without 0x": { topics: [TRANSFER, "1".repeat(66)] },
    "a topic that is null": { topics: [null] },
    "a topic that is a number": { topics: [TRANSFER, 7] },
    "five topics": { topics: [...good.topics, word("4")] },
    "a block hash that is not hex": { blockHash: word("xy") },
    "a short block hash": { blockHash: "0x12" },
    "a block that is a fraction": { blockNumber: "3.5" },
    "a block that is null": { blockNumber: null },
    "a block that is a list": { blockNumber: ["0x5"] },
    "a block that is empty": { blockNumber: "" },
    "a block below zero": { blockNumber: -1 },
    "an index that is null": { logIndex: null },
    "an index beyond 32 bits": { logIndex: "0x10000000001" },
    "an index that is true": { logIndex: true },
    "an address that is not hex": { address: `0x${"zz".repeat(20)}` },
    "a short address": { address: "0xab" },
    "data that are not hex": { data: "0xzz" },
    "a block that has no text": { blockNumber: { toString: null } },
    "an index that has no text": { logIndex: { toString: null, valueOf: null } },
  };
  for (const [name, change] of Object.entries(cases)) {
    test(name, () => {
      let error: unknown;
      try {
        verifyLogs([good, { ...good, logIndex: "0x3", ...change }], asked);
      } catch (caught) {
        error = caught;
      }
      expect(error).toBeInstanceOf(RpcError);
      expect((error as RpcError).kind).toBe("lie");
    });
  }
});
