/**
 * Event records: each event survives encoding and decoding, damaged or unknown records are refused, columns fit values.
 */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Address, Hash } from "../../src/core/hex.ts";
import { checksum, decodeEvent, encodeEvent } from "../../src/events/codec.ts";
import { decodeTransfers, wordsToBigInt } from "../../src/events/columns.ts";
import { type DomainEvent, nftStream } from "../../src/events/types.ts";
import { columnsOf, type ModelTransfer } from "../support/naive-ledger.ts";

const hash = `0x${"ab".repeat(32)}` as Hash;
const address = `0x${"cd".repeat(20)}` as Address;
const header = { number: 7, hash, parentHash: hash, timestamp: 1_700_000_000 };
const block = { number: 7, hash };

/** One event of each type. A new type without an entry here fails to compile. */
const EVENTS: { [T in DomainEvent["type"]]: Extract<DomainEvent, { type: T }> } = {
  IndexingRequested: { type: "IndexingRequested" },
  ContractIdentified: {
    type: "ContractIdentified",
    kind: "nft",
    forms: ["erc721", "erc1155"],
    name: "Ünïcode “name” 🦄",
    symbol: "",
    startBlock: 0,
    block: 9,
  },
  TransfersCommitted: {
    type: "TransfersCommitted",
    fromBlock: 0,
    toBlock: 7,
    toHash: hash,
    count: 3,
    transfers: new Uint8Array([0, 255, 1, 2]),
  },
  ContractRenamed: { type: "ContractRenamed", name: "B", symbol: "C", block: 9 },
  BlocksReverted: { type: "BlocksReverted", ancestor: block },
  ContractDestroyed: { type: "ContractDestroyed", block: 7, chainVersion: 3 },
  IndexingCompleted: { type: "IndexingCompleted", block: 7, hash },
  IndexingFailed: { type: "IndexingFailed", reason: "no answer", attempt: 3, retryAt: 1_700_000_000_000 },
  LogsDoubted: {
    type: "LogsDoubted",
    block: 7,
    reason: "two logs share a place",
    attempt: 1,
    retryAt: 1_700_000_000_000,
  },
  OwnersDoubted: { type: "OwnersDoubted", block: 7, reason: "token 3 has another owner" },
  OwnersSettled: { type: "OwnersSettled", contradicted: 2 },
  IndexingStalled: { type: "IndexingStalled", reason: "reading from block 5, without progress for 60 s" },
  HistoryProven: {
    type: "HistoryProven",
    archives: "archive eth#1",
    touched: 12_728,
    hashed: 12_728,
    sampled: 100,
    byRoot: 100,
    absent: 3,
    block: 7,
    holdings: 9_999,
    of: 10_000,
    contradicted: 1,
  },
  FlagsChanged: { type: "FlagsChanged", possibleSpam: true, verifiedCollection: false, rule: "list" },
  TokenIdentified: { type: "TokenIdentified", name: "a", symbol: "b", decimals: 18, isContract: true, block: 1 },
  PoolDiscovered: {
    type: "PoolDiscovered",
    pool: address,
    factory: address,
    style: "v3",
    fee: 500,
    token0: address,
    token1: address,
    block: 1,
  },
  TokenPriced: { type: "TokenPriced", price: new Uint8Array([1, 0, 7]) },
  HeadPriced: {
    type: "HeadPriced",
    head: new Uint8Array([1, 255]),
    reader: "a",
    joined: [address],
    left: [],
    disputed: [{ coin: address, usd: ["1", "2"] }],
  },
  PricesWanted: { type: "PricesWanted", tokens: { [address]: ["key"] } },
  PricesThinned: { type: "PricesThinned", before: 7, seconds: 3_600 },
  PriceObserved: {
    type: "PriceObserved",
    pool: address,
    state: { style: "v3", sqrtPriceX96: "1", liquidity: "2", tick: -3 },
    block: 1,
    blockHash: hash,
    timestamp: 5,
    logIndex: 0,
  },
  MetadataResolved: { type: "MetadataResolved", since: 4, count: 1, bytes: 512, tokens: new Uint8Array([1, 0, 255]) },
  MetadataFailed: { type: "MetadataFailed", since: 4, reason: "timeout", count: 0, bytes: 0, tokens: new Uint8Array() },
  MetadataOutdated: {
    type: "MetadataOutdated",
    fromId: "0",
    toId: ((1n << 256n) - 1n).toString(),
    cause: "announced",
    block: 7,
  },
  MetadataRequested: { type: "MetadataRequested", media: true, count: 1, tokens: new Uint8Array([9]) },
  MetadataSettled: { type: "MetadataSettled", collection: 9, dueAt: 1_700_000_000_000 },
  MediaExamined: { type: "MediaExamined", count: 1, tokens: new Uint8Array([3, 4]) },
  HeadAdvanced: { type: "HeadAdvanced", fromBlock: 7, headers: [header] },
  ChainReverted: { type: "ChainReverted", ancestor: block, orphaned: [block] },
  ChainFinalized: { type: "ChainFinalized", block },
  ChainHalted: { type: "ChainHalted", finalized: block, found: block },
  FollowingBegan: { type: "FollowingBegan", holder: "a-process" },
  ChainCheckpointed: { type: "ChainCheckpointed", headers: [header], finalized: block, orphaned: [], reverts: [] },
  ReindexRequested: { type: "ReindexRequested" },
  CollectionRemoved: { type: "CollectionRemoved" },
  KeyAdded: {
    type: "KeyAdded",
    name: "shop",
    scope: "read",
    hash: "ab".repeat(32),
    requestsPerMinute: null,
    collectionsPerHour: null,
    subscriptions: 5,
  },
  KeyRotated: { type: "KeyRotated", name: "shop", hash: "cd".repeat(32), graceUntil: 1_700_000_000_000 },
  KeyRevoked: { type: "KeyRevoked", name: "shop" },
  UsageRecorded: {
    type: "UsageRecorded",
    instance: "1",
    endpoints: { "eth#1": { calls: { eth_getLogs: 3 }, bytes: 900 } },
    keys: { shop: { calls: { eth_call: 1 }, bytes: 0 } },
  },
  ProofsKept: {
    type: "ProofsKept",
    block: 7,
    hash: `0x${"ab".repeat(32)}` as Hash,
    documents: [{ blob: `0x${"cd".repeat(32)}` as Hash, tokenIds: ["1", "2"] }],
  },
};

