/** The schema of the PostgreSQL log as numbered migrations, and the statement of an append. */
import type { TransactionSQL } from "bun";
import { AppError, InvariantError } from "../core/errors.ts";
import type { StreamName } from "../events/types.ts";
import type { Append } from "./event-log.ts";
import type { PostgresConnections } from "./postgres-connections.ts";
import { assertReadable, assertRights, assertUsable } from "./postgres-rights.ts";
import type { StoredAppend, StoredEvent } from "./records.ts";

export const POSTGRES_MIGRATIONS: readonly (readonly string[])[] = [
  [
    "CREATE SEQUENCE streams_seq",
    // The collation "C" compares bytes, so prefix scans use the index in any locale.
    `CREATE TABLE streams (
       id bigserial PRIMARY KEY,
       name text COLLATE "C" NOT NULL UNIQUE,
       version integer NOT NULL,
       seq bigint NOT NULL,
       headline text
     )`,
    "CREATE INDEX streams_by_seq ON streams (seq)",
    `CREATE TABLE events (
       stream_id bigint NOT NULL,
       version integer NOT NULL,
       type text NOT NULL,
       time bigint NOT NULL,
       crc bigint NOT NULL,
       data bytea NOT NULL,
       PRIMARY KEY (stream_id, version)
     )`,
    // Transfer columns are dense already; PostgreSQL's own compression would only cost time.
    "ALTER TABLE events ALTER COLUMN data SET STORAGE EXTERNAL",
    "CREATE TABLE blobs (hash bytea PRIMARY KEY, bytes bytea NOT NULL)",
    "CREATE TABLE leases (name text PRIMARY KEY, holder text NOT NULL, expires_at timestamptz NOT NULL)",
    "CREATE TABLE settings (name text PRIMARY KEY, value text NOT NULL)",
  ],
  // 2, since 1.0.0. No table changed. 0.1.0 can't read the events of keys, of new indexes and of removals, so it must refuse
  // the log at its start.
  [],
  // 3, since 1.1.0. No table changed. 1.0.0 can't read keys with quotas, bills, and collections in doubt.
  [],
];

/** Key of the lock held while migrating, so that replicas that start together don't both create tables. */
const MIGRATION_LOCK = 7_310_881;
/** Ends the transaction of a trial. */
const ROLLBACK = new AppError("the migration was tried only", { code: "internal" });

/**
 * Brings the schema up to date, after checking that the database can hold the log.
 * @throws AppError that names the way out; InvariantError if a newer release has written the schema
 */
export const migrate = (connections: PostgresConnections): Promise<void> =>
  connections.transaction(async (tx) => void (await migrateIn(tx)));

/** Does what `migrate` does, and keeps nothing. Returns the number of migrations that a start would apply. */
export async function tryMigration(connections: PostgresConnections): Promise<number> {
  let missing = 0;
  try {
    await connections.transaction(async (tx) => {
      missing = await migrateIn(tx);
      throw ROLLBACK;
    });
  } catch (error) {
    if (error !== ROLLBACK) throw error;
  }
  return missing;
}

/** Returns the number of applied migrations. */
async function migrateIn(tx: TransactionSQL): Promise<number> {
  const ask = <T>(text: string) => tx.unsafe<T[]>(text);
  await assertUsable(ask);
  await tx.unsafe(`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})`);
  await tx.unsafe("CREATE TABLE IF NOT EXISTS migrations (id integer PRIMARY KEY, applied_at timestamptz NOT NULL)");
  await assertReadable(ask);
  const rows: { id: number }[] = await tx.unsafe("SELECT id FROM migrations");
  const applied = new Set(rows.map((row) => row.id));
  const newest = Math.max(0, ...applied);
  if (newest > POSTGRES_MIGRATIONS.length) {
    throw new InvariantError(
      `the event log has schema ${newest}, this release knows up to ${POSTGRES_MIGRATIONS.length}`,
    );
  }
  let missing = 0;
  for (const [index, statements] of POSTGRES_MIGRATIONS.entries()) {
    if (applied.has(index + 1)) continue;
    for (const statement of statements) await tx.unsafe(statement);
    await tx.unsafe("INSERT INTO migrations (id, applied_at) VALUES ($1, now())", [index + 1]);
    missing++;
  }
  await assertRights(ask);
  return missing;
}

/**
 * The statement of an append: it moves the stream's row from the expected version to the new one and adds the events, or
 * changes nothing and returns no row.
 * @param seenOf the newest record that this process has seen of a stream
 * @param channel to notify, if the engine can
 */
export function appendStatement(
  { stream, expectedVersion, guard, events }: Append,
  stored: StoredAppend,
  seenOf: (stream: StreamName) => { readonly version: number; readonly checksum: number } | undefined,
  channel: string | undefined,
): { readonly text: string; readonly parameters: unknown[] } {
  const version = expectedVersion + events.length;
  const parameters: unknown[] = [stream, expectedVersion, version, stored.headline ?? null];
  const values = eventValues(stored.events, parameters);
  // After a log went back, another writer may have brought the stream to the same version with other records.
  const isSeenLast = (of: StreamName, at: number): string => {
    const seen = seenOf(of);
    if (seen === undefined || seen.version !== at) return "";
    return ` AND EXISTS (SELECT 1 FROM events WHERE stream_id = streams.id AND version = streams.version
                         AND crc = $${parameters.push(seen.checksum)}::bigint)`;
  };
  // Lock the guard's row until the commit, so that its stream can't move in between.
  const guarded = guard === undefined ? "" : " AND EXISTS (SELECT 1 FROM guard)";
  const guardRow =
    guard === undefined
      ? ""
      : `guard AS (SELECT 1 FROM streams WHERE name = $${parameters.push(guard.stream)}::text
                   AND version = $${parameters.push(guard.version)}::integer${isSeenLast(guard.stream, guard.version)}
                   FOR SHARE), `;
  const claim =
    expectedVersion === 0
      ? `INSERT INTO streams (name, version, seq, headline)
         SELECT $1, $3::integer, nextval('streams_seq'), $4::text WHERE $2::integer = 0${guarded}
         ON CONFLICT (name) DO NOTHING RETURNING id`
      : `UPDATE streams SET version = $3::integer, seq = nextval('streams_seq'), headline = coalesce($4::text, headline)
         WHERE name = $1 AND version = $2::integer${isSeenLast(stream, expectedVersion)}${guarded} RETURNING id`;
  const text = `WITH ${guardRow}claimed AS (${claim}),
     written AS (
       INSERT INTO events (stream_id, version, type, time, crc, data)
       SELECT claimed.id, v.version, v.type, v.time, v.crc, v.data
       FROM claimed, (VALUES ${values}) AS v (version, type, time, crc, data)
     )
     SELECT id${channel === undefined ? "" : `, pg_notify('${channel}', $1 || ' ' || $3::text)`} FROM claimed`;
  return { text, parameters };
}

/** The rows of events for `VALUES`. Adds their fields to the parameters. */
export function eventValues(events: readonly StoredEvent[], parameters: unknown[]): string {
  const rows = events.map((event) => {
    const at = parameters.length;
    parameters.push(event.version, event.type, event.time, event.crc, event.data);
    return `($${at + 1}::integer, $${at + 2}::text, $${at + 3}::bigint, $${at + 4}::bigint, $${at + 5}::bytea)`;
  });
  return rows.join(", ");
}
