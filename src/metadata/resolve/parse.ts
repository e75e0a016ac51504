/**
 * Detects what bytes are: a JSON object, returned as strictly valid text, or a picture. Tolerates a byte order mark, a
 * wrong or missing charset, and JSON that `repair.ts` can repair; refuses everything else with a reason. Pure, so that
 * it runs here or in the worker.
 */
import type { MetadataReason } from "../../events/types.ts";
import { sniffPicture } from "../media/raster.ts";
import { MetadataFailure } from "../outcome.ts";
import { isNestedWithin } from "./fields.ts";
import type { JsonValue } from "./normalize.ts";
import { inlineContent } from "./uri.ts";

// Repairs text that is nearly JSON: comments, trailing commas, control characters and wrong escapes in strings, and
// text after the object. Everything else stays unchanged, so that no number changes. One pass, because the author
// decides the length.

const [QUOTE, BACKSLASH, SLASH, COMMA, SPACE] = [0x22, 0x5c, 0x2f, 0x2c, 0x20];
const [OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET] = [0x7b, 0x7d, 0x5b, 0x5d];
/** A valid JSON escape. */
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
/** An escape of other languages that JSON doesn't have. */
const FOREIGN_ESCAPE = /\\(?:(['`])|x([0-9a-fA-F]{2}))/y;

/** Builds a text from kept parts of the source and replacements between them. */
class Rewriter {
  readonly #text: string;
  readonly #parts: string[] = [];
  #from = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** Replaces `[from, to)`, which must come after all earlier replacements. Returns the number of the replacement. */
  replace(from: number, to: number, by: string): number {
    this.#parts.push(this.#text.slice(this.#from, from), by);
    this.#from = to;
    return this.#parts.length - 1;
  }

  /** Makes a replacement empty. */
  drop(part: number): void {
    this.#parts[part] = "";
  }

  upTo(end: number): string {
    return this.#parts.join("") + this.#text.slice(this.#from, end);
  }
}

/**
 * Returns the object at the start of the text, with known faults repaired. Undefined if there is none, if it has no
 * end, or if more values follow, because the text doesn't say which of them is meant.
 */
export function repaired(text: string): string | undefined {
  const out = new Rewriter(text);
  let depth = 0;
  /** The last comma, if only spaces and comments have followed it. */
  let comma: number | undefined;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (isSpace(code)) continue;
    if (code === SLASH) {
      const end = endOfComment(text, at);
      if (end === undefined) return undefined;
      out.replace(at, end, "");
      at = end - 1;
      continue;
    }
    if (depth === 0 && code !== OPEN_BRACE) return undefined;
    if (code === CLOSE_BRACE || code === CLOSE_BRACKET) {
      if (comma !== undefined) out.drop(comma);
      if (--depth === 0) return isEnd(text, at + 1) ? out.upTo(at + 1) : undefined;
    } else if (code === OPEN_BRACE || code === OPEN_BRACKET) depth++;
    else if (code === QUOTE) {
      const end = repairString(text, at, out);
      if (end === undefined) return undefined;
      at = end - 1;
    }
    comma = code === COMMA ? out.replace(at, at + 1, ",") : undefined;
  }
  return undefined;
}

const isSpace = (code: number): boolean => code === SPACE || (code >= 0x09 && code <= 0x0d);

/** End of the comment that begins at `start`; undefined if there is none, or it is not closed. */
function endOfComment(text: string, start: number): number | undefined {
  if (text.startsWith("//", start)) {
    const end = text.indexOf("\n", start);
    return end < 0 ? text.length : end;
  }
  const end = text.startsWith("/*", start) ? text.indexOf("*/", start + 2) : -1;
  return end < 0 ? undefined : end + 2;
}

/** True if no other value follows: a page's footer, padding or an extra brace is not one. */
const isEnd = (text: string, from: number): boolean => !/[{[,]/.test(text.slice(from).trimStart().charAt(0));

/** Repairs the string that begins at `start`. Returns its end; undefined if it is not closed. */
function repairString(text: string, start: number, out: Rewriter): number | undefined {
  for (let at = start + 1; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) return at + 1;
    if (code === BACKSLASH) at = repairEscape(text, at, out) - 1;
    else if (code < SPACE) out.replace(at, at + 1, JSON.stringify(text[at]).slice(1, -1));
  }
  return undefined;
}

/** Repairs the escape that begins at `start` and returns its end. Doubles a backslash that escapes nothing. */
function repairEscape(text: string, start: number, out: Rewriter): number {
  ESCAPE.lastIndex = start;
  if (ESCAPE.test(text)) return ESCAPE.lastIndex;
  FOREIGN_ESCAPE.lastIndex = start;
  const [foreign, character, digits] = FOREIGN_ESCAPE.exec(text) ?? [];
  if (foreign === undefined) {
    out.replace(start, start + 1, "\\\\");
    return start + 1;
  }
  const end = start + foreign.length;
  out.replace(start, end, character ?? `\\u00${digits}`);
  return end;
}

export interface RawContent {
  readonly mimetype: string;
  readonly charset: string | undefined;
  readonly bytes: Uint8Array;
}

/** Content encoded in its URI. */
export interface InlineSource {
  readonly uri: string;
  readonly maxBytes: number;
}

export type Source = RawContent | InlineSource;

export type Parsed =
  /** `isRepaired`: the text differs from the content, which is not valid JSON. */
  | { readonly kind: "json"; readonly text: string; readonly isRepaired: boolean }
  | { readonly kind: "picture"; readonly mimetype: string };

interface Failed {
  readonly kind: "failed";
  readonly reason: MetadataReason;
}

/** A `Parsed`, or the reason of the failure. A plain value, because a worker can't send an exception. */
export type ParseReply = Parsed | Failed;
/** A `RawContent`, or the reason of the failure. */
export type ContentReply = { readonly kind: "content"; readonly content: RawContent } | Failed;

/**
 * Decodes text. A byte order mark decides; else valid UTF-8 is taken as UTF-8, because text in other encodings is
 * hardly ever valid UTF-8; else the declared charset.
 */
export function decodeText({ bytes, charset }: RawContent): string {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return new TextDecoder("utf-16le").decode(bytes);
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return new TextDecoder("utf-16be").decode(bytes);
  // ASCII in UTF-16 is valid UTF-8 with a zero in every second byte.
  if (bytes.length >= 4 && bytes[1] === 0 && bytes[3] === 0) return new TextDecoder("utf-16le").decode(bytes);
  if (bytes.length >= 4 && bytes[0] === 0 && bytes[2] === 0) return new TextDecoder("utf-16be").decode(bytes);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return decodeDeclared(bytes, charset);
  }
}

function decodeDeclared(bytes: Uint8Array, charset: string | undefined): string {
  const isUnicode = charset === undefined || /^utf/.test(charset);
  try {
    return new TextDecoder((isUnicode ? "windows-1252" : charset) as "utf-8").decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}

const isObject = (value: unknown): boolean => typeof value === "object" && value !== null && !Array.isArray(value);

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
  if (!isNestedWithin(found as JsonValue)) throw new MetadataFailure("too_large", "nested too deep");
  return { text, isRepaired };
}

/** Undefined if the text is not JSON. */
function jsonOf(text: string): unknown {
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
export const contentOf = (source: Source): RawContent =>
  "uri" in source ? inlineContent(source.uri, source.maxBytes) : source;

/** @throws MetadataFailure */
function parseContent(source: Source): Parsed {
  const content = contentOf(source);
  const picture = sniffPicture(content.bytes);
  if (picture !== undefined) return { kind: "picture", mimetype: picture };
  const text = decodeText(content).replace(/^\uFEFF/, "");
  if (isDrawing(text)) {
    return { kind: "picture", mimetype: "image/svg+xml" };
  }
  // The most common content in place of JSON: an HTML page "not found" with status 200.
  if (/^\s*</.test(text)) throw new MetadataFailure("not_json", "markup");
  return { kind: "json", ...objectText(text) };
}

/** Like `parseContent`, with the failure as a value. */
export const tryParse = (source: Source): ParseReply => attempt(() => parseContent(source));

/** Like `contentOf`, with the failure as a value. */
export const tryContent = (source: Source): ContentReply =>
  attempt(() => ({ kind: "content", content: contentOf(source) }));

function attempt<T>(work: () => T): T | Failed {
  try {
    return work();
  } catch (error) {
    return { kind: "failed", reason: error instanceof MetadataFailure ? error.reason : "not_json" };
  }
}
