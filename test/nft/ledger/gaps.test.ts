/**
 * Counting and finding entries in listings of many chunks of rows, with burns in long runs and at random, re-mints, id
 * ranges and reorgs. At sampled blocks every count, position and walk equals the naive model.
 */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { decodeTransfers, TransferKind } from "../../../src/events/columns.ts";
import { Ledger } from "../../../src/nft/ledger/ledger.ts";
import { countEntries, positionAfter, readSlice } from "../../../src/nft/ledger/listing.ts";
import { GAP_CHUNK_ROWS } from "../../../src/nft/ledger/row-gaps.ts";
import { START } from "../../../src/nft/ledger/rows.ts";
import { columnsOf, type ModelTransfer, modelListing } from "../../support/naive-ledger.ts";

const TOKENS = GAP_CHUNK_ROWS * 3 + 100;
const { erc721, erc1155, range } = TransferKind;

/** The change of one block to the ids from `first`. */
interface Stroke {
  readonly burn: boolean;
  readonly first: number;
  readonly count: number;
  /** Distance between changed ids. */
  readonly step: number;
}

const stroke = fc.record({
  burn: fc.boolean(),
  first: fc.nat(TOKENS - 1),
  count: fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: GAP_CHUNK_ROWS * 2 + 200 })),
  step: fc.constantFrom(1, 1, 2, 97),
});

const mints: { readonly [shape: string]: () => Omit<ModelTransfer, "block">[] } = {
  "tokens of one owner": () =>
    Array.from({ length: TOKENS }, (_, i) => ({ kind: erc721, from: 0, to: 1 + (i % 7), id: BigInt(i), amount: 1n })),
  amounts: () =>
    Array.from({ length: TOKENS }, (_, i) => ({ kind: erc1155, from: 0, to: 1 + (i % 7), id: BigInt(i), amount: 2n })),
  "id ranges with single mints between": () => [
    { kind: range, from: 0, to: 1, id: 0n, amount: 1_500n },
    { kind: erc721, from: 0, to: 2, id: 1_500n, amount: 1n },
    { kind: range, from: 0, to: 3, id: 1_501n, amount: BigInt(TOKENS - 1_501) },
  ],
};

describe.each(Object.keys(mints))("%s", (shape) => {
  const isAmount = shape === "amounts";

  /** Transfers of one block that burn existing tokens, or mint burned tokens again. */
  function play(owners: Map<bigint, number>, { burn, first, count, step }: Stroke, block: number): ModelTransfer[] {
    const transfers: ModelTransfer[] = [];
    const kind = isAmount ? erc1155 : erc721;
    for (let id = BigInt(first); id < TOKENS && id < first + count; id += BigInt(step)) {
      const owner = owners.get(id) ?? 0;
      if (burn === (owner === 0)) continue;
      const to = burn ? 0 : 1 + (Number(id) % 5);
      owners.set(id, to);
      transfers.push({ kind, block, from: owner, to, id, amount: isAmount ? 2n : 1n });
    }
    return transfers;
  }

  test("counts, positions and walks equal the naive model", () => {
    const property = fc.property(fc.array(stroke, { minLength: 1, maxLength: 6 }), fc.nat(5), (strokes, reverted) => {
      const owners = new Map<bigint, number>();
      const minted = mints[shape]!().map((transfer) => ({ ...transfer, block: 0 }));
      for (const { id, to, amount, kind } of minted) {
        for (let i = 0n; i < (kind === range ? amount : 1n); i++) owners.set(id + i, to);
      }
      const ledger = new Ledger();
      ledger.apply(decodeTransfers(columnsOf(minted)));
      let transfers: ModelTransfer[] = minted;
      const history: Map<bigint, number>[] = [new Map(owners)];
      for (const [index, each] of strokes.entries()) {
        const fresh = play(owners, each, index + 1);
        ledger.apply(decodeTransfers(columnsOf(fresh)));
        transfers = [...transfers, ...fresh];
        history.push(new Map(owners));
      }
      // The last blocks are reverted and replaced by other changes.
      const ancestor = Math.max(0, strokes.length - reverted);
      ledger.revert(ancestor);
      const last = ancestor + 1;
      const fresh = play(new Map(history[ancestor]), { burn: true, first: 900, count: 400, step: 3 }, last);
      ledger.apply(decodeTransfers(columnsOf(fresh)));
      transfers = [...transfers.filter(({ block }) => block <= ancestor), ...fresh];
      for (let block = 0; block <= last; block++) {
        for (const holders of [false, true]) {
          const ids = modelListing(transfers, block, holders).map((entry) => entry.id);
          expect(countEntries(ledger, block, holders)).toBe(ids.length);
          for (let skip = 0; skip <= ids.length; skip += 211) {
            const from = positionAfter(ledger, block, holders, skip);
            const entries = from === undefined ? [] : readSlice(ledger, { block, holders, from, limit: 2 }).entries;
            expect(entries.map((entry) => entry.id.toString())).toEqual(ids.slice(skip, skip + 2));
          }
          const whole = readSlice(ledger, { block, holders, from: START, limit: TOKENS });
          expect(whole.entries.map((entry) => entry.id.toString())).toEqual(ids);
        }
      }
    });
    fc.assert(property, { numRuns: 12 });
  }, 300_000);
});

describe("a token that moves in every block", () => {
  const MOVES = 60_000;
  const moves = (kind: TransferKind): ModelTransfer[] =>
    Array.from({ length: MOVES }, (_, block) => {
      // To and fro. Amounts are minted and burned beside one that stays.
      const [from, to] =
        kind === erc1155
          ? [
              [0, 2],
              [2, 0],
            ][block % 2]!
          : [
              [1, 2],
              [2, 1],
            ][block % 2]!;
      return { kind, block: block + 1, from: from as number, to: to as number, id: 7n, amount: 1n };
    });

  test.each([
    ["of one owner", erc721],
    ["of amounts", erc1155],
  ] as const)("%s is listed quickly at a block in the middle", (_what, kind) => {
    const ledger = new Ledger();
    ledger.apply(decodeTransfers(columnsOf([{ kind, block: 0, from: 0, to: 1, id: 7n, amount: 1n }, ...moves(kind)])));
    const started = performance.now();
    for (const holders of [false, true]) {
      const { entries } = readSlice(ledger, { block: MOVES / 2, holders, from: START, limit: 10 });
      expect(entries.map(({ id, block }) => [id, block])).toEqual([[7, kind === erc1155 && holders ? 0 : MOVES / 2]]);
      expect(countEntries(ledger, MOVES / 2, holders)).toBe(1);
    }
    // To walk the history again at each entry would take a minute.
    expect(performance.now() - started).toBeLessThan(1_000);
  });
});
