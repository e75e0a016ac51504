/** Hostile id ranges (ERC-2309): an event of a few bytes may stand for a hundred thousand transfers. */
import { expect, test } from "bun:test";
import { decodeTransfers, TransferKind } from "../../../src/events/columns.ts";
import { Ledger } from "../../../src/nft/ledger/ledger.ts";
import { countEntries, readHoldersInSlices, readSlice } from "../../../src/nft/ledger/listing.ts";
import { START } from "../../../src/nft/ledger/rows.ts";
import { StateReader, StateWriter } from "../../../src/nft/ledger/state-codec.ts";
import { columnsOf } from "../../support/naive-ledger.ts";

const LENGTH = 100_000n;

/** Moves the same ids to and fro, `count` times in a block. */
const toAndFro = (block: number, count: number) =>
  decodeTransfers(
    columnsOf(
      Array.from({ length: count }, (_, i) => ({
        kind: TransferKind.range,
        block,
        from: block === 0 && i === 0 ? 0 : 1 + (i % 2),
        to: 2 - (i % 2),
        id: 0n,
        amount: LENGTH,
      })),
    ),
  );

test("follows ranges over known ids up to a bound, and only counts the rest as anomalies", () => {
  const ledger = new Ledger();
  ledger.apply(toAndFro(0, 1));
  expect([ledger.owners.count, countEntries(ledger, 0, false)]).toEqual([0, 100_000]);
  ledger.apply(toAndFro(1, 6));
  expect([ledger.owners.count, ledger.anomalies > 0]).toEqual([600_000, true]);
  const { anomalies } = ledger;
  ledger.apply(toAndFro(2, 500));
  expect(ledger.owners.count).toBe(1_000_000);
  expect(ledger.anomalies).toBeGreaterThanOrEqual(anomalies + 496);
  expect(ledger.bytes).toBeLessThan(64 * 1024 * 1024);

  // The range index keeps an entry per block.
  const before = ledger.bytes;
  for (let block = 3; block < 3_003; block++) ledger.apply(toAndFro(block, 1));
  expect(ledger.bytes).toBeGreaterThan(before + 1_000 * 8);
  ledger.revert(2);

  // A reorg gives back its share of the bound, also after a snapshot.
  ledger.revert(1);
  expect(ledger.owners.count).toBe(600_000);
  const writer = new StateWriter();
  for (const _ of ledger.coding(writer));
  const restored = new Ledger();
  for (const _ of restored.coding(new StateReader(writer.arrays, JSON.parse(JSON.stringify(writer.values)))));
  restored.apply(toAndFro(2, 9));
  expect(restored.owners.count).toBe(1_000_000);
});

test("folds each range in slices of its own, none of which covers many ids", () => {
  const ledger = new Ledger();
  ledger.apply(toAndFro(0, 1));
  let [slices, most, before] = [0, 0, ledger.owners.count];
  for (const _ of ledger.applySlices(toAndFro(1, 40), 2_000)) {
    slices++;
    most = Math.max(most, ledger.owners.count - before);
    before = ledger.owners.count;
  }
  expect(slices).toBeGreaterThanOrEqual(39);
  expect(most).toBeLessThanOrEqual(4_096);
});

test("reverts the newest of many ranges, in any order of their ids", () => {
  const ledger = new Ledger();
  const count = 100_000;
  for (let from = 0; from < count; from += 10_000) {
    const ranges = Array.from({ length: 10_000 }, (_, i) => ({
      kind: TransferKind.range,
      block: from + i < count - 10_000 ? 1 : 2,
      from: 0,
      to: 1,
      id: BigInt(from + i) * 10n,
      amount: 5n,
    }));
    ledger.apply(decodeTransfers(columnsOf(ranges)));
  }
  ledger.revert(1);
  expect(ledger.rows.ranges).toHaveLength(count - 10_000);
  for (const id of [0, count - 10_001, count - 10_000]) {
    expect(ledger.rows.overlaps(BigInt(id) * 10n, 5)).toBe(id < count - 10_000);
  }
});

test("reads a page in slices correctly although a reorg above its block gives a slot to another id", () => {
  const ledger = new Ledger();
  const moved = (id: bigint, from: number) =>
    decodeTransfers(columnsOf([{ kind: TransferKind.erc721, block: 10, from, to: 3, id, amount: 1n }]));
  const ranges = [1, 2].map((to, index) => {
    return { kind: TransferKind.range, block: 1, from: 0, to, id: BigInt(index) * 10_000n, amount: 5_000n };
  });
  ledger.apply(decodeTransfers(columnsOf(ranges)));
  ledger.apply(moved(5n, 1));
  const options = { block: 5, from: START, limit: 20_000 };
  const work = readHoldersInSlices(ledger, options);
  for (let slice = 0; slice < 3; slice++) expect(work.next().done).toBe(false);
  ledger.revert(5);
  ledger.apply(moved(10_005n, 2));
  let read = work.next();
  while (read.done !== true) read = work.next();
  expect(read.value).toEqual(readSlice(ledger, { ...options, holders: true }));
  expect(read.value.entries).toHaveLength(10_000);
});
