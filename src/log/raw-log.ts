/**
 * A log as rows, for the copy between engines: what is stored is moved as it is, damaged records included, with its
 * versions and times. The event log itself can't do that: it sets the times of appends and refuses damaged records.
 */
import { Database } from "bun:sqlite";
import { existsSync } from "node:fs";
import { type ReservedSQL, SQL } from "bun";
import { AppError, messageOf } from "../core/errors.ts";
import { assertRegularFile } from "../core/files.ts";
import { Secrets, secretsOfPassword } from "../core/secrets.ts";
import type { StreamName } from "../events/types.ts";
import { serverOf } from "./event-log.ts";
import { eventValues, POSTGRES_MIGRATIONS } from "./postgres-statements.ts";
import type { StoredEvent } from "./records.ts";
import { MIGRATIONS } from "./sqlite-schema.ts";

export interface RawStream {
  readonly name: StreamName;
  readonly version: number;
  /** JSON, or null. */
  readonly headline: string | null;
}

interface RawBlob {
  /** SHA-256, as the log says. */
  readonly hash: Uint8Array;
  readonly bytes: Uint8Array;
}

interface RawEvents {
  readonly stream: StreamName;
  /** First version. */
  readonly from: number;
  /** Last version. */
  readonly to: number;
}

export interface RawReader {
  /** Streams by name, after `after`. */
  streams(after: string, limit: number): Promise<RawStream[]>;
  stream(name: StreamName): Promise<RawStream | undefined>;
  /** Records by version, not verified, at least one if there is one, else up to 4 MiB. Missing ones are left out. */
  events(range: RawEvents): Promise<StoredEvent[]>;
  /** Hashes of blobs in their order, after `after`. */
  hashes(after: Uint8Array, limit: number): Promise<Uint8Array[]>;
  /** The blobs of these hashes that are stored. */
  blobs(hashes: readonly Uint8Array[]): Promise<RawBlob[]>;
  settings(): Promise<{ readonly name: string; readonly value: string }[]>;
  /** Events in all streams, for the progress; includes those that are left behind. */
  countEvents(): Promise<number>;
  close(): Promise<void>;
}

export interface RawWriter extends RawReader {
  /** Stores records and moves the stream's row to `version`, in one transaction. */
  write(stream: RawStream, events: readonly StoredEvent[]): Promise<void>;
  putBlobs(blobs: readonly RawBlob[]): Promise<void>;
  putSetting(name: string, value: string): Promise<void>;
  dropSetting(name: string): Promise<void>;
}

/** Records and bytes of one read. */
const RAW_ROWS = 1_000;
const RAW_BYTES = 4 * 1024 * 1024;

/** A setting of a log into which a copy was begun, until the copy has ended. No service may start on such a log. */
export const UNFINISHED_COPY = "copy-unfinished";

// PostgreSQL, over a connection of its own.

const CONNECT_SECONDS = 10;

/** Opens a log for reading: one state of it, however much is appended meanwhile. @throws AppError */
export async function openRawPostgres(url: string): Promise<RawReader> {
  const raw = await open(url);
  try {
    await raw.begin();
    return raw;
  } catch (error) {
    await raw.close();
    throw error;
  }
}

/** Opens a log for writing; `openLog` must have made it. @throws AppError */
export const openRawPostgresWriter = (url: string): Promise<RawWriter> => open(url);

async function open(url: string): Promise<RawPostgres> {
  const sql = new SQL(url, { max: 1, connectionTimeout: CONNECT_SECONDS });
  try {
    return new RawPostgres(sql, await sql.reserve());
  } catch (error) {
    await sql.close();
    throw new AppError(`${serverOf(url)}: ${messageOf(error, new Secrets(secretsOfPassword(url)))}`, {
      code: "log_unavailable",
      cause: error,
    });
  }
}

type EventRow = Omit<StoredEvent, "time" | "crc"> & { readonly time: string; readonly crc: string };

class RawPostgres implements RawWriter {
  readonly #sql: SQL;
  readonly #one: ReservedSQL;

  constructor(sql: SQL, one: ReservedSQL) {
    this.#sql = sql;
    this.#one = one;
  }

  /** Begins a snapshot of the log. @throws AppError if this release has another schema */
  async begin(): Promise<void> {
    await this.#ask("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", []);
    const found = await this.#ask<{ id: number | null }>("SELECT max(id) AS id FROM migrations", []).catch(() => []);
    const schema = found[0]?.id;
    if (schema === POSTGRES_MIGRATIONS.length) return;
    const what =
      schema == null ? "no event log" : `an event log of schema ${schema}, not ${POSTGRES_MIGRATIONS.length}`;
    const text = `the database has ${what}; start the service on it with this release first`;
    throw new AppError(text, { code: "log_unavailable" });
  }

