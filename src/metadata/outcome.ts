/**
 * The documents of outcomes in the blob table, and when a token is fetched again.
 */
import type { Hash } from "../core/hex.ts";
import type { EventLog } from "../log/event-log.ts";
import type { MetadataBook } from "./book.ts";
import { isPermanent } from "./resolve/failure.ts";

/** The blob that an outcome's hash names. */
export interface OutcomeDocument {
  /** The URI as the contract returned it; null if it returned none. With `inline`, only the part before the body. */
  readonly uri: string | null;
  /** Hash of the blob with the JSON text, if the URI led to JSON. */
  readonly body?: Hash;
  /** How the body follows `uri`: as text or in base64. So a drawing of a megabyte inside the URI is stored once. */
  readonly inline?: "text" | "base64";
  /** URI of the picture, if the token's URI led to a picture instead of JSON. */
  readonly image?: string;
}

/** The document of a URI that led to JSON. Other encodings are not unique, so such a URI is stored whole. */
function documentOf(uri: string, text: string, body: Hash): OutcomeDocument {
  const before = (end: string): string => uri.slice(0, uri.length - end.length);
  if (uri.endsWith(text)) return { uri: before(text), body, inline: "text" };
  const base64 = Buffer.from(text).toString("base64");
  return uri.endsWith(base64) ? { uri: before(base64), body, inline: "base64" } : { uri, body };
}

/** The URI as the contract returned it. */
export function wholeUri({ uri, inline }: OutcomeDocument, body: Uint8Array | undefined): string | null {
  if (uri === null || inline === undefined) return uri;
  // Return no URI rather than a truncated one.
  if (body === undefined) return null;
  return uri + (inline === "text" ? decoder.decode(body) : Buffer.from(body).toString("base64"));
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The hash of a blob in the blob table. */
export const hashOf = (blob: Uint8Array): Hash =>
  `0x${new Bun.CryptoHasher("sha256").update(blob).digest("hex")}` as Hash;

export const toBlob = (document: object): Uint8Array => encoder.encode(JSON.stringify(document));
export const fromBlob = <T>(bytes: Uint8Array): T => JSON.parse(decoder.decode(bytes)) as T;

/** A stored document, and the bytes stored for it: none if it is one of the token's current documents. */
interface Stored {
  readonly hash: Hash;
  readonly bytes: number;
}

/** Stores a document. @param known hashes of the token's current documents */
export async function storeDocument(
  log: EventLog,
  document: OutcomeDocument,
  known: readonly Hash[],
  bodyBytes = 0,
): Promise<Stored> {
  const blob = toBlob(document);
  const hash = await log.putBlob(blob);
  return { hash, bytes: known.includes(hash) ? 0 : blob.length + bodyBytes };
}

/** Stores the JSON text that a URI led to, and its document. */
export async function storeText(
  log: EventLog,
  { uri, text }: { uri: string; text: string },
  known: readonly Hash[],
): Promise<Stored> {
  const bytes = encoder.encode(text);
  const body = await log.putBlob(bytes);
  const document = documentOf(uri, text, body);
  if (document.inline !== undefined && known.length > 0) {
    // Older logs store the URI whole. Keep such a document, so that its token does not count as changed.
    const whole = hashOf(toBlob({ uri, body } satisfies OutcomeDocument));
    if (known.includes(whole)) return { hash: whole, bytes: 0 };
  }
  return storeDocument(log, document, known, bytes.length);
}

const FIRST_RETRY_MS = 2_000;
/** First backoff after a failure caused by the URI itself, which does not pass in seconds. */
const FIRST_STUBBORN_RETRY_MS = 3_600_000;
const MAX_RETRY_MS = 3 * 86_400_000;
/** Least time between two refreshes of a token that clients read. */
export const MIN_REFRESH_MS = 600_000;
/** A token that clients read is refreshed after this time at the latest. */
const MAX_REFRESH_MS = 7 * 86_400_000;

/** Backoff in ms after so many consecutive failures: from seconds to days. */
export function retryMs(failures: number, stubborn: boolean): number {
  const first = stubborn ? FIRST_STUBBORN_RETRY_MS : FIRST_RETRY_MS;
  return Math.min(MAX_RETRY_MS, first * 2 ** Math.min(40, Math.max(0, failures - 1)));
}

/** When a failed slot is due again, in ms since the epoch; undefined if its last attempt did not fail. */
export function retryAt(book: MetadataBook, slot: number): number | undefined {
  const failures = book.failures(slot);
  if (failures === 0) return undefined;
  const newest = book.newest(slot);
  if (newest?.reason === undefined) return undefined;
  // Jitter of up to a quarter, so that slots that failed at the same time are not due at the same time.
  const spread = 1 + (slot % 16) / 64;
  return newest.time + retryMs(failures, isPermanent(newest.reason)) * spread;
}

/** True if the slot should be fetched again when a client reads it: less often the longer its content is unchanged. */
export function isRefreshDue(book: MetadataBook, slot: number, now: number): boolean {
  const newest = book.newest(slot);
  if (newest === undefined) return true;
  const quiet = newest.reason === undefined ? newest.time - book.unchangedSince(slot) : 0;
  return now - newest.time >= Math.min(MAX_REFRESH_MS, Math.max(MIN_REFRESH_MS, quiet));
}
