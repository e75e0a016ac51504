/** Transfers announced by the drafts before the standard, read from logs as real contracts write them. */
import { expect, test } from "bun:test";
import { AbiCoder, zeroPadBytes } from "ethers";
import { decodeTransfers, TransferKind } from "../../src/events/columns.ts";
import type { TransferForm } from "../../src/events/types.ts";
import {
  CAT_ADOPTED,
  CAT_RESCUED,
  CREATE_821,
  DESTROY_821,
  TRANSFER,
  TRANSFER_821,
  TRANSFER_821_SECOND,
} from "../../src/rpc/decode/transfer-topics.ts";
import { decodeTransferLogs } from "../../src/rpc/decode/transfers.ts";
import type { ChainLog } from "../../src/rpc/port.ts";

const CLAIMED: readonly TransferForm[] = ["erc721", "erc2309", "erc1155", "erc821"];
const coder = AbiCoder.defaultAbiCoder();
const word = (value: number | bigint): string => `0x${value.toString(16).padStart(64, "0")}`;
const account = (n: number): string => `0x${n.toString(16).padStart(40, "0")}`;
const firstDraft = coder.encode(["address", "bytes", "bytes"], [account(9), "0x302c22", "0x"]);
const secondDraft = coder.encode(["address", "bytes"], [account(9), "0x"]);

type Said = readonly [topics: readonly string[], data: string, transaction?: number | undefined];

function logsOf(said: readonly Said[]): ChainLog[] {
  return said.map(([topics, data, transaction = 1], logIndex) => ({
    address: account(0xc0ffee) as ChainLog["address"],
    topics: topics as ChainLog["topics"],
    data,
    blockNumber: 5,
    blockHash: word(5) as ChainLog["blockHash"],
    transactionHash: word(transaction) as ChainLog["transactionHash"],
    transactionIndex: 0,
    logIndex,
  }));
}

/** Decodes logs into kind, id, from, to and log index. */
function read(said: readonly Said[], forms: readonly TransferForm[] = CLAIMED) {
  const { transfers, malformed } = decodeTransferLogs(logsOf(said), forms);
  const columns = decodeTransfers(transfers);
  const address = (index: number) =>
    Number(`0x${Buffer.from(columns.addresses.subarray(index * 20, index * 20 + 20)).toString("hex")}`);
  const moves = Array.from({ length: columns.count }, (_, i) => [
    columns.kinds[i],
    columns.ids.values[i * columns.ids.words],
    address(columns.from[i] as number),
    address(columns.to[i] as number),
    columns.logIndexes[i],
  ]);
  return { moves, malformed };
}

const standard = (from: number, to: number, transaction?: number): Said => [
  [TRANSFER, word(from), word(to), word(7)],
  "0x",
  transaction,
];
const draft = (from: number, to: number, transaction?: number): Said => [
  [TRANSFER_821_SECOND, word(from), word(to), word(7)],
  secondDraft,
  transaction,
];

test("reads both drafts of ERC-821 as transfers of an ERC-721 token, unless the collection's stored forms lack them", () => {
  const said: Said[] = [
    [[TRANSFER_821, word(0), word(1), word(7)], firstDraft],
    [[TRANSFER_821_SECOND, word(1), word(2), word(7)], secondDraft],
  ];
  const { erc721 } = TransferKind;
  const moves = [
    [erc721, 7, 0, 1, 0],
    [erc721, 7, 1, 2, 1],
  ];
  expect(read(said)).toEqual({ moves, malformed: 0 });
  expect(read(said, ["erc721", "erc2309", "erc1155"])).toEqual({ moves: [], malformed: 0 });
});

test("counts a transfer that is announced in both ways once, in either order, as often as it happened", () => {
  const path = (said: readonly Said[]) => read(said).moves.map(([, , from, to, at]) => `${from}>${to}@${at}`);
  expect(path([standard(0, 1), draft(0, 1)])).toEqual(["0>1@0"]);
  expect(path([draft(0, 1), standard(0, 1)])).toEqual(["0>1@0"]);
  // To, back and to again in one transaction.
  const both = (from: number, to: number) => [draft(from, to), standard(from, to)];
  expect(path([...both(1, 2), ...both(2, 1), ...both(1, 2)])).toEqual(["1>2@0", "2>1@2", "1>2@4"]);
  // All announcements after all moves.
  expect(path([standard(1, 2), standard(2, 1), draft(1, 2), draft(2, 1)])).toEqual(["1>2@0", "2>1@1"]);
  // In another transaction it is another transfer.
  expect(path([standard(1, 2, 1), standard(2, 1, 2), draft(1, 2, 3)])).toEqual(["1>2@0", "2>1@1", "1>2@2"]);
  expect(path([standard(1, 2), standard(1, 2)])).toEqual(["1>2@0", "1>2@1"]);
});

test("reads creations and destructions as mints and burns if the collection's forms include them", () => {
  const said: Said[] = [
    [[CREATE_821, word(1), word(7), word(9)], coder.encode(["string"], ["a parcel"])],
    [[DESTROY_821, word(1), word(7), word(9)], "0x", 2],
    [[CREATE_821, word(2), word(7), word(9)], coder.encode(["string"], [""]), 3],
    standard(0, 2, 3),
    [[CREATE_821, word(2), word(7)], word(9), 4],
  ];
  const { erc721 } = TransferKind;
  const moves = [
    [erc721, 7, 0, 1, 0],
    [erc721, 7, 1, 0, 1],
    [erc721, 7, 0, 2, 2],
  ];
  expect(read(said, [...CLAIMED, "erc821-created"])).toEqual({ moves, malformed: 1 });
  expect(read(said).moves).toEqual([[erc721, 7, 0, 2, 3]]);
});

test("reads MoonCats' names of five bytes as ids, and counts any other name as malformed", () => {
  const cat = zeroPadBytes("0x0054fc2a11", 32);
  const said: Said[] = [
    [[CAT_RESCUED, word(1), cat], "0x"],
    [[TRANSFER, word(1), word(2)], word(1)],
    [[CAT_ADOPTED, cat, word(1), word(2)], word(30)],
    [[CAT_RESCUED, word(1), word(5)], "0x"],
    [[CAT_ADOPTED, cat, word(1)], word(30)],
  ];
  const { mooncats } = TransferKind;
  const moves = [
    [mooncats, 0x54fc2a11, 0, 1, 0],
    [mooncats, 0x54fc2a11, 1, 2, 2],
  ];
  expect(read(said, ["mooncats"])).toEqual({ moves, malformed: 2 });
});

test("counts logs as malformed if their indexed topics differ from the drafts", () => {
  expect(read([[[TRANSFER_821, word(1), word(2)], firstDraft]])).toEqual({ moves: [], malformed: 1 });
});
