/**
 * From bytes to what they are: a JSON object as text that strictly parses, or a picture. Tolerates what is seen in the
 * wild (a byte order mark, a charset that is wrong or missing, comments, trailing commas, raw line breaks in strings)
 * and refuses the rest with a reason. Pure, so that it runs here or in the worker.
 */
import { type ParseError, parse, printParseErrorCode } from "jsonc-parser";
import type { MetadataReason } from "../events/types.ts";
import { MetadataFailure } from "./outcome.ts";
import { sniffPicture } from "./sniff.ts";

export interface RawContent {
  readonly mimetype: string;
  readonly charset: string | undefined;
  readonly bytes: Uint8Array;
}

export type Parsed =
  | { readonly kind: "json"; readonly text: string }
  | { readonly kind: "picture"; readonly mimetype: string };

/** As `Parsed`, or why not: what a worker can send back. */
export type ParseReply = Parsed | { readonly kind: "failed"; readonly reason: MetadataReason };

/** What a tolerant parse may have stumbled over without the value being in doubt. */
const TOLERATED: ReadonlySet<string> = new Set(["InvalidCharacter", "InvalidEscapeCharacter", "InvalidUnicode"]);

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
  try {
    value = JSON.parse(text);
  } catch {
    value = tolerantValue(text);
    if (!isObject(value)) throw new MetadataFailure("not_an_object");
    return JSON.stringify(value);
  }
  if (!isObject(value)) throw new MetadataFailure("not_an_object");
  return text;
}

/** Strings with raw line breaks and other control characters in them, escaped as they should have been. */
function escapeControls(text: string): string {
  return text.replace(/"(?:[^"\\]|\\.)*"/gs, (string) =>
    // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what is looked for
    string.replace(/[\u0000-\u001f]/g, (control) => JSON.stringify(control).slice(1, -1)),
  );
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

/** @throws MetadataFailure */
export function parseContent(content: RawContent): Parsed {
  const picture = sniffPicture(content.bytes);
  if (picture !== undefined) return { kind: "picture", mimetype: picture };
  const text = decodeText(content).replace(/^\uFEFF/, "");
  if (/^\s*(?:<\?xml[^>]*>\s*)?(?:<!--[\s\S]{0,4096}?-->\s*|<!DOCTYPE svg[^>[]*>\s*)*<svg[\s>]/i.test(text)) {
    return { kind: "picture", mimetype: "image/svg+xml" };
  }
  // A page that says "not found" with status 200 is the commonest thing in JSON's place.
  if (/^\s*</.test(text)) throw new MetadataFailure("not_json", "markup");
  return { kind: "json", text: strictText(text) };
}

/** As `parseContent`, with the failure as a value. */
export function tryParse(content: RawContent): ParseReply {
  try {
    return parseContent(content);
  } catch (error) {
    if (error instanceof MetadataFailure) return { kind: "failed", reason: error.reason };
    return { kind: "failed", reason: "not_json" };
  }
}
