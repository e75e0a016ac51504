/**
 * The SQLite schema as numbered migrations. A released one never changes. `streams.seq` rises with each append, so that
 * finding the streams that grew is one range scan of its index.
 */
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
    "CREATE TABLE blobs (hash BLOB PRIMARY KEY, bytes BLOB NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE TABLE leases (name TEXT PRIMARY KEY, holder TEXT NOT NULL, expires_at INTEGER NOT NULL) STRICT",
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
  ],
];
