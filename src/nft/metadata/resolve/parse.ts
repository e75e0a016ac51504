/**
 * Detects what content is: a JSON object, returned as strictly valid text, or a picture. Decodes `data:` URIs as
 * contracts write them: base64, percent-encoded, or not encoded at all. Tolerates a byte order mark, a wrong or missing
 * charset, and JSON that `json.ts` can repair; refuses everything else with a reason. Pure, so that it runs here or in
 * the worker.
 */
import { EncodingError, gunzippedSync } from "../../../core/decompress.ts";
import { utf8Text } from "../../../core/utf8.ts";
import type { MetadataReason } from "../../../events/types.ts";
import { MetadataFailure } from "./failure.ts";
import { isNestedWithin, isObject, type JsonValue, repaired } from "./json.ts";

export interface RawContent {
  /** Lower case, without parameters; "" if it is unknown. */
  readonly mimetype: string;
  readonly charset: string | undefined;
  readonly bytes: Uint8Array;
}

/** Content encoded in its URI. */
export interface InlineSource {
  readonly uri: string;
  readonly maxBytes: number;
}

export type ParseSource = RawContent | InlineSource;

export type Parsed =
  /** `isRepaired`: the text differs from the content, which is not valid JSON. */
  | { readonly kind: "json"; readonly text: string; readonly isRepaired: boolean }
  | { readonly kind: "picture"; readonly mimetype: string };

interface ParseFailure {
  readonly kind: "failed";
  readonly reason: MetadataReason;
}

/** A `Parsed`, or the reason of the failure. A plain value, because a worker can't send an exception. */
export type ParseReply = Parsed | ParseFailure;
/** A `RawContent`, or the reason of the failure. */
export type ContentReply = { readonly kind: "content"; readonly content: RawContent } | ParseFailure;

/** Leading characters that show the kind of a URI. */
const KIND_LENGTH = 16;
/** Longest media type with parameters: four times the longest registered one. */
const MAX_TYPE_LENGTH = 512;
const encoder = new TextEncoder();

