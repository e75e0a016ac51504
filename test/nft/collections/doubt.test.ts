/** The mark of a collection in doubt, in its projection and its headline: until a range with the block is committed. */
import { expect, test } from "bun:test";
import type { Hash } from "../../../src/core/hex.ts";
import type { NftEvent } from "../../../src/events/types.ts";
import { type Collection, evolve, initialState } from "../../../src/nft/collections/collection.ts";
import { foldHeadline, fromHeadline, REQUESTED, toHeadline } from "../../../src/nft/collections/headline.ts";

const hash = `0x${"ab".repeat(32)}` as Hash;
const range = (fromBlock: number, toBlock: number): NftEvent => ({
  ...{ type: "TransfersCommitted", fromBlock, toBlock, toHash: hash, count: 0, transfers: new Uint8Array() },
});
const EVENTS: readonly NftEvent[] = [
  { type: "IndexingRequested" },
  {
    ...{ type: "ContractIdentified", kind: "nft", forms: ["erc721"], name: "A", symbol: "B" },
    ...{ startBlock: 0, block: 5 },
  },
  range(0, 5),
  { type: "IndexingCompleted", block: 5, hash },
  range(6, 6),
  { type: "LogsDoubted", block: 8, reason: "two logs share a place", attempt: 1, retryAt: 1 },
];

function foldOf(events: readonly NftEvent[]): Collection {
  const state = initialState();
  for (const [i, event] of events.entries()) evolve(state, event, i + 1, 0);
  return state;
}
const headlineOf = (events: readonly NftEvent[]) => fromHeadline(toHeadline(foldHeadline(REQUESTED, events, 0)));

test("marks the block and the reason, and is not synced", () => {
  expect(foldOf(EVENTS)).toMatchObject({ status: "syncing", inDoubt: { block: 8, reason: "two logs share a place" } });
  expect(headlineOf(EVENTS)).toMatchObject({ doubtBlock: 8, doubtReason: "two logs share a place" });
});

test("keeps the mark over a range that ends before the block, a failure and a revert", () => {
  const later: NftEvent[] = [
    ...EVENTS,
    { type: "IndexingFailed", reason: "no answer", attempt: 2, retryAt: 2 },
    range(7, 7),
    { type: "BlocksReverted", ancestor: { number: 6, hash } },
  ];
  expect(foldOf(later).inDoubt?.block).toBe(8);
  expect(headlineOf(later).doubtBlock).toBe(8);
});

test("clears the mark with the range that holds the block, and is synced when it has joined", () => {
  const later: NftEvent[] = [...EVENTS, range(7, 9), { type: "IndexingCompleted", block: 9, hash }];
  expect(foldOf(later)).toMatchObject({ status: "synced", inDoubt: undefined, failure: undefined });
  expect(headlineOf(later)).toMatchObject({ doubtBlock: null, doubtReason: null, lastError: null });
});
