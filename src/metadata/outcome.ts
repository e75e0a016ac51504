/**
 * What asking for a token's metadata can come to, and the small documents that say so in the blob table. A failure is
 * a value with a reason, not an exception: hostile content is an everyday case here.
 */
import type { Hash } from "../core/hex.ts";
import type { MetadataReason } from "../events/types.ts";

/** Thrown inside this folder only, and turned into an outcome at its edge. */
export class MetadataFailure extends Error {
  readonly reason: MetadataReason;

  /** `cause`: an error nobody expected, which is a defect of ours. */
  constructor(reason: MetadataReason, detail = "", cause?: unknown) {
    super(detail === "" ? reason : `${reason}: ${detail}`, cause === undefined ? undefined : { cause });
    this.name = "MetadataFailure";
    this.reason = reason;
  }
}

/** Reasons that another attempt at the same URI cannot change soon: the next one waits an hour, not seconds. */
const STUBBORN: ReadonlySet<MetadataReason> = new Set<MetadataReason>([
  "no_uri",
  "invalid_uri",
  "unsupported_scheme",
  "credentials_in_url",
  "forbidden_port",
  "forbidden_address",
  "too_many_redirects",
  "too_large",
  "bad_encoding",
  "not_json",
  "not_an_object",
]);

export const isStubborn = (reason: MetadataReason): boolean => STUBBORN.has(reason);

/** The blob a resolved or failed token's hash names. */
export interface OutcomeDocument {
  /** As the contract gave it; null when it gave none. Where the body is inline, what stands before it. */
  readonly uri: string | null;
  /** Blob of the JSON text, when the URI led to JSON. */
  readonly body?: Hash;
  /** The URI goes on with the body, as it is or in base64: a drawing of a megabyte is stored once. */
  readonly inline?: "text" | "base64";
  /** The picture's URI, when the URI led to no JSON but to a picture. */
  readonly image?: string;
}

/** The document of a token whose URI led to a JSON text. Of other encodings more than one may be the URI's. */
export function documentOf(uri: string, text: string, body: Hash): OutcomeDocument {
  const before = (end: string): string => uri.slice(0, uri.length - end.length);
  if (uri.endsWith(text)) return { uri: before(text), body, inline: "text" };
  const base64 = Buffer.from(text).toString("base64");
  return uri.endsWith(base64) ? { uri: before(base64), body, inline: "base64" } : { uri, body };
}

/** The URI as the contract gave it. */
export function wholeUri({ uri, inline }: OutcomeDocument, body: Uint8Array | undefined): string | null {
  if (uri === null || inline === undefined) return uri;
  // Half of it would be taken for what the contract said.
  if (body === undefined) return null;
  return uri + (inline === "text" ? decoder.decode(body) : Buffer.from(body).toString("base64"));
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The name `toBlob`'s bytes have in the blob table. */
export const hashOf = (blob: Uint8Array): Hash =>
  `0x${new Bun.CryptoHasher("sha256").update(blob).digest("hex")}` as Hash;

export const toBlob = (document: object): Uint8Array => encoder.encode(JSON.stringify(document));
export const fromBlob = <T>(bytes: Uint8Array): T => JSON.parse(decoder.decode(bytes)) as T;
