/**
 * The PostgreSQL schema as numbered migrations. A released one never changes. Streams are never joined, so both large
 * tables can be partitioned by stream later.
 */
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
];
