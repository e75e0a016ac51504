/**
 * The pairs of one owner, and the ranking of all owners, at every block and through forks: equal to those that a replay of
 * all transfers gives. The places of pairs are those of the walk over all pairs, so cursors of both go on in each other.
 */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { TransferKind } from "../../../src/events/columns.ts";
import { type Collection, evolve, initialState } from "../../../src/nft/collections/collection.ts";
import type { RankedHolder } from "../../../src/nft/exports/holder-columns.ts";
import { type HolderRanking, rankOwners } from "../../../src/nft/exports/holders.ts";
import type { Entry } from "../../../src/nft/ledger/entries.ts";
import { readHoldersInSlices } from "../../../src/nft/ledger/listing.ts";
import { readOwned } from "../../../src/nft/ledger/owned.ts";
import { type Position, START } from "../../../src/nft/ledger/rows.ts";
import { hash, identified, multi, play, range, type Step, single, stepOf } from "../../support/histories.ts";
import { columnsOf, type ModelEntry, type ModelTransfer, modelListing, readable } from "../../support/naive-ledger.ts";

/** Runs work to its end. Returns its result and the number of slices. */
function run<T>(work: Generator<void, T>): { result: T; slices: number } {
  for (let slices = 1; ; slices++) {
    const { done, value } = work.next();
    if (done === true) return { result: value, slices };
  }
}

const addressOf = (person: number): string => `0x${person.toString(16).padStart(40, "0")}`;

/** All pairs after a block with their places, by a walk over them. */
function allPairs({ ledger }: Collection, block: number): { entries: readonly Entry[]; starts: readonly unknown[] } {
  return run(readHoldersInSlices(ledger, { block, from: START, limit: 1_000_000 })).result;
}

/** The pairs of a person after a block, read in pages, with their places. */
function ownedPairs({ ledger }: Collection, person: number, block: number, limit: number) {
  const owner = ledger.addresses.find(addressOf(person));
  const entries: Entry[] = [];
  const places: Position[] = [];
  if (owner <= 0) return { entries, places };
  for (const index of [ledger.ownerParties, ledger.balanceParties]) run(index.complete());
  for (let from: Position | undefined = START; from !== undefined; ) {
    const options: Parameters<typeof readOwned>[2] = { block, from, limit, matches: () => true };
    const page = run(readOwned(ledger, owner, options)).result;
    entries.push(...page.entries);
    places.push(...page.places.slice(0, page.entries.length));
    from = page.places[page.entries.length];
    if (from !== undefined) expect(page.entries.length).toBe(limit);
  }
  return { entries, places };
}

/** The ranking of a listing, by its definition. */
function expectedRanking(listing: readonly ModelEntry[]): RankedHolder[] {
  const all = listing.reduce((sum, { amount }) => sum + BigInt(amount), 0n);
  const holders = [...Map.groupBy(listing, ({ owner }) => owner)].map(([owner, pairs]) => ({
    owner: addressOf(owner),
    tokens: pairs.length,
    units: pairs.reduce((sum, { amount }) => sum + BigInt(amount), 0n),
  }));
  holders.sort((a, b) => (a.units === b.units ? (a.owner < b.owner ? -1 : 1) : a.units > b.units ? -1 : 1));
  return holders.map((holder) => ({
    ...holder,
    share: Number((holder.units * 10n ** 12n) / all) / 1e12,
    rank: 1 + holders.filter(({ units }) => units > holder.units).length,
  }));
}

const inPages = (ranking: HolderRanking, limit: number): RankedHolder[] =>
  Array.from({ length: Math.ceil(ranking.count / limit) }, (_, page) => ranking.slice(page * limit, limit)).flat();