/** Decodes valid percent escapes and leaves the rest: a lone `%` is text more often than an error. */
export function percentDecode(text: string): Uint8Array {
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
  return /^\s*\{\s*"/.test(text) && (jsonOf(text) !== undefined || jsonOf(repaired(text) ?? "") !== undefined);
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

/** Reads a media type with its parameters, such as `text/html; charset="utf-8"`. */
export function readMediaType(text: string) {
  const [type = "", ...rest] = text.split(";");
  const parameters = rest.map((parameter) => parameter.trim().toLowerCase());
  const charset = parameters.find((parameter) => parameter.startsWith("charset="))?.slice("charset=".length);
  return { mimetype: type.trim().toLowerCase(), charset: charset?.replace(/^"|"$/g, ""), parameters };
}

export const isGzip = (bytes: Uint8Array): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b;

/** A character that base64 has in neither alphabet. */
const NO_DIGIT = /[^\w+/-]/;

/** Tolerates white space anywhere, any padding, and both alphabets. Linear, because the author decides the length. */
function base64Decode(text: string): Uint8Array {
  const characters = text.includes("%") ? Buffer.from(percentDecode(text)).toString("latin1") : text;
  const padded = characters.replace(/[ \t\n\v\f\r]+/g, "");
  let end = padded.length;
  while (padded[end - 1] === "=") end--;
  const digits = padded.slice(0, end);
  if (NO_DIGIT.test(digits)) throw new MetadataFailure("bad_encoding", "not base64");
  return new Uint8Array(Buffer.from(digits, "base64"));
}

/** The start of JSON of an object, of SVG or of XML in base64. Neither begins with these letters itself. */
const BASE64_HEAD = /^(?:eyJ|eyA|eyd|ewo|ewk|ew0K|PHN2Z|PD94bWwg)/;

/** Decodes the content of a `data:` URI. Contracts forget the mark `base64`, or leave it on text that is not encoded. */
function decodeData(text: string, isMarked: boolean): Uint8Array {
  const start = /^\s*/.exec(text.slice(0, KIND_LENGTH))?.[0].length ?? 0;
  const head = text.slice(start, start + KIND_LENGTH);
  const isPlain = head.startsWith("{") || head.startsWith("<");
  const isBase64 = isMarked ? !isPlain : BASE64_HEAD.test(head) && !NO_DIGIT.test(text.trim().replace(/={1,2}$/, ""));
  if (isBase64) return base64Decode(text);
  return isRawJson(text) ? encoder.encode(withNumberSigns(text)) : percentDecode(text);
}

/** Decompresses gzip: files are stored compressed, and their hosts don't say so. @throws MetadataFailure */
function decompressed(bytes: Uint8Array, maxBytes: number): Uint8Array {
  if (!isGzip(bytes)) return bytes;
  try {
    return gunzippedSync(bytes, maxBytes);
  } catch (error) {
    throw gunzipFailure(error);
  }
}

export function gunzipFailure(error: unknown): MetadataFailure {
  return new MetadataFailure(error instanceof EncodingError ? "bad_encoding" : "too_large", "compression");
}

/** Decodes a `data:` URI with content of at most `maxBytes`. @throws MetadataFailure */
export function parseDataUri(uri: string, maxBytes: number): RawContent {
  const comma = uri.indexOf(",");
  if (comma < 0 || comma > MAX_TYPE_LENGTH)
    throw new MetadataFailure("invalid_uri", "a data URI without a comma after its media type");
  // Base64 is a third longer than its content, percent-encoding up to three times as long.
  if (uri.length - comma > maxBytes * 3) throw new MetadataFailure("too_large");
  const { mimetype, charset, parameters } = readMediaType(uri.slice("data:".length, comma));
  const bytes = decompressed(decodeData(uri.slice(comma + 1), parameters.includes("base64")), maxBytes);
  if (bytes.length > maxBytes) throw new MetadataFailure("too_large");
  return { mimetype, charset, bytes };
}

/** The media type of content in place of a URI; undefined for a URI with a scheme. */
function textType(head: string): string | undefined {
  if (/^(?:[{[]|"\s*\{\s*\\)/.test(head)) return "application/json";
  return /^<(?:svg|\?xml|!--|!doctype\s+svg)/i.test(head) ? "image/svg+xml" : undefined;
}

/** A media type from which `data:` is missing. */
const TYPE_ALONE = /^(?:application\/json|text\/plain|image\/[\w.+-]{1,32})(?:;[^,;]{0,32}){0,3},/i;

/** The content of a URI without padding in a form that `inlineContent` decodes; undefined if it has none in itself. */
export function inlineForm(uri: string): string | undefined {
  if (isInline(uri)) return uri;
  const head = uri.slice(0, MAX_TYPE_LENGTH);
  if (TYPE_ALONE.test(head)) return `data:${uri}`;
  if (/^%7b/i.test(head)) return `data:application/json,${uri}`;
  return BASE64_HEAD.test(head) && !NO_DIGIT.test(uri.replace(/={1,2}$/, ""))
    ? `data:application/json;base64,${uri}`
    : undefined;
}

/** True if a URI without padding is content in one of the usual forms. */
export const isInline = (uri: string): boolean => {
  const head = uri.slice(0, KIND_LENGTH);
  return /^data:/i.test(head) || textType(head) !== undefined;
};

/** Decodes an inline URI with content of at most `maxBytes`. @throws MetadataFailure */
export function inlineContent(uri: string, maxBytes: number): RawContent {
  const mimetype = textType(uri.slice(0, KIND_LENGTH));
  if (mimetype === undefined) return parseDataUri(uri, maxBytes);
  if (uri.length > maxBytes) throw new MetadataFailure("too_large");
  const bytes = encoder.encode(uri);
  if (bytes.length > maxBytes) throw new MetadataFailure("too_large");
  return { mimetype, charset: "utf-8", bytes };
}

/** A character of several bytes that was read. */
const IN_UTF8 = /[^\p{ASCII}\ufffd]/u;

/**
 * Decodes text. A byte order mark decides; else valid UTF-8 is taken as UTF-8, because text in other encodings is
 * hardly ever valid UTF-8; else the declared charset. Without one, text with a character of several bytes is UTF-8, and its
 * wrong bytes are replaced; other text is Windows-1252.
 */
export function decodeText({ bytes, charset }: RawContent): string {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return new TextDecoder("utf-16le").decode(bytes);
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return new TextDecoder("utf-16be").decode(bytes);
  // ASCII in UTF-16 is valid UTF-8 with a zero in every second byte.
  if (bytes.length >= 4 && bytes[1] === 0 && bytes[3] === 0) return new TextDecoder("utf-16le").decode(bytes);
  if (bytes.length >= 4 && bytes[0] === 0 && bytes[2] === 0) return new TextDecoder("utf-16be").decode(bytes);
  const declared = charset === undefined || /^utf/.test(charset) ? [] : [charset];
  for (const label of ["utf-8", ...declared]) {
    try {
      return new TextDecoder(label as "utf-8", { fatal: label === "utf-8" }).decode(bytes);
    } catch {
      // Not UTF-8, or an unknown charset.
    }
  }
  const replaced = utf8Text(bytes);
  if (IN_UTF8.test(replaced)) return replaced;
  return new TextDecoder("windows-1252").decode(bytes);
}

/**
 * Returns the text if it is JSON of an object. Else the repaired text, or the text inside a JSON string.
 * @throws MetadataFailure
 */
function objectText(source: string): { readonly text: string; readonly isRepaired: boolean } {
  const whole = source.trim();
  const value = jsonOf(whole);
  const isEncodedTwice = typeof value === "string";
  const text = isEncodedTwice ? value.trim() : value === undefined ? repaired(whole) : whole;
  const isRepaired = text !== whole;
  const found = isRepaired && text !== undefined ? jsonOf(text) : value;
  if (text === undefined || (found === undefined && !isEncodedTwice)) throw new MetadataFailure("not_json");
  if (!isObject(found)) throw new MetadataFailure("not_an_object");
  if (!isNestedWithin(found)) throw new MetadataFailure("too_large", "nested too deep");
  return { text, isRepaired };
}

/** Undefined if the text is not JSON. */
function jsonOf(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A piece that may stand before an SVG's first element. */
const PROLOG = /\s*(<\?xml|<!--|<!DOCTYPE svg|<svg[\s>])/iy;

/** True if the text is an SVG: declarations, comments and a document type, each skipped once, then the element. */
function isDrawing(text: string): boolean {
  PROLOG.lastIndex = 0;
  for (;;) {
    const from = PROLOG.lastIndex;
    const piece = PROLOG.exec(text)?.[1]?.toLowerCase();
    if (piece === undefined) return false;
    if (piece.startsWith("<svg")) return true;
    const mark = piece === "<!--" ? "-->" : ">";
    const end = text.indexOf(mark, PROLOG.lastIndex);
    // An ordinary SVG has no document type with declarations of its own.
    if (end < 0 || (piece === "<!doctype svg" && text.slice(from, end).includes("["))) return false;
    PROLOG.lastIndex = end + mark.length;
  }
}

/** The content as bytes; decodes an inline URI. @throws MetadataFailure */
export const contentOf = (source: ParseSource): RawContent =>
  "uri" in source ? inlineContent(source.uri, source.maxBytes) : source;

/** @throws MetadataFailure */
function parseContent(source: ParseSource): Parsed {
  const content = contentOf(source);
  const picture = sniffPicture(content.bytes);
  if (picture !== undefined) return { kind: "picture", mimetype: picture };
  const text = decodeText(content).replace(/^\uFEFF/, "");
  if (isDrawing(text)) return { kind: "picture", mimetype: "image/svg+xml" };
  // The most common content in place of JSON: an HTML page "not found" with status 200.
  if (/^\s*</.test(text)) throw new MetadataFailure("not_json", "markup");
  return { kind: "json", ...objectText(text) };
}

/** Like `parseContent`, with the failure as a value. */
export const tryParse = (source: ParseSource): ParseReply => attempt(() => parseContent(source));

/** Like `contentOf`, with the failure as a value. */
export const tryContent = (source: ParseSource): ContentReply =>
  attempt(() => ({ kind: "content", content: contentOf(source) }));

function attempt<T>(work: () => T): T | ParseFailure {
  try {
    return work();
  } catch (error) {
    return { kind: "failed", reason: error instanceof MetadataFailure ? error.reason : "not_json" };
  }
}

const ascii = (bytes: Uint8Array, from: number, to: number): string =>
  String.fromCharCode(...bytes.subarray(from, Math.min(to, bytes.length)));

/** The type of a raster picture that previews can be made of; undefined for other files. */
export function sniffPicture(bytes: Uint8Array): string | undefined {
  const head = ascii(bytes, 0, 16);
  if (head.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  if (head.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (head.startsWith("GIF87a") || head.startsWith("GIF89a")) return "image/gif";
  if (head.startsWith("RIFF") && head.slice(8, 12) === "WEBP") return "image/webp";
  if (head.slice(4, 8) === "ftyp" && /^(?:avif|avis)/.test(head.slice(8, 12))) return "image/avif";
  if (isBmp(bytes)) return "image/bmp";
  return undefined;
}

/** The type of an audio or video file; undefined for other files. */
export function sniffRecording(bytes: Uint8Array): string | undefined {
  const head = ascii(bytes, 0, 16);
  if (head.slice(4, 8) === "ftyp") return /^(?:M4A|M4B)/.test(head.slice(8, 12)) ? "audio/mp4" : "video/mp4";
  if (head.startsWith("\x1a\x45\xdf\xa3")) return "video/webm";
  if (head.startsWith("OggS")) return "audio/ogg";
  if (head.startsWith("RIFF") && head.slice(8, 12) === "WAVE") return "audio/wav";
  if (head.startsWith("fLaC")) return "audio/flac";
  if (head.startsWith("ID3") || /^\xff[\xfb\xf3\xf2]/.test(head)) return "audio/mpeg";
  return undefined;
}

const FILE_HEADER = 14;
/** Sizes of the known header kinds of BMP: the oldest, the usual one, and those that contain masks. */
const BMP_HEADERS: ReadonlySet<number> = new Set([12, 40, 52, 56, 64, 108, 124]);

/** True if the bytes begin like a BMP file. The two letters are not enough, because many texts begin with them. */
export const isBmp = (bytes: Uint8Array): boolean =>
  bytes.length >= FILE_HEADER + 12 &&
  bytes[0] === 0x42 &&
  bytes[1] === 0x4d &&
  BMP_HEADERS.has(Buffer.from(bytes.buffer, bytes.byteOffset).readUInt32LE(FILE_HEADER));
