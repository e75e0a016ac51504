/**
 * The event-log port. One implementation per engine passes one contract suite (`test/log/contract.ts`). Versions of a
 * stream start at 1 and have no gaps; version 0 is the stream nobody has written.
 */
import type { Hash } from "../core/hex.ts";
import type { DomainEvent, Recorded, StreamName } from "../events/types.ts";

/** A small derived summary kept on the stream's row, replaced by each append that carries one; JSON. */
export type Headline = Readonly<Record<string, string | number | boolean | null>>;

export interface Append {
  readonly stream: StreamName;
  readonly events: readonly DomainEvent[];
  /** The version the writer believes the stream is at; 0 for a stream that must not exist yet. */
  readonly expectedVersion: number;
  readonly headline?: Headline;
  /**
   * Another stream that must be at this very version: what is written goes by it. A writer that was paused and is behind
   * it is refused even where its own stream did not move.
   */
  readonly guard?: { readonly stream: StreamName; readonly version: number };
}

export interface StreamHead {
  readonly stream: StreamName;
  readonly version: number;
  readonly headline: Headline | undefined;
}

/** Either the new version, or the error that refused this append; the other appends of the call are not touched. */
export type AppendOutcome = { readonly version: number } | { readonly error: Error };

export interface ReadOptions {
  /** First version wanted; 1 by default. */
  readonly from?: number;
  /** At most so many events; 1,000 by default. */
  readonly limit?: number;
  /** Stops after the record that exceeds so many bytes; 8 MiB by default. At least one event is returned. */
  readonly maxBytes?: number;
  /** The page after this one is asked for next, alike: an engine may begin to read it. */
  readonly isReadingOn?: boolean;
}

/** Some of the blobs that were asked for. */
export interface BlobPage {
  readonly blobs: Map<Hash, Uint8Array>;
  /** How many of the hashes were looked up, from the first one on: of these, what is not among the blobs is not stored. */
  readonly read: number;
}

/**
 * Hears hints that a stream grew, here or in another process: they may come late, twice or not at all (then the poll of
 * the tail makes up for it within a second). With an append of this process, durable by then, come its events, once; the
 * last of them has that version.
 */
export type WakeUpListener = (stream: StreamName, version: number, appended?: readonly Recorded[]) => void;

export interface EventLog {
  readonly engine: "sqlite" | "postgres";

  /**
   * Appends all events or none, and resolves with the new version once they are durable.
   * @throws ConcurrencyError when the stream is not at `expectedVersion`, or the guard's not at its version; it names
   * the stream
   */
  append(append: Append): Promise<number>;

  /** Several independent appends with one wait for durability; each succeeds or fails alone. */
  appendAll(appends: readonly Append[]): Promise<AppendOutcome[]>;

  /** Events in order of version; an empty list past the end. @throws InvariantError on a damaged record */
  read(stream: StreamName, options?: ReadOptions): Promise<Recorded[]>;

  /** The newest events, newest first, below version `before` (exclusive; the end by default). */
  readBackwards(stream: StreamName, options: { before?: number; limit: number }): Promise<Recorded[]>;

  /** The stream's version and headline; version 0 when nobody wrote it. */
  head(stream: StreamName): Promise<StreamHead>;

  /** Versions of many streams in one query; streams nobody wrote are left out. */
  heads(streams: readonly StreamName[]): Promise<StreamHead[]>;

  /** Streams whose name starts with `prefix`, by name, after `after`. */
  streams(prefix: string, options: { after?: string; limit: number }): Promise<StreamHead[]>;

  /** Returns the unsubscriber. */
  subscribe(listener: WakeUpListener): () => void;

  /** Stores bytes under their SHA-256 (hex with 0x), once. */
  putBlob(bytes: Uint8Array): Promise<Hash>;
  getBlob(hash: Hash): Promise<Uint8Array | undefined>;
  /**
   * Those of the hashes that are stored, looked up in their order until what was found exceeds `maxBytes` (8 MiB by
   * default): one round trip to a server, one look-up a hash on SQLite. At least one is looked up where there is one.
   */
  getBlobs(hashes: readonly Hash[], maxBytes?: number): Promise<BlobPage>;

  /** Takes or renews the lease `name`; false when another holder's has not run out. Time is the log's own clock. */
  acquireLease(name: string, holder: string, ttlMs: number): Promise<boolean>;
  releaseLease(name: string, holder: string): Promise<void>;

  /** A value kept with the log: the first writer wins, everybody reads the winner's. */
  setting(name: string, initial: () => string): Promise<{ value: string; created: boolean }>;

  close(): Promise<void>;
}
