/**
 * `data:` URIs as contracts write them: base64 and percent-encoded by the book, and text that was never encoded at all.
 * In: the URI. Out: its media type and bytes.
 */
import { MetadataFailure } from "./outcome.ts";

export interface Inline {
  /** Lower case, without parameters; "" when the URI does not say. */
  readonly mimetype: string;
  /** Label of the charset parameter, when there is one. */
  readonly charset: string | undefined;
  readonly bytes: Uint8Array;
}

/** A media type and its parameters: the longest that is registered has a quarter of this. */
const MAX_HEAD = 512;
const encoder = new TextEncoder();

/** Percent-decodes what is well-formed and leaves the rest: a lone `%` is text more often than an error. */
function percentDecode(text: string): Uint8Array {
  const source = encoder.encode(text);
  const target = new Uint8Array(source.length);
  let length = 0;
  for (let i = 0; i < source.length; i++) {
    const byte = source[i] as number;
    const high = byte === 0x25 ? hexDigit(source[i + 1]) : -1;
    const low = high >= 0 ? hexDigit(source[i + 2]) : -1;
    if (low >= 0) {
      target[length++] = high * 16 + low;
      i += 2;
    } else target[length++] = byte;
  }
  return target.subarray(0, length);
}

function hexDigit(code: number | undefined): number {
  if (code === undefined) return -1;
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const lower = code | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}

/**
 * Whether the text was put in as it is. A writer who encodes at all encodes quotes; decoding raw JSON would turn the
 * escapes of URIs inside it into broken JSON.
 */
function isRawJson(text: string): boolean {
  if (!/^\s*\{\s*"/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function base64Decode(text: string): Uint8Array {
  const plain = text.includes("%") ? new TextDecoder().decode(percentDecode(text)) : text;
  const spaced = plain.replace(/\s+/g, "");
  // No expression: one that looks for the run at the end tries each run from each of its places.
  let end = spaced.length;
  while (spaced[end - 1] === "=") end--;
  const digits = spaced.slice(0, end);
  if (!/^[A-Za-z0-9+/_-]*$/.test(digits)) throw new MetadataFailure("bad_encoding", "not base64");
  return new Uint8Array(Buffer.from(digits, "base64"));
}

/** The content of a `data:` URI of at most `maxBytes`. @throws MetadataFailure */
export function parseDataUri(uri: string, maxBytes: number): Inline {
  const comma = uri.indexOf(",");
  if (comma < 0 || comma > MAX_HEAD)
    throw new MetadataFailure("invalid_uri", "a data URI without a comma where it belongs");
  // Base64 is a third longer than its content, percent-encoding at most three times.
  if (uri.length - comma > maxBytes * 3) throw new MetadataFailure("too_large");
  const [type = "", ...parameters] = uri.slice("data:".length, comma).split(";");
  const text = uri.slice(comma + 1);
  const names = parameters.map((parameter) => parameter.trim().toLowerCase());
  const bytes = names.includes("base64")
    ? base64Decode(text)
    : isRawJson(text)
      ? encoder.encode(text)
      : percentDecode(text);
  if (bytes.length > maxBytes) throw new MetadataFailure("too_large");
  const charset = names.find((name) => name.startsWith("charset="))?.slice("charset=".length);
  return { mimetype: type.trim().toLowerCase(), charset, bytes };
}
