/**
 * The fast parser of an answer compared with the general one: it gives the same bytes or leaves the answer to the
 * general parser. Answers are generated and then damaged, byte by byte and field by field.
 */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { createRandom, type Random } from "../../scripts/local-chain/random.ts";
import type { Address } from "../../src/core/hex.ts";
import { decodeAnswer, parseAnswer } from "../../src/rpc/decode/answer.ts";
import { scanTransfers } from "../../src/rpc/decode/scan.ts";
import {
  TRANSFER,
  TRANSFER_821_SECOND,
  TRANSFER_6909,
  TRANSFER_BATCH,
  TRANSFER_SINGLE,
} from "../../src/rpc/decode/transfer-topics.ts";
import type { DecodeJob } from "../../src/rpc/port.ts";

const ADDRESS = `0x${"c0ffee".padEnd(40, "1")}` as Address;
const job: DecodeJob = {
  address: ADDRESS,
  fromBlock: 100,
  toBlock: 1_000,
  forms: ["erc721", "erc2309", "erc1155", "erc6909", "erc821"],
};
const bytesOf = (answer: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(answer));
const word = (value: number | bigint): string => value.toString(16).padStart(64, "0");
const hash = (seed: number): string => `0x${Bun.hash(String(seed)).toString(16).padStart(16, "0").repeat(4)}`;
const holder = (random: Random): string => `0x${word(random.below(4) === 0 ? 0 : 0xabc000 + random.below(50))}`;

interface Drawn {
  readonly logs: Record<string, unknown>[];
}

/** Logs of a contract in chain order, mostly ordinary ones. */
function draw(random: Random, count: number): Drawn {
  const logs: Record<string, unknown>[] = [];
  let block = 100;
  let index = 0;
  for (let i = 0; i < count; i++) {
    if (random.below(3) === 0) {
      block += 1 + random.below(4);
      index = 0;
    }
    index += 1 + random.below(300);
    const id = random.pick([BigInt(random.below(9)), 2n ** 40n + BigInt(i), 2n ** 255n - 19n]);
    const isSingle = random.below(3) === 0;
    const log = {
      address: ADDRESS,
      topics: isSingle
        ? [TRANSFER_SINGLE, holder(random), holder(random), holder(random)]
        : [TRANSFER, holder(random), holder(random), `0x${word(id)}`],
      data: isSingle ? `0x${word(id)}${word(random.pick([0n, 1n, 2n ** 64n + 3n]))}` : "0x",
      blockHash: hash(block),
      blockNumber: `0x${block.toString(16)}`,
      transactionHash: hash(1_000_000 + i),
      transactionIndex: `0x${i.toString(16)}`,
      logIndex: `0x${index.toString(16)}`,
      removed: false,
    };
    logs.push(log);
  }
  return { logs };
}

/** Checks that `decodeAnswer` gives the same result as the general parser. */
function expectSame(raw: Uint8Array, of: DecodeJob = job): void {
  const request = { ...of, id: 7, raw };
  expect(decodeAnswer(request)).toEqual(parseAnswer(request));
}

test("reads ordinary answers with the fast parser, with the same result", () => {
  for (let seed = 1; seed <= 60; seed++) {
    const random = createRandom(seed);
    const { logs } = draw(random, 1 + random.below(80));
    for (const answer of [
      { jsonrpc: "2.0", id: seed, result: logs },
      { id: seed, jsonrpc: "2.0", result: logs },
      { result: logs, jsonrpc: "2.0", id: seed },
    ]) {
      const raw = bytesOf(answer);
      expect(scanTransfers(raw, job)?.count).toBe(logs.length);
      expectSame(raw);
    }
  }
});

test("handles many addresses, and an answer that is a part of a larger buffer", () => {
  const random = createRandom(3);
  const { logs } = draw(random, 3_000);
  for (const [i, log] of logs.entries()) (log["topics"] as string[])[2] = `0x${word(0x77_0000_0000 + i * 3)}`;
  const answer = bytesOf({ jsonrpc: "2.0", id: 1, result: logs });
  const shifted = new Uint8Array(answer.length + 33);
  shifted.set(answer, 33);
  const toBlock = 100_000;
  expect(scanTransfers(shifted.subarray(33), { ...job, toBlock })?.count).toBe(3_000);
  expectSame(shifted.subarray(33), { ...job, toBlock });
});

test("handles fields in any order, and unknown fields", () => {
  const random = createRandom(5);
  for (let round = 0; round < 60; round++) {
    const { logs } = draw(random, 1 + random.below(6));
    const shuffled = logs.map((log) => {
      const fields = Object.entries(log);
      if (random.below(2) === 0) fields.push(["blockTimestamp", "0x65f1a2b3"]);
      if (random.below(6) === 0) fields.push(["type", random.pick(["mined", 1, null, { a: [1] }])]);
      return Object.fromEntries(
        fields
          .map((field) => [random.below(1_000), field] as const)
          .sort(([a], [b]) => a - b)
          .map(([, field]) => field),
      );
    });
    expectSame(bytesOf({ jsonrpc: "2.0", id: round, result: shuffled }));
  }
});

