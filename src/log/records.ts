/** Shared by both engines: domain events to stored rows and back (with the checksum verified), and bounds of reads. */
import { InvariantError, invariant } from "../core/errors.ts";
import { checksum, decodeEvent, encodeEvent } from "../events/codec.ts";
import type { DomainEvent, Recorded, StreamName } from "../events/types.ts";
import type { Append, Headline, StreamHead } from "./event-log.ts";

/** One event as a row; `crc` covers stream, version, type, time and data. */
export interface StoredEvent {
  readonly version: number;
  readonly type: string;
  readonly time: number;
  readonly crc: number;
  readonly data: Uint8Array;
}

/** An append ready for an engine. */
export interface StoredAppend {
  readonly stream: StreamName;
  readonly expectedVersion: number;
  /** JSON, or undefined to keep the present one. */
  readonly headline: string | undefined;
  readonly guard: Append["guard"];
  readonly events: readonly StoredEvent[];
}

/** Default bounds of one read: enough to hydrate quickly, small enough for one slice of the event loop. */
export const READ_LIMIT = 1_000;
export const READ_MAX_BYTES = 8 * 1024 * 1024;

/** Rows of an append; `time` is the time of the append in ms. */
export function toStored(append: Append, time: number): StoredAppend {
  const { stream, expectedVersion, headline, guard } = append;
  return {
    stream,
    guard,
    expectedVersion,
    headline: headline === undefined ? undefined : JSON.stringify(headline),
    events: append.events.map((event, index) => {
      const version = expectedVersion + index + 1;
      const data = encodeEvent(event);
      return { version, type: event.type, time, crc: checksum(stream, version, event.type, time, data), data };
    }),
  };
}

/** The events of an append as a later read returns them. */
export function toRecorded({ stream, events }: Append, stored: StoredAppend): Recorded[] {
  return stored.events.map(({ version, time, crc }, index) => {
    return { stream, version, time, checksum: crc, event: events[index] as DomainEvent };
  });
}

/** The event of a row. @throws InvariantError naming stream and version if the checksum does not match */
export function fromStored(stream: StreamName, row: StoredEvent): Recorded {
  const { version, type, time, data, crc } = row;
  if (checksum(stream, version, type, time, data) !== crc) {
    throw new InvariantError("a record of the event log is damaged: its checksum does not match", { stream, version });
  }
  return { stream, version, time, checksum: crc, event: decodeEvent(type, data) };
}

/** Asserts that versions are consecutive, starting at `first`. */
export function assertGapless(stream: StreamName, rows: readonly { version: number }[], first: number): void {
  rows.forEach((row, index) => {
    if (row.version !== first + index) {
      throw new InvariantError("a record of the event log is missing", { stream, version: first + index });
    }
  });
}

/** A stream's row. */
export interface HeadRow {
  name: string;
  version: number;
  headline: string | null;
}

/** The head of a stream's row. @throws InvariantError naming the stream if its headline is no JSON object */
export function toHead({ name, version, headline }: HeadRow): StreamHead {
  const stream = name as StreamName;
  return { stream, version, headline: parseHeadline(stream, headline) };
}

function parseHeadline(stream: StreamName, json: string | null): Headline | undefined {
  if (json === null) return undefined;
  let headline: unknown;
  try {
    headline = JSON.parse(json);
  } catch {
    // Falls through to the invariant below, which names the stream.
  }
  const isFields = typeof headline === "object" && headline !== null && !Array.isArray(headline);
  invariant(isFields, "the headline of a stream is damaged: it is no JSON object", { stream });
  return headline as Headline;
}
