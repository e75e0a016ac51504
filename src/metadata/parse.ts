/**
 * From bytes to what they are: a JSON object as text that strictly parses, or a picture. Tolerates what is seen in the
 * wild (a byte order mark, a charset that is wrong or missing, comments, trailing commas, raw line breaks in strings)
 * and refuses the rest with a reason. Pure, so that it runs here or in the worker.
 */
import { type ParseError, parse, printParseErrorCode } from "jsonc-parser";
import type { MetadataReason } from "../events/types.ts";
import { isNestedWithin } from "./nesting.ts";
import type { JsonValue } from "./normalize.ts";
import { MetadataFailure } from "./outcome.ts";
import { sniffPicture } from "./sniff.ts";
import { inlineContent } from "./uri.ts";

export interface RawContent {
  readonly mimetype: string;
  readonly charset: string | undefined;
  readonly bytes: Uint8Array;
}

/** Content that is still encoded in its URI. */
export interface InlineSource {
  readonly uri: string;
  readonly maxBytes: number;
}

export type Source = RawContent | InlineSource;

export type Parsed =
  | { readonly kind: "json"; readonly text: string }
  | { readonly kind: "picture"; readonly mimetype: string };

interface Failed {
  readonly kind: "failed";
  readonly reason: MetadataReason;
}

/** As `Parsed`, or why not: what a worker can send back. */
export type ParseReply = Parsed | Failed;
/** As `RawContent`, or why not. */
export type ContentReply = { readonly kind: "content"; readonly content: RawContent } | Failed;

/** What a tolerant parse may have stumbled over without the value being in doubt. */
const TOLERATED: ReadonlySet<string> = new Set(["InvalidCharacter", "InvalidEscapeCharacter", "InvalidUnicode"]);

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const SPACE = 0x20;

/** Decodes text: the byte order mark decides, then valid UTF-8 (nothing else looks like it), then what was declared. */
export function decodeText({ bytes, charset }: RawContent): string {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return new TextDecoder("utf-16le").decode(bytes);
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return new TextDecoder("utf-16be").decode(bytes);
  // ASCII in UTF-16 is valid UTF-8 full of zeros.
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

/** The text itself where it is JSON; else what a tolerant reader makes of it, written anew. @throws MetadataFailure */
function strictText(source: string): string {
  const text = source.trim();
  let value: unknown;
  let isStrict = true;
  try {
    value = JSON.parse(text);
  } catch {
    value = tolerantValue(text);
    isStrict = false;
  }
  if (!isObject(value)) throw new MetadataFailure("not_an_object");
  if (!isNestedWithin(value as JsonValue)) throw new MetadataFailure("too_large", "nested too deep");
  return isStrict ? text : JSON.stringify(value);
}

/** Strings with raw line breaks and other control characters in them, escaped as they should have been. */
function escapeControls(text: string): string {
  const parts: string[] = [];
  let isInString = false;
  let from = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) isInString = !isInString;
    else if (!isInString) continue;
    else if (code === BACKSLASH) i++;
    else if (code < SPACE) {
      parts.push(text.slice(from, i), JSON.stringify(text[i]).slice(1, -1));
      from = i + 1;
    }
  }
  return parts.join("") + text.slice(from);
}

function tolerantValue(text: string): unknown {
  for (const source of [text, escapeControls(text)]) {
    const errors: ParseError[] = [];
    let value: unknown;
    try {
      value = parse(source, errors, { allowTrailingComma: true, disallowComments: false });
    } catch {
      // Nested so deep that the reader's stack ran out.
      break;
    }
    if (value !== undefined && errors.every(({ error }) => TOLERATED.has(printParseErrorCode(error)))) return value;
  }
  throw new MetadataFailure("not_json");
}

/** What may stand before a drawing's first element, one piece at a time. */
const PROLOG = /\s*(<\?xml|<!--|<!DOCTYPE svg|<svg[\s>])/iy;

/** Whether the text is a drawing: declaration, comments and document type, each passed over once, then the element. */
function isDrawing(text: string): boolean {
  PROLOG.lastIndex = 0;
  for (;;) {
    const from = PROLOG.lastIndex;
    const piece = PROLOG.exec(text)?.[1]?.toLowerCase();
    if (piece === undefined) return false;
    if (piece.startsWith("<svg")) return true;
    const mark = piece === "<!--" ? "-->" : ">";
    const end = text.indexOf(mark, PROLOG.lastIndex);
    // A document type with declarations of its own is no ordinary drawing's.
    if (end < 0 || (piece === "<!doctype svg" && text.slice(from, end).includes("["))) return false;
    PROLOG.lastIndex = end + mark.length;
  }
}

/** Content as bytes, decoded where it has to be. @throws MetadataFailure */
export const contentOf = (source: Source): RawContent =>
  "uri" in source ? inlineContent(source.uri, source.maxBytes) : source;

/** @throws MetadataFailure */
export function parseContent(source: Source): Parsed {
  const content = contentOf(source);
  const picture = sniffPicture(content.bytes);
  if (picture !== undefined) return { kind: "picture", mimetype: picture };
  const text = decodeText(content).replace(/^\uFEFF/, "");
  if (isDrawing(text)) {
    return { kind: "picture", mimetype: "image/svg+xml" };
  }
  // A page that says "not found" with status 200 is the commonest thing in JSON's place.
  if (/^\s*</.test(text)) throw new MetadataFailure("not_json", "markup");
  return { kind: "json", text: strictText(text) };
}

/** As `parseContent`, with the failure as a value. */
export const tryParse = (source: Source): ParseReply => attempt(() => parseContent(source));

/** As `contentOf`, with the failure as a value. */
export const tryContent = (source: Source): ContentReply =>
  attempt(() => ({ kind: "content", content: contentOf(source) }));

function attempt<T>(work: () => T): T | Failed {
  try {
    return work();
  } catch (error) {
    return { kind: "failed", reason: error instanceof MetadataFailure ? error.reason : "not_json" };
  }
}
