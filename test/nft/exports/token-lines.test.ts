/** Lines of tokens: the same text as their cells have in each format. */
import { describe, expect, test } from "bun:test";
import { ByteWriter } from "../../../src/core/byte-text.ts";
import { CONTRACT_TYPES, TransferKind } from "../../../src/events/columns.ts";
import { TOKEN_COLUMNS } from "../../../src/nft/exports/export-rows.ts";
import { csvEncoder, EXPORT_FORMATS, jsonLinesEncoder } from "../../../src/nft/exports/formats.ts";
import type { ExportRow } from "../../../src/nft/exports/parquet-worker.ts";
import { TokenLines } from "../../../src/nft/exports/token-lines.ts";
import type { Entry } from "../../../src/nft/ledger/entries.ts";
import type { Ledger } from "../../../src/nft/ledger/ledger.ts";
import { NO_METADATA, type RecordFacts } from "../../../src/nft/listings/record.ts";

const hex = (party: number): string => `0x${party.toString(16).padStart(40, "0")}`;
const addHex = (out: ByteWriter, party: number): void => out.ascii(hex(party));
const ledger = { addresses: { hex, addHex } } as unknown as Ledger;

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
  [
    entry({ kind: TransferKind.cryptopunks, id: 0, block: 2 ** 40, blockMinted: 9 }),
    facts("ipfs://a", '{"a":"b,c\\n"}'),
  ],
  [entry({ kind: TransferKind.erc6909, amount: 0 }), facts("=1+1", null)],
  [entry({}), facts(null, 'Æ\u2028\ud83d\ude00\ud800 \r\n\t\\ "x"')],
  [entry({}), facts("", "")],
];

/** The cells of a token, as the columns name them. */
function cellsOf([{ kind, id, owner, amount, block, blockMinted, minter }, known]: (typeof TOKENS)[number]): ExportRow {
  const party = (index: number) => (index < 0 ? null : hex(index));
  const { tokenUri, metadata, uriSync, metadataSync } = known;
  return [
    ...[String(id), CONTRACT_TYPES[kind] as string, party(owner), String(amount), block, blockMinted, party(minter)],
    ...[tokenUri, metadata, uriSync, metadataSync].map((json) => JSON.parse(json) as string | null),
  ];
}

describe.each([...EXPORT_FORMATS])("a line of %s", (format) => {
  test("has the cells of its token", () => {
    const [lines, out] = [new TokenLines(format), new ByteWriter()];
    const rows = TOKENS.map(cellsOf);
    const characters = TOKENS.map(([token, known]) => lines.add(out, ledger, token, known));
    const text = new TextDecoder().decode(out.view());
    if (format === "parquet")
      expect(
        text
          .trimEnd()
          .split("\n")
          .map((line) => JSON.parse(line)),
      ).toEqual(rows);
    else {
      const encoder = format === "csv" ? csvEncoder(TOKEN_COLUMNS) : jsonLinesEncoder(TOKEN_COLUMNS);
      const head = format === "csv" ? `${TOKEN_COLUMNS.map(({ name }) => name).join(",")}\r\n` : "";
      expect(head + text).toBe(new TextDecoder().decode(encoder.rows(rows) as Uint8Array));
    }
    const lengths = rows.map((row) =>
      row.reduce<number>((sum, cell) => sum + (typeof cell === "string" ? cell.length : 0), 0),
    );
    expect(characters).toEqual(lengths);
  });
});
