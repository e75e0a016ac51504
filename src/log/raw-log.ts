/**
 * A log as rows, for the copy between engines: what is stored is moved as it is, damaged records included, with its
 * versions and times. The event log itself can't do that: it sets the times of appends and refuses damaged records.
 */
import type { StreamName } from "../events/types.ts";
import type { StoredEvent } from "./records.ts";

export interface RawStream {
  readonly name: StreamName;
  readonly version: number;
  /** JSON, or null. */
  readonly headline: string | null;
}

export interface RawBlob {
  /** SHA-256, as the log says. */
  readonly hash: Uint8Array;
  readonly bytes: Uint8Array;
}

export interface RawEvents {
  readonly stream: StreamName;
  /** First version. */
  readonly from: number;
  /** Last version. */
  readonly to: number;
}

/** Blobs as rows: those of a log's table, or of a store. */
export interface RawBlobs {
  /** Hashes of blobs in their order, after `after`. */
  hashes(after: Uint8Array, limit: number): Promise<Uint8Array[]>;
  /** The blobs of these hashes that are stored. */
  blobs(hashes: readonly Uint8Array[]): Promise<RawBlob[]>;
  putBlobs(blobs: readonly RawBlob[]): Promise<void>;
}

export interface RawReader extends Pick<RawBlobs, "hashes" | "blobs"> {
  /** Streams by name, after `after`. */
  streams(after: string, limit: number): Promise<RawStream[]>;
  stream(name: StreamName): Promise<RawStream | undefined>;
  /** Records by version, not verified, at least one if there is one, else up to 4 MiB. Missing ones are left out. */
  events(range: RawEvents): Promise<StoredEvent[]>;
  settings(): Promise<{ readonly name: string; readonly value: string }[]>;
  /** Events in all streams, for the progress; includes those that are left behind. */
  countEvents(): Promise<number>;
  close(): Promise<void>;
}

export interface RawWriter extends RawReader, RawBlobs {
  /** Stores records and moves the stream's row to `version`, in one transaction. */
  write(stream: RawStream, events: readonly StoredEvent[]): Promise<void>;
  putSetting(name: string, value: string): Promise<void>;
  dropSetting(name: string): Promise<void>;
}

/** Records and bytes of one read. */
export const RAW_ROWS = 1_000;
export const RAW_BYTES = 4 * 1024 * 1024;

/** A setting of a log into which a copy was begun, until the copy has ended. No service may start on such a log. */
export const UNFINISHED_COPY = "copy-unfinished";
