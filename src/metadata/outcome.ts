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
  /** As the contract gave it; null when it gave none. */
  readonly uri: string | null;
  /** Blob of the JSON text, when the URI led to JSON. */
  readonly body?: Hash;
  /** The picture's URI, when the URI led to no JSON but to a picture. */
  readonly image?: string;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export const toBlob = (document: object): Uint8Array => encoder.encode(JSON.stringify(document));
export const fromBlob = <T>(bytes: Uint8Array): T => JSON.parse(decoder.decode(bytes)) as T;
