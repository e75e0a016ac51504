/** The history of a token: replayed from its oldest transfer, it gives the owners of the naive model at every block. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { type TokenRef, TransferKind } from "../../../src/events/columns.ts";
import { evolve, initialState } from "../../../src/nft/collections/collection.ts";
import {
  kindsOf,
  NEWEST,
  readHistory,
  type TokenHistory,
  type TokenTransfer,
} from "../../../src/nft/ledger/history.ts";
import type { Ledger } from "../../../src/nft/ledger/ledger.ts";
import { multi, play, range, type Step, single, stepOf } from "../../support/histories.ts";
import { type ModelEntry, modelListing } from "../../support/naive-ledger.ts";

/** Runs a reading to its end. */
function whole<T>(reading: Generator<void, T>): T {
  for (;;) {
    const { done, value } = reading.next();
    if (done === true) return value;
  }
}

/** Reads a whole history in pages, oldest transfer first. */
function wholeHistory(ledger: Ledger, token: TokenRef, block: number, limit: number): TokenTransfer[] {
  const all: TokenTransfer[] = [];
  for (let from: number | undefined = NEWEST; from !== undefined; ) {
    const page: TokenHistory = whole(readHistory(ledger, token, { block, from, limit }));
    all.push(...page.transfers);
    from = page.next;
  }
  return all.reverse();
}

/** Holders of a token with their amounts, after all transfers of its history. */
function holdersAfter(ledger: Ledger, history: readonly TokenTransfer[]): string[] {
  const held = new Map<number, bigint>();
  for (const { from, to, amount } of history) {
    held.set(from, (held.get(from) ?? 0n) - BigInt(amount));
    held.set(to, (held.get(to) ?? 0n) + BigInt(amount));
  }
  const name = (owner: number) => Number(ledger.addresses.hex(owner));
  return [...held]
    .flatMap(([owner, amount]) => (owner !== 0 && amount > 0n ? [`${name(owner)} ${amount}`] : []))
    .sort();
}

const holdersIn = (listing: readonly ModelEntry[], { kind, id }: TokenRef): string[] =>
  listing
    .filter((entry) => entry.kind === kind && entry.id === id.toString())
    .map(({ owner, amount }) => `${owner} ${amount}`)
    .sort();

function check(steps: readonly Step[], limit: number): void {
  const { events, transfers, head } = play(steps);
  const state = initialState();
  for (const [i, event] of events.entries()) evolve(state, event, i + 1, 0);
  const { ledger } = state;
  const ids = new Set(
    transfers.flatMap(({ kind, id, amount }) => (kind === TransferKind.range ? [id, id + amount - 1n] : [id])),
  );
  for (let block = 0; block <= head; block++) {
    const listing = modelListing(transfers, block, true);
    for (const id of ids) {
      for (const kind of kindsOf(ledger, id)) {
        const history = wholeHistory(ledger, { kind, id }, block, limit);
        expect(history.every((one, i) => i === 0 || one.block >= (history[i - 1] as TokenTransfer).block)).toBe(true);
        expect(holdersAfter(ledger, history)).toEqual(holdersIn(listing, { kind, id }));
      }
    }
  }
}

test("a token's history, replayed, gives its owners at every block", () => {
  const steps = fc.array(stepOf(fc.oneof(single, multi, range)), { maxLength: 20 });
  fc.assert(
    fc.property(steps, fc.integer({ min: 1, max: 5 }), (s, limit) => check(s, limit)),
    { numRuns: 200 },
  );
});

test("an id that no log names has no kind", () => {
  const { ledger } = initialState();
  expect(kindsOf(ledger, 7n)).toEqual([]);
  expect(
    whole(readHistory(ledger, { kind: TransferKind.erc721, id: 7n }, { block: 9, from: NEWEST, limit: 5 })),
  ).toEqual({
    transfers: [],
    next: undefined,
  });
});
