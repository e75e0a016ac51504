/**
 * Repairs text that is nearly JSON: comments, trailing commas, control characters and wrong escapes in strings, and
 * text after the object. Everything else stays unchanged, so that no number changes. One pass, because the author
 * decides the length.
 */
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
