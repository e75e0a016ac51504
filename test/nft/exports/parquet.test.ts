/** Parquet files, which a thread of their own encodes: several at once, and the event loop goes on meanwhile. */
import { expect, test } from "bun:test";
import { parquetMetadata, parquetReadObjects } from "hyparquet";
import { type ParquetFile, ParquetThread } from "../../../src/nft/exports/parquet.ts";
import type { ExportRow } from "../../../src/nft/exports/parquet-worker.ts";

const COLUMNS = [
  { name: "name", type: "text" },
  { name: "count", type: "count" },
] as const;

const rowsOf = (name: string, count: number): ExportRow[] =>
  Array.from({ length: count }, (_, n) => [n % 7 === 0 ? null : `${name} ${n}`, n]);

/** Writes row groups, and returns the whole file. */
async function written(file: ParquetFile, groups: readonly (readonly ExportRow[])[]): Promise<ArrayBuffer> {
  const pieces: Uint8Array[] = [];
  for (const rows of groups) pieces.push(await file.rows(rows));
  pieces.push(await file.end());
  file.close();
  return Uint8Array.from(Buffer.concat(pieces)).buffer;
}

const readRows = async (file: ArrayBuffer) =>
  (await parquetReadObjects({ file })).map(({ name, count }) => [name ?? null, Number(count)]);

test("two files at once have their own rows, row groups and facts", async () => {
  const thread = new ParquetThread();
  const groups = ["a", "b"].map((name) => [rowsOf(name, 2_000), rowsOf(name, 700)] as const);
  const made = await Promise.all(groups.map((own, at) => written(thread.open(COLUMNS, [["number", String(at)]]), own)));
  for (const [at, own] of groups.entries()) {
    const file = made[at] as ArrayBuffer;
    expect(await readRows(file)).toEqual(own.flat() as unknown[][]);
    const { key_value_metadata: facts, row_groups: found } = parquetMetadata(file);
    expect(facts).toEqual([{ key: "number", value: String(at) }]);
    expect(found.map(({ num_rows: count }) => Number(count))).toEqual([2_000, 700]);
  }
  // The thread is there for the next file, too.
  expect(await readRows(await written(thread.open(COLUMNS, []), [rowsOf("c", 3)]))).toEqual(
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
  const file = await written(new ParquetThread().open(COLUMNS, []), [rowsOf("a", 20_000)]);
  clearImmediate(counting);
  expect(parquetMetadata(file).num_rows).toBe(20_000n);
  expect(turns).toBeGreaterThan(80);
});

test("a file that is read after its end fails, and others on its thread go on", async () => {
  const thread = new ParquetThread();
  const [closed, open] = [thread.open(COLUMNS, []), thread.open(COLUMNS, [])];
  closed.close();
  await expect(closed.end()).rejects.toThrow("the file is not open");
  expect(await readRows(await written(open, [rowsOf("a", 10)]))).toEqual(rowsOf("a", 10) as unknown[][]);
});
