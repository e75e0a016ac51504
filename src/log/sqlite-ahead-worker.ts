/**
 * Reads pages of a SQLite log on a thread of its own. In: `AheadRequest` messages, the first with the file's path. Out:
 * one `AheadReply` each; the memory of the records is transferred, not copied.
 */
import { Database } from "bun:sqlite";
import type { Recorded } from "../events/types.ts";
import { type EventPage, type PageRequest, readPage } from "./sqlite-schema.ts";

export type AheadRequest =
  | { readonly op: "open"; readonly path: string }
  | ({ readonly op: "read"; readonly id: number } & PageRequest)
  | { readonly op: "close" };

/** The page is undefined if it could not be read. The caller then reads it itself and gets the error. */
export type AheadReply = { readonly id: number; readonly page: EventPage | undefined } | { readonly closed: true };

declare const self: Worker;

let database: Database | undefined;

/** The buffers of a record that can be transferred. */
function memoryOf({ event }: Recorded): ArrayBuffer[] {
  return event.type === "TransfersCommitted" ? [event.transfers.buffer as ArrayBuffer] : [];
}

function tryToRead(request: PageRequest): EventPage | undefined {
  try {
    return database === undefined ? undefined : readPage(database, request);
  } catch {
    return undefined;
  }
}

self.onmessage = ({ data: request }: MessageEvent<AheadRequest>) => {
  if (request.op === "open") {
    database = new Database(request.path, { readonly: true, strict: true });
    database.run("PRAGMA busy_timeout = 5000");
    return;
  }
  if (request.op === "close") {
    database?.close();
    self.postMessage({ closed: true } satisfies AheadReply);
    return;
  }
  const page = tryToRead(request);
  const handed = new Set(page?.events.flatMap(memoryOf));
  self.postMessage({ id: request.id, page } satisfies AheadReply, [...handed]);
};
