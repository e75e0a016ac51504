/**
 * Entry point of the worker that encodes Parquet files: dictionaries, compression and the list of row groups take tens of
 * milliseconds. In: rows in parts, and requests for the bytes of the rows so far. Out: bytes, or the problem.
 */
import { ByteWriter, ParquetWriter, type SchemaElement } from "hyparquet-writer";
import { messageOf } from "../../core/errors.ts";
import { lowerThreadPriority } from "../../core/thread-priority.ts";

/** `text` is a string, `count` a whole number, `share` a fraction, `time` ISO 8601. */
export interface Column {
  readonly name: string;
  readonly type: "text" | "count" | "share" | "time";
}

/** A row's cells in the order of the columns. */
export type ExportRow = readonly (string | number | null)[];

/** What a file is true at, as key-value metadata. */
export type KeyValues = readonly (readonly [name: string, value: string])[];

/** `rows` are `ExportRow`s as JSON, `lines` a line of JSON for each. They have no reply. `group` asks for the bytes of a row group, `end` for those after the last one. */
export type ParquetRequest = { readonly file: number } & (
  | { readonly columns: readonly Column[]; readonly facts: KeyValues }
  | { readonly rows: string }
  | { readonly lines: Uint8Array }
  | { readonly wanted: "group" | "end" }
  | { readonly closed: true }
);

export type ParquetReply = { readonly file: number } & (
  | { readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly problem: string }
);

const ELEMENTS: Readonly<Record<Column["type"], Omit<SchemaElement, "name">>> = {
  text: { type: "BYTE_ARRAY", converted_type: "UTF8" },
  count: { type: "INT64" },
  share: { type: "DOUBLE" },
  time: { type: "INT64", converted_type: "TIMESTAMP_MILLIS" },
};

class FileEncoder {
  readonly #columns: readonly Column[];
  readonly #bytes = new ByteWriter();
  readonly #writer: ParquetWriter;
  #rows: ExportRow[] = [];

  constructor(columns: readonly Column[], facts: KeyValues) {
    this.#columns = columns;
    const elements = columns.map(({ name, type }) => ({
      name,
      repetition_type: "OPTIONAL" as const,
      ...ELEMENTS[type],
    }));
    this.#writer = new ParquetWriter({
      writer: this.#bytes,
      schema: [{ name: "root", num_children: columns.length }, ...elements],
      kvMetadata: facts.map(([key, value]) => ({ key, value })),
      createdBy: "evm-data-service",
    });
  }

  add(rows: readonly ExportRow[]): void {
    this.#rows.push(...rows);
  }

  /** Encodes the rows since the last call as a row group. */
  group(): Uint8Array<ArrayBuffer> {
    const rows = this.#rows;
    this.#rows = [];
    const columnData = this.#columns.map(({ name, type }, at) => {
      return { name, data: rows.map((row) => parquetCell(row[at] ?? null, type)), offsetIndex: false };
    });
    void this.#writer.write({ columnData, rowGroupSize: Math.max(1, rows.length) });
    return this.#take();
  }

  end(): Uint8Array<ArrayBuffer> {
    void this.#writer.finish();
    return this.#take();
  }

  /** The bytes since the last call. The buffer is used again; offsets go on counting. */
  #take(): Uint8Array<ArrayBuffer> {
    const taken = new Uint8Array(this.#bytes.getBuffer());
    this.#bytes.index = 0;
    return taken;
  }
}

function parquetCell(cell: string | number | null, type: Column["type"]) {
  if (cell === null) return null;
  if (type === "count") return BigInt(cell);
  return type === "time" ? new Date(cell) : cell;
}

const decoder = new TextDecoder();

/** JSON has no line break inside of a text. */
const rowsOfLines = (lines: Uint8Array): ExportRow[] =>
  JSON.parse(`[${decoder.decode(lines).trimEnd().replaceAll("\n", ",")}]`) as ExportRow[];

declare const self: Worker;

lowerThreadPriority();

const files = new Map<number, FileEncoder>();

function bytesFor(encoder: FileEncoder | undefined, wanted: "group" | "end"): Uint8Array<ArrayBuffer> {
  if (encoder === undefined) throw new Error("the file is not open");
  return wanted === "group" ? encoder.group() : encoder.end();
}

self.onmessage = ({ data: request }: MessageEvent<ParquetRequest>) => {
  const { file } = request;
  if ("columns" in request) files.set(file, new FileEncoder(request.columns, request.facts));
  else if ("rows" in request) files.get(file)?.add(JSON.parse(request.rows) as ExportRow[]);
  else if ("lines" in request) files.get(file)?.add(rowsOfLines(request.lines));
  else if ("closed" in request) files.delete(file);
  else {
    const answer = (reply: ParquetReply, handed: ArrayBuffer[]) => self.postMessage(reply, handed);
    try {
      const bytes = bytesFor(files.get(file), request.wanted);
      answer({ file, bytes }, [bytes.buffer]);
    } catch (error) {
      answer({ file, problem: messageOf(error) }, []);
    }
  }
};
