/**
 * Finds the faults of a log that no walk over its streams comes by: what SQLite says of the file, events without a
 * stream, and streams of no known kind. Opens the log on its own, for reading only; each fault is a sentence.
 */
import { Database } from "bun:sqlite";
import { existsSync } from "node:fs";
import { assertRegularFile } from "../core/bounded-files.ts";
import { messageOf } from "../core/errors.ts";
import { sqlitePath } from "../core/files.ts";

/** First parts of the names of streams. */
export const STREAM_KINDS = [
  "chain",
  "keys",
  "metadata",
  "nft",
  "price",
  "priced",
  "prices",
  "proofs",
  "usage",
] as const;
/** Rows that are listed at most. */
const MOST = 1_000;

/** The faults that SQLite finds in the file. */
export function fileFaults(url: string): string[] {
  const path = sqlitePath(url);
  if (path === undefined) return [];
  if (!existsSync(path)) return [`there is no file ${path}`];
  try {
    assertRegularFile(path);
    const database = new Database(path, { readonly: true });
    const rows = database.query<{ integrity_check: string }, []>("PRAGMA integrity_check").all();
    database.close();
    return rows.map((row) => row.integrity_check).filter((text) => text !== "ok");
  } catch (error) {
    return [messageOf(error)];
  }
}

/** Where events or streams may be that no walk over the streams comes by. */
const STRAYS = {
  events: `SELECT stream_id AS name, count(*) AS count FROM events
           WHERE stream_id NOT IN (SELECT id FROM streams) GROUP BY stream_id LIMIT ${MOST}`,
  streams: `SELECT name, version AS count FROM streams
            WHERE ${STREAM_KINDS.map((kind) => `substr(name, 1, ${kind.length + 1}) <> '${kind}/'`).join(" AND ")} LIMIT ${MOST}`,
};

interface Stray {
  readonly name: string | number;
  readonly count: number;
}

async function straysOf(url: string): Promise<{ events: Stray[]; streams: Stray[] }> {
  const path = sqlitePath(url);
  if (path !== undefined) {
    const database = new Database(path, { readonly: true });
    try {
      const ask = (query: string) => database.query<Stray, []>(query).all();
      return { events: ask(STRAYS.events), streams: ask(STRAYS.streams) };
    } finally {
      database.close();
    }
  }
  const sql = new Bun.SQL(url, { max: 1 });
  try {
    const ask = (query: string) => sql.unsafe<Stray[]>(query);
    return { events: await ask(STRAYS.events), streams: await ask(STRAYS.streams) };
  } finally {
    await sql.close();
  }
}

export async function strays(url: string): Promise<string[]> {
  const { events, streams } = await straysOf(url);
  return [
    ...events.map(({ name, count }) => `${count} events are of stream number ${name}, which has no row`),
    ...streams.map(({ name, count }) => `${name} with ${count} events is of no kind there is`),
  ];
}
