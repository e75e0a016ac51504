/** The transfers of a collection in pages, by every filter and at every block: equal to the logs, through forks. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { hasAmounts, TransferKind } from "../../../src/events/columns.ts";
import { type Collection, evolve, initialState } from "../../../src/nft/collections/collection.ts";
import { Ledger } from "../../../src/nft/ledger/ledger.ts";
import { StateReader, StateWriter } from "../../../src/nft/ledger/state-codec.ts";
import { readTransfers, readTransfersUp, type TransferPlace } from "../../../src/nft/ledger/transfers.ts";
import { multi, play, range, type Step, single, stepOf } from "../../support/histories.ts";
import { type ModelTransfer, modelTransfers, type TransferRow } from "../../support/naive-ledger.ts";

interface Filter {
  readonly id?: bigint | undefined;
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

/** Reads all pages, the newest transfer first, or the oldest. */
function walk(
  { ledger }: Collection,
  filter: Filter,
  block: number,
  limit: number,
  { read = readTransfers, fromBlock = 0 } = {},
): TransferRow[] {
  const name = (index: number) => Number(ledger.addresses.hex(index));
  const indexOf = (party: number | undefined) => {
    if (party === undefined) return undefined;
    return Array.from({ length: ledger.addresses.count }, (_, i) => i).find((i) => name(i) === party) ?? -1;
  };
  const [from, to] = [indexOf(filter.from), indexOf(filter.to)];
  const all: TransferRow[] = [];
  if (from === -1 || to === -1) return all;
  for (let place: TransferPlace | undefined, isFirst = true; isFirst || place !== undefined; isFirst = false) {
    const reading = read(ledger, { id: filter.id, from, to }, { block, from: place, limit, fromBlock });
    let step = reading.next();
    while (step.done !== true) step = reading.next();
    const { transfers, next } = step.value;
    expect(transfers.length).toBeLessThanOrEqual(limit);
    all.push(
      ...transfers.map(({ kind: _, ...one }) => ({
        ...one,
        from: name(one.from),
        to: name(one.to),
        id: BigInt(one.id),
        amount: BigInt(one.amount),
      })),
    );
    place = next;
  }
  return all;
}

/** The rows of the model that a filter keeps, newest first. A range is narrowed to the id. */
function expected(transfers: readonly ModelTransfer[], { id, from, to }: Filter, block: number): TransferRow[] {
  const { rows, ranges } = modelTransfers(transfers);
  return rows
    .flatMap((row) => {
      if (id === undefined || row.id === id)
        return id !== undefined && ranges.has(row) ? [{ ...row, amount: 1n }] : [row];
      return ranges.has(row) && id > row.id && id < row.id + row.amount ? [{ ...row, id, amount: 1n }] : [];
    })
    .filter((row) => row.block <= block && (from ?? row.from) === row.from && (to ?? row.to) === row.to)
    .reverse();
}

/** The collection after a snapshot of it was read. */
function restored({ ledger: saved, ...rest }: Collection): Collection {
  const writer = new StateWriter();
  for (const _ of saved.coding(writer));
  const ledger = new Ledger();
  for (const _ of ledger.coding(new StateReader(writer.arrays, JSON.parse(JSON.stringify(writer.values)))));
  return { ...rest, ledger };
}

function check(steps: readonly Step[], filter: Filter, limit: number): void {
  const { events, transfers, head } = play(steps);
  const state = initialState();
  for (const [i, event] of events.entries()) {
    evolve(state, event, i + 1, 0);
    // Lists that exist before a fork must lose its transfers.
    const now = state.end?.number;
    if (now !== undefined) walk(state, { from: 1 }, now, 3);
  }
  for (let block = 0; block <= head; block++) {
    const rows = expected(transfers, filter, block);
    expect(walk(state, filter, block, limit)).toEqual(rows);
    expect(walk(state, filter, block, limit, { read: readTransfersUp })).toEqual(rows.toReversed());
    const fromBlock = Math.floor(block / 2);
    const newer = rows.filter((row) => row.block >= fromBlock);
    expect(walk(state, filter, block, limit, { fromBlock })).toEqual(newer);
    expect(walk(state, filter, block, limit, { read: readTransfersUp, fromBlock })).toEqual(newer.toReversed());
  }
  expect(walk(restored(state), filter, head, limit)).toEqual(expected(transfers, filter, head));
}

const party = fc.option(fc.integer({ min: 0, max: 5 }), { nil: undefined });
const filters: fc.Arbitrary<Filter> = fc.oneof(
  fc.constant({}),
  fc.record({ from: party, to: party }),
  fc.record({ id: fc.bigInt(0n, 12n), from: party, to: party }),
);

test("pages of transfers equal the logs at every block, by every filter, through forks", () => {
  const steps = fc.array(stepOf(fc.oneof(single, multi, range)), { maxLength: 20 });
  fc.assert(
    fc.property(steps, filters, fc.integer({ min: 1, max: 5 }), (s, filter, limit) => check(s, filter, limit)),
    { numRuns: 300 },
  );
});

test("a range of 2^40 ids is one transfer, and one of its ids is found in it", () => {
  const ids = { kind: TransferKind.range, from: 0, to: 1, id: 5n, amount: 2n ** 40n };
  const moved = { kind: TransferKind.erc721, from: 1, to: 2, id: 900n, amount: 1n };
  for (const filter of [{}, { id: 900n }, { id: 2n ** 40n }, { to: 1 }]) {
    check([{ transfers: [ids] }, { transfers: [moved] }], filter, 10);
  }
});

test("a page of a filter whose lists are long but have nothing in common ends early, and its cursor goes on", () => {
  const count = 250_000;
  // Account 1 always sends to 2, and 3 to 4: no transfer goes from 1 to 4.
  const transfers = Array.from({ length: count }, (_, i) => ({
    ...{ kind: TransferKind.erc1155, id: BigInt(i % 2), amount: 1n },
    ...(i % 2 === 0 ? { from: 1, to: 2 } : { from: 3, to: 4 }),
  }));
  expect(transfers.every(({ kind }) => hasAmounts(kind))).toBe(true);
  const { events } = play([{ transfers }]);
  const state = initialState();
  for (const [i, event] of events.entries()) evolve(state, event, i + 1, 0);
  const { ledger } = state;
  const index = (party: number) =>
    Array.from({ length: ledger.addresses.count }, (_, i) => i).find((i) => Number(ledger.addresses.hex(i)) === party);
  const before = ledger.bytes;
  const pages: number[] = [];
  let place: TransferPlace | undefined;
  do {
    const reading = readTransfers(ledger, { from: index(1), to: index(4) }, { block: 9, from: place, limit: 10 });
    let step = reading.next();
    while (step.done !== true) step = reading.next();
    pages.push(step.value.transfers.length);
    place = step.value.next;
  } while (place !== undefined);
  expect(pages).toEqual([0, 0]);
  // The lists are counted in the collection's memory: 8 bytes a transfer, of which each here has a mint beside it.
  expect(ledger.bytes - before).toBeGreaterThan(count * 8);
});
