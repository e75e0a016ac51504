/**
 * The event log on SQLite, the embedded default. Writes go through the writer worker. Reads use a read-only connection
 * of this thread or of the read-ahead worker; with WAL, readers and the writer don't block each other. This is not
 * Bun.SQL, which runs all statements on one SQLite connection, so that a write could join an unrelated transaction.
 */
import { Database } from "bun:sqlite";
import { statfsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { assertRegularFile } from "../core/bounded-files.ts";
import type { Clock } from "../core/clock.ts";
import { AppError, ConcurrencyError, InvariantError, messageOf } from "../core/errors.ts";
import { makePrivate, makePrivateFile, makePrivateFolder } from "../core/files.ts";
import type { Hash } from "../core/hex.ts";
import type { Logger } from "../core/logger.ts";
import type { Recorded, StreamName } from "../events/types.ts";
import type {
  Append,
  AppendOutcome,
  BlobPage,
  Blobs,
  EventLog,
  HeadlineChange,
  HeldLease,
  KeepBlobs,
  LogStatus,
  LogTail,
  ReadOptions,
  StreamHead,
  WakeUpListener,
} from "./event-log.ts";
import {
  fromStored,
  type HeadRow,
  READ_LIMIT,
  READ_MAX_BYTES,
  type StoredAppend,
  type StoredEvent,
  toHead,
  toRecorded,
  toStored,
} from "./records.ts";
import { SqliteAhead } from "./sqlite-ahead.ts";
import { SqliteBlobs } from "./sqlite-blobs.ts";
import { readPage } from "./sqlite-schema.ts";
import type { AppendReply } from "./sqlite-writer.ts";
import { WriterClient } from "./sqlite-writer-client.ts";
import { WakeUps } from "./wake-ups.ts";

/** Interval of the poll that finds appends of other processes. */
const POLL_MS = 1_000;

/** From this size on, the buffer of a record is transferred to the writer, because a copy would take longer. */
const LARGE_BYTES = 32 * 1024;

interface SqliteOptions {
  readonly path: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly keepBlobs?: KeepBlobs | undefined;
}

/** Opens the log at `path` and creates it if it is missing. @throws AppError `log_unavailable` */
export async function openSqliteLog(options: SqliteOptions): Promise<EventLog> {
  if (options.path !== ":memory:") makeFiles(options);
  const writer = new WriterClient(options);
  try {
    await writer.call({ op: "open", path: options.path });
    return new SqliteLog(options, writer);
  } catch (error) {
    writer.terminate();
    throw named(error, options.path);
  }
}

/**
 * Makes the folder and an empty file, which nobody else may read: the log holds hashes of keys and the secret of cursors.
 * SQLite gives the files beside it the same rights.
 */
function makeFiles({ path, logger }: SqliteOptions): void {
  assertRegularFile(path);
  try {
    makePrivateFolder(dirname(path));
    const arePrivate = [makePrivateFile(path), makePrivate(`${path}-wal`), makePrivate(`${path}-shm`)];
    if (arePrivate.includes(false)) logger.warn({}, "other users may read the event log, and its file is not ours");
  } catch (error) {
    throw new AppError(`${path}: the event log is not available: ${messageOf(error)}`, {
      code: "log_unavailable",
      cause: error,
    });
  }
}

/** The same error with the file's path in its message: an operator may have several logs. */
function named(error: unknown, path: string): unknown {
  if (!(error instanceof AppError)) return error;
  const { code, retryable, meta, message } = error;
  return new AppError(`${path}: ${message}`, { code, retryable, meta, cause: error });
}

/** Free bytes below which SQLite can't be relied on to write: one transaction of a backfill. */
const LEAST_FREE_BYTES = 16 * 1024 * 1024;

class SqliteLog implements EventLog {
  readonly engine = "sqlite";
  readonly blobFile: string | undefined;
  readonly #path: string;
  readonly #clock: Clock;
  readonly #writer: WriterClient;
  readonly #reader: Database;
  readonly #ahead: SqliteAhead;
  readonly #blobs: Blobs;
  readonly #wakeUps: WakeUps;
  #seenSeq: number;
  #tail: LogTail;
  #dataVersion = -1;
  #cancelPoll: () => void;
  #closed = false;

  constructor({ path, clock, logger, keepBlobs }: SqliteOptions, writer: WriterClient) {
    this.#path = path;
    this.#clock = clock;
    this.#tail = { polledMs: clock.monotonic(), latencyMs: 0, isListening: false };
    this.#writer = writer;
    this.#reader = new Database(path, { readonly: true, strict: true });
    this.#reader.run("PRAGMA busy_timeout = 5000");
    this.#ahead = new SqliteAhead(path);
    const table = new SqliteBlobs(writer, this.#reader);
    this.#blobs = keepBlobs?.(this, table) ?? table;
    this.blobFile = keepBlobs === undefined ? path : undefined;
    this.#wakeUps = new WakeUps((error) => logger.error({ err: error }, "a log subscriber failed"));
    this.#seenSeq =
      this.#reader.query<{ seq: number | null }, []>("SELECT max(seq) AS seq FROM streams").get()?.seq ?? 0;
    this.#cancelPoll = this.#schedulePoll(logger);
  }

  #schedulePoll(logger: Logger): () => void {
    return this.#clock.after(POLL_MS, () => {
      if (this.#closed) return;
      try {
        this.#poll();
      } catch (error) {
        logger.warn({ err: error }, "polling the log's tail failed");
      }
      this.#cancelPoll = this.#schedulePoll(logger);
    });
  }

  /** Notifies listeners of each stream that grew since the last poll, in any process. */
  #poll(): void {
    const sentMs = this.#clock.monotonic();
    this.#readTail();
    this.#tail = { polledMs: sentMs, latencyMs: this.#clock.monotonic() - sentMs, isListening: false };
  }

  #readTail(): void {
    const version = this.#reader.query<{ data_version: number }, []>("PRAGMA data_version").get()?.data_version ?? 0;
    if (version === this.#dataVersion) return;
    this.#dataVersion = version;
    const rows = this.#reader
      .query<{ name: string; version: number; seq: number }, [number]>(
        "SELECT name, version, seq FROM streams WHERE seq > ? ORDER BY seq",
      )
      .all(this.#seenSeq);
    for (const row of rows) {
      this.#seenSeq = row.seq;
      this.#wakeUps.notify(row.name as StreamName, row.version);
    }
  }

  async append(append: Append): Promise<number> {
    const [outcome] = await this.appendAll([append]);
    if (outcome === undefined || "error" in outcome) throw outcome?.error ?? new InvariantError("no append outcome");
    return outcome.version;
  }

  async appendAll(appends: readonly Append[]): Promise<AppendOutcome[]> {
    const time = this.#clock.now();
    const stored = appends.map((append) => toStored(append, time));
    const large = stored.flatMap(({ events }) => events.filter(({ data }) => data.length >= LARGE_BYTES));
    const handed = large.map(({ data }) => data.buffer as ArrayBuffer);
    const replies = (await this.#writer.call({ op: "append", appends: stored }, handed)) as AppendReply;
    return appends.map((append, index) => {
      const { stream, expectedVersion, events, guard } = append;
      const reply = replies[index];
      if (reply === undefined) return { error: new InvariantError("the writer lost an append", { stream }) };
      if (reply.guarded !== undefined && guard !== undefined) {
        return { error: new ConcurrencyError(guard.stream, guard.version, reply.guarded) };
      }
      if (!reply.appended) return { error: new ConcurrencyError(stream, expectedVersion, reply.version) };
      if (events.length > 0) {
        this.#wakeUps.notify(stream, reply.version, toRecorded(append, stored[index] as StoredAppend));
      }
      return { version: reply.version };
    });
  }

  async read(stream: StreamName, options: ReadOptions = {}): Promise<Recorded[]> {
    const { from = 1, limit = READ_LIMIT, maxBytes = READ_MAX_BYTES, isReadingOn = false } = options;
    const request = { stream, from, limit, maxBytes };
    const { events, isFull } = (await this.#ahead.take(request)) ?? readPage(this.#reader, request);
    if (isReadingOn && isFull) this.#ahead.begin({ ...request, from: from + events.length });
    return events;
  }

  async readBackwards(stream: StreamName, options: { before?: number; limit: number }): Promise<Recorded[]> {
    const rows = this.#reader
      .query<StoredEvent, [string, number, number]>(
        `SELECT version, type, time, crc, data FROM events
         WHERE stream_id = (SELECT id FROM streams WHERE name = ?) AND version < ? ORDER BY version DESC LIMIT ?`,
      )
      .all(stream, options.before ?? Number.MAX_SAFE_INTEGER, options.limit);
    return rows.map((row) => fromStored(stream, row));
  }

  async head(stream: StreamName): Promise<StreamHead> {
    const query = this.#reader.query<HeadRow, [string]>("SELECT name, version, headline FROM streams WHERE name = ?");
    return toHead(query.get(stream) ?? { name: stream, version: 0, headline: null });
  }

  async checksum(stream: StreamName, version: number): Promise<number | undefined> {
    const query = this.#reader.query<{ crc: number }, [string, number]>(
      "SELECT crc FROM events WHERE stream_id = (SELECT id FROM streams WHERE name = ?) AND version = ?",
    );
    return query.get(stream, version)?.crc;
  }

  async heads(streams: readonly StreamName[]): Promise<StreamHead[]> {
    const query = this.#reader.query<HeadRow, [string]>(
      "SELECT name, version, headline FROM streams WHERE name IN (SELECT value FROM json_each(?))",
    );
    return query.all(JSON.stringify(streams)).map(toHead);
  }

  async streams(prefix: string, options: { after?: string; limit: number }): Promise<StreamHead[]> {
    // The upper bound is the prefix with its last character incremented: a range of the name's index, without LIKE.
    const last = prefix.length - 1;
    const end = prefix.slice(0, last) + String.fromCharCode(prefix.charCodeAt(last) + 1);
    const query = this.#reader.query<HeadRow, [string, string, string, number]>(
      "SELECT name, version, headline FROM streams WHERE name >= ? AND name < ? AND name > ? ORDER BY name LIMIT ?",
    );
    return query.all(prefix, end, options.after ?? "", options.limit).map(toHead);
  }

  async replaceHeadline({ stream, version, headline, guard }: HeadlineChange): Promise<boolean> {
    const operation = { op: "headline", stream, version, headline: JSON.stringify(headline), guard } as const;
    const isReplaced = (await this.#writer.call(operation)) as boolean;
    if (isReplaced) this.#wakeUps.notify(stream, version);
    return isReplaced;
  }

  get tail(): LogTail {
    return this.#tail;
  }

  get isAnswering(): boolean {
    return !this.#writer.isDead && !this.#writer.isBlocked;
  }

  subscribe(listener: WakeUpListener): () => void {
    return this.#wakeUps.subscribe(listener);
  }

  putBlob(bytes: Uint8Array): Promise<Hash> {
    return this.#blobs.putBlob(bytes);
  }

  getBlob(hash: Hash): Promise<Uint8Array | undefined> {
    return this.#blobs.getBlob(hash);
  }

  getBlobs(hashes: readonly Hash[], maxBytes?: number): Promise<BlobPage> {
    return this.#blobs.getBlobs(hashes, maxBytes);
  }

  async acquireLease(name: string, holder: string, ttlMs: number): Promise<boolean> {
    return (await this.#writer.call({ op: "lease", name, holder, ttlMs })) as boolean;
  }

  async releaseLease(name: string, holder: string): Promise<void> {
    await this.#writer.call({ op: "release", name, holder });
  }

  async leases(): Promise<HeldLease[]> {
    const query = this.#reader.query<HeldLease, [number]>(
      "SELECT name, holder FROM leases WHERE expires_at > ? ORDER BY name",
    );
    return query.all(this.#clock.now());
  }

  async status(): Promise<LogStatus> {
    this.#writer.probe();
    const sizeOf = (path: string) => statSync(path, { throwIfNoEntry: false })?.size ?? 0;
    const { bavail, bsize } = statfsSync(dirname(this.#path));
    const freeBytes = bavail * bsize;
    const newest = this.#reader
      .query<{ time: number }, []>(
        `SELECT time FROM events WHERE stream_id = (SELECT id FROM streams ORDER BY seq DESC LIMIT 1)
         ORDER BY version DESC LIMIT 1`,
      )
      .get();
    return {
      bytes: sizeOf(this.#path) + sizeOf(`${this.#path}-wal`),
      freeBytes,
      isWritable: this.isAnswering && !this.#writer.isHeldUp && freeBytes > LEAST_FREE_BYTES,
      lastAppendAt: newest?.time,
    };
  }

  async findSetting(name: string): Promise<string | undefined> {
    const query = this.#reader.query<{ value: string }, [string]>("SELECT value FROM settings WHERE name = ?");
    return query.get(name)?.value;
  }

  async setting(name: string, initial: () => string): Promise<{ value: string; created: boolean }> {
    const found = await this.findSetting(name);
    if (found !== undefined) return { value: found, created: false };
    const written = await this.#writer.call({ op: "setting", name, value: initial() });
    return written as { value: string; created: boolean };
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#cancelPoll();
    // The last connection to close moves the WAL into the file. The read-only connection can't, so it closes first.
    this.#reader.close();
    await this.#ahead.close();
    await this.#writer.call({ op: "close" });
    this.#writer.terminate();
  }
}
