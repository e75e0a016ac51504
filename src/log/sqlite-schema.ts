/**
 * The SQLite schema as numbered migrations, and the reading of pages. A released migration never changes. `streams.seq`
 * rises with each append, so that finding the streams that grew is one range scan of its index.
 */
import type { Database } from "bun:sqlite";
import type { Recorded, StreamName } from "../events/types.ts";
import { assertGapless, fromStored, type StoredEvent } from "./records.ts";

export const MIGRATIONS: readonly (readonly string[])[] = [
  [
    `CREATE TABLE streams (
       id INTEGER PRIMARY KEY,
       name TEXT NOT NULL UNIQUE,
       version INTEGER NOT NULL,
       seq INTEGER NOT NULL,
       headline TEXT
     ) STRICT`,
    "CREATE INDEX streams_by_seq ON streams (seq)",
    `CREATE TABLE events (
       stream_id INTEGER NOT NULL REFERENCES streams (id),
       version INTEGER NOT NULL,
       type TEXT NOT NULL,
       time INTEGER NOT NULL,
       crc INTEGER NOT NULL,
       data BLOB NOT NULL
     ) STRICT`,
    "CREATE UNIQUE INDEX events_by_version ON events (stream_id, version)",
    // Logs that 1.1.0 and older releases made have this table WITHOUT ROWID, where each look-up compares the key with whole
    // blobs. All releases read and write both forms, and `copy` makes a log of the new one.
    "CREATE TABLE blobs (hash BLOB PRIMARY KEY, bytes BLOB NOT NULL) STRICT",
    "CREATE TABLE leases (name TEXT PRIMARY KEY, holder TEXT NOT NULL, expires_at INTEGER NOT NULL) STRICT",
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
  ],
  // 2, since 1.0.0. No table changed. 0.1.0 can't read the events of keys, of new indexes and of removals, so it must refuse
  // the log at its start.
  [],
  // 3, since 1.1.0. No table changed. 1.0.0 can't read keys with quotas, bills, and collections in doubt.
  [],
];

/** The schema that this release writes, of both engines: an older release refuses a newer one. */
export const LOG_SCHEMA = MIGRATIONS.length;

/**
 * Brings the schema up to date, in a transaction of the caller. Returns the number of applied migrations.
 * @param now ms since the epoch. @throws Error if a newer release has written the schema
 */
export function migrateSqlite(db: Database, now: number): number {
  db.run("CREATE TABLE IF NOT EXISTS migrations (id INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT");
  const ids = db.query<{ id: number }, []>("SELECT id FROM migrations").all();
  const applied = new Set(ids.map(({ id }) => id));
  // SQLite opens a read-only file without an error and reports it at the first write. So write now.
  db.run("DELETE FROM migrations WHERE id < 0");
  // A backup that is opened as a log is written to, and its seal would not match any more.
  for (const name of ["user_version", "application_id"]) {
    const [value = 0] = Object.values(db.query<Record<string, number>, []>(`PRAGMA ${name}`).get() ?? {});
    if (value !== 0) db.run(`PRAGMA ${name} = 0`);
  }
  const newest = Math.max(0, ...applied);
  if (newest > MIGRATIONS.length) {
    throw new Error(`the event log has schema ${newest}, this release knows up to ${MIGRATIONS.length}`);
  }
  let missing = 0;
  for (const [index, statements] of MIGRATIONS.entries()) {
    if (applied.has(index + 1)) continue;
    for (const statement of statements) db.run(statement);
    db.query("INSERT INTO migrations (id, applied_at) VALUES (?, ?)").run(index + 1, now);
    missing++;
  }
  return missing;
}

export interface PageRequest {
  readonly stream: StreamName;
  readonly from: number;
  readonly limit: number;
  readonly maxBytes: number;
}

export interface EventPage {
  readonly events: Recorded[];
  /** True if the page ended at `maxBytes`, so that there may be more. */
  readonly isFull: boolean;
}

/** Reads a page and verifies it. @throws InvariantError for a damaged or missing record */
export function readPage(database: Database, { stream, from, limit, maxBytes }: PageRequest): EventPage {
  const query = database.query<StoredEvent, [string, number, number]>(
    `SELECT version, type, time, crc, data FROM events
     WHERE stream_id = (SELECT id FROM streams WHERE name = ?) AND version >= ? ORDER BY version LIMIT ?`,
  );
  const rows: StoredEvent[] = [];
  let bytes = 0;
  for (const row of query.iterate(stream, from, limit)) {
    rows.push(row);
    bytes += row.data.length;
    if (bytes >= maxBytes) break;
  }
  assertGapless(stream, rows, from);
  return { events: rows.map((row) => fromStored(stream, row)), isFull: bytes >= maxBytes };
}
