/** Reads pages of a SQLite log's events, for the request thread and for the read-ahead worker. */
import type { Database } from "bun:sqlite";
import type { Recorded, StreamName } from "../events/types.ts";
import { assertGapless, fromStored, type StoredEvent } from "./records.ts";

export interface PageRequest {
  readonly stream: StreamName;
  readonly from: number;
  readonly limit: number;
  readonly maxBytes: number;
}

export interface Page {
  readonly events: Recorded[];
  /** True if the page ended at `maxBytes`, so that there may be more. */
  readonly isFull: boolean;
}

/** Reads a page and verifies it. @throws InvariantError for a damaged or missing record */
export function readPage(database: Database, { stream, from, limit, maxBytes }: PageRequest): Page {
  const query = database.query<StoredEvent, [string, number, number]>(
    `SELECT version, type, time, crc, data FROM events
     WHERE stream_id = (SELECT id FROM streams WHERE name = ?) AND version >= ? ORDER BY version LIMIT ?`,
  );
  const rows: StoredEvent[] = [];
  let bytes = 0;
  for (const row of query.iterate(stream, from, limit)) {
    rows.push(row);
    bytes += row.data.length;
    if (bytes >= maxBytes) break;
  }
  assertGapless(stream, rows, from);
  return { events: rows.map((row) => fromStored(stream, row)), isFull: bytes >= maxBytes };
}
