/**
 * JSON as authors of metadata write it. Repairs text that is nearly JSON. Reads fields by name in any spelling, and
 * their values as text: contracts write `Name`, `imageURL` and `Trait Type`, wrap all fields in `data`, name a token in
 * several languages, or write the value as the description in ERC-721's JSON schema. Pure.
 */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue };

export type JsonObject = { readonly [key: string]: JsonValue };

/**
 * Most levels of nested lists and objects; real metadata has five. `JSON.parse` accepts a hundred thousand, but
 * recursive code that processes them overflows the stack.
 */
const MAX_NESTING = 256;

/** True if the value has at most `levels` nested lists and objects. */
export function isNestedWithin(value: JsonValue, levels = MAX_NESTING): boolean {
  if (typeof value !== "object" || value === null) return true;
  if (levels === 0) return false;
  const inner: readonly JsonValue[] = Array.isArray(value) ? value : Object.values(value);
  return inner.every((item) => isNestedWithin(item, levels - 1));
}

export const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The name without case, spaces, `_` and `-`. */
const spelling = (name: string): string => name.toLowerCase().replace(/[_\s-]/g, "");

/** The fields of an object. An exact name takes precedence over other spellings. */
export class Fields {
  readonly object: JsonObject;
  /** Keys by their spelling. */
  #spelled: Map<string, string> | undefined;

  constructor(object: JsonObject) {
    this.object = object;
  }

  /** The object's own spelling of a field's name; undefined if it has no such field. */
  keyOf(name: string): string | undefined {
    if (Object.hasOwn(this.object, name)) return name;
    // Reversed, so that the first key of a spelling counts.
    this.#spelled ??= new Map(
      Object.keys(this.object)
        .reverse()
        .map((key) => [spelling(key), key]),
    );
    return this.#spelled.get(spelling(name));
  }

  get(name: string): JsonValue | undefined {
    const key = this.keyOf(name);
    return key === undefined ? undefined : this.object[key];
  }

  has(...names: readonly string[]): boolean {
    return names.some((name) => this.keyOf(name) !== undefined);
  }

  /** The first of the fields in which `read` finds something, with its key. */
  first<T>(names: readonly string[], read: (value: JsonValue) => T | null): { key: string; found: T } | undefined {
    for (const name of names) {
      const key = this.keyOf(name);
      const found = key === undefined ? null : read(this.object[key] as JsonValue);
      if (key !== undefined && found !== null) return { key, found };
    }
    return undefined;
  }

  /** The first of the fields with text. */
  text(...names: readonly string[]): string | null {
    return this.first(names, textOf)?.found ?? null;
  }

  /** The first of the fields that isn't null. */
  value(...names: readonly string[]): JsonValue {
    return this.first<JsonValue>(names, (value) => value)?.found ?? null;
  }
}

/** The field's value as text; null if it has none. */
export function textOf(value: JsonValue | undefined): string | null {
  if (typeof value === "string") return value.trim() === "" ? null : value;
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  if (!isObject(value)) return null;
  return plain(value["value"]) ?? localized(value) ?? described(value);
}

const plain = (value: JsonValue | undefined): string | null => (isObject(value) ? null : textOf(value));

const LOCALE = /^(?:[a-z]{2}(?:[-_][a-z]{2,4})?|default)$/i;

/** One of several languages: English, else the default, else the first. */
function localized(texts: JsonObject): string | null {
  const locales = Object.keys(texts);
  if (locales.length === 0 || !locales.every((locale) => LOCALE.test(locale))) return null;
  const english = locales.find((locale) => /^en\b/i.test(locale.replace("_", "-")));
  const best = [english, ...locales.filter((locale) => locale.toLowerCase() === "default"), ...locales];
  for (const locale of best) {
    const found = locale === undefined ? null : plain(texts[locale]);
    if (found !== null) return found;
  }
  return null;
}

/** The description of a JSON-schema property, if it stands in place of the value. */
export function described(value: JsonValue | undefined): string | null {
  const isProperty = isObject(value) && typeof value["type"] === "string" && !("value" in value);
  return isProperty ? plain(value["description"]) : null;
}

/** The value; if it is a string with a JSON list or object, as some contracts write it, the parsed one. */
export function structureOf(value: JsonValue | undefined): JsonValue | undefined {
  if (typeof value !== "string" || !/^\s*[[{]/.test(value)) return value;
  try {
    const parsed = JSON.parse(value) as JsonValue;
    return isNestedWithin(parsed) ? parsed : undefined;
  } catch {
    return value;
  }
}

/** Fields that make up the display of a token. */
const SHOWN = ["name", "title", "description", "image", "image_url", "image_data", "animation_url"] as const;
/** Fields that some servers wrap the metadata in. */
const WRAPPERS = ["data", "result", "metadata"] as const;

/** The fields of the metadata, or of the object that a server wrapped it in. */
export function unwrapped(metadata: JsonObject): Fields {
  const fields = new Fields(metadata);
  if (fields.has(...SHOWN, "attributes", "traits", "properties")) return fields;
  for (const name of WRAPPERS) {
    const inner = structureOf(fields.get(name));
    if (!isObject(inner)) continue;
    const found = new Fields(inner);
    if (found.has(...SHOWN)) return found;
  }
  return fields;
}

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
 * Returns the object at the start of a text that is nearly JSON, with its faults repaired: comments, trailing commas,
 * control characters and wrong escapes in strings, and text after the object. Everything else stays unchanged, so that
 * no number changes. Undefined if there is no object, if it has no end, or if more values follow, because the text
 * doesn't say which of them is meant. One pass, because the author decides the length.
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
