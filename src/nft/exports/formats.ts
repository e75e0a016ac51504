/** The tables and formats of an export: rows in, bytes out. Each encoder keeps no more than the rows of one piece. */
import { yieldToEventLoop } from "../../core/turns.ts";
import { CONTRACT_TYPES } from "../../events/columns.ts";
import type { Entry } from "../ledger/entries.ts";
import type { FactsOf, RecordFacts } from "../listings/record.ts";
import type { WalkSource } from "../walks/snapshot.ts";
import { assertKept, batchesOf, type StartedWalk, type WalkBatch } from "../walks/walk.ts";
import { type HolderRanking, type RankedHolder, rankHolders } from "./holders.ts";
import type { ParquetThread } from "./parquet.ts";
import type { Column, ExportRow } from "./parquet-worker.ts";

// The columns of both tables, and the rows of tokens and of holders.

const column = (type: Column["type"]) => (name: string) => ({ name, type });
const text = column("text");
const count = column("count");
const time = column("time");

/** Ids and amounts are decimal text: they have up to 256 bits. */
const TOKEN_COLUMNS: readonly Column[] = [
  ...["token_id", "contract_type", "owner_of", "amount"].map(text),
  ...["block_number", "block_number_minted"].map(count),
  ...["minter_address", "token_uri", "metadata"].map(text),
  ...["last_token_uri_sync", "last_metadata_sync"].map(time),
];

const HOLDER_COLUMNS: readonly Column[] = [
  count("rank"),
  text("owner"),
  count("tokens"),
  text("units"),
  { name: "share", type: "share" },
];

/** The rows of a batch of tokens. Several holders, and the minter of such a token, are null. */
function tokenRows({ collection, entries, facts }: WalkBatch<RecordFacts>): ExportRow[] {
  const { ledger } = collection;
  const hex = (owner: number) => (owner < 0 ? null : ledger.addresses.hex(owner));
  return entries.map(({ id, kind, owner, amount, block, blockMinted, minter }: Entry, at) => {
    const { tokenUri = "null", metadata = "null", uriSync = "null", metadataSync = "null" } = facts[at] ?? {};
    const known = [tokenUri, metadata, uriSync, metadataSync].map((json) => JSON.parse(json) as string | null);
    return [
      String(id),
      CONTRACT_TYPES[kind] ?? null,
      hex(owner),
      String(amount),
      block,
      blockMinted,
      hex(minter),
      ...known,
    ];
  });
}

const holderRow = ({ rank, owner, tokens, units, share }: RankedHolder): ExportRow => [
  rank,
  owner,
  tokens,
  String(units),
  share,
];

export const EXPORT_FORMATS = ["csv", "jsonl", "parquet"] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

export const CONTENT_TYPES: Readonly<Record<ExportFormat, string>> = {
  csv: "text/csv; charset=utf-8",
  jsonl: "application/x-ndjson; charset=utf-8",
  parquet: "application/vnd.apache.parquet",
};

interface Encoder {
  /** Rows of a piece, as few as the format allows. */
  readonly rowsPerPiece: number;
  /** The bytes of some rows, with the beginning of the file before the first ones. */
  rows(rows: readonly ExportRow[]): Uint8Array | Promise<Uint8Array>;
  /** The bytes after the last row. A file without them is incomplete. */
  end(): Uint8Array | Promise<Uint8Array>;
  close(): void;
}

const utf8 = new TextEncoder();

/** Lines per piece of text. */
const LINES = 500;

/** A format with a line of text per row. @param head begins the file, also one without rows */
function textEncoder(head: string, lineOf: (row: ExportRow) => string): Encoder {
  let before = head;
  const take = (lines: string) => {
    const bytes = utf8.encode(before + lines);
    before = "";
    return bytes;
  };
  return {
    rowsPerPiece: LINES,
    rows: (rows) => take(rows.map(lineOf).join("")),
    end: () => take(""),
    close: () => undefined,
  };
}

function jsonLinesEncoder(columns: readonly Column[]): Encoder {
  const names = columns.map(({ name }) => `${JSON.stringify(name)}:`);
  return textEncoder("", (row) => `{${row.map((cell, at) => `${names[at]}${JSON.stringify(cell)}`).join(",")}}\n`);
}

const csvEncoder = (columns: readonly Column[]): Encoder =>
  textEncoder(`${columns.map(({ name }) => name).join(",")}\r\n`, (row) => `${row.map(csvCell).join(",")}\r\n`);

/**
 * First characters by which a spreadsheet runs a cell as a formula, the full-width forms included. Contracts write these
 * texts, and a formula can send the sheet's content away.
 */
