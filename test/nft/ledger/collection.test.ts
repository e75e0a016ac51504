/**
 * Random histories of every kind of transfer, burns, batches, ranges and reorgs. The projection equals the naive model:
 * live, replayed, at every block and page by page. Folding an event twice changes nothing.
 */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { TransferKind } from "../../../src/events/columns.ts";
import type { NftEvent } from "../../../src/events/types.ts";
import { type Collection, evolve, initialState } from "../../../src/nft/collections/collection.ts";
import type { Entry } from "../../../src/nft/ledger/entries.ts";
import { countEntries, positionAfter, readSlice } from "../../../src/nft/ledger/listing.ts";
import { type Position, START } from "../../../src/nft/ledger/rows.ts";
import { hash, identified, multi, play, range, type Step, single, stepOf } from "../../support/histories.ts";
import { columnsOf, type ModelEntry, type ModelTransfer, modelListing, readable } from "../../support/naive-ledger.ts";

function replay(events: readonly NftEvent[]): Collection {
  const state = initialState();
  for (const [i, event] of events.entries()) evolve(state, event, i + 1, 0);
  return state;
}

function walk(state: Collection, block: number, holders: boolean, limits: readonly number[]): ModelEntry[] {
  const entries: Entry[] = [];
  let from: Position | undefined = START;
  for (let i = 0; from !== undefined; i++) {
    const limit = limits[i % limits.length] as number;
    const slice: ReturnType<typeof readSlice> = readSlice(state.ledger, { block, holders, from, limit });
    entries.push(...slice.entries);
    from = slice.next;
  }
  return readable(state, entries);
}

function check(steps: readonly Step[], limits: readonly number[], parts: number): void {
  const { events, transfers, head } = play(steps);
  const state = replay(events);
  for (let block = 0; block <= head; block++) {
    for (const holders of [false, true]) {
      const truth = modelListing(transfers, block, holders);
      expect(walk(state, block, holders, limits)).toEqual(truth);
      expect(countEntries(state.ledger, block, holders)).toBe(truth.length);
      const starts = Array.from({ length: parts }, (_, r) => Math.floor((r * truth.length) / parts));
      for (const start of starts) {
        const from = positionAfter(state.ledger, block, holders, start);
        const slice = from && readSlice(state.ledger, { block, holders, from, limit: 1 });
        expect(readable(state, slice?.entries ?? [])).toEqual(truth.slice(start, start + 1));
      }
    }
  }
}

const limits = fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1, maxLength: 4 });
const runs = { numRuns: 150 };

