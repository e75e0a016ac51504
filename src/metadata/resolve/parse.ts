/**
 * Detects what bytes are: a JSON object, returned as strictly valid text, or a picture. Tolerates a byte order mark, a
 * wrong or missing charset, and JSON that `repair.ts` can repair; refuses everything else with a reason. Pure, so that
 * it runs here or in the worker.
 */
import type { MetadataReason } from "../../events/types.ts";
import { sniffPicture } from "../media/raster.ts";
import { MetadataFailure } from "../outcome.ts";
import { isNestedWithin, type JsonValue } from "./fields.ts";
import { repaired } from "./repair.ts";
import { inlineContent } from "./uri.ts";

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
