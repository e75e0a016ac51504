/**
 * The event-log port. Both engines implement it and pass one contract suite (`test/support/log-contract.ts`). Versions of a
 * stream start at 1 and have no gaps. An unwritten stream has version 0.
 */
import { ConcurrencyError } from "../core/errors.ts";
import type { Hash } from "../core/hex.ts";
import type { DomainEvent, Recorded, StreamName } from "../events/types.ts";

/** Host and port of a PostgreSQL log's server: the part of its URL that is no secret. */
export function serverOf(url: string): string {
  const { hostname, port } = new URL(url);
  return `${hostname}:${port || 5_432}`;
}

/** A small summary derived from a stream's events, as JSON on the stream's row. An append may replace it. */
export type Headline = Readonly<Record<string, string | number | boolean | null>>;

export interface Append {
  readonly stream: StreamName;
  readonly events: readonly DomainEvent[];
  /** The version at which the writer believes the stream to be; 0 for a stream that must not exist yet. */
  readonly expectedVersion: number;
  readonly headline?: Headline;
  /**
   * Another stream that this append depends on: it must be at exactly this version. So a writer that was paused and
   * fell behind that stream is refused even if its own stream did not move.
   */
  readonly guard?: { readonly stream: StreamName; readonly version: number };
}

export interface StreamHead {
  readonly stream: StreamName;
  readonly version: number;
  readonly headline: Headline | undefined;
}

/** A headline in place of another one, for what is known of a stream without an event. */
export interface HeadlineChange extends Pick<Append, "stream" | "guard"> {
  /** The version at which the stream must be. It stays there. */
  readonly version: number;
  readonly headline: Headline;
}

/** Either the new version, or the error that refused this append. The other appends of the call are unaffected. */
export type AppendOutcome = { readonly version: number } | { readonly error: Error };

export interface ReadOptions {
  /** First version to read; 1 by default. */
  readonly from?: number;
  /** Maximum number of events; 1,000 by default. */
  readonly limit?: number;
  /** Stops after the record that exceeds this many bytes; 8 MiB by default. Returns at least one event. */
  readonly maxBytes?: number;
  /** True if the caller will read the next page with the same options. The engine may then read ahead. */
  readonly isReadingOn?: boolean;
}

/** Some of the requested blobs. */
export interface BlobPage {
  readonly blobs: Map<Hash, Uint8Array>;
  /** Number of hashes looked up, from the first one on. A hash among these without a blob is not stored. */
  readonly read: number;
}

/**
 * Receives hints that a stream grew, in this process or another. A hint may be late, repeated or lost; the poll of the
 * tail makes up for a lost one within a second. The hint of an append by this process comes once, after the append is
 * durable, and carries its events; `version` is that of the last one.
 */
export type WakeUpListener = (stream: StreamName, version: number, appended?: readonly Recorded[]) => void;

/** What the last successful poll of the log's tail has found. */
export interface LogTail {
  /** Monotonic time when it was sent. Listeners have got a hint of everything that was appended before. */
  readonly polledMs: number;
  /** Time until it was answered, in ms. */
  readonly latencyMs: number;
  /** True if hints of other processes' appends arrive between the polls. */
  readonly isListening: boolean;
}

/** A lease that has not run out. */
export interface HeldLease {
  readonly name: string;
  readonly holder: string;
}

/** The log as an operator sees it. */
export interface LogStatus {
  /** Bytes on disk, with indexes and blobs. */
  readonly bytes: number;
  /** Bytes left on the disk; undefined if the engine doesn't tell. */
  readonly freeBytes: number | undefined;
  /** False if the log takes no appends: the disk is full, or the server is a standby. */
  readonly isWritable: boolean;
  /** Time of the newest event of the stream that changed last, in ms since the epoch. Undefined for an empty log. */
  readonly lastAppendAt: number | undefined;
}

/** Bytes by their SHA-256: the documents and pictures that events name. In the log's own table, or in a store beside it. */
export interface Blobs {
  /** Stores bytes under their SHA-256 (hex with 0x), once. */
  putBlob(bytes: Uint8Array): Promise<Hash>;
  getBlob(hash: Hash): Promise<Uint8Array | undefined>;
  /**
   * The stored blobs among the hashes, looked up in order until they exceed `maxBytes` (8 MiB by default). Looks up at
   * least one. Costs one round trip to a server, or one look-up per hash on SQLite and
   * in a store.
   */
  getBlobs(hashes: readonly Hash[], maxBytes?: number): Promise<BlobPage>;
}

/** Where an engine keeps its blobs. @param table the log's own table */
export type KeepBlobs = (log: Pick<EventLog, "setting" | "findSetting">, table: Blobs) => Blobs;

export interface EventLog extends Blobs {
  readonly engine: "sqlite" | "postgres";