const FORMULA = /^[=+\-@\t\r\n＝＋－＠]/;

/** A cell by RFC 4180. Null is empty; a text that a spreadsheet would run gets an apostrophe before it. */
function csvCell(cell: string | number | null): string {
  if (cell === null) return "";
  if (typeof cell === "number") return decimal(cell);
  const safe = FORMULA.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Digits without an exponent. Shares have up to twelve of them after the point. */
const decimal = (value: number): string =>
  Number.isInteger(value) ? String(value) : value.toFixed(12).replace(/0+$/, "");

// An export from end to end: a source and a block in, pieces of a file out, each made when it is asked for.

/** What a file is true of and at. Texts are left out if they are "" or undefined. */
export interface FileFacts {
  readonly chain: string;
  readonly address: string;
  readonly block: string;
  readonly block_hash?: string | undefined;
  /** ISO 8601. */
  readonly block_time?: string | undefined;
  readonly finality?: string | undefined;
}

/** `eth-0x…-21000000.csv`. */
export const fileName = ({ chain, address, block }: FileFacts, { format, holders }: FileKind): string =>
  `${chain.replaceAll(" ", "-")}-${address}-${block}${holders ? "-holders" : ""}.${format}`;

interface FileKind {
  readonly format: ExportFormat;
  /** True for a row per owner, false for a row per token. */
  readonly holders: boolean;
}

interface ExportOptions extends FileKind {
  readonly factsOf: FactsOf;
  readonly facts: FileFacts;
  readonly parquet: ParquetThread;
  /** The ranking of the walk's block; undefined if it is still to be made. */
  readonly ranking?: HolderRanking | undefined;
}

/** Characters of text after which a piece ends: its bytes, its compressed form and its rows are in memory together. */
const PIECE_CHARACTERS = 1024 * 1024;

/**
 * Yields the file's pieces. Reads nothing before it is asked for the next one.
 * @throws Refusal `cursor_reorged` if the block left the canonical chain: the file is then incomplete
 */
export async function* piecesOf(
  source: WalkSource,
  start: StartedWalk,
  { format, holders, factsOf, facts, parquet, ranking }: ExportOptions,
): AsyncGenerator<Uint8Array> {
  const known = Object.entries<string | undefined>({ ...facts }).filter(([, value]) => (value ?? "") !== "");
  const columns = holders ? HOLDER_COLUMNS : TOKEN_COLUMNS;
  const encoder = encoderOf(format, columns, () => parquet.open(columns, known as [string, string][]));
  try {
    yield* encoded(encoder, holders ? holderRows(source, start, ranking) : tokens(source, start, factsOf));
    const end = await encoder.end();
    if (end.length > 0) yield end;
  } finally {
    encoder.close();
  }
}

function encoderOf(format: ExportFormat, columns: readonly Column[], openParquet: () => Encoder): Encoder {
  if (format === "parquet") return openParquet();
  return format === "csv" ? csvEncoder(columns) : jsonLinesEncoder(columns);
}

async function* tokens(source: WalkSource, start: StartedWalk, factsOf: FactsOf): AsyncGenerator<readonly ExportRow[]> {
  for await (const batch of batchesOf(source, start, { factsOf })) yield tokenRows(batch);
}

/** Owners per list of rows. */
const OWNERS = 1_000;

async function* holderRows(
  source: WalkSource,
  start: StartedWalk,
  made: HolderRanking | undefined,
): AsyncGenerator<readonly ExportRow[]> {
  const ranking = made ?? (await rankHolders(source, start));
  for (let from = 0; from < ranking.count; from += OWNERS) {
    yield ranking.slice(from, OWNERS).map(holderRow);
    await yieldToEventLoop();
    // A slow client may take the rest an hour later.
    await assertKept(source, start);
  }
}

/** Gathers rows to pieces. */
async function* encoded(encoder: Encoder, lists: AsyncIterable<readonly ExportRow[]>): AsyncGenerator<Uint8Array> {
  let gathered: ExportRow[] = [];
  let characters = 0;
  for await (const rows of lists) {
    for (const row of rows) {
      gathered.push(row);
      for (const cell of row) if (typeof cell === "string") characters += cell.length;
      if (gathered.length < encoder.rowsPerPiece && characters < PIECE_CHARACTERS) continue;
      yield await encoder.rows(gathered);
      [gathered, characters] = [[], 0];
      await yieldToEventLoop();
    }
  }
  if (gathered.length > 0) yield await encoder.rows(gathered);
}