describe("a collection's projection equals the naive model at every block", () => {
  const cases: [string, fc.Arbitrary<Omit<ModelTransfer, "block">>][] = [
    ["single-owner tokens", single],
    ["ERC-1155 tokens", multi],
    ["single-owner tokens with id ranges", fc.oneof(single, range)],
    ["every kind in one contract", fc.oneof(single, multi, range)],
  ];
  for (const [name, transfer] of cases) {
    test(name, () => {
      const steps = fc.array(stepOf(transfer), { maxLength: 20 });
      fc.assert(
        fc.property(steps, limits, fc.integer({ min: 1, max: 5 }), (s, l, p) => check(s, l, p)),
        runs,
      );
    });
  }

  test("a walk of random pages equals the snapshot at its block while the history grows and forks above it", () => {
    const steps = fc.array(stepOf(fc.oneof(single, multi, range)), { minLength: 2, maxLength: 24 });
    fc.assert(
      fc.property(steps, limits, fc.boolean(), fc.double({ min: 0, max: 1, noNaN: true }), (s, l, holders, at) => {
        const { events } = play(s);
        const begin = 2 + Math.floor(at * (events.length - 2));
        const state = replay(events.slice(0, begin));
        const block = state.end?.number;
        if (block === undefined) return;
        const { entries: all } = readSlice(state.ledger, { block, holders, from: START, limit: 10_000 });
        const snapshot = readable(state, all);
        const seen: ModelEntry[] = [];
        let from: Position | undefined = START;
        for (let page = 0; from !== undefined; page++) {
          const limit = l[page % l.length] as number;
          const slice: ReturnType<typeof readSlice> = readSlice(state.ledger, { block, holders, from, limit });
          seen.push(...readable(state, slice.entries));
          from = slice.next;
          const event = events[begin + page];
          // A revert below the walk's block ends it with 410, so its pages don't matter.
          if (event?.type === "BlocksReverted" && event.ancestor.number < block) return;
          if (event !== undefined) evolve(state, event, begin + page + 1, 0);
        }
        expect(seen).toEqual(snapshot);
      }),
      { numRuns: 300 },
    );
  });

  test("a live projection with reads at every step equals a replay", () => {
    fc.assert(
      fc.property(fc.array(stepOf(fc.oneof(single, multi, range)), { maxLength: 15 }), (steps) => {
        const { events, transfers, head } = play(steps);
        const live = initialState();
        for (const [i, event] of events.entries()) {
          evolve(live, event, i + 1, 0);
          const now = live.end?.number;
          if (now !== undefined) {
            // Blocks after the head are included. A collection without later transfers is true there as well.
            for (const block of [now, now + 1, Math.max(0, now - 1)]) {
              for (const holders of [false, true]) {
                const listed = walk(live, block, holders, [3]);
                expect(countEntries(live.ledger, block, holders)).toBe(listed.length);
                const half = listed.length >> 1;
                const from = positionAfter(live.ledger, block, holders, half);
                const entries = from && readSlice(live.ledger, { block, holders, from, limit: 1 }).entries;
                expect(readable(live, entries ?? [])).toEqual(listed.slice(half, half + 1));
              }
            }
          }
        }
        for (let block = 0; block <= head; block++) {
          expect(walk(live, block, false, [4])).toEqual(modelListing(transfers, block, false));
        }
        expect(live.ledger.anomalies).toBe(replay(events).ledger.anomalies);
      }),
      { numRuns: 60 },
    );
  });

  test("folding every event twice changes nothing", () => {
    fc.assert(
      fc.property(fc.array(stepOf(fc.oneof(single, multi, range)), { maxLength: 15 }), (steps) => {
        const { events, head } = play(steps);
        const once = replay(events);
        const twice = initialState();
        events.forEach((event, i) => {
          evolve(twice, event, i + 1, 0);
          evolve(twice, event, i + 1, 0);
        });
        if (head < 0) return;
        expect(walk(twice, head, true, [50])).toEqual(walk(once, head, true, [50]));
        expect(twice.ledger.anomalies).toBe(once.ledger.anomalies);
      }),
      { numRuns: 50 },
    );
  });
});

describe("a collection's stream", () => {
  test("refuses a gap in versions", () => {
    const state = initialState();
    evolve(state, { type: "IndexingRequested" }, 1, 0);
    expect(() => evolve(state, identified, 3, 0)).toThrow("an event is missing");
  });

  test("refuses a range that does not follow the last one", () => {
    const state = replay([{ type: "IndexingRequested" }, identified]);
    const event = (fromBlock: number, toBlock: number): NftEvent => ({
      type: "TransfersCommitted",
      fromBlock,
      toBlock,
      toHash: hash(toBlock),
      count: 0,
      transfers: columnsOf([]),
    });
    expect(() => evolve(state, event(1, 5), 3, 0)).toThrow("does not start at the last end");
    evolve(replay([{ type: "IndexingRequested" }, identified]), event(0, 5), 3, 0);
  });

  test("counts, cuts and pages a range of 2^40 ids in one event without walking it", () => {
    const transfers: ModelTransfer[] = [
      { kind: TransferKind.range, block: 0, from: 0, to: 1, id: 5n, amount: 2n ** 40n },
      { kind: TransferKind.erc721, block: 0, from: 1, to: 2, id: 10n, amount: 1n },
      { kind: TransferKind.erc721, block: 0, from: 1, to: 0, id: 11n, amount: 1n },
    ];
    const state = replay([
      { type: "IndexingRequested" },
      identified,
      {
        type: "TransfersCommitted",
        fromBlock: 0,
        toBlock: 3,
        toHash: hash(3),
        count: 3,
        transfers: columnsOf(transfers),
      },
    ]);
    expect(countEntries(state.ledger, 3, false)).toBe(2 ** 40 - 1);
    const last = positionAfter(state.ledger, 3, false, 2 ** 40 - 2) as Position;
    const { entries, next } = readSlice(state.ledger, { block: 3, holders: false, from: last, limit: 10 });
    expect(entries.map((e) => e.id)).toEqual([2n ** 40n + 4n]);
    expect(next).toBeUndefined();
    const seventh = positionAfter(state.ledger, 3, false, 6) as Position;
    expect(readSlice(state.ledger, { block: 3, holders: false, from: seventh, limit: 1 }).entries[0]?.id).toBe(12n);
    expect(state.ledger.bytes).toBeLessThan(50_000);
  });
});
