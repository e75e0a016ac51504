/** CSV and JSON lines: rows in, bytes out. */
import type { Column, ExportRow } from "./formats.ts";

type Cell = ExportRow[number];

/** Writes a file in pieces. Each method returns the bytes since the last one. */
export interface FileEncoder {
  /** The bytes of some rows, with the beginning of the file before the first ones. */
  rows(rows: readonly ExportRow[]): Uint8Array<ArrayBuffer>;
  /** The bytes after the last row. A file without them is incomplete. */
  end(): Uint8Array<ArrayBuffer>;
}

const utf8 = new TextEncoder();

/** A format with a line of text per row. @param head begins the file, also one without rows */
function textEncoder(head: string, lineOf: (row: ExportRow) => string): FileEncoder {
  let before = head;
  const rows = (list: readonly ExportRow[]) => {
    let text = before;
    for (const row of list) text += lineOf(row);
    before = "";
    return utf8.encode(text) as Uint8Array<ArrayBuffer>;
  };
  return { rows, end: () => rows([]) };
}

export function jsonLinesEncoder(columns: readonly Column[]): FileEncoder {
  const names = columns.map(({ name }, at) => `${at === 0 ? "{" : ","}${JSON.stringify(name)}:`);
  return textEncoder("", (row) => {
    let line = "";
    for (let at = 0; at < row.length; at++) line += `${names[at]}${jsonCell(row[at] as Cell)}`;
    return `${line}}\n`;
  });
}

/** The characters that JSON escapes, lone surrogates included. */
const ESCAPED = /["\\\p{Cc}\p{Cs}]/u;

const jsonCell = (cell: Cell): string =>
  typeof cell === "string" && !ESCAPED.test(cell) ? `"${cell}"` : JSON.stringify(cell);

export function csvEncoder(columns: readonly Column[]): FileEncoder {
  return textEncoder(`${columns.map(({ name }) => name).join(",")}\r\n`, (row) => {
    let line = csvCell(row[0] as Cell);
    for (let at = 1; at < row.length; at++) line += `,${csvCell(row[at] as Cell)}`;
    return `${line}\r\n`;
  });
}

/**
 * First characters by which a spreadsheet runs a cell as a formula, the full-width forms included. Contracts write these
 * texts, and a formula can send the sheet's content away.
 */
const FORMULA = /^[=+\-@\t\r\n＝＋－＠]/;

/** A cell by RFC 4180. Null is empty; a text that a spreadsheet would run gets an apostrophe before it. */
function csvCell(cell: Cell): string {
  if (cell === null) return "";
  if (typeof cell === "number") return decimal(cell);
  const safe = FORMULA.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Digits without an exponent. Shares have up to twelve of them after the point. */
const decimal = (value: number): string =>
  Number.isInteger(value) ? String(value) : value.toFixed(12).replace(/0+$/, "");
