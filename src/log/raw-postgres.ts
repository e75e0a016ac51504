/** A PostgreSQL log as rows, for the copy between engines, over a connection of its own. */
import type { ReservedSQL, SQL } from "bun";
import { AppError, messageOf } from "../core/errors.ts";
import { Secrets, secretsOfPassword } from "../core/secrets.ts";
import { serverOf } from "./event-log.ts";
import { eventValues, POSTGRES_MIGRATIONS } from "./postgres-statements.ts";
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
  const sql = new Bun.SQL(url, { max: 1, connectionTimeout: CONNECT_SECONDS });
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

type RawEventRow = Omit<StoredEvent, "time" | "crc"> & { readonly time: string; readonly crc: string };

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
    const rows = await this.#ask<RawEventRow>(
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
