/**
 * Logs whose place in a block nodes tell badly: one index for two logs, faulty logs in an answer or in receipts. A fault
 * concerns its own contract only, after all endpoints and the block's receipts were asked.
 */
import { describe, expect, test } from "bun:test";
import type { Address, Hash } from "../../src/core/hex.ts";
import { type DecodeRequest, decodeAnswer, parseAnswer } from "../../src/rpc/decode/answer.ts";
import { TRANSFER } from "../../src/rpc/decode/transfer-topics.ts";
import { verifyLogs } from "../../src/rpc/decode/verify-logs.ts";
import { EndpointPool } from "../../src/rpc/endpoint/endpoint-pool.ts";
import type { BlockHeader, Endpoint, LogsInDoubt } from "../../src/rpc/port.ts";
import { logsOfReceipts } from "../../src/rpc/reading/block-logs.ts";
import { RpcChainReader } from "../../src/rpc/reading/reader.ts";
import { LogsInDoubtError, RpcError } from "../../src/rpc/rpc-errors.ts";
import { logsBloomOf } from "../support/bloom.ts";
import { ProcessClock, Scheduler } from "../support/simulation/scheduler.ts";

const word = (n: number) => `0x${n.toString(16).padStart(64, "0")}` as Hash;
const [ODD, SOUND, OTHER] = ["a", "b", "c"].map((digit) => `0x${digit.repeat(40)}`) as [Address, Address, Address];

/** A transfer of token `id` in block 8. */
const wire = (address: string, id: number, [transaction, index]: [number, number]) => ({
  address,
  topics: [TRANSFER, word(1), word(2), word(id)] as Hash[],
  data: "0x",
  blockNumber: "0x8",
  blockHash: word(8),
  transactionHash: word(100 + transaction),
  transactionIndex: `0x${transaction.toString(16)}`,
  logIndex: `0x${index.toString(16)}`,
  removed: false,
});
type Wire = ReturnType<typeof wire>;
const ids = (logs: readonly { readonly topics: readonly string[] }[]) => logs.map(({ topics }) => Number(topics[3]));
const asked = { addresses: [], topics: [], fromBlock: 8, toBlock: 8 };

describe("the order of a block's logs", () => {
  // A bridge's logs, indexed from 0 again in the block's last transaction.
  const bridged = [wire(ODD, 1, [0, 0]), wire(ODD, 2, [1, 1]), wire(ODD, 3, [2, 0])];

  test("goes by transaction before index, and copies count once", () => {
    const logs = verifyLogs([bridged[2], bridged[1], bridged[0], bridged[2]], asked);
    expect(ids(logs)).toEqual([1, 2, 3]);
    expect(logs.map(({ logIndex }) => logIndex)).toEqual([0, 1, 0]);
  });

  test("goes by index where a node tells no transaction", () => {
    const bare = [wire(ODD, 1, [0, 2]), wire(ODD, 2, [1, 1])].map(({ transactionIndex: _, ...rest }) => rest);
    expect(ids(verifyLogs(bare, asked))).toEqual([2, 1]);
  });

  test("is refused if one place holds two logs of two transactions", () => {
    const torn = { ...wire(ODD, 9, [0, 0]), transactionHash: word(7) };
    expect(() => verifyLogs([...bridged, torn], asked)).toThrow(RpcError);
  });

  test("is the same from the fast parser and the general one", () => {
    const encode = (logs: readonly object[]): DecodeRequest => ({
      ...{ id: 1, address: ODD, forms: ["erc721"], fromBlock: 0, toBlock: 20 },
      raw: new TextEncoder().encode(JSON.stringify({ jsonrpc: "2.0", id: 1, result: logs })),
    });
    const orders = [bridged, bridged.toReversed(), [bridged[1], bridged[0], bridged[2]]] as Wire[][];
    for (const logs of orders) expect(decodeAnswer(encode(logs))).toEqual(parseAnswer(encode(logs)));
    for (const logs of orders) expect(decodeAnswer(encode(logs))).toEqual(decodeAnswer(encode(bridged)));
  });
});

/** Faults that a node may have in the logs of one contract of a block. */
const FAULTS: Record<string, (log: Wire) => object[]> = {
  "two logs of two transactions in one place": (log) => [log, { ...log, transactionHash: word(7), data: "0x01" }],
  "a log that is marked as removed": (log) => [{ ...log, removed: true }],
  "five topics": (log) => [{ ...log, topics: [...log.topics, word(4)] }],
  "a topic that is no word": (log) => [{ ...log, topics: [TRANSFER, "0x1"] }],
  "half a byte of data": (log) => [{ ...log, data: "0x0" }],
  "no block hash": (log) => [{ ...log, blockHash: null }],
  "another block's hash": (log) => [log, { ...wire(ODD, 5, [3, 9]), blockHash: word(9) }],
  "no index": (log) => [{ ...log, logIndex: null }],
};

