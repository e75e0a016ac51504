/** Files, which a thread of their own writes: several at once, in each format, and the event loop goes on meanwhile. */
import { expect, test } from "bun:test";
import { parquetMetadata, parquetReadObjects } from "hyparquet";
import { FileThread, type OpenFile } from "../../../src/nft/exports/file-thread.ts";
import type { Column, ExportRow, FileHead } from "../../../src/nft/exports/formats.ts";

const COLUMNS: readonly Column[] = [
  { name: "name", type: "text" },
  { name: "count", type: "count" },
];
const parquet = (facts: FileHead["facts"] = []): FileHead => ({ format: "parquet", columns: COLUMNS, facts });

const rowsOf = (name: string, count: number): ExportRow[] =>
  Array.from({ length: count }, (_, n) => [n % 7 === 0 ? null : `${name} ${n}`, n]);

/** Writes row groups, and returns the whole file. */
async function written(file: OpenFile, groups: readonly (readonly ExportRow[])[]): Promise<ArrayBuffer> {
  const pieces: Uint8Array[] = [];
  for (const rows of groups) pieces.push(await file.piece({ rows }));
  pieces.push(await file.end());
  file.close();
  return Uint8Array.from(Buffer.concat(pieces)).buffer;
}

const readRows = async (file: ArrayBuffer) =>
  (await parquetReadObjects({ file })).map(({ name, count }) => [name ?? null, Number(count)]);

test("two files at once have their own rows, row groups and facts", async () => {
  const thread = new FileThread();
  const groups = ["a", "b"].map((name) => [rowsOf(name, 2_000), rowsOf(name, 700)] as const);
  const made = await Promise.all(groups.map((own, at) => written(thread.open(parquet([["number", String(at)]])), own)));
  for (const [at, own] of groups.entries()) {
    const file = made[at] as ArrayBuffer;
    expect(await readRows(file)).toEqual(own.flat() as unknown[][]);
    const { key_value_metadata: facts, row_groups: found } = parquetMetadata(file);
    expect(facts).toEqual([{ key: "number", value: String(at) }]);
    expect(found.map(({ num_rows: count }) => Number(count))).toEqual([2_000, 700]);
  }
  // The thread is there for the next file, too.
  expect(await readRows(await written(thread.open(parquet()), [rowsOf("c", 3)]))).toEqual(
    rowsOf("c", 3) as unknown[][],
  );
});

test("the event loop goes on while a file is written", async () => {
  let turns = 0;
  const count = () => {
    turns++;
    counting = setImmediate(count);
  };
  let counting = setImmediate(count);
  const file = await written(
    new FileThread().open(parquet()),
    Array.from({ length: 10 }, () => rowsOf("a", 2_000)),
  );
  clearImmediate(counting);
  expect(parquetMetadata(file).num_rows).toBe(20_000n);
  expect(turns).toBeGreaterThan(80);
});

test("a file that is read after its end fails, and others on its thread go on", async () => {
  const thread = new FileThread();
  const [closed, open] = [thread.open(parquet()), thread.open(parquet())];
  closed.close();
  await expect(closed.end()).rejects.toThrow("the file is not open");
  expect(await readRows(await written(open, [rowsOf("a", 10)]))).toEqual(rowsOf("a", 10) as unknown[][]);
});

test("texts begin with their columns, also without rows, and escape what a spreadsheet would run", async () => {
  const thread = new FileThread();
  const text = async (format: "csv" | "jsonl", rows: readonly ExportRow[]) =>
    Buffer.from(
      await written(thread.open({ format, columns: COLUMNS, facts: [] }), rows.length > 0 ? [rows] : []),
    ).toString();
  const rows: ExportRow[] = [
    ['=1+1, "x"', 1],
    [null, 0],
    ["plain\nline", 2 ** 40],
  ];
  expect(await text("csv", rows)).toBe(`name,count\r\n"'=1+1, ""x""",1\r\n,0\r\n"plain\nline",1099511627776\r\n`);
  expect(await text("csv", [])).toBe("name,count\r\n");
  expect(await text("jsonl", rows)).toBe(rows.map(([name, count]) => `${JSON.stringify({ name, count })}\n`).join(""));
  expect(await text("jsonl", [])).toBe("");
});