  /** False while the log refuses or leaves unanswered what it is asked. The poll of its tail finds out within a second. */
  readonly isAnswering: boolean;

  readonly tail: LogTail;

  /** The SQLite file that has all blobs, for threads that read them themselves; undefined if they are elsewhere. */
  readonly blobFile?: string | undefined;

  /**
   * Appends all events or none, and resolves with the new version once they are durable.
   * @throws ConcurrencyError naming the stream, if it is not at `expectedVersion` or the guard is not at its version
   */
  append(append: Append): Promise<number>;

  /** Several independent appends with one wait for durability; each succeeds or fails alone. */
  appendAll(appends: readonly Append[]): Promise<AppendOutcome[]>;

  /** Events in order of version; an empty list past the end. @throws InvariantError for a damaged record */
  read(stream: StreamName, options?: ReadOptions): Promise<Recorded[]>;

  /** The newest events, newest first, below version `before` (exclusive; the end by default). */
  readBackwards(stream: StreamName, options: { before?: number; limit: number }): Promise<Recorded[]>;

  /** The stream's version and headline. An unwritten stream has version 0. */
  head(stream: StreamName): Promise<StreamHead>;

  /** Checksum of the event of a version; undefined if the stream has none. */
  checksum(stream: StreamName, version: number): Promise<number | undefined>;

  /** Versions of many streams in one query. Unwritten streams are left out. */
  heads(streams: readonly StreamName[]): Promise<StreamHead[]>;

  /** Streams whose name starts with `prefix`, by name, after `after`. */
  streams(prefix: string, options: { after?: string; limit: number }): Promise<StreamHead[]>;

  /**
   * Replaces the headline of a stream, and wakes all listeners. For facts that are derived from events, but were not
   * known when those were appended, and for the state of the work on the stream. False if the stream has moved, or the
   * guard.
   */
  replaceHeadline(change: HeadlineChange): Promise<boolean>;

  /** Returns the unsubscriber. */
  subscribe(listener: WakeUpListener): () => void;

  /** Takes or renews a lease. False while another holder's lease is valid. Time is the log's own clock. */
  acquireLease(name: string, holder: string, ttlMs: number): Promise<boolean>;
  releaseLease(name: string, holder: string): Promise<void>;
  /** The leases that are valid now, by name. */
  leases(): Promise<HeldLease[]>;

  status(): Promise<LogStatus>;

  /** A value stored with the log; undefined if none was stored. */
  findSetting(name: string): Promise<string | undefined>;

  /** A value stored with the log. The first writer wins, and every process reads the winner's value. */
  setting(name: string, initial: () => string): Promise<{ value: string; created: boolean }>;

  close(): Promise<void>;
}

/** Yields the streams with names that start with `prefix`, in the order of their names, in pages of a thousand. */
export async function* streamPages(log: Pick<EventLog, "streams">, prefix: string): AsyncGenerator<StreamHead[]> {
  for (let after = ""; ; ) {
    const page = await log.streams(prefix, { after, limit: STREAMS_PAGE });
    yield page;
    const last = page.at(-1);
    if (last === undefined || page.length < STREAMS_PAGE) return;
    after = last.stream;
  }
}

/** Like `streamPages`, one by one. */
export async function* allStreams(log: Pick<EventLog, "streams">, prefix: string): AsyncGenerator<StreamHead> {
  for await (const page of streamPages(log, prefix)) yield* page;
}

const STREAMS_PAGE = 1_000;

/** True if another writer moved the stream itself. False for a conflict of the guard, which no retry can resolve. */
export function isConflict(error: unknown, stream: StreamName): boolean {
  return error instanceof ConcurrencyError && error.stream === stream;
}

/**
 * Appends, with a retry after each conflict on the stream.
 * @param prepare returns the append for the stream's present version, or undefined if nothing is left to append. From
 * the second attempt on it must read the stream again.
 * @returns the new version; undefined if nothing was appended
 * @throws ConcurrencyError after `attempts` conflicts in a row, or for a conflict of the guard
 */
export async function appendWithRetry(
  log: EventLog,
  attempts: number,
  prepare: (attempt: number) => Promise<Append | undefined>,
): Promise<number | undefined> {
  for (let attempt = 1; ; attempt++) {
    const append = await prepare(attempt);
    if (append === undefined) return undefined;
    try {
      return await log.append(append);
    } catch (error) {
      if (!isConflict(error, append.stream) || attempt === attempts) throw error;
    }
  }
}

/** Appends, unless another writer has moved the stream. Returns false in that case. */
export async function appendUnlessMoved(log: EventLog, append: Append): Promise<boolean> {
  try {
    await log.append(append);
    return true;
  } catch (error) {
    if (!isConflict(error, append.stream)) throw error;
    return false;
  }
}