const whole = [wire(SOUND, 1, [0, 0]), wire(ODD, 2, [1, 1]), wire(SOUND, 3, [2, 2])] as const;
const HEADER = { number: 8, hash: word(8), parentHash: word(7), timestamp: 96, logsBloom: logsBloomOf([...whole]) };
const WIRE_HEADER = { ...HEADER, number: "0x8", timestamp: "0x60" };
const filter = { addresses: [ODD, SOUND], topics: [TRANSFER], fromBlock: 8, toBlock: 8 };

type Answers = Readonly<Record<string, (params: unknown[]) => unknown>>;

/** Runs a read over nodes with these answers. */
async function read(nodes: readonly Answers[], onDoubt?: (doubt: LogsInDoubt) => void, strict = false) {
  const scheduler = new Scheduler(1);
  const endpoints = nodes.map(
    (answers, index): Endpoint => ({
      label: `eth#${index + 1}`,
      request: async (method, params) => {
        const answer = answers[method];
        if (answer === undefined) throw new RpcError("unsupported", "no such method");
        return answer(params);
      },
      transfers: () => Promise.reject(new Error("not asked")),
      destroy: () => undefined,
    }),
  );
  const pool = new EndpointPool({ chain: "eth", endpoints, clock: new ProcessClock(scheduler) });
  const reader = new RpcChainReader({ chainId: 1, pool, multicall: OTHER, finalityDepth: 5, depthIsSet: true });
  let isOver = false;
  const reading = reader.completeLogs(filter, [HEADER as BlockHeader], { strict, onDoubt }).finally(() => {
    isOver = true;
  });
  reading.catch(() => undefined);
  while (!isOver) if (!(await scheduler.step())) await new Promise<void>((resolve) => setImmediate(resolve));
  return reading;
}

/** A node that gives these logs for any filter that has their contract. */
const node = (logs: readonly object[], more: Answers = {}): Answers => ({
  eth_getBlockByNumber: () => WIRE_HEADER,
  eth_getLogs: ([asked]) => {
    const { address = [] } = asked as { address?: string | string[] };
    return logs.filter((log) => [address].flat().includes((log as Wire).address));
  },
  ...more,
});
const receipts = (logs: readonly object[], logsBloom: string = HEADER.logsBloom): Answers => ({
  eth_getBlockReceipts: () => [{ logs, logsBloom }],
});

