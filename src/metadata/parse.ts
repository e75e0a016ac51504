/**
 * From bytes to what they are: a JSON object as text that strictly parses, or a picture. Tolerates what is seen in the
 * wild (a byte order mark, a charset that is wrong or missing, what `repair.ts` can repair) and refuses the rest with a
 * reason. Pure, so that it runs here or in the worker.
 */
import type { MetadataReason } from "../events/types.ts";
import { isNestedWithin } from "./nesting.ts";
import type { JsonValue } from "./normalize.ts";
import { MetadataFailure } from "./outcome.ts";
import { repaired } from "./repair.ts";
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
  /** `isRepaired`: the text is not the content's to the letter, which is no JSON. */
  | { readonly kind: "json"; readonly text: string; readonly isRepaired: boolean }
  | { readonly kind: "picture"; readonly mimetype: string };

interface Failed {
  readonly kind: "failed";
  readonly reason: MetadataReason;
}

/** As `Parsed`, or why not: what a worker can send back. */
export type ParseReply = Parsed | Failed;
/** As `RawContent`, or why not. */
export type ContentReply = { readonly kind: "content"; readonly content: RawContent } | Failed;

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

/**
 * The text itself where it is JSON. Else the text repaired, or the text that was encoded as a string once more.
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

/** Undefined for what is no JSON. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
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
  return { kind: "json", ...objectText(text) };
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
