/**
 * Entry point of the worker that writes files. In: the rows of a piece, as columns of tokens, as columns of holders, or as
 * cells. Out: the bytes of the piece, or the problem.
 */
import { messageOf } from "../../core/errors.ts";
import { lowerThreadPriority } from "../../core/thread-priority.ts";
import { holderRows, tokenRows } from "./export-rows.ts";
import type { ExportFormat, ExportRow, FileHead } from "./formats.ts";
import type { HolderColumns } from "./holder-columns.ts";
import { parquetEncoder } from "./parquet-encoder.ts";
import { csvEncoder, type FileEncoder, jsonLinesEncoder } from "./text-encoder.ts";
import type { ExportedTokens } from "./token-columns.ts";

/** The rows of a piece, in the form that takes their sender the least time. */
export type FileRows =
  | { readonly tokens: ExportedTokens }
  | { readonly holders: HolderColumns }
  | { readonly rows: readonly ExportRow[] };

/** `begin` and `closed` have no reply; rows and `end` have one with bytes. */
export type FileRequest = { readonly file: number } & (
  | { readonly begin: FileHead }
  | FileRows
  | { readonly end: true }
  | { readonly closed: true }
);

export type FileReply = { readonly file: number } & (
  | { readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly problem: string }
);

const ENCODERS: Readonly<Record<ExportFormat, (head: FileHead) => FileEncoder>> = {
  csv: ({ columns }) => csvEncoder(columns),
  jsonl: ({ columns }) => jsonLinesEncoder(columns),
  parquet: parquetEncoder,
};

declare const self: Worker;

lowerThreadPriority();

const files = new Map<number, FileEncoder>();

function bytesOf(request: FileRequest & (FileRows | { readonly end: true })): Uint8Array<ArrayBuffer> {
  const encoder = files.get(request.file);
  if (encoder === undefined) throw new Error("the file is not open");
  if ("end" in request) return encoder.end();
  if ("tokens" in request) return encoder.rows(tokenRows(request.tokens));
  return encoder.rows("holders" in request ? holderRows(request.holders) : request.rows);
}

self.onmessage = ({ data: request }: MessageEvent<FileRequest>) => {
  const { file } = request;
  if ("begin" in request) files.set(file, ENCODERS[request.begin.format](request.begin));
  else if ("closed" in request) files.delete(file);
  else {
    const answer = (reply: FileReply, handed: ArrayBuffer[]) => self.postMessage(reply, handed);
    try {
      const bytes = bytesOf(request);
      answer({ file, bytes }, [bytes.buffer]);
    } catch (error) {
      answer({ file, problem: messageOf(error) }, []);
    }
  }
};
