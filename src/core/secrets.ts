/**
 * Finds the operator's secrets in text from outside: a provider that refuses a request may quote the key, the login or a
 * header that it received, plain or encoded. A secret is found in each form that a server could make of it by habit:
 * percent escapes, escapes of JSON and HTML, base64 and base64url of a text that contains it, and hex.
 */

const REDACTED = "[redacted]";
/** Shorter parts of a path or a host are words like `v2`. */
const MIN_LENGTH = 6;
/** Shorter user names and passwords occur inside ordinary words. */
const MIN_LOGIN_LENGTH = 3;
/** Shorter parts of a path are as likely words of the provider as keys. */
const MIN_KEY_LENGTH = 20;
/** Digits that no other text has by chance. Fewer are found only if they stand alone. */
const [MIN_BASE64, MIN_HEX] = [6, 8];
/** Most escapes of one character around each other. More would make a text of nothing else slow to examine. */
const NESTED = 4;

interface Span {
  readonly start: number;
  readonly end: number;
}

/** Secrets that must not occur in a text. */
export class Secrets {
  readonly #texts: readonly string[];
  /** Length of the shortest one. A shorter text has none. */
  readonly #shortest: number;
  /** Made when a text is first examined: most endpoints never refuse a request. */
  #patterns: readonly RegExp[] | undefined;

  constructor(secrets: Iterable<string>) {
    this.#texts = [...new Set(secrets)].filter((text) => text.length >= MIN_LOGIN_LENGTH);
    this.#shortest = Math.min(...this.#texts.map((text) => text.length));
  }

  /**
   * Replaces each secret in a text.
   * @param most characters to keep. A secret that begins in them is replaced as a whole, so that the cut leaves no
   * part of it.
   */
  redact(text: string, most = text.length): string {
    const length = Math.min(most, text.length);
    let [clean, at] = ["", 0];
    for (const { start, end } of this.#spansIn(text)) {
      if (start >= length) break;
      clean += text.slice(at, start) + REDACTED;
      at = end;
    }
    return at < length ? clean + text.slice(at, length) : clean;
  }

  occurIn(text: string): boolean {
    return this.#spansIn(text).length > 0;
  }

  /** Where secrets are, in order and apart. Secrets may overlap in a text. */
  #spansIn(text: string): readonly Span[] {
    if (text.length < this.#shortest) return [];
    this.#patterns ??= this.#texts.flatMap(patternsOf);
    const found = this.#patterns
      .flatMap((pattern) => [...text.matchAll(pattern)].map(({ index, 0: { length } }) => [index, index + length]))
      .sort(([a = 0], [b = 0]) => a - b) as [number, number][];
    const spans: { start: number; end: number }[] = [];
    for (const [start, end] of found) {
      const last = spans.at(-1);
      if (last === undefined || start >= last.end) spans.push({ start, end });
      else last.end = Math.max(last.end, end);
    }
    return spans;
  }
}

/** The secrets of an endpoint's URL: host, user, longer parts of the path, and parameters. */
export function secretsOfUrl(url: string): string[] {
  const { host, hostname, pathname, searchParams } = new URL(url);
  // A key may be a subdomain of the provider's domain.
  const names = hostname.split(".").slice(0, -2);
  const parts = [host, hostname, ...names, ...pathname.split("/"), ...parameterSecrets([...searchParams])];
  return [...parts.flatMap(wordsOf), ...secretsOfLogin(url)];
}

/** The secrets of a URL whose host and shorter paths are none. */
export function keysInUrl(url: string): string[] {
  const { pathname, searchParams } = new URL(url);
  const keys = pathname.split("/").filter((part) => part.length >= MIN_KEY_LENGTH);
  return [...[...keys, ...parameterSecrets([...searchParams])].flatMap(wordsOf), ...secretsOfLogin(url)];
}

/** The login in a URL, with the form that a request's header has it in. */
export function secretsOfLogin(url: string): string[] {
  const { username } = new URL(url);
  return [username, decodedUrlPart(username), ...secretsOfPassword(url)];
}

/** The password in a URL, alone and with the user's name, which is no secret by itself. */
export function secretsOfPassword(url: string): string[] {
  const { username, password } = new URL(url);
  if (username === "" && password === "") return [];
  const pairs = [`${username}:${password}`, `${decodedUrlPart(username)}:${decodedUrlPart(password)}`];
  // A header that is encoded as a whole has the pair encoded twice.
  return [password, decodedUrlPart(password), ...pairs, ...pairs.map((pair) => Buffer.from(pair).toString("base64"))];
}

