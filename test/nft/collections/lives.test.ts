/** The fold of a contract that was destroyed and deployed again: each life has its own tokens, as of any block. */
import { expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../../src/core/clock.ts";
import type { Address } from "../../../src/core/hex.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { TransferKind } from "../../../src/events/columns.ts";
import { type NftEvent, nftStream } from "../../../src/events/types.ts";
import { openLog } from "../../../src/log/open.ts";
import {
  type Collection,
  collectionAt,
  evolve,
  initialState,
  transfersOf,
} from "../../../src/nft/collections/collection.ts";
import { Snapshots } from "../../../src/nft/collections/snapshots.ts";
import { readSlice } from "../../../src/nft/ledger/listing.ts";
import { START } from "../../../src/nft/ledger/rows.ts";
import { hash, identified } from "../../support/histories.ts";
import { columnsOf, readable } from "../../support/naive-ledger.ts";

/** A range of blocks in which tokens are minted to an owner: `[block, id, owner]`. */
function range(fromBlock: number, toBlock: number, mints: readonly (readonly [number, number, number])[]): NftEvent {
  const transfers = columnsOf(
    mints.map(([block, id, to]) => ({
      ...{ kind: TransferKind.erc721, block, from: 0, to },
      id: BigInt(id),
      amount: 1n,
    })),
  );
  return { type: "TransfersCommitted", fromBlock, toBlock, toHash: hash(toBlock), count: mints.length, transfers };
}

const destroyed = (block: number): NftEvent => ({ type: "ContractDestroyed", block });
const reverted = (number: number): NftEvent => ({ type: "BlocksReverted", ancestor: { number, hash: hash(number) } });

function fold(events: readonly NftEvent[]): Collection {
  const state = initialState();
  for (const [i, event] of events.entries()) evolve(state, event, i + 1, 0);
  return state;
}

/** Id, owner and block of the mint of each token, as of a block. */
function listing(collection: Collection, block: number): (string | number)[][] {
  const at = collectionAt(collection, block);
  const { entries } = readSlice(at.ledger, { block, holders: false, from: START, limit: 100 });
  return readable(at, entries).map(({ id, owner, blockMinted }) => [id, owner, blockMinted]);
}

const HISTORY = [
  range(0, 6, [
    [2, 1, 7],
    [4, 2, 8],
    [5, 3, 7],
  ]),
  range(7, 20, [[15, 1, 9]]),
];
const FIRST = [
  ["1", 7, 2],
  ["2", 8, 4],
  ["3", 7, 5],
];
const SECOND = [["1", 9, 15]];

test.each([
  ["before the history is read", [identified, destroyed(10), ...HISTORY]],
  ["between the ranges", [identified, HISTORY[0] as NftEvent, destroyed(10), HISTORY[1] as NftEvent]],
  [
    "in a range that spans it",
    [
      identified,
      destroyed(10),
      range(0, 20, [
        [2, 1, 7],
        [4, 2, 8],
        [5, 3, 7],
        [15, 1, 9],
      ]),
    ],
  ],
  [
    "again, after its blocks were taken back",
    [
      identified,
      destroyed(10),
      ...HISTORY,
      reverted(3),
      range(4, 20, [
        [4, 2, 8],
        [5, 3, 7],
        [15, 1, 9],
      ]),
    ],
  ],
  [
    "late, after the second life was folded",
    [identified, ...HISTORY, reverted(10), destroyed(10), range(11, 20, [[15, 1, 9]])],
  ],
])("ends the tokens of the first life, recorded %s", (_when, events) => {
  const collection = fold(events);
  expect([5, 9, 10, 14, 15, 20].map((block) => listing(collection, block))).toEqual([
    ...[FIRST, FIRST, [], [], SECOND, SECOND],
  ]);
  expect([transfersOf(collection), collection.ledger.anomalies]).toEqual([4, 0]);
});

test("counts the transfers in the block of the end as those of the first life", () => {
  const collection = fold([
    identified,
    destroyed(10),
    range(0, 20, [
      [9, 1, 7],
      [10, 2, 8],
    ]),
  ]);
  expect([9, 10, 20].map((block) => listing(collection, block))).toEqual([[["1", 7, 9]], [], []]);
});

test("refuses an end below the end of the history", () => {
  expect(() => fold([identified, ...HISTORY, destroyed(10)])).toThrow("does not end at the contract's end");
});

test("is the same after a snapshot", async () => {
  const folder = mkdtempSync(join(tmpdir(), "lives-"));
  const log = await openLog(`sqlite://${join(folder, "events.db")}`, systemClock, silentLogger);
  try {
    const events = [identified, destroyed(10), ...HISTORY, destroyed(20)];
    const stream = nftStream(1, `0x${"11".repeat(20)}` as Address);
    await log.append({ stream, events, expectedVersion: 0 });
    const snapshots = new Snapshots({ folder, maxBytes: 1e9, log, logger: silentLogger });
    const saved = fold(events);
    expect(await snapshots.save(stream, saved, () => false)).toBe(true);
    const loaded = (await snapshots.load(stream)) as Collection;
    for (const later of [[], [reverted(12)]]) {
      for (const event of later) for (const one of [saved, loaded]) evolve(one, event, one.version + 1, 0);
      const blocks = [5, 10, 12, 15, 19, 20, 21];
      const shown = (of: Collection) => blocks.map((block) => listing(of, block));
      expect(shown(loaded)).toEqual(shown(saved));
    }
    expect(listing(loaded, 19)).toEqual([]);
  } finally {
    await log.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
