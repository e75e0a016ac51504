/**
 * Tokens with long histories, read at early blocks: equal to the naive model at any block, over reorgs and new
 * histories. The first read walks the history in slices and leaves marks, by which later reads find their entries.
 */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { decodeTransfers, TransferKind } from "../../../src/events/columns.ts";
import { HOLDERS_AT_ONCE, TOKENS_AT_ONCE } from "../../../src/nft/ledger/entries.ts";
import { Ledger } from "../../../src/nft/ledger/ledger.ts";
import { readInSlices, readSlice } from "../../../src/nft/ledger/listing.ts";
import { START } from "../../../src/nft/ledger/rows.ts";
import { STEPS_PER_SLICE, STEPS_WITHOUT_MARKS, Trails } from "../../../src/nft/ledger/trails.ts";
import { columnsOf, type ModelTransfer, modelListing, readable } from "../../support/naive-ledger.ts";

const { erc721, erc1155 } = TransferKind;

function fold(ledger: Ledger, transfers: readonly ModelTransfer[]): void {
  for (let at = 0; at < transfers.length; at += 10_000) {
    ledger.apply(decodeTransfers(columnsOf(transfers.slice(at, at + 10_000))));
  }
}

/** Reads a page. Returns its entries, the steps of its longest slice, and all steps. */
function read(ledger: Ledger, block: number, holders: boolean) {
  let [most, before] = [0, ledger.steps.count];
  const start = before;
  for (const work = readInSlices(ledger, { block, holders, from: START, limit: 100 }); ; ) {
    const { done, value } = work.next();
    most = Math.max(most, ledger.steps.count - before);
    before = ledger.steps.count;
    if (done === true) return { entries: readable({ ledger }, value.entries), most, all: before - start };
  }
}

const MOVES = 200_000;
const LAST = MOVES + 1;

/** One token per kind, transferred once per block. One account keeps its amounts, others come and go. */
const histories: { readonly [what: string]: ModelTransfer[] } = {
  "a token of one owner": Array.from({ length: MOVES }, (_, i) => {
    const [from, to] = i === 0 ? [0, 1] : [1 + ((i - 1) % 900), 1 + (i % 900)];
    return { kind: erc721, block: i + 1, from, to, id: 7n, amount: 1n };
  }),
  "an amount that one person keeps": Array.from({ length: MOVES }, (_, i) => {
    const [from, to] = i === 0 ? [0, 1] : i % 2 === 1 ? [0, 2 + (i % 900)] : [2 + ((i - 1) % 900), 0];
    return { kind: erc1155, block: i + 1, from, to, id: 7n, amount: 3n };
  }),
  "an amount of which one person gives and takes": Array.from({ length: MOVES }, (_, i) => {
    const [from, to] = i === 0 ? [0, 1] : i % 2 === 1 ? [1, 2] : [2, 1];
    return { kind: erc1155, block: i + 1, from, to, id: 7n, amount: i === 0 ? 3n : 2n };
  }),
};

describe.each(Object.keys(histories))("%s", (what) => {
  const transfers = histories[what] as ModelTransfer[];

  test("is walked in slices, and only once", () => {
    const ledger = new Ledger();
    fold(ledger, transfers);
    const bytes = ledger.bytes;
    // The owner of the whole amount is known without a walk.
    expect(read(ledger, LAST, false).all).toBeLessThan(STEPS_WITHOUT_MARKS);
    for (const holders of [false, true]) {
      for (const block of [2, 1, MOVES / 2, MOVES - 3, 3]) {
        const { entries, most } = read(ledger, block, holders);
        expect(entries).toEqual(modelListing(transfers, block, holders));
        expect(most).toBeLessThanOrEqual(
          Math.max(TOKENS_AT_ONCE, HOLDERS_AT_ONCE) + STEPS_PER_SLICE + STEPS_WITHOUT_MARKS,
        );
      }
      if (holders) continue;
      for (const block of [1, 2, 5, 777, MOVES / 3, MOVES / 2, MOVES - 1]) {
        expect(read(ledger, block, false).all).toBeLessThan(8 * STEPS_WITHOUT_MARKS);
      }
    }
    // The marks take much less than a word per transfer.
    expect(ledger.bytes - bytes).toBeGreaterThan(0);
    expect(ledger.bytes - bytes).toBeLessThan(MOVES / 8);
    ledger.revert(0);
    const empty = new Ledger();
    fold(empty, transfers.slice(0, 1));
    expect(readSlice(ledger, { block: LAST, holders: false, from: START, limit: 9 }).entries).toEqual([]);
    fold(ledger, transfers.slice(0, 1));
    expect(read(ledger, LAST, false).entries).toEqual(read(empty, LAST, false).entries);
  });
});