describe("records", () => {
  for (const event of Object.values(EVENTS)) {
    test(`decodes an encoded ${event.type} to the same event`, () => {
      expect(decodeEvent(event.type, encodeEvent(event))).toEqual(event);
    });
  }

  test("decodes metadata outcomes of the format without byte counts as zero bytes", () => {
    const fields = { since: 4, reason: "timeout", count: 1 };
    const json = new TextEncoder().encode(JSON.stringify(fields));
    const tokens = new Uint8Array([1, 0, 255]);
    for (const type of ["MetadataResolved", "MetadataFailed"]) {
      const bytes = new Uint8Array([1, 1, json.length, 0, 0, 0, ...json, ...tokens]);
      expect(decodeEvent(type, bytes)).toEqual({ type, ...fields, bytes: 0, tokens } as never);
    }
  });

  test("refuses a record that is cut off, or has an unknown codec, schema or type", () => {
    const event = EVENTS.HeadAdvanced;
    const bytes = encodeEvent(event);
    for (let length = 0; length < bytes.length; length++) {
      expect(() => decodeEvent(event.type, bytes.subarray(0, length))).toThrow();
    }
    for (const [at, value] of [
      [0, 9],
      [1, 99],
      [1, 0],
    ] as const) {
      expect(() =>
        decodeEvent(
          event.type,
          bytes.map((byte, i) => (i === at ? value : byte)),
        ),
      ).toThrow();
    }
    expect(() => decodeEvent("NeverHeardOf", bytes)).toThrow("unknown event type");
  });

  test("cover place, time and every byte by their checksum", () => {
    const stream = nftStream(1, address);
    const bytes = encodeEvent(EVENTS.BlocksReverted);
    const right = checksum(stream, 3, "BlocksReverted", 5, bytes);
    expect(checksum(stream, 4, "BlocksReverted", 5, bytes)).not.toBe(right);
    expect(checksum(stream, 3, "IndexingFailed", 5, bytes)).not.toBe(right);
    expect(checksum(stream, 3, "BlocksReverted", 6, bytes)).not.toBe(right);
    expect(checksum(nftStream(2, address), 3, "BlocksReverted", 5, bytes)).not.toBe(right);
    for (let at = 0; at < bytes.length; at++) {
      const flipped = bytes.map((byte, i) => (i === at ? byte ^ 1 : byte));
      expect(checksum(stream, 3, "BlocksReverted", 5, flipped)).not.toBe(right);
    }
  });
});

describe("transfer columns", () => {
  const word = fc.oneof(
    fc.bigInt(0n, 300n),
    fc.bigInt(0n, 2n ** 32n),
    fc.bigInt(0n, 2n ** 64n),
    fc.bigInt(0n, 2n ** 256n - 1n),
  );
  const transfer = fc.record({
    kind: fc.constantFrom(0 as const, 1 as const, 2 as const, 3 as const),
    block: fc.nat(2 ** 32 - 1),
    from: fc.nat(9),
    to: fc.nat(9),
    id: word,
    amount: word,
  });

  test("decode to the same values, for any values", () => {
    fc.assert(
      fc.property(fc.array(transfer, { maxLength: 40 }), (transfers: ModelTransfer[]) => {
        const columns = decodeTransfers(columnsOf(transfers));
        const address = (index: number) =>
          new DataView(columns.addresses.buffer, columns.addresses.byteOffset + index * 20 + 16, 4).getUint32(0);
        const back = transfers.map((_, i) => ({
          kind: columns.kinds[i],
          block: columns.blocks[i],
          from: address(columns.from[i] as number),
          to: address(columns.to[i] as number),
          id: wordsToBigInt(columns.ids, i),
          amount: wordsToBigInt(columns.amounts, i),
        }));
        expect(back as ModelTransfer[]).toEqual(transfers);
      }),
      { numRuns: 300 },
    );
  });

  test("refuse bytes that are cut off, too long, or claim a wrong count", () => {
    const bytes = columnsOf([{ kind: 0, block: 1, from: 0, to: 1, id: 5n, amount: 1n }]);
    for (let length = 0; length < bytes.length; length++) {
      expect(() => decodeTransfers(bytes.subarray(0, length))).toThrow();
    }
    expect(() => decodeTransfers(new Uint8Array([...bytes, 0]))).toThrow("past their end");
    const huge = bytes.slice();
    new DataView(huge.buffer).setUint32(1, 0xffff_ffff, true);
    expect(() => decodeTransfers(huge)).toThrow();
  });
});
