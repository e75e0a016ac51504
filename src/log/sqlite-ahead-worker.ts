/**
 * Reads pages of a SQLite log on a thread of its own. In: `AheadRequest` messages, the first with the file's path. Out: one
 * `AheadReply` each; records are handed over, not copied.
 */
import { Database } from "bun:sqlite";
import type { Recorded } from "../events/types.ts";
import { type Page, type PageRequest, readPage } from "./sqlite-rows.ts";

export type AheadRequest =
  | { readonly op: "open"; readonly path: string }
  | ({ readonly op: "read"; readonly id: number } & PageRequest)
  | { readonly op: "close" };

/** Without a page where it could not be read: whoever wants it finds out why by reading it. */
export type AheadReply = { readonly id: number; readonly page: Page | undefined } | { readonly closed: true };

declare const self: Worker;

let database: Database | undefined;

/** The memory of the records, as far as a record has one of its own. */
function memoryOf({ event }: Recorded): ArrayBuffer[] {
  return event.type === "TransfersCommitted" ? [event.transfers.buffer as ArrayBuffer] : [];
}

function tryToRead(request: PageRequest): Page | undefined {
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