describe("a few tokens that move in every block", () => {
  const PER_BLOCK = 8;
  const BLOCKS = 400;

  /** A generator of numbers below `below`. The same seed gives the same numbers. */
  function numbers(seed: number): (below: number) => number {
    let state = seed >>> 0;
    return (below) => {
      state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0;
      return state % below;
    };
  }

  function blocksOf(seed: number, from: number, to: number): ModelTransfer[] {
    const draw = numbers(seed);
    return Array.from({ length: (to - from + 1) * PER_BLOCK }, (_, i) => {
      const kind = draw(2) === 0 ? erc721 : erc1155;
      const [sender, receiver] = [draw(5), draw(5)];
      const amount = kind === erc721 ? 1n : BigInt(1 + draw(2));
      return {
        kind,
        block: from + Math.floor(i / PER_BLOCK),
        from: sender,
        to: receiver,
        id: 7n,
        amount,
      };
    });
  }

  test("equal the naive model after any reads, reverts and new histories", () => {
    const block = fc.nat(BLOCKS);
    const step = fc.record({ reads: fc.array(block, { maxLength: 4 }), back: fc.option(block), seed: fc.nat() });
    const property = fc.property(fc.array(step, { minLength: 1, maxLength: 5 }), (list) => {
      const ledger = new Ledger();
      let transfers: ModelTransfer[] = [];
      let head = -1;
      for (const { reads, back, seed } of list) {
        if (back !== null && back < head) {
          ledger.revert(back);
          transfers = transfers.filter((one) => one.block <= back);
          head = back;
        }
        const fresh = blocksOf(seed, head + 1, Math.max(head, BLOCKS));
        fold(ledger, fresh);
        transfers = [...transfers, ...fresh];
        head = Math.max(head, BLOCKS);
        for (const at of reads) {
          for (const holders of [false, true]) {
            expect(read(ledger, at, holders).entries).toEqual(modelListing(transfers, at, holders));
          }
        }
      }
    });
    fc.assert(property, { numRuns: 25 });
  });
});

test("the owner of a whole amount equals the naive model's, after burns and over reorgs", () => {
  const transfer = fc.record({ from: fc.constantFrom(0, 0, 1, 2), to: fc.constantFrom(0, 0, 1, 2, 3) });
  const step = fc.record({
    blocks: fc.array(fc.array(transfer, { maxLength: 3 }), { maxLength: 30 }),
    back: fc.integer({ min: 0, max: 40 }),
  });
  const property = fc.property(fc.array(step, { minLength: 1, maxLength: 6 }), (list) => {
    const ledger = new Ledger();
    let transfers: ModelTransfer[] = [];
    let head = 0;
    for (const { blocks, back } of list) {
      head = Math.max(0, head - back);
      const ancestor = head;
      ledger.revert(ancestor);
      const fresh = blocks.flatMap((block) => {
        head++;
        return block.map((one) => ({ ...one, kind: erc1155, block: head, id: 7n, amount: 1n }));
      });
      fold(ledger, fresh);
      transfers = [...transfers.filter(({ block }) => block <= ancestor), ...fresh];
      for (let block = 0; block <= head; block++) {
        expect(read(ledger, block, false).entries).toEqual(modelListing(transfers, block, false));
      }
    }
  });
  fc.assert(property, { numRuns: 200 });
});

describe("marks", () => {
  /** A trail over entries that are one block apart. */
  function trailsOf(steps: { count: number }) {
    return new Trails({ block: (entry) => entry, before: (entry) => entry - 1 }, steps);
  }
  const find = (trails: Trails, tail: number, block: number): { entry: number; goes: number } => {
    for (let goes = 1; ; goes++) {
      const entry = trails.find(5, tail, block);
      if (entry !== -(2 ** 31)) return { entry, goes };
    }
  };

  test("are found again from later ends of the trail, and after a cut", () => {
    const steps = { count: 0 };
    const trails = trailsOf(steps);
    expect(find(trails, 100_000, 10)).toEqual({ entry: 10, goes: Math.ceil((100_000 - 10) / STEPS_PER_SLICE) });
    const after = () => {
      const { count } = steps;
      steps.count = 0;
      return count;
    };
    after();
    for (const tail of [100_000, 100_001, 100_700, 110_000]) {
      expect(find(trails, tail, 50_123)).toEqual({ entry: 50_123, goes: 1 });
      expect(find(trails, tail, tail)).toEqual({ entry: tail, goes: 1 });
      expect(find(trails, tail, -5)).toEqual({ entry: -1, goes: 1 });
    }
    expect(after()).toBeLessThan(15_000);
    trails.cut(60_000);
    expect(find(trails, 59_999, 59_000)).toEqual({ entry: 59_000, goes: 1 });
    expect(find(trails, 60_300, 40)).toEqual({ entry: 40, goes: 1 });
    expect(after()).toBeLessThan(4_000);
    const { bytes } = trails;
    expect(bytes).toBeLessThan(60_300 / 16);
    trails.cut(0);
    expect(trails.bytes).toBe(0);
    expect(find(trails, 100, 40)).toEqual({ entry: 40, goes: 1 });
  });

  test("are made anew if far more entries were added than one walk covers", () => {
    const steps = { count: 0 };
    const trails = trailsOf(steps);
    find(trails, 20_000, 10);
    const { entry, goes } = find(trails, 200_000, 10);
    expect([entry, goes > 5]).toEqual([10, true]);
    steps.count = 0;
    expect(find(trails, 200_000, 1_234)).toEqual({ entry: 1_234, goes: 1 });
    expect(steps.count).toBeLessThan(600);
  });
});