function check(steps: readonly Step[], limit: number): void {
  const { events, transfers, head } = play(steps);
  const state = initialState();
  for (const [i, event] of events.entries()) {
    evolve(state, event, i + 1, 0);
    // Lists that exist before a fork must lose its transfers.
    if (state.end !== undefined) ownedPairs(state, 1, state.end.number, 3);
  }
  for (let block = 0; block <= head; block++) {
    const model = modelListing(transfers, block, true);
    expect(inPages(run(rankOwners(state.ledger, block)).result, limit)).toEqual(expectedRanking(model));
    const pairs = allPairs(state, block);
    for (let person = 0; person <= 6; person++) {
      const owned = ownedPairs(state, person, block, limit);
      expect(readable(state, owned.entries)).toEqual(model.filter(({ owner }) => owner === person && person > 0));
      const owner = state.ledger.addresses.find(addressOf(person));
      const starts = pairs.starts.filter((_, at) => pairs.entries[at]?.owner === owner);
      expect(owned.places as unknown[]).toEqual(person === 0 ? [] : starts);
    }
  }
}

describe("the pairs of an owner and the ranking of owners", () => {
  const kinds = { "single owners": single, amounts: multi, "single owners and ranges": fc.oneof(single, range) };
  for (const [name, transfer] of Object.entries({ ...kinds, "all kinds": fc.oneof(single, multi, range) })) {
    test(`are those of a replay, with ${name}, at every block and through forks`, () => {
      const steps = fc.array(stepOf(transfer), { maxLength: 10 });
      fc.assert(
        fc.property(steps, fc.integer({ min: 1, max: 4 }), (played, limit) => check(played, limit)),
        { numRuns: 100 },
      );
    });
  }
});

/** A collection of many tokens, of which the persons from 1 to `people` hold equally many. */
function large(tokens: number, people: number): Collection {
  const state = initialState();
  const mints = Array.from({ length: tokens }, (_, id): ModelTransfer => {
    return { kind: TransferKind.erc721, block: 0, from: 0, to: 1 + (id % people), id: BigInt(id), amount: 1n };
  });
  const transfers = columnsOf(mints);
  const range = { fromBlock: 0, toBlock: 0, toHash: hash(0) };
  const committed = { type: "TransfersCommitted" as const, ...range, count: tokens, transfers };
  for (const [i, event] of [{ type: "IndexingRequested" as const }, identified, committed].entries()) {
    evolve(state, event, i + 1, 0);
  }
  return state;
}

describe("a large collection", () => {
  const [tokens, people] = [60_000, 20_000];
  const collection = large(tokens, people);

  test("is ranked in slices, and ties are in the order of addresses", () => {
    const { result, slices } = run(rankOwners(collection.ledger, 0));
    expect(slices).toBeGreaterThan(10);
    expect(result.count).toBe(people);
    const owners = result.slice(0, people);
    expect(owners.map(({ owner }) => owner)).toEqual(Array.from({ length: people }, (_, n) => addressOf(n + 1)));
    expect(new Set(owners.map(({ rank, tokens: held }) => `${rank} ${held}`))).toEqual(new Set(["1 3"]));
  });

  test("has its lists of receivers made in slices, and then tells the pairs of an owner at once", () => {
    const { ledger } = large(tokens, people);
    expect(run(ledger.ownerParties.complete()).slices).toBeGreaterThan(5);
    const owner = ledger.addresses.find(addressOf(7));
    const options = { block: 0, from: START, limit: 10, matches: () => true };
    const { result, slices } = run(readOwned(ledger, owner, options));
    expect(result.entries.map(({ id }) => id)).toEqual([6, 20_006, 40_006]);
    expect(slices).toBeLessThan(4);
  });

  test("is read in slices for an owner that received all of it", () => {
    const { ledger } = large(tokens, 1);
    run(ledger.ownerParties.complete());
    const options = { block: 0, from: START, limit: tokens, matches: () => false };
    const { result, slices } = run(readOwned(ledger, ledger.addresses.find(addressOf(1)), options));
    expect(result).toEqual({ entries: [], places: [] });
    expect(slices).toBeGreaterThan(20);
  });
});
