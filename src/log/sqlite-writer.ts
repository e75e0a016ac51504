/**
 * The only writer of a SQLite log, in a worker of its own so that the request thread never waits for an fsync. Requests
 * that arrive during a transaction share the next one, and so share its wait for durability.
 * In: `WriterRequest` messages. Out: one `WriterReply` each. No other file writes to the database.
 */
import { Database } from "bun:sqlite";
import type { HeadlineChange } from "./event-log.ts";
import type { StoredAppend } from "./records.ts";
import { migrateSqlite } from "./sqlite-schema.ts";

interface HeadlineWrite extends Pick<HeadlineChange, "stream" | "version"> {
  readonly guard: HeadlineChange["guard"] | undefined;
  /** JSON. */
  readonly headline: string;
}

export type WriterOperation =
  | { readonly op: "open"; readonly path: string }
  | { readonly op: "append"; readonly appends: readonly StoredAppend[] }
  | ({ readonly op: "headline" } & HeadlineWrite)
  | { readonly op: "blob"; readonly hash: Uint8Array; readonly bytes: Uint8Array }
  | { readonly op: "lease"; readonly name: string; readonly holder: string; readonly ttlMs: number }
  | { readonly op: "release"; readonly name: string; readonly holder: string }
  | { readonly op: "setting"; readonly name: string; readonly value: string }
  /** Stores nothing. It succeeds if the file can be written. */
  | { readonly op: "probe" }
  | { readonly op: "close" };

type WriterRequest = WriterOperation & { readonly id: number };

/** Per append: the stream's version, whether the append was made, and the guard's version if that refused it. */
export type AppendReply = readonly {
  readonly version: number;
  readonly appended: boolean;
  readonly guarded?: number | undefined;
}[];

export type WriterReply =
  | { readonly id: number; readonly result: unknown }
  | { readonly id: number; readonly error: string; readonly sqliteCode: string | undefined };

/** Longest wait for another process's write transaction; far above any of ours. */
const BUSY_TIMEOUT_MS = 10_000;

declare const self: Worker;

let database: Database | undefined;
const queue: WriterRequest[] = [];

function open(path: string): void {
  const db = new Database(path, { create: true, readwrite: true, strict: true });
  db.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
  db.run("PRAGMA journal_mode = WAL");
  db.run("PRAGMA synchronous = FULL");
  db.run("PRAGMA foreign_keys = ON");
  db.transaction(() => migrateSqlite(db, Date.now())).immediate();
  database = db;
}

function append(db: Database, appends: readonly StoredAppend[]): AppendReply {
  const find = db.query<{ id: number; version: number }, [string]>("SELECT id, version FROM streams WHERE name = ?");
  const next = db.query<{ seq: number }, []>("SELECT coalesce(max(seq), 0) + 1 AS seq FROM streams");
  const create = db.query<{ id: number }, [string, number]>(
    "INSERT INTO streams (name, version, seq) VALUES (?, 0, ?) RETURNING id",
  );
  const insert = db.query<unknown, [number, number, string, number, number, Uint8Array]>(
    "INSERT INTO events (stream_id, version, type, time, crc, data) VALUES (?, ?, ?, ?, ?, ?)",
  );
  const advance = db.query<unknown, [number, number, string | null, number]>(
    "UPDATE streams SET version = ?, seq = ?, headline = coalesce(?, headline) WHERE id = ?",
  );
  return appends.map(({ stream, expectedVersion, headline, guard, events }) => {
    const row = find.get(stream);
    const version = row?.version ?? 0;
    if (version !== expectedVersion) return { version, appended: false };
    const guarded = guard === undefined ? undefined : (find.get(guard.stream)?.version ?? 0);
    if (guarded !== guard?.version) return { version, appended: false, guarded };
    if (events.length === 0) return { version, appended: true };
    const seq = next.get()?.seq ?? 1;
    const id = row?.id ?? create.get(stream, seq)?.id;
    if (id === undefined) throw new Error("the stream's row was not created");
    for (const event of events) insert.run(id, event.version, event.type, event.time, event.crc, event.data);
    const last = expectedVersion + events.length;
    advance.run(last, seq, headline ?? null, id);
    return { version: last, appended: true };
  });
}

