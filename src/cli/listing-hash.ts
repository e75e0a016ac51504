/**
 * The hash of a collection's listings, to compare two services that indexed apart. In: a collection. Out: a few digits that
 * are equal if every entry is.
 */
import { TransferKind } from "../events/columns.ts";
import type { Collection } from "../nft/collections/collection.ts";
import type { Entry } from "../nft/ledger/entries.ts";
import type { Ledger } from "../nft/ledger/ledger.ts";
import { readSlice } from "../nft/ledger/listing.ts";
import { type Position, rangeOfCode, START } from "../nft/ledger/rows.ts";
import type { Slot } from "../nft/ledger/tables.ts";

/** Entries per read. An id range that is longer is hashed as a range. */
const ENTRIES = 1_000;

/** Hashes the listings of all lives at their ends. */
export function listingHash({ earlier, ledger, end }: Collection): string {
  if (end === undefined) return "none";
  const hasher = new Bun.CryptoHasher("sha256");
  for (const life of [...earlier, { ledger, until: end.number }]) hashListing(hasher, life.ledger, life.until);
  return hasher.digest("hex").slice(0, 16);
}

/**
 * Hashes every (id, owner) with its amount and blocks, in the listing's order. An id range longer than a page is hashed
 * as a range, with the ids that moved: one event may stand for more ids than a walk can visit.
 */
function hashListing(hasher: Bun.CryptoHasher, ledger: Ledger, at: number): void {
  for (const holders of [false, true]) {
    for (let from: Position | undefined = START; from !== undefined; ) {
      const slice: ReturnType<typeof readSlice> = readSlice(ledger, { block: at, holders, from, limit: ENTRIES });
      const ranges = slice.entries.map((entry) => longRangeOf(ledger, entry, holders));
      const inRange = ranges.findIndex((range) => range >= 0);
      for (const { kind, id, owner, amount, block, blockMinted } of slice.entries.slice(
        0,
        inRange < 0 ? ENTRIES : inRange,
      )) {
        const holder = owner < 0 ? "" : ledger.addresses.hex(owner);
        hasher.update(`${kind} ${id} ${holder} ${amount} ${block} ${blockMinted}\n`);
      }
      from = inRange < 0 ? slice.next : behind(ledger, ranges[inRange]!, slice.starts[inRange]!);
    }
  }
  for (const line of longRanges(ledger)) hasher.update(`${line}\n`);
}

const isLong = (range: { readonly count: number } | undefined): boolean => range !== undefined && range.count > ENTRIES;

/**
 * The long range that an entry belongs to, or -1. With holders, only the entry of the range's first owner belongs to
 * it.
 */
function longRangeOf({ rows }: Ledger, { kind, id, owner }: Entry, holders: boolean): number {
  const range = kind === TransferKind.erc721 ? rows.rangeOf(BigInt(id)) : -1;
  return isLong(rows.ranges[range]) && (!holders || rows.ranges[range]?.to === owner) ? range : -1;
}

/** The position after a range. */
function behind({ rows }: Ledger, range: number, at: number | Position): Position {
  if (typeof at !== "number") return [at[0], range + 1, 0, at[3]];
  const { firstRow, count } = rows.ranges[range]!;
  return [firstRow + count, 0, 0, 0];
}

function* longRanges({ rows, tokens, links, owners, addresses }: Ledger): Generator<string> {
  for (const { id, count, to, block } of rows.ranges.filter(isLong)) {
    yield `range ${id} ${count} ${addresses.hex(to)} ${block}`;
  }
  for (let slot = 0 as Slot; rows.ranges.length > 0 && slot < tokens.count; slot++) {
    const [first, tail] = [links.first(slot), links.tail(slot)];
    if (first >= -1 || !isLong(rows.ranges[rangeOfCode(first)])) continue;
    yield `moved ${tokens.id(slot)} ${addresses.hex(links.owner(slot))} ${owners.block(tail)}`;
  }
}