  #ask<T>(text: string, parameters: unknown[]): Promise<T[]> {
    return this.#one.unsafe<T[]>(text, parameters);
  }

  streams(after: string, limit: number): Promise<RawStream[]> {
    return this.#ask("SELECT name, version, headline FROM streams WHERE name > $1 ORDER BY name LIMIT $2", [
      after,
      limit,
    ]);
  }

  async stream(name: string): Promise<RawStream | undefined> {
    return (await this.#ask<RawStream>("SELECT name, version, headline FROM streams WHERE name = $1", [name]))[0];
  }

  async events({ stream, from, to }: RawEvents): Promise<StoredEvent[]> {
    const rows = await this.#ask<EventRow>(
      `SELECT version, type, time, crc, data FROM (
         SELECT page.*, sum(octet_length(data)) OVER (ORDER BY version) - octet_length(data) AS before
         FROM (SELECT version, type, time, crc, data FROM events
               WHERE stream_id = (SELECT id FROM streams WHERE name = $1) AND version BETWEEN $2 AND $3
               ORDER BY version LIMIT $4) AS page
       ) AS sized WHERE before < $5 ORDER BY version`,
      [stream, from, to, RAW_ROWS, RAW_BYTES],
    );
    return rows.map((row) => ({ ...row, time: Number(row.time), crc: Number(row.crc) }));
  }

  async hashes(after: Uint8Array, limit: number): Promise<Uint8Array[]> {
    const text = "SELECT hash FROM blobs WHERE hash > $1 ORDER BY hash LIMIT $2";
    return (await this.#ask<{ hash: Uint8Array }>(text, [after, limit])).map(({ hash }) => hash);
  }

  async blobs(hashes: readonly Uint8Array[]): Promise<RawBlob[]> {
    if (hashes.length === 0) return [];
    const names = JSON.stringify(hashes.map((hash) => Buffer.from(hash).toString("hex")));
    return this.#ask(
      `SELECT hash, bytes FROM blobs
       WHERE hash IN (SELECT decode(jsonb_array_elements_text($1::text::jsonb), 'hex')) ORDER BY hash`,
      [names],
    );
  }

  settings(): Promise<{ name: string; value: string }[]> {
    return this.#ask("SELECT name, value FROM settings ORDER BY name", []);
  }

  async countEvents(): Promise<number> {
    const [row] = await this.#ask<{ count: string }>("SELECT coalesce(sum(version), 0) AS count FROM streams", []);
    return Number(row?.count ?? 0);
  }

  async write({ name, version, headline }: RawStream, events: readonly StoredEvent[]): Promise<void> {
    const parameters: unknown[] = [name, version, headline];
    const values = eventValues(events, parameters);
    const written =
      events.length === 0
        ? ""
        : `, written AS (
             INSERT INTO events (stream_id, version, type, time, crc, data)
             SELECT moved.id, v.version, v.type, v.time, v.crc, v.data
             FROM moved, (VALUES ${values}) AS v (version, type, time, crc, data))`;
    await this.#ask(
      `WITH moved AS (
         INSERT INTO streams (name, version, seq, headline) VALUES ($1, $2::integer, nextval('streams_seq'), $3::text)
         ON CONFLICT (name) DO UPDATE SET version = excluded.version, seq = excluded.seq, headline = excluded.headline
         RETURNING id)${written} SELECT id FROM moved`,
      parameters,
    );
  }

  async putBlobs(blobs: readonly RawBlob[]): Promise<void> {
    const parameters = blobs.flatMap(({ hash, bytes }) => [hash, bytes]);
    const values = blobs.map((_, at) => `($${2 * at + 1}::bytea, $${2 * at + 2}::bytea)`);
    if (blobs.length === 0) return;
    await this.#ask(`INSERT INTO blobs (hash, bytes) VALUES ${values.join(", ")} ON CONFLICT DO NOTHING`, parameters);
  }

  async putSetting(name: string, value: string): Promise<void> {
    const text = "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = $2";
    await this.#ask(text, [name, value]);
  }

  async dropSetting(name: string): Promise<void> {
    await this.#ask("DELETE FROM settings WHERE name = $1", [name]);
  }

  async close(): Promise<void> {
    this.#one.release();
    await this.#sql.close({ timeout: 1 });
  }
}

// SQLite. Writes only to a log that no service uses; `sqlite-writer.ts` is the writer of a live one.

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
