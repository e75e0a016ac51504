/**
 * Turns a stored metadata body into the JSON text of a page: body, normalised fields, and the URI of the picture. Pure,
 * so that it runs here or in the parse worker: a megabyte of many small values takes 0.1 s.
 */
import { isNestedWithin } from "./nesting.ts";
import { bareMetadata, type JsonValue, type NormalizedMetadata, normalize } from "./normalize.ts";

/** The parts of a token's text that come from its body. */
export interface BodyWords {
  /** JSON string of the body's text, or `null`. */
  readonly metadata: string;
  /** JSON of the normalised fields. */
  readonly normalized: string;
  /** URI of the picture, or of the animation if there is none. */
  readonly image: string | null;
}

const decoder = new TextDecoder();

/** The text of a token without a body, with at most a picture. */
export const wordsOfImage = (image: string | null): BodyWords => wordsOf(bareMetadata(image));

/** The text of a body that can't be normalised. */
export const NO_WORDS: BodyWords = { metadata: "null", normalized: JSON.stringify(bareMetadata(null)), image: null };

/** The text of a stored body. */
export function wordsOfBody(bytes: Uint8Array): BodyWords {
  const body = decoder.decode(bytes);
  const fields = fieldsOf(body);
  return fields === undefined ? NO_WORDS : { ...wordsOf(fields), metadata: JSON.stringify(body) };
}

function wordsOf(fields: NormalizedMetadata): BodyWords {
  return { metadata: "null", normalized: JSON.stringify(fields), image: fields.image ?? fields.animation_url };
}

/** Undefined for an invalid body. The log should have none, but one must not make its whole page fail. */
function fieldsOf(body: string): NormalizedMetadata | undefined {
  try {
    const value = JSON.parse(body) as { readonly [key: string]: JsonValue };
    return isNestedWithin(value) ? normalize(value) : undefined;
  } catch {
    return undefined;
  }
}
