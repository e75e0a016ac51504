/**
 * `data:` URIs as contracts write them: base64 and percent-encoded by the book, and text that was never encoded at all.
 * In: the URI. Out: its media type and bytes.
 */
import { MetadataFailure } from "./outcome.ts";
import { repaired } from "./repair.ts";

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
  return /^\s*\{\s*"/.test(text) && (isJson(text) || isJson(repaired(text) ?? ""));
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const STRING = /"[^"\\]*(?:\\.[^"\\]*)*"/gs;
/** A string that is a URI: its escapes are its own. */
const URI_STRING = /^"\s*(?:[a-z][a-z0-9+.-]*:|\/\/)/i;

/**
 * Raw JSON, where only `#` may have been encoded, since a URI would end there. Where a `#` stands as it is, none was; and
 * the escapes of URIs in the JSON belong to them.
 */
function withNumberSigns(json: string): string {
  if (json.includes("#") || !json.includes("%23")) return json;
  return json.replace(STRING, (string) => (URI_STRING.test(string) ? string : string.replaceAll("%23", "#")));
}

/** Values of base64's digits in both of its alphabets, by character. */
const [NO_DIGIT, SPACE, PADDING] = [-1, -2, -3];
const DIGITS = new Int8Array(256).fill(NO_DIGIT);
for (const [value, digit] of [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"].entries()) {
  DIGITS[digit.charCodeAt(0)] = value;
}
for (const [one, other] of ["-+", "_/"]) {
  DIGITS[(one as string).charCodeAt(0)] = DIGITS[(other as string).charCodeAt(0)] as number;
}
for (const space of " \t\n\v\f\r") DIGITS[space.charCodeAt(0)] = SPACE;
DIGITS["=".charCodeAt(0)] = PADDING;

/** Spaces anywhere and any padding are tolerated. One pass: whoever wrote it decides how long it is. */
function base64Decode(text: string): Uint8Array {
  const source = text.includes("%") ? percentDecode(text) : encoder.encode(text);
  let end = source.length;
  while (end > 0 && (DIGITS[source[end - 1] as number] as number) <= SPACE) end--;
  const target = new Uint8Array(Math.floor((end * 3) / 4));
  let [length, bits, count] = [0, 0, 0];
  for (let i = 0; i < end; i++) {
    const digit = DIGITS[source[i] as number] as number;
    if (digit === SPACE) continue;
    if (digit < 0) throw new MetadataFailure("bad_encoding", "not base64");
    bits = ((bits & 0x3f) << 6) | digit;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    target[length++] = bits >> count;
  }
  return target.subarray(0, length);
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
      ? encoder.encode(withNumberSigns(text))
      : percentDecode(text);
  if (bytes.length > maxBytes) throw new MetadataFailure("too_large");
  const charset = names.find((name) => name.startsWith("charset="))?.slice("charset=".length);
  return { mimetype: type.trim().toLowerCase(), charset, bytes };
}
