/** Tokens as columns: the rows of a file have the cells of the entries that they were made from, in each format. */
import { expect, test } from "bun:test";
import { CONTRACT_TYPES, TransferKind } from "../../../src/events/columns.ts";
import { tokenRows } from "../../../src/nft/exports/export-rows.ts";
import { ROWS_PER_PIECE } from "../../../src/nft/exports/formats.ts";
import { TokenPiece } from "../../../src/nft/exports/token-columns.ts";
import { AddressTable } from "../../../src/nft/ledger/address-table.ts";
import type { Entry } from "../../../src/nft/ledger/entries.ts";
import { NO_METADATA, type RecordFacts } from "../../../src/nft/listings/record.ts";

const hex = (party: number): string => `0x${party.toString(16).padStart(40, "0")}`;
const addresses = new AddressTable();
for (let party = 1; party < 20; party++) addresses.intern(Buffer.from(hex(party).slice(2), "hex"));

const entry = (fields: Partial<Entry>): Entry => ({
  ...{ kind: TransferKind.erc721, id: 7, owner: 11, amount: 1, block: 21_000_000, blockMinted: 0, minter: 12 },
  ...fields,
});
const time = "2026-01-02T03:04:05.678Z";
const facts = (uri: string | null, metadata: string | null): RecordFacts => ({
  ...NO_METADATA,
  tokenUri: JSON.stringify(uri),
  metadata: JSON.stringify(metadata),
  uriSync: JSON.stringify(time),
  metadataSync: metadata === null ? "null" : JSON.stringify(time),
});

const TOKENS: readonly (readonly [Entry, RecordFacts])[] = [
  [entry({}), NO_METADATA],
  [
    entry({ kind: TransferKind.erc1155, id: (1n << 256n) - 1n, amount: 1n << 200n, owner: -1, minter: -1 }),
    NO_METADATA,
  ],
  [entry({ id: 1n << 60n, owner: 0 }), NO_METADATA],
  [
    entry({ kind: TransferKind.cryptopunks, id: 0, block: 2 ** 40, blockMinted: 9 }),
    facts("ipfs://a", '{"a":"b,c\\n"}'),
  ],
  [entry({ kind: TransferKind.erc6909, amount: 0, minter: -1 }), facts("=1+1", null)],
  [entry({}), facts(null, 'Æ\u2028\ud83d\ude00\ud800 \r\n\t\\ "x"')],
  [entry({}), facts("", "")],
];

test("keep what the entries and their metadata say", () => {
  const piece = new TokenPiece();
  const [tokens, told] = [TOKENS.map(([token]) => token), TOKENS.map(([, known]) => known)];
  expect(piece.add(addresses, tokens, told, 0)).toBe(TOKENS.length);
  const party = (index: number) => (index < 0 ? null : hex(index));
  const expected = TOKENS.map(([{ kind, id, owner, amount, block, blockMinted, minter }, known]) => [
    ...[String(id), CONTRACT_TYPES[kind] as string, party(owner), String(amount), block, blockMinted, party(minter)],
    ...[known.tokenUri, known.metadata, known.uriSync, known.metadataSync].map((json) => JSON.parse(json)),
  ]);
  // The thread that writes the file gets a clone.
  expect(tokenRows(structuredClone(piece.columns().rows.tokens))).toEqual(expected);
});

test("end a piece when its rows are full, in the middle of a batch", () => {
  const entries = Array.from({ length: ROWS_PER_PIECE + 500 }, (_, id) => entry({ id, owner: 1 + (id % 19) }));
  const [first, second] = [new TokenPiece(), new TokenPiece()];
  // Only the last token of the second piece has metadata, and facts of none are given behind it.
  const known = entries.slice(0, -1).map((_, at) => (at < entries.length - 2 ? NO_METADATA : facts("ipfs://a", "b")));
  expect([first.add(addresses, entries, known, 0), first.isFull]).toEqual([ROWS_PER_PIECE, true]);
  expect(first.add(addresses, entries, known, ROWS_PER_PIECE)).toBe(ROWS_PER_PIECE);
  expect([second.add(addresses, entries, known, ROWS_PER_PIECE), second.isFull]).toEqual([entries.length, false]);
  const rows = [first, second].flatMap((piece) => tokenRows(structuredClone(piece.columns().rows.tokens)));
  expect(rows.map(([id, , owner]) => [id, owner])).toEqual(
    entries.map(({ id, owner }) => [String(id), hex(owner)] as const),
  );
  expect(rows.slice(-3).map((row) => row.slice(7, 9))).toEqual([
    [null, null],
    ["ipfs://a", "b"],
    [null, null],
  ]);
});

test("end a piece after a long text", () => {
  const piece = new TokenPiece();
  const long = facts("ipfs://a", "x".repeat(600_000));
  const entries = [entry({ id: 1 }), entry({ id: 2 }), entry({ id: 3 })];
  expect([piece.add(addresses, entries, [long, long, long], 0), piece.isFull]).toEqual([2, true]);
});
