/** The formats of an export, and what a file is made of: columns, rows of cells, and facts. */

export const EXPORT_FORMATS = ["csv", "jsonl", "parquet"] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

export const CONTENT_TYPES: Readonly<Record<ExportFormat, string>> = {
  csv: "text/csv; charset=utf-8",
  jsonl: "application/x-ndjson; charset=utf-8",
  parquet: "application/vnd.apache.parquet",
};

/** `text` is a string, `count` a whole number, `share` a fraction, `time` ISO 8601. */
export interface Column {
  readonly name: string;
  readonly type: "text" | "count" | "share" | "time";
}

/** A row's cells in the order of the columns. */
export type ExportRow = readonly (string | number | null)[];

/** How a file begins. */
export interface FileHead {
  readonly format: ExportFormat;
  readonly columns: readonly Column[];
  /** The chain, contract and block of the file. Parquet writes them as key-value metadata, text formats leave them out. */
  readonly facts: readonly (readonly [name: string, value: string])[];
}

/** Rows of a piece at most. A piece of Parquet is a row group, and a reader keeps the list of the groups. */
export const ROWS_PER_PIECE = 2_000;