/** The secrets of a header's value, such as `Bearer …` or a login. */
export function secretsOfHeader(value: string): string[] {
  const [, login] = /^basic\s+([A-Za-z0-9+/_-]+=*)$/i.exec(value) ?? [];
  const pair = login === undefined ? "" : Buffer.from(login, "base64").toString();
  return [...wordsOf(value), ...(pair.includes(":") ? [pair, ...wordsOf(pair.slice(pair.indexOf(":") + 1))] : [])];
}

/** A query may consist of the key alone. */
export const parameterSecrets = (parameters: readonly (readonly [name: string, value: string])[]): string[] =>
  parameters.map(([name, value]) => (value === "" ? name : value));

const SCHEMES = /^(?:bearer|digest|apikey|api-key)$/i;

/** A provider quotes the key of a part such as `Bearer …` or `key=…` without the prefix. */
function wordsOf(part: string): string[] {
  const decoded = decodedUrlPart(part);
  const words = [part, decoded, ...decoded.split(/[\s;=]+/)];
  return words.filter((word) => word.length >= MIN_LENGTH && !SCHEMES.test(word));
}

/** Decodes a part of a URL; returns it unchanged if its escapes are malformed. */
export function decodedUrlPart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function patternsOf(secret: string): RegExp[] {
  const bytes = Buffer.from(secret);
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0"));
  const inHex = hex.join("[ :]?");
  const hexText = hex.length * 2 >= MIN_HEX ? inHex : alone(inHex, "[0-9a-f]");
  return [
    new RegExp(`${[...secret].map(escapedForms).join("")}|${hexText}`, "giu"),
    new RegExp(base64Forms(bytes).join("|"), "g"),
  ];
}

const alone = (pattern: string, digit: string): string => `(?<!${digit})${pattern}(?!${digit})`;

/** A character, or any of its escapes. A URL's escapes may have been escaped again. */
function escapedForms(character: string): string {
  const code = character.codePointAt(0) as number;
  const bytes = [...Buffer.from(character)].map((byte) => byte.toString(16).padStart(2, "0"));
  const units = [...Array(character.length).keys()].map((i) => character.charCodeAt(i).toString(16).padStart(4, "0"));
  return `(?:${[
    `\\\\{0,${NESTED}}${RegExp.escape(character)}`,
    ...(character === " " ? ["\\+"] : []),
    ...(NAMED[character] ?? []).map((name) => `&${name};`),
    bytes.map((byte) => `%(?:25){0,${NESTED}}${byte}`).join(""),
    bytes.map((byte) => `\\\\{1,${NESTED}}x${byte}`).join(""),
    units.map((unit) => `\\\\{1,${NESTED}}u${unit}`).join(""),
    `&#(?:0{0,6}${code}|x0{0,6}${code.toString(16)});`,
  ].join("|")})`;
}

const NAMED: Readonly<Record<string, readonly string[]>> = {
  "&": ["amp"],
  "<": ["lt"],
  ">": ["gt"],
  '"': ["quot"],
  "'": ["apos"],
};

/**
 * The base64 of any text that contains the bytes. Its digits depend on where in a group of three the bytes begin, and
 * the digits at both ends also on their neighbours. Those match any digit.
 */
function base64Forms(bytes: Buffer): string[] {
  return [0, 1, 2].flatMap((offset) => {
    const encoded = Buffer.concat([Buffer.alloc(offset), bytes]).toString("base64url");
    // Digits whose six bits are all of the secret.
    const core = encoded.slice(Math.ceil((offset * 8) / 6), Math.floor(((offset + bytes.length) * 8) / 6));
    const digits = [...core].map(base64Digit).join("");
    if (core.length >= MIN_BASE64) return [`${offset === 0 ? "" : `${DIGIT}?`}${digits}${DIGIT}?${PADDING}`];
    return offset === 0 ? [alone([...encoded].map(base64Digit).join(""), DIGIT)] : [];
  });
}

const DIGIT = "[A-Za-z0-9+/_-]";
const PADDING = `(?:=|%(?:25){0,${NESTED}}3[dD]){0,2}`;

/** A digit of base64 or base64url, which JSON or a URL may have escaped. */
function base64Digit(digit: string): string {
  if (digit === "-") return `(?:[+-]|%(?:25){0,${NESTED}}2[bB])`;
  if (digit === "_") return `(?:\\\\{0,${NESTED}}[/_]|%(?:25){0,${NESTED}}2[fF])`;
  return digit;
}
