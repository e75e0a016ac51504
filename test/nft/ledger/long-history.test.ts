/**
 * Histories longer than a chunk of a table and longer than the entries that make up a balance, with reorgs of more than
 * a chunk, and slack memory freed in between. At sampled blocks every listing equals the naive model.
 */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { decodeTransfers, TransferKind } from "../../../src/events/columns.ts";
import type { Entry } from "../../../src/nft/ledger/entries.ts";
import { Ledger } from "../../../src/nft/ledger/ledger.ts";
import { countEntries, readSlice } from "../../../src/nft/ledger/listing.ts";
import { START } from "../../../src/nft/ledger/rows.ts";
import { CHUNK_ROWS } from "../../../src/nft/ledger/tables.ts";
import { columnsOf, type ModelTransfer, modelListing } from "../../support/naive-ledger.ts";

const PER_BLOCK = 40;
const BLOCKS = Math.ceil((CHUNK_ROWS * 1.5) / PER_BLOCK);

/** A generator of numbers below `below`. The same seed gives the same numbers. */
function numbers(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0;
    return state % below;
  };
}

type Make = (draw: (below: number) => number, owners: Map<string, number>) => Omit<ModelTransfer, "block">;

/**
 * Mints of ids in order, transfers by the owner, burns, re-mints, and sometimes a transfer by an account without
 * tokens.
 */
const singles =
  (idOf: (n: number) => bigint): Make =>
  (draw, owners) => {
    const minted = owners.get("minted") ?? 0;
    const isNew = minted === 0 || draw(40) === 0;
    const n = isNew ? minted : draw(minted);
    if (isNew) owners.set("minted", minted + 1);
    const owner = isNew ? 0 : (owners.get(String(n)) ?? 0);
    const from = draw(500) === 0 ? draw(9) : owner;
    const to = draw(20) === 0 ? 0 : 1 + draw(8);
    owners.set(String(n), to);
    return { kind: TransferKind.erc721, from, to, id: idOf(n), amount: 1n };
  };

const amounts =
  (unit: bigint): Make =>
  (draw) => {
    const from = draw(3) === 0 ? 0 : 1 + draw(5);
    const to = draw(8) === 0 ? 0 : 1 + draw(5);
    return { kind: TransferKind.erc1155, from, to, id: BigInt(draw(6)), amount: unit * BigInt(1 + draw(3)) };
  };

const both: Make = (draw, owners) => (draw(2) === 0 ? singles(BigInt)(draw, owners) : amounts(1n)(draw, owners));

const shapes: { readonly [what: string]: Make } = {
  "ids in order": singles((n) => BigInt(n) + 7n),
  "ids out of order": singles((n) => BigInt(Math.imul(n + 1, 0x9e3779b1) >>> 0)),
  "ids of 64 bits": singles((n) => (BigInt(n) << 40n) + 5n),
  "ids of 256 bits": singles((n) => (BigInt(n) << 200n) + 5n),
  "small amounts": amounts(1n),
  "amounts of 64 bits": amounts(2n ** 61n + 3n),
  "amounts beyond 64 bits": amounts(2n ** 90n + 1n),
  "both kinds": both,
};

test("lists a contract of both kinds if the history of its amounts is far longer than that of its single tokens", () => {
  const single = { kind: TransferKind.erc721, block: 0, from: 0, to: 1, id: 7n, amount: 1n };
  const moves = Array.from({ length: CHUNK_ROWS + 10 }, (_, i): ModelTransfer => {
    const [from, to] = i === 0 ? [0, 1] : [1 + ((i + 1) % 2), 1 + (i % 2)];
    return { kind: TransferKind.erc1155, block: i, from, to, id: 9n, amount: 5n };
  });
  const transfers = [single, ...moves];
  const ledger = new Ledger();
  ledger.apply(decodeTransfers(columnsOf(transfers)));
  const { entries } = readSlice(ledger, { block: moves.length, holders: false, from: START, limit: 10 });
  expect(entries.map(({ kind, id }) => [kind, Number(id)])).toEqual([
    [TransferKind.erc721, 7],
    [TransferKind.erc1155, 9],
  ]);
});

describe.each(Object.keys(shapes))("a long history of %s", (shape) => {
  const make = shapes[shape] as Make;

  function blocksOf(seed: number, from: number, to: number): ModelTransfer[] {
    const draw = numbers(seed);
    const owners = new Map<string, number>();
    const transfers: ModelTransfer[] = [];
    for (let block = from; block <= to; block++) {
      for (let i = 0; i < PER_BLOCK; i++) transfers.push({ ...make(draw, owners), block });
    }
    return transfers;
  }

  function read(ledger: Ledger, block: number, holders: boolean) {
    const { entries } = readSlice(ledger, { block, holders, from: START, limit: 100_000 });
    const name = (index: number) => (index < 0 ? -1 : Number(ledger.addresses.hex(index)));
    return entries.map((entry: Entry) => ({
      ...entry,
      id: entry.id.toString(),
      owner: name(entry.owner),
      minter: name(entry.minter),
      amount: entry.amount.toString(),
    }));
  }

  test("equals the naive model after a reorg across the border of a chunk, with a new history after it", () => {
    const property = fc.property(
      fc.nat(),
      fc.integer({ min: 1, max: BLOCKS - 1 }),
      fc.boolean(),
      (seed, ancestor, trims) => {
        const ledger = new Ledger();
        const first = blocksOf(seed, 0, BLOCKS);
        const half = PER_BLOCK * Math.floor(BLOCKS / 2);
        ledger.apply(decodeTransfers(columnsOf(first.slice(0, half))));
        if (trims) ledger.trim();
        ledger.apply(decodeTransfers(columnsOf(first.slice(half))));
        if (trims) ledger.trim();
        ledger.revert(ancestor);
        if (trims) ledger.trim();
        const second = blocksOf(seed + 1, ancestor + 1, BLOCKS);
        ledger.apply(decodeTransfers(columnsOf(second)));
        const transfers = [...first.filter(({ block }) => block <= ancestor), ...second];
        for (const block of [0, Math.floor(ancestor / 2), ancestor, ancestor + 1, BLOCKS]) {
          for (const holders of [false, true]) {
            const truth = modelListing(transfers, block, holders);
            expect(read(ledger, block, holders)).toEqual(truth);
            expect(countEntries(ledger, block, holders)).toBe(truth.length);
          }
        }
      },
    );
    fc.assert(property, { numRuns: 3 });
  });

  test("shows the state before an event between any two slices of its fold, and ends in the same state", () => {
    const [seed, early, late] = [11, 100, 130];
    const before = blocksOf(seed, 0, early);
    const after = blocksOf(seed + 1, early + 1, late);
    const ledger = new Ledger();
    ledger.apply(decodeTransfers(columnsOf(before)));
    const blocks = [Math.floor(early / 2), early];
    const readAll = () =>
      blocks.flatMap((block) =>
        [false, true].map((holders) => [read(ledger, block, holders), countEntries(ledger, block, holders)]),
      );
    const shown = readAll();
    let slices = 0;
    for (const _ of ledger.applySlices(decodeTransfers(columnsOf(after)), 97)) {
      slices++;
      expect(readAll()).toEqual(shown);
    }
    expect(slices).toBeGreaterThanOrEqual(Math.floor((after.length - 1) / 97));
    for (const holders of [false, true]) {
      const truth = modelListing([...before, ...after], late, holders);
      expect(read(ledger, late, holders)).toEqual(truth);
      expect(countEntries(ledger, late, holders)).toBe(truth.length);
    }
    expect(readAll()).toEqual(shown);
  });
});