/** Each changes one log, or the list, in one way. */
const SPOILERS: readonly ((log: Record<string, unknown>, logs: Record<string, unknown>[]) => void)[] = [
  (log) => delete log["topics"],
  (log) => delete log["blockHash"],
  (log) => delete log["logIndex"],
  (log) => delete log["data"],
  (log) => delete log["transactionHash"],
  (log) => delete log["removed"],
  (log) => (log["removed"] = true),
  (log) => (log["removed"] = null),
  (log) => (log["address"] = (log["address"] as string).toUpperCase().replace("0X", "0x")),
  (log) => (log["address"] = `0x${"e".repeat(40)}`),
  (log) => (log["blockNumber"] = "0x63"),
  (log) => (log["blockNumber"] = "0x3e9"),
  (log) => (log["blockNumber"] = "101"),
  (log) => (log["blockNumber"] = "0x"),
  (log) => (log["blockNumber"] = "0x1ffffffff"),
  (log) => (log["blockNumber"] = 101),
  (log) => (log["logIndex"] = "0x0"),
  (log) => (log["logIndex"] = "0xfffffffff"),
  (log) => (log["blockHash"] = `0x${"d".repeat(64)}`),
  (log) => (log["blockHash"] = `0x${"D".repeat(64)}`),
  (log) => (log["blockHash"] = `0x${"d".repeat(63)}`),
  (log) => (log["data"] = "0x01"),
  (log) => (log["data"] = "0x0"),
  (log) => (log["data"] = `0x${"z".repeat(128)}`),
  (log) => (log["data"] = `0x${"A".repeat(128)}`),
  (log) => (log["topics"] = (log["topics"] as string[]).slice(0, 3)),
  (log) => (log["topics"] = [...(log["topics"] as string[]), hash(1)]),
  (log) => ((log["topics"] as string[])[0] = TRANSFER_BATCH),
  (log) => ((log["topics"] as string[])[0] = TRANSFER_821_SECOND),
  (log) => ((log["topics"] as string[])[0] = TRANSFER_6909),
  (log, logs) => {
    const { topics, ...rest } = log;
    const echo = [TRANSFER_821_SECOND, ...(topics as string[]).slice(1)];
    logs.splice(logs.indexOf(log) + 1, 0, { ...rest, topics: echo, data: `0x${word(9)}${word(64)}${word(0)}` });
    for (const [index, each] of logs.entries()) each["logIndex"] = `0x${index.toString(16)}`;
  },
  (log) => ((log["topics"] as string[])[0] = hash(2)),
  (log) => ((log["topics"] as string[])[1] = `0x${"f".repeat(64)}`),
  (log) => ((log["topics"] as string[])[2] = `0x${"A".repeat(64)}`),
  (log) => ((log["topics"] as string[])[3] = `0x${"F".repeat(64)}`),
  (log) => (log["transactionHash"] = 'not "a hash'),
  (log) => (log["transactionIndex"] = null),
  (log, logs) => logs.push(log),
  (_, logs) => logs.reverse(),
];

test("reads an answer with one defect like the general parser, or not at all", () => {
  const random = createRandom(11);
  for (const spoil of SPOILERS) {
    for (let round = 0; round < 8; round++) {
      const { logs } = draw(random, 1 + random.below(8));
      spoil(random.pick(logs), logs);
      expectSame(bytesOf({ jsonrpc: "2.0", id: 1, result: logs }));
    }
  }
});

test("handles other answers: errors, nulls, lists in other JSON", () => {
  const { logs } = draw(createRandom(2), 3);
  for (const answer of [
    { jsonrpc: "2.0", id: 1, result: [] },
    { jsonrpc: "2.0", id: 1, result: null },
    { jsonrpc: "2.0", id: 1, error: { code: -32005, message: "query returned more than 10000 results" } },
    { jsonrpc: "2.0", id: 1, result: logs, error: { code: 1, message: "both" } },
    { jsonrpc: "2.0", id: 1, note: '"result":[', result: logs },
    { jsonrpc: "2.0", id: 1, result: [logs] },
    { jsonrpc: "2.0", id: 1, result: [null] },
    logs,
    "text",
  ]) {
    expectSame(bytesOf(answer));
  }
  expectSame(new TextEncoder().encode(JSON.stringify({ jsonrpc: "2.0", id: 1, result: logs }, null, 2)));
  const takenBy = (forms: DecodeJob["forms"]) => ({ ...job, forms });
  for (const forms of [["erc1155"], ["erc6909"], ["erc721"], ["cryptopunks"], []] as DecodeJob["forms"][]) {
    expectSame(bytesOf({ jsonrpc: "2.0", id: 1, result: logs }), takenBy(forms));
  }
});

test("reads an answer that is truncated anywhere like the general parser", () => {
  const { logs } = draw(createRandom(8), 3);
  const raw = bytesOf({ jsonrpc: "2.0", id: 1, result: logs });
  for (let length = 0; length <= raw.length; length++) expectSame(raw.slice(0, length));
});

test("never misreads an answer with a changed byte", () => {
  const { logs } = draw(createRandom(9), 4);
  const raw = bytesOf({ jsonrpc: "2.0", id: 1, result: logs });
  fc.assert(
    fc.property(fc.nat(raw.length - 1), fc.integer({ min: 0, max: 255 }), (at, byte) => {
      const changed = raw.slice();
      changed[at] = byte;
      expectSame(changed);
    }),
    { numRuns: 20_000 },
  );
});
