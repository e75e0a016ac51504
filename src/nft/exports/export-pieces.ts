/** An export from end to end: a source and a block in, pieces of a file out, each made when it is asked for. */
import type { FactsOf, RecordFacts } from "../listings/record.ts";
import type { WalkSource } from "../walks/snapshot.ts";
import { assertKept, batchesOf, type StartedWalk, type WalkBatch } from "../walks/walk.ts";
import { HOLDER_COLUMNS, TOKEN_COLUMNS } from "./export-rows.ts";
import type { FileThread, OpenFile } from "./file-thread.ts";
import type { FileRows } from "./file-worker.ts";
import { type ExportFormat, ROWS_PER_PIECE } from "./formats.ts";
import { type HolderRanking, rankHolders } from "./holders.ts";
import { TokenPiece } from "./token-columns.ts";

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
  readonly thread: FileThread;
  /** The ranking of the walk's block; undefined if it is still to be made. */
  readonly ranking?: HolderRanking | undefined;
}

/**
 * Yields the file's pieces. While the first one is taken, the thread writes the second; nothing is read beyond it.
 * @throws Refusal `cursor_reorged` if the block left the canonical chain: the file is then incomplete
 */
export async function* piecesOf(
  source: WalkSource,
  start: StartedWalk,
  { format, holders, factsOf, facts, thread, ranking }: ExportPiecesOptions,
): AsyncGenerator<Uint8Array> {
  const known = Object.entries<string | undefined>({ ...facts }).filter(([, value]) => (value ?? "") !== "");
  const columns = holders ? HOLDER_COLUMNS : TOKEN_COLUMNS;
  const file = thread.open({ format, columns, facts: known as [string, string][] });
  try {
    const pieces = holders ? holderPieces(source, start, ranking) : tokenPieces(batchesOf(source, start, { factsOf }));
    yield* written(file, pieces);
    const end = await file.end();
    if (end.length > 0) yield end;
  } finally {
    file.close();
  }
}

interface FilePiece {
  readonly rows: FileRows;
  /** Memory of the rows that the thread takes over. */
  readonly memory?: readonly ArrayBuffer[];
}

/** Yields the bytes of each piece once the rows of the next one are on their way to the thread. */
async function* written(file: OpenFile, pieces: AsyncIterable<FilePiece>): AsyncGenerator<Uint8Array> {
  let before: Promise<Uint8Array> | undefined;
  for await (const { rows, memory } of pieces) {
    const bytes = file.piece(rows, memory);
    // If the client leaves now, nothing awaits the piece, and its failure is no error of the process.
    bytes.catch(() => undefined);
    if (before !== undefined) yield await before;
    before = bytes;
  }
  if (before !== undefined) yield await before;
}

async function* tokenPieces(batches: AsyncIterable<WalkBatch<RecordFacts>>): AsyncGenerator<FilePiece> {
  let piece = new TokenPiece();
  for await (const { collection, entries, facts } of batches) {
    const { addresses } = collection.ledger;
    for (let at = 0; at < entries.length; ) {
      at = piece.add(addresses, entries, facts, at);
      if (!piece.isFull) continue;
      yield piece.columns();
      piece = new TokenPiece();
    }
  }
  if (piece.count > 0) yield piece.columns();
}

async function* holderPieces(
  source: WalkSource,
  start: StartedWalk,
  made: HolderRanking | undefined,
): AsyncGenerator<FilePiece> {
  const ranking = made ?? (await rankHolders(source, start));
  for (let from = 0; from < ranking.count; from += ROWS_PER_PIECE) {
    yield { rows: { holders: ranking.columns(from, ROWS_PER_PIECE) } };
    // A slow client may take the rest an hour later.
    await assertKept(source, start);
  }
}
