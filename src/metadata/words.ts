/**
 * What a body of metadata says, in the words of a page: its text as JSON, its normalised fields, its picture's URI. Pure,
 * so that it runs here or in the parser's worker: a megabyte made of many small values takes a tenth of a second.
 */
import { isNestedWithin } from "./nesting.ts";
import { bareMetadata, type JsonValue, type NormalizedMetadata, normalize } from "./normalize.ts";

/** What a body puts into a token's text. */
export interface BodyWords {
  /** JSON of the metadata's text, or `null`. */
  readonly metadata: string;
  /** JSON of the normalised fields. */
  readonly normalized: string;
  /** The picture's URI, else the animation's. */
  readonly image: string | null;
}

const decoder = new TextDecoder();

/** The words of metadata that is nothing but, perhaps, a picture. */
export const wordsOfImage = (image: string | null): BodyWords => wordsOf(bareMetadata(image));

/** Of a body that cannot be put into words. */
export const NO_WORDS: BodyWords = { metadata: "null", normalized: JSON.stringify(bareMetadata(null)), image: null };

/** The words of a stored body. */
export function wordsOfBody(bytes: Uint8Array): BodyWords {
  const body = decoder.decode(bytes);
  const fields = fieldsOf(body);
  return fields === undefined ? NO_WORDS : { ...wordsOf(fields), metadata: JSON.stringify(body) };
}

function wordsOf(fields: NormalizedMetadata): BodyWords {
  return { metadata: "null", normalized: JSON.stringify(fields), image: fields.image ?? fields.animation_url };
}

/** Undefined for a body that should not have got into the log: one like it must not cost the others of its page theirs. */
function fieldsOf(body: string): NormalizedMetadata | undefined {
  try {
    const value = JSON.parse(body) as { readonly [key: string]: JsonValue };
    return isNestedWithin(value) ? normalize(value) : undefined;
  } catch {
    return undefined;
  }
}
