/**
 * The documents of outcomes in the blob table. The worker stores a token's URI and the JSON text behind it as blobs, and
 * the book keeps the document's hash. A page reads the document back and puts the URI together again.
 */
import type { Hash } from "../../core/hex.ts";
import type { EventLog } from "../../log/event-log.ts";

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

/** Bytes of the hash of a blob. */
export const HASH_BYTES = 32;

/** The hash of a blob in the blob table. */
export const hashOf = (blob: Uint8Array): Hash =>
  `0x${new Bun.CryptoHasher("sha256").update(blob).digest("hex")}` as Hash;

export const toBlob = (document: object): Uint8Array => encoder.encode(JSON.stringify(document));
export const fromBlob = <T>(bytes: Uint8Array): T => JSON.parse(decoder.decode(bytes)) as T;

/** A stored document, and the bytes stored for it: none if it is one of the token's current documents. */
interface StoredDocument {
  readonly hash: Hash;
  readonly bytes: number;
}

/** Stores a document. @param known hashes of the token's current documents */
export async function storeDocument(
  log: EventLog,
  document: OutcomeDocument,
  known: readonly Hash[],
  bodyBytes = 0,
): Promise<StoredDocument> {
  const blob = toBlob(document);
  const hash = await log.putBlob(blob);
  return { hash, bytes: known.includes(hash) ? 0 : blob.length + bodyBytes };
}

/** Stores the JSON text that a URI led to, and its document. */
export async function storeText(
  log: EventLog,
  { uri, text }: { uri: string; text: string },
  known: readonly Hash[],
): Promise<StoredDocument> {
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