/** Replaces the headline of a stream that is at `version`. Its place in the tail moves, so that other processes notice. */
function replaceHeadline(db: Database, { stream, version, headline, guard }: HeadlineWrite): boolean {
  const find = db.query<{ version: number }, [string]>("SELECT version FROM streams WHERE name = ?");
  if (guard !== undefined && (find.get(guard.stream)?.version ?? 0) !== guard.version) return false;
  const statement = db.query(
    `UPDATE streams SET headline = ?, seq = (SELECT max(seq) + 1 FROM streams) WHERE name = ? AND version = ?`,
  );
  return statement.run(headline, stream, version).changes > 0;
}

/**
 * Takes or renews a lease by the machine's clock, which may be set back. A lease that ends later than twice the ttl
 * from now was taken before such a step, by a process that then crashed, and doesn't count. A small step revokes no
 * lease.
 */
function lease(db: Database, name: string, holder: string, ttlMs: number): boolean {
  const now = Date.now();
  db.query(
    `INSERT INTO leases (name, holder, expires_at) VALUES (?1, ?2, ?3)
     ON CONFLICT (name) DO UPDATE SET holder = ?2, expires_at = ?3
     WHERE holder = ?2 OR expires_at <= ?4 OR expires_at > ?5`,
  ).run(name, holder, now + ttlMs, now, now + 2 * ttlMs);
  const row = db.query<{ holder: string }, [string]>("SELECT holder FROM leases WHERE name = ?").get(name);
  return row?.holder === holder;
}

function perform(db: Database, request: WriterRequest): unknown {
  switch (request.op) {
    case "append":
      return append(db, request.appends);
    case "headline":
      return replaceHeadline(db, request);
    case "blob":
      db.query("INSERT OR IGNORE INTO blobs (hash, bytes) VALUES (?, ?)").run(request.hash, request.bytes);
      return undefined;
    case "lease":
      return lease(db, request.name, request.holder, request.ttlMs);
    case "release":
      db.query("DELETE FROM leases WHERE name = ? AND holder = ?").run(request.name, request.holder);
      return undefined;
    case "setting": {
      const created = db
        .query("INSERT OR IGNORE INTO settings (name, value) VALUES (?, ?)")
        .run(request.name, request.value).changes;
      const row = db.query<{ value: string }, [string]>("SELECT value FROM settings WHERE name = ?").get(request.name);
      return { value: row?.value ?? "", created: created > 0 };
    }
    case "probe":
      return undefined;
    case "open":
    case "close":
      throw new Error(`${request.op} is not part of a transaction`);
  }
}

function failure(id: number, error: unknown): WriterReply {
  const code = (error as { code?: unknown }).code;
  return {
    id,
    error: error instanceof Error ? error.message : String(error),
    sqliteCode: typeof code === "string" ? code : undefined,
  };
}

/** Runs all queued requests in one transaction. If it fails, runs each alone, so that one can't fail the rest. */
function drain(): void {
  const batch = queue.splice(0);
  if (batch.length === 0) return;
  const db = database;
  if (db === undefined) {
    for (const { id } of batch) self.postMessage(failure(id, new Error("the log is not open")));
    return;
  }
  try {
    const replies = db.transaction(() => batch.map((request) => ({ id: request.id, result: perform(db, request) })));
    for (const reply of replies.immediate()) self.postMessage(reply);
  } catch (error) {
    // A lock on the file concerns all of them. Each would wait for it in turn.
    const isLocked = String((error as { code?: unknown }).code).startsWith("SQLITE_BUSY");
    if (batch.length === 1 || isLocked) {
      for (const { id } of batch) self.postMessage(failure(id, error));
      return;
    }
    for (const request of batch) {
      try {
        const result = db.transaction(() => perform(db, request)).immediate();
        self.postMessage({ id: request.id, result });
      } catch (single) {
        self.postMessage(failure(request.id, single));
      }
    }
  }
}

self.onmessage = (message: MessageEvent<WriterRequest>) => {
  const request = message.data;
  if (request.op === "open" || request.op === "close") {
    drain();
    try {
      if (request.op === "open") open(request.path);
      else {
        database?.close();
        database = undefined;
      }
      self.postMessage({ id: request.id, result: undefined });
    } catch (error) {
      self.postMessage(failure(request.id, error));
    }
    return;
  }
  queue.push(request);
  // Messages that are already waiting are delivered before the immediate runs, and join the transaction.
  if (queue.length === 1) setImmediate(drain);
};
