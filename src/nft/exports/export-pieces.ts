/** An export from end to end: a source and a block in, pieces of a file out, each made when it is asked for. */
import { ByteWriter } from "../../core/byte-text.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import { type FactsOf, NO_METADATA, type RecordFacts } from "../listings/record.ts";
import type { WalkSource } from "../walks/snapshot.ts";
import { assertKept, batchesOf, type StartedWalk, type WalkBatch } from "../walks/walk.ts";
import { HOLDER_COLUMNS, holderRow, TOKEN_COLUMNS } from "./export-rows.ts";
import { csvEncoder, type Encoder, type ExportFormat, jsonLinesEncoder } from "./formats.ts";
import { type HolderRanking, rankHolders } from "./holders.ts";
import type { ParquetThread } from "./parquet.ts";
import type { Column, ExportRow } from "./parquet-worker.ts";
import { TokenLines } from "./token-lines.ts";

/** What a file is true of and at. Texts are left out if they are "" or undefined. */
export interface FileFacts {
  readonly chain: string;
  readonly address: string;
  readonly block: string;
  readonly block_hash?: string | undefined;
  /** ISO 8601. */
  readonly block_time?: string | undefined;
  readonly finality?: string | undefined;
  /** Tokens with metadata when the export began, those that only failed, and those without any attempt. Of a file of tokens. */
  readonly metadata_resolved?: string | undefined;
  readonly metadata_failed?: string | undefined;
  readonly metadata_left?: string | undefined;
}

/** `eth-0x…-21000000.csv`. */
export const fileName = ({ chain, address, block }: FileFacts, { format, holders }: FileKind): string =>
  `${chain.replaceAll(" ", "-")}-${address}-${block}${holders ? "-holders" : ""}.${format}`;

interface FileKind {
  readonly format: ExportFormat;
  /** True for a row per owner, false for a row per token. */
  readonly holders: boolean;
}

interface ExportPiecesOptions extends FileKind {
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
  { format, holders, factsOf, facts, parquet, ranking }: ExportPiecesOptions,
): AsyncGenerator<Uint8Array> {
  const known = Object.entries<string | undefined>({ ...facts }).filter(([, value]) => (value ?? "") !== "");
  const columns = holders ? HOLDER_COLUMNS : TOKEN_COLUMNS;
  const encoder = encoderOf(format, columns, () => parquet.open(columns, known as [string, string][]));
  try {
    if (holders) yield* encoded(encoder, holderRows(source, start, ranking));
    else yield* tokens(encoder, new TokenLines(format), batchesOf(source, start, { factsOf }));
    const end = await encoder.end();
    if (end.length > 0) yield end;
  } finally {
    encoder.close();
  }
}

/** The encoder of a format. @param openParquet called for a Parquet file only */
export function encoderOf(format: ExportFormat, columns: readonly Column[], openParquet: () => Encoder): Encoder {
  if (format === "parquet") return openParquet();
  return format === "csv" ? csvEncoder(columns) : jsonLinesEncoder(columns);
}

/** Gathers the lines of tokens to pieces. */
async function* tokens(
  encoder: Encoder,
  lines: TokenLines,
  batches: AsyncIterable<WalkBatch<RecordFacts>>,
): AsyncGenerator<Uint8Array> {
  const out = new ByteWriter();
  let [rows, characters] = [0, 0];
  const taken = () => {
    const text = out.view().slice();
    out.start();
    [rows, characters] = [0, 0];
    return encoder.lines(text);
  };
  for await (const { collection, entries, facts } of batches) {
    for (const [at, entry] of entries.entries()) {
      characters += lines.add(out, collection.ledger, entry, facts[at] ?? NO_METADATA);
      if (++rows < encoder.rowsPerPiece && characters < PIECE_CHARACTERS) continue;
      yield await taken();
      await yieldToEventLoop();
    }
  }
  if (rows > 0) yield await taken();
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
