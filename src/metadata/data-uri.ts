/**
 * Decodes `data:` URIs as contracts write them: base64, percent-encoded, or text that is not encoded at all. In: the
 * URI. Out: its media type and bytes.
 */
import { MetadataFailure } from "./outcome.ts";
import { repaired } from "./repair.ts";

export interface Inline {
  /** Lower case, without parameters; "" if the URI has none. */
  readonly mimetype: string;
  /** Value of the charset parameter, if there is one. */
  readonly charset: string | undefined;
  readonly bytes: Uint8Array;
}

/** Longest media type with parameters: four times the longest registered one. */
const MAX_HEAD = 512;
const encoder = new TextEncoder();

/** Decodes valid percent escapes and leaves the rest: a lone `%` is text more often than an error. */
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
 * True if the text is JSON that is not encoded. An encoder would have escaped the quotes. Decoding raw JSON would turn
 * escapes of URIs inside it into invalid JSON.
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
/** A JSON string that holds a URI, which owns its escapes. */
const URI_STRING = /^"\s*(?:[a-z][a-z0-9+.-]*:|\/\/)/i;

/**
 * Decodes `%23` in raw JSON: `#` may be the only encoded character, because a URI would end there. If the text has a
 * plain `#`, nothing was encoded. Escapes inside URIs stay, because they belong to those.
 */
function withNumberSigns(json: string): string {
  if (json.includes("#") || !json.includes("%23")) return json;
  return json.replace(STRING, (string) => (URI_STRING.test(string) ? string : string.replaceAll("%23", "#")));
}

/** Values of base64 digits in both alphabets, by character code. */
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

/** Tolerates white space anywhere and any padding. One pass, because the author decides the length. */
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

/** Decodes a `data:` URI with content of at most `maxBytes`. @throws MetadataFailure */
export function parseDataUri(uri: string, maxBytes: number): Inline {
  const comma = uri.indexOf(",");
  if (comma < 0 || comma > MAX_HEAD)
    throw new MetadataFailure("invalid_uri", "a data URI without a comma after its media type");
  // Base64 is a third longer than its content, percent-encoding up to three times as long.
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