describe("a block in which all nodes have one contract's logs wrong", () => {
  for (const [name, spoil] of Object.entries(FAULTS)) {
    const spoilt = [whole[0], ...spoil(whole[1]), whole[2]];

    test(`gives the other contracts' logs and names the contract: ${name}`, async () => {
      const doubts: LogsInDoubt[] = [];
      const logs = await read([node(spoilt), node(spoilt)], (doubt) => doubts.push(doubt));
      expect(ids(logs)).toEqual([1, 3]);
      expect(doubts).toEqual([{ contract: ODD, block: 8, reason: expect.any(String) }]);
    });

    test(`is read from its receipts if they are sound: ${name}`, async () => {
      const doubts: LogsInDoubt[] = [];
      const logs = await read([node(spoilt, receipts(whole))], (doubt) => doubts.push(doubt));
      expect([ids(logs), doubts]).toEqual([[1, 2, 3], []]);
    });

    test(`is in doubt if its receipts have the same fault, strictly read or not: ${name}`, async () => {
      for (const strict of [false, true]) {
        const doubts: LogsInDoubt[] = [];
        const logs = await read([node(spoilt, receipts(spoilt))], (doubt) => doubts.push(doubt), strict);
        expect([ids(logs), doubts.map(({ contract }) => contract)]).toEqual([[1, 3], [ODD]]);
      }
    });

    test(`is taken from another endpoint: ${name}`, async () => {
      const logs = await read([node(spoilt), node(whole)], () => expect.unreachable());
      expect(ids(logs)).toEqual([1, 2, 3]);
    });
  }

  test("is in doubt at once, even while the other endpoint is down", async () => {
    const spoilt = [whole[0], ...(FAULTS["half a byte of data"] as (log: Wire) => object[])(whole[1]), whole[2]];
    const down = () => {
      throw new RpcError("transient", "connection refused");
    };
    const doubts: LogsInDoubt[] = [];
    const broken = { eth_getBlockByNumber: () => WIRE_HEADER, eth_getLogs: down, eth_getBlockReceipts: down };
    const logs = await read([node(spoilt, receipts(spoilt)), broken], (doubt) => doubts.push(doubt));
    expect([ids(logs), doubts.length]).toEqual([[1, 3], 1]);
  });

  test("fails with block and reason for a caller that needs the contract", async () => {
    const spoilt = [...whole, { ...whole[1], transactionHash: word(7) }];
    const failure = await read([node(spoilt)]).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(LogsInDoubtError);
    expect((failure as LogsInDoubtError).doubt).toMatchObject({ contract: ODD, block: 8 });
    expect((failure as Error).message).toContain("two logs share block, transaction and index");
  });

  test("goes on without a contract whose logs all nodes refuse, and says the refusal", async () => {
    const refusing = ([asked]: unknown[]) => {
      const contracts = [(asked as { address: string | string[] }).address].flat();
      if (!contracts.includes(ODD)) return whole.filter(({ address }) => contracts.includes(address));
      throw new RpcError("range", "eth_getLogs refused: internal error", { meta: { rpcCode: -32_603 } });
    };
    const doubts: LogsInDoubt[] = [];
    const logs = await read([{ ...node([]), eth_getLogs: refusing }], (doubt) => doubts.push(doubt));
    expect(ids(logs)).toEqual([1, 3]);
    expect(doubts).toEqual([{ contract: ODD, block: 8, reason: "eth_getLogs refused: internal error" }]);
  });

  test("does not believe a log of another contract: it may be a requested one with a wrong address", async () => {
    const foreign = [whole[0], { ...whole[1], address: OTHER }, whole[2]];
    const doubts: LogsInDoubt[] = [];
    const onDoubt = (doubt: LogsInDoubt) => doubts.push(doubt);
    const nodes = (more: Answers) => [{ ...node([]), eth_getLogs: () => foreign, ...more }];
    expect(ids(await read(nodes(receipts(whole)), onDoubt))).toEqual([1, 2, 3]);
    expect(doubts).toEqual([]);
    expect(await read(nodes({}), onDoubt)).toEqual([]);
    expect(doubts.map(({ contract }) => contract)).toEqual([ODD, SOUND]);
  });

  test("doubts the contracts that the bloom names if a log has no readable contract", async () => {
    const doubts: LogsInDoubt[] = [];
    const nameless = [...whole, { ...whole[1], address: "0xzz" }];
    const logs = await read([{ ...node([]), eth_getLogs: () => nameless }], (doubt) => doubts.push(doubt));
    expect([logs, doubts.map(({ contract }) => contract)]).toEqual([[], [ODD, SOUND]]);
  });
});

test("doubts what a block's bloom names if it must be read from receipts, and they contradict the header", async () => {
  const doubts: LogsInDoubt[] = [];
  const torn = receipts([whole[0]], logsBloomOf([whole[0]]));
  const logs = await read([node(whole, torn)], (doubt) => doubts.push(doubt), true);
  expect([logs, doubts.map(({ contract }) => contract)]).toEqual([[], [ODD, SOUND]]);
  // Without receipts on any endpoint the setting can't be kept, which is no fault of the block.
  const failure = await read([node(whole)], (doubt) => doubts.push(doubt), true).catch(({ code }) => code);
  expect(failure).toBe("unverifiable");
});

describe("receipts with garbage of a contract that nobody watches", () => {
  const watched = { addresses: [SOUND], topics: [TRANSFER] };
  const garbage: Record<string, object> = {
    "no topics": { ...wire(OTHER, 9, [1, 1]), topics: null },
    "topics that are no words": { ...wire(OTHER, 9, [1, 1]), topics: ["0x1"] },
    "no address": { ...wire(OTHER, 9, [1, 1]), address: null },
    "no data, no index": { ...wire(OTHER, 9, [1, 1]), data: null, logIndex: null },
    "another block's number": { ...wire(OTHER, 9, [1, 1]), blockNumber: "0x99" },
    "the place of a sound log": { ...wire(OTHER, 9, [1, 1]), transactionIndex: "0x0", logIndex: "0x0" },
    "no log at all": { toString: null },
  };
  const bloomed = logsBloomOf([whole[0], whole[2], wire(OTHER, 9, [1, 1])]);
  for (const [name, log] of Object.entries(garbage)) {
    test(`prove the watched contracts' logs: ${name}`, async () => {
      const result = [{ logs: [whole[0], log, whole[2]], logsBloom: bloomed }];
      const header = { ...HEADER, logsBloom: bloomed } as BlockHeader;
      expect(ids(await logsOfReceipts(result, header, watched))).toEqual([1, 3]);
    });

    test(`prove nothing if a watched log is missing beside it: ${name}`, async () => {
      const result = [{ logs: [log], logsBloom: bloomed }];
      const header = { ...HEADER, logsBloom: bloomed } as BlockHeader;
      await expect(logsOfReceipts(result, header, watched)).rejects.toBeInstanceOf(RpcError);
    });
  }
});
