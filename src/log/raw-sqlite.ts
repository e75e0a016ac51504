/**
 * A SQLite log as rows, for the copy between engines. Writes only to a log that no service uses: `sqlite-writer.ts` is
 * the writer of a live one.
 */
import { Database } from "bun:sqlite";
import { existsSync } from "node:fs";
import { assertRegularFile } from "../core/bounded-files.ts";
import { AppError } from "../core/errors.ts";
import {
  RAW_BYTES,
  RAW_ROWS,
  type RawBlob,
  type RawEvents,
  type RawReader,
  type RawStream,
  type RawWriter,
} from "./raw-log.ts";
import type { StoredEvent } from "./records.ts";
import { MIGRATIONS } from "./sqlite-schema.ts";

/** Opens a log for reading: one state of it, however much is appended meanwhile. @throws AppError */
export function openRawSqlite(path: string): RawReader {
  if (!existsSync(path)) throw new AppError(`there is no event log at ${path}`, { code: "log_unavailable" });
  assertRegularFile(path);
  const db = new Database(path, { readonly: true, strict: true });
  db.run("PRAGMA busy_timeout = 10000");
  db.run("BEGIN");
  assertSchema(db, path);
  return new RawSqlite(db);
}

/** Opens a log for writing; `openLog` must have made it. */
export function openRawSqliteWriter(path: string): RawWriter {
  const db = new Database(path, { readwrite: true, strict: true });
  db.run("PRAGMA busy_timeout = 10000");
  db.run("PRAGMA synchronous = FULL");
  return new RawSqlite(db);
}

function assertSchema(db: Database, path: string): void {
  let schema: number | null | undefined;
  try {
    schema = db.query<{ id: number | null }, []>("SELECT max(id) AS id FROM migrations").get()?.id;
  } catch {
    // Falls through: no table of migrations, or no database.
  }
  if (schema === MIGRATIONS.length) return;
  const found = schema == null ? "no event log" : `an event log of schema ${schema}, not ${MIGRATIONS.length}`;
  throw new AppError(`${path} is ${found}; start the service on it with this release first`, {
    code: "log_unavailable",
  });
}

class RawSqlite implements RawWriter {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  async streams(after: string, limit: number): Promise<RawStream[]> {
    const text = "SELECT name, version, headline FROM streams WHERE name > ? ORDER BY name LIMIT ?";
    return this.#db.query<RawStream, [string, number]>(text).all(after, limit);
  }

  async stream(name: string): Promise<RawStream | undefined> {
    const query = this.#db.query<RawStream, [string]>("SELECT name, version, headline FROM streams WHERE name = ?");
    return query.get(name) ?? undefined;
  }

  async events({ stream, from, to }: RawEvents): Promise<StoredEvent[]> {
    const query = this.#db.query<StoredEvent, [string, number, number, number]>(
      `SELECT version, type, time, crc, data FROM events
       WHERE stream_id = (SELECT id FROM streams WHERE name = ?) AND version BETWEEN ? AND ? ORDER BY version LIMIT ?`,
    );
    const rows: StoredEvent[] = [];
    let bytes = 0;
    for (const row of query.iterate(stream, from, to, RAW_ROWS)) {
      rows.push(row);
      bytes += row.data.length;
      if (bytes >= RAW_BYTES) break;
    }
    return rows;
  }

  async hashes(after: Uint8Array, limit: number): Promise<Uint8Array[]> {
    const query = this.#db.query<{ hash: Uint8Array }, [Uint8Array, number]>(
      "SELECT hash FROM blobs WHERE hash > ? ORDER BY hash LIMIT ?",
    );
    return query.all(after, limit).map(({ hash }) => hash);
  }

  async blobs(hashes: readonly Uint8Array[]): Promise<RawBlob[]> {
    const query = this.#db.query<RawBlob, [Uint8Array]>("SELECT hash, bytes FROM blobs WHERE hash = ?");
    return hashes.map((hash) => query.get(hash)).filter((blob) => blob !== null);
  }

  async settings() {
    return this.#db.query<{ name: string; value: string }, []>("SELECT name, value FROM settings ORDER BY name").all();
  }

  async countEvents(): Promise<number> {
    return (
      this.#db.query<{ count: number }, []>("SELECT coalesce(sum(version), 0) AS count FROM streams").get()?.count ?? 0
    );
  }

  async write({ name, version, headline }: RawStream, events: readonly StoredEvent[]): Promise<void> {
    const row = this.#db.query<{ id: number }, [string, number, string | null]>(
      `INSERT INTO streams (name, version, seq, headline)
       VALUES (?1, ?2, (SELECT coalesce(max(seq), 0) + 1 FROM streams), ?3)
       ON CONFLICT (name) DO UPDATE SET version = excluded.version, seq = excluded.seq, headline = excluded.headline
       RETURNING id`,
    );
    const insert = this.#db.query<unknown, [number, number, string, number, number, Uint8Array]>(
      "INSERT INTO events (stream_id, version, type, time, crc, data) VALUES (?, ?, ?, ?, ?, ?)",
    );
    this.#db
      .transaction(() => {
        const id = row.get(name, version, headline)?.id as number;
        for (const event of events) insert.run(id, event.version, event.type, event.time, event.crc, event.data);
      })
      .immediate();
  }

  async putBlobs(blobs: readonly RawBlob[]): Promise<void> {
    const insert = this.#db.query<unknown, [Uint8Array, Uint8Array]>(
      "INSERT OR IGNORE INTO blobs (hash, bytes) VALUES (?, ?)",
    );
    this.#db.transaction(() => blobs.forEach(({ hash, bytes }) => void insert.run(hash, bytes))).immediate();
  }

  async putSetting(name: string, value: string): Promise<void> {
    const text = "INSERT INTO settings (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2";
    this.#db.query<unknown, [string, string]>(text).run(name, value);
  }

  async dropSetting(name: string): Promise<void> {
    this.#db.query<unknown, [string]>("DELETE FROM settings WHERE name = ?").run(name);
  }

  async close(): Promise<void> {
    this.#db.close();
  }
}
