/**
 * The formats of an export: rows in, bytes out. Parquet is encoded elsewhere; CSV and JSON lines here. An encoder keeps no
 * more than the rows of one piece.
 */
import type { Column, ExportRow } from "./parquet-worker.ts";

export const EXPORT_FORMATS = ["csv", "jsonl", "parquet"] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

export const CONTENT_TYPES: Readonly<Record<ExportFormat, string>> = {
  csv: "text/csv; charset=utf-8",
  jsonl: "application/x-ndjson; charset=utf-8",
  parquet: "application/vnd.apache.parquet",
};

export interface Encoder {
  /** Rows of a piece, as few as the format allows. */
  readonly rowsPerPiece: number;
  /** The bytes of some rows, with the beginning of the file before the first ones. */
  rows(rows: readonly ExportRow[]): Uint8Array | Promise<Uint8Array>;
  /** The same of rows that `TokenLines` wrote in this format. */
  lines(lines: Uint8Array<ArrayBuffer>): Uint8Array | Promise<Uint8Array>;
  /** The bytes after the last row. A file without them is incomplete. */
  end(): Uint8Array | Promise<Uint8Array>;
  close(): void;
}

const utf8 = new TextEncoder();

/** Lines per piece of text. */
const LINES = 2_000;

/** A format with a line of text per row. @param head begins the file, also one without rows */
function textEncoder(head: string, lineOf: (row: ExportRow) => string): Encoder {
  let before = head;
  const take = (lines: Uint8Array) => {
    if (before === "") return lines;
    const bytes = Buffer.concat([utf8.encode(before), lines]);
    before = "";
    return bytes;
  };
  return {
    rowsPerPiece: LINES,
    rows: (rows) => take(utf8.encode(rows.map(lineOf).join(""))),
    lines: take,
    end: () => take(new Uint8Array(0)),
    close: () => undefined,
  };
}

export function jsonLinesEncoder(columns: readonly Column[]): Encoder {
  const names = columns.map(({ name }) => `${JSON.stringify(name)}:`);
  return textEncoder("", (row) => `{${row.map((cell, at) => `${names[at]}${JSON.stringify(cell)}`).join(",")}}\n`);
}

export const csvEncoder = (columns: readonly Column[]): Encoder =>
  textEncoder(`${columns.map(({ name }) => name).join(",")}\r\n`, (row) => `${row.map(csvCell).join(",")}\r\n`);

/**
 * First characters by which a spreadsheet runs a cell as a formula, the full-width forms included. Contracts write these
 * texts, and a formula can send the sheet's content away.
 */
const FORMULA = /^[=+\-@\t\r\n＝＋－＠]/;

/** A cell by RFC 4180. Null is empty; a text that a spreadsheet would run gets an apostrophe before it. */
export function csvCell(cell: string | number | null): string {
  if (cell === null) return "";
  if (typeof cell === "number") return decimal(cell);
  const safe = FORMULA.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Digits without an exponent. Shares have up to twelve of them after the point. */
const decimal = (value: number): string =>
  Number.isInteger(value) ? String(value) : value.toFixed(12).replace(/0+$/, "");
