/**
 * Parameters of operations. Each one is declared once, with its schema for the documents and its parser. A 400 names the
 * parameter and the allowed values. Parameters that an operation doesn't know are ignored; a response header names the
 * first five.
 */
import { type Chain, type Chains, DEFAULT_CHAIN } from "../../chains/chains.ts";
import { invalidParameter, Refusal } from "../../core/errors.ts";
import { type Address, parseAddress } from "../../core/hex.ts";

interface ParameterSchema {
  /** Undefined where the schema has alternatives. */
  readonly type: string | undefined;
  readonly [key: string]: unknown;
}

/** What the documents show of a parameter. */
interface ParameterDescription {
  readonly description: string;
  readonly example: unknown;
  readonly deprecated?: Deprecated;
}

/** Since when a parameter is deprecated, and what to do instead, as a sentence. */
interface Deprecated {
  readonly since: Date;
  readonly instead: string;
}

/** What may depend on the chains that the process knows. */
type OfChains<T> = T | ((chains: Chains) => T);

const forChains = <T>(given: OfChains<T>, chains: Chains): T =>
  typeof given === "function" ? (given as (chains: Chains) => T)(chains) : given;

/** A parameter of a path or a query string. */
export interface Parameter<T> extends ParameterDescription {
  readonly schema: OfChains<ParameterSchema>;
  /** True if a cursor fixes the value of its first page, so that what a request with a cursor gives is ignored. */
  readonly isFixedByCursor?: true;
  /** True if a request without it is refused. */
  readonly isRequired?: true;
  /** True for a list: `name=a&name=b`, `name[]=a` and `name=a,b` say the same. */
  readonly isList?: true;
  /** @param texts in the order of the query string; none if it is absent. @throws Refusal 400 */
  parse(texts: readonly string[], name: string, chains: Chains): T;
}

/** The schema of a parameter, for the documents. */
export const schemaOf = ({ schema }: Pick<Parameter<unknown>, "schema">, chains: Chains): ParameterSchema =>
  forChains(schema, chains);

/** Marks parameters that a cursor fixes. */
export const fixedByCursor = <P extends Parameters>(parameters: P): P =>
  Object.fromEntries(
    Object.entries(parameters).map(([name, one]) => [name, { ...one, isFixedByCursor: true }]),
  ) as unknown as P;

/** A parameter that a request must have. */
export const required = <T>(parameter: Parameter<T>): Parameter<NonNullable<T>> => ({
  ...parameter,
  isRequired: true,
  parse: (texts, name, chains) => {
    if (texts.length === 0) throw invalidParameter(name, `is missing; for example ${String(parameter.example)}`);
    return parameter.parse(texts, name, chains) as NonNullable<T>;
  },
});

export type Parameters = Readonly<Record<string, Parameter<unknown>>>;
/** The parsed values of parameters. */
export type ParsedValues<P extends Parameters> = { readonly [Name in keyof P]: ReturnType<P[Name]["parse"]> };

/** A parameter that may be given once. `parse` returns undefined for a text that is not allowed. */
function once<T, Absent>(
  schema: OfChains<ParameterSchema>,
  shown: ParameterDescription,
  {
    allowed,
    absent,
    parse,
  }: { allowed: OfChains<string>; absent: OfChains<Absent>; parse(text: string, chains: Chains): T | undefined },
): Parameter<T | Absent> {
  return {
    schema,
    ...shown,
    parse: (texts, name, chains) => {
      const [given] = texts;
      if (given === undefined) return forChains(absent, chains);
      if (texts.length > 1) throw invalidParameter(name, "must be given at most once");
      const value = parse(given, chains);
      if (value === undefined) throw invalidParameter(name, forChains(allowed, chains));
      return value;
    },
  };
}

interface IntegerBounds<Default> {
  readonly min: number;
  /** Unbounded numbers are blocks. */
  readonly max?: number;
  readonly default?: Default;
}

export function wholeNumber<const D extends number | undefined = undefined>(
  { min, max, default: absent }: IntegerBounds<D>,
  shown: ParameterDescription,
): Parameter<number | D> {
  const most = max ?? Number.MAX_SAFE_INTEGER;
  const bounds = { minimum: min, ...(max === undefined ? {} : { maximum: max }) };
  const schema = { type: "integer", format: max === undefined ? "int64" : "int32", ...bounds };
  return once(absent === undefined ? schema : { ...schema, default: absent }, shown, {
    allowed: `must be a whole number from ${min} to ${most}`,
    absent: absent as D,
    parse: (text) => {
      // ASCII digits only: no sign, no exponent.
      const value = /^[0-9]{1,16}$/.test(text) ? Number(text) : Number.NaN;
      return value >= min && value <= most ? value : undefined;
    },
  });
}

/** Most entries of a page. */
export const pageLimit = (description = "Page size") =>
  wholeNumber({ min: 1, max: 500, default: 100 }, { description, example: 100 });

/** The texts of a boolean in any case, as clients of several languages write them. */
const FLAGS: ReadonlyMap<string, boolean> = new Map([
  ["true", true],
  ["false", false],
  ["1", true],
  ["0", false],
]);

export const flag = (absent: boolean, shown: ParameterDescription): Parameter<boolean> =>
  once({ type: "boolean", default: absent }, shown, {
    allowed: "must be true or false",
    absent,
    parse: (text) => FLAGS.get(text.toLowerCase()),
  });

/** One of several words. */
export function choice<const W extends readonly string[], D extends W[number] | undefined = undefined>(
  words: W,
  { allowed, default: absent }: { readonly allowed: string; readonly default?: D },
  shown: ParameterDescription,
): Parameter<W[number] | D> {
  const schema = { type: "string", enum: [...words] };
  return once(absent === undefined ? schema : { ...schema, default: absent }, shown, {
    allowed,
    absent: absent as D,
    parse: (text) => (words.includes(text) ? (text as W[number]) : undefined),
  });
}

/** Any text. @param more bounds, for the documents */
export const anyText = (shown: ParameterDescription, more: object = {}): Parameter<string | undefined> =>
  once({ type: "string", ...more }, shown, { allowed: "", absent: undefined, parse: (text) => text });

/** A text with a parser of its own. */
export const parsedText = <T>(
  parse: (text: string, chains: Chains) => T | undefined,
  { allowed, schema = {} }: { readonly allowed: OfChains<string>; readonly schema?: object },
  shown: ParameterDescription,
): Parameter<T | undefined> => once({ type: "string", ...schema }, shown, { allowed, absent: undefined, parse });

const CHAIN_PARSER = {
  allowed: ({ named }: Chains) => `must be one of ${named.map(({ name, code }) => `${name} (${code})`).join(", ")}`,
  parse: (text: string, chains: Chains) => chains.parse(text),
};

/** The schema of a chain. @param more its default */
const chainSchema =
  (more: object = {}) =>
  ({ named }: Chains) => ({ type: "string", ...more, enum: named.flatMap(({ name, code }) => [name, code]) });

const OTHER_FORMS = "its id as 0x1, 1 or eip155:1, or a common other name such as ethereum";

/** A chain; the default one if it is absent. */
export const chainOrDefault: Parameter<Chain> = once(
  chainSchema({ default: DEFAULT_CHAIN.name }),
  { description: `Name of the chain, ${OTHER_FORMS}, any case`, example: "eth" },
  { ...CHAIN_PARSER, absent: (chains) => chains.default },
);
export const anyChain: Parameter<Chain | undefined> = once(
  chainSchema(),
  { description: "Only this chain", example: "eth" },
  { ...CHAIN_PARSER, absent: undefined },
);

const ISO_TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})$/;

/** True if the calendar has the day. The engine would accept 31 February as a day in March. */
const isDay = (text: string): boolean => {
  const value = Date.parse(text);
  return !Number.isNaN(value) && new Date(value).toISOString().startsWith(text);
};

/** The time, in ms since the epoch, whose metadata is used. */
export const metadataTime = (example: string): Parameter<number | undefined> =>
  parsedText(
    (text) => {
      const value = ISO_TIME.test(text) && isDay(text.slice(0, 10)) ? Date.parse(text) : Number.NaN;
      return Number.isNaN(value) ? undefined : value;
    },
    {
      allowed: "must be an ISO 8601 time with a time zone, such as 2026-01-31T12:00:00Z",
      schema: { format: "date-time" },
    },
    {
      description: "Uses the metadata known at that time instead of the newest; ISO 8601 with a time zone",
      example,
    },
  );

const BLOCK_TEXT = { type: "string", pattern: "^(?:[0-9]{1,16}|0x[0-9a-fA-F]{1,14}|latest)$" };

/** A block by its number, decimal or as 0x…, or the newest one. */
export const blockParameter = (description: string): Parameter<number | "latest" | undefined> =>
  parsedText(
    parseBlock,
    {
      allowed: "a block number, decimal or as 0x…, or latest",
      schema: { type: undefined, oneOf: [{ type: "integer", format: "int64", minimum: 0 }, BLOCK_TEXT] },
    },
    { description, example: 21_000_000 },
  );

function parseBlock(text: string): number | "latest" | undefined {
  if (text === "latest") return text;
  // ASCII digits only: no sign, no exponent.
  const block = /^(?:[0-9]{1,16}|0x[0-9a-fA-F]{1,14})$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(block) ? block : undefined;
}

/** The last millisecond that the calendar of the engine has. */
const MAX_MS = 8.64e15;

/** A moment in whole Unix seconds, rounded down. */
export const timeParameter = (description: string, example = "2026-01-31T12:00:00Z"): Parameter<number | undefined> =>
  parsedText(
    parseTime,
    {
      allowed: "a time in ISO 8601 such as 2026-01-31 or 2026-01-31T12:00:00Z, or Unix seconds or milliseconds",
      schema: { pattern: "^(?:[0-9]{1,16}|[0-9]{4}-.+)$" },
    },
    { description, example },
  );

/** Digits from this number on are milliseconds: as seconds they would be the year 5138. */
const MILLISECONDS_FROM = 1e11;

export function parseTime(text: string): number | undefined {
  if (/^[0-9]{1,16}$/.test(text)) {
    const number = Number(text);
    if (number > MAX_MS) return undefined;
    return number < MILLISECONDS_FROM ? number : Math.floor(number / 1_000);
  }
  const isTime = ISO_TIME.test(text) || /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)?$/.test(text);
  if (!isTime || !isDay(text.slice(0, 10))) return undefined;
  // A time without a zone is UTC, whatever the machine's zone.
  const ms = Date.parse(/(?:Z|[+-]\d{2}:?\d{2})$/.test(text) || text.length === 10 ? text : `${text}Z`);
  return Number.isNaN(ms) || ms < 0 ? undefined : Math.floor(ms / 1_000);
}

/** Addresses in the order given, each once; none if the parameter is absent. */
export const addressList = (
  { max }: { readonly max: number },
  shown: Omit<ParameterDescription, "example">,
  example: string,
): Parameter<readonly Address[]> => ({
  ...shown,
  example: [example],
  isList: true,
  schema: { type: "array", items: { type: "string", pattern: "^0x[0-9a-fA-F]{40}$" }, maxItems: max },
  parse: (texts, name) => {
    if (texts.length > max) throw invalidParameter(name, `must have at most ${max} addresses`);
    return [...new Set(texts.map((text) => addressOf(text, name)))];
  },
});

/** @param name of the parameter, for the error. @throws Refusal 400 for a chain that is none */
export function chainNamed(text: string, name: string, chains: Chains): Chain {
  return chainOrDefault.parse([text], name, chains);
}

/** What handlers need to name chains. */
export interface KnownChains {
  readonly chains: Chains;
}

/** The error for a chain that is known but not enabled. @param name of the parameter */
export function notEnabled(chain: Chain, { chains }: KnownChains, name = "chain"): Refusal {
  return new Refusal("chain_not_enabled", chains.notEnabledText(chain), { details: { parameter: name } });
}

/** @param name of the parameter, for the error. @throws Refusal 400 */
export function addressOf(text: string, name = "address"): Address {
  const address = parseAddress(text);
  if (address !== undefined) return address;
  throw invalidParameter(name, "must be 0x and 40 hex digits, in one case or with a valid EIP-55 checksum");
}

/** Makes a part of a path with its parser. */
const segment = <T>(
  schema: ParameterSchema,
  shown: ParameterDescription,
  parse: (text: string, name: string, chains: Chains) => T,
): Parameter<T> => ({
  schema,
  ...shown,
  parse: ([text = ""], name, chains) => parse(decoded(text), name, chains),
});

/** Names of environment keys have a `#`, and names of chains a space. Text with a broken escape stays as it is. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const addressPart = (example: string, description: string): Parameter<Address> =>
  segment({ type: "string", pattern: "^0x[0-9a-fA-F]{40}$" }, { description, example }, addressOf);

/** A part of a path that its handler checks. @param schema allowed text, for the documents */
export const textPart = (shown: ParameterDescription, schema: object = {}): Parameter<string> =>
  segment({ type: "string", ...schema }, shown, (text) => text);

export const chainPart: Parameter<Chain> = segment(
  { type: "string" },
  { description: `Name of the chain, ${OTHER_FORMS}`, example: "eth" },
  chainNamed,
);

const MAX_ID = (1n << 256n) - 1n;

const ID_SCHEMA = { pattern: "^[0-9]{1,78}$" };
const ID_ALLOWED = "must be a decimal token id";

function parseTokenId(text: string): bigint | undefined {
  const id = /^\d{1,78}$/.test(text) ? BigInt(text) : MAX_ID + 1n;
  return id <= MAX_ID ? id : undefined;
}

/** Returns a token id. @throws Refusal 400 */
export function tokenId(text: string, name: string): bigint {
  const id = parseTokenId(text);
  if (id !== undefined) return id;
  throw invalidParameter(name, ID_ALLOWED);
}

export const tokenIdPart: Parameter<bigint> = segment(
  { type: "string", ...ID_SCHEMA },
  { description: "Decimal token id", example: "1" },
  tokenId,
);

/** A token id in decimal, or in hex with 0x. */
export const anyTokenIdPart: Parameter<bigint> = segment(
  { type: "string", pattern: "^(?:[0-9]{1,78}|0x[0-9a-fA-F]{1,64})$" },
  { description: "Token id, decimal or as 0x…", example: "1" },
  anyTokenId,
);

/** Returns a token id in decimal or in hex. @throws Refusal 400 */
export function anyTokenId(text: string, name: string): bigint {
  return /^0x[0-9a-fA-F]{1,64}$/.test(text) ? BigInt(text) : tokenId(text, name);
}

export const tokenIdParameter: Parameter<bigint | undefined> = parsedText(
  parseTokenId,
  { allowed: ID_ALLOWED, schema: ID_SCHEMA },
  { description: "Only this token, by its decimal id", example: "1" },
);

/** Parses a query string by its parameters. @throws Refusal 400 for the first wrong one in the order of `parameters` */
export function parseQuery<P extends Parameters>(search: string, parameters: P, chains: Chains): ParsedValues<P> {
  const given = new URLSearchParams(search);
  const hasCursor = Boolean(given.get("cursor"));
  return parsed(parameters, chains, (name, { isFixedByCursor, isList }) => {
    if (hasCursor && isFixedByCursor) return [];
    return isList === true ? listTexts(given, name) : given.getAll(name);
  });
}

/** `name`, or `name[]` or `name[0]`, as clients write lists. */
const listName = (name: string): string => name.replace(/\[\d{0,4}\]$/, "");

const listTexts = (given: URLSearchParams, name: string): string[] =>
  [...given].flatMap(([key, text]) => (listName(key) === name ? text.split(",") : []));

/** Parses the parts of a path. @throws Refusal 400 */
export const parsePath = <P extends Parameters>(
  parts: Readonly<Record<string, string>>,
  parameters: P,
  chains: Chains,
): ParsedValues<P> => parsed(parameters, chains, (name) => [parts[name] ?? ""]);

function parsed<P extends Parameters>(
  parameters: P,
  chains: Chains,
  textsOf: (name: string, parameter: Parameter<unknown>) => readonly string[],
): ParsedValues<P> {
  const values = Object.entries(parameters).map(([name, one]) => [name, one.parse(textsOf(name, one), name, chains)]);
  return Object.fromEntries(values) as ParsedValues<P>;
}

/** Since when the first of the deprecated parameters of a query string is; undefined if it has none. */
export function deprecatedSince(search: string, known: Parameters): Date | undefined {
  const given = new URLSearchParams(search);
  const dates = Object.entries(known).flatMap(([name, { deprecated }]) =>
    deprecated !== undefined && given.has(name) ? deprecated.since : [],
  );
  return dates.sort((a, b) => a.getTime() - b.getTime())[0];
}

export const UNKNOWN_PARAMETERS = "x-unknown-parameters";
/** Five names of 64 characters with separators: at most 328 bytes of header. */
const MAX_NAMED = 5;
const MAX_NAME_LENGTH = 64;

/** Returns the header's value for a query string; undefined when all parameters are known. */
export function unknownParameters(search: string, known: Parameters): string | undefined {
  const names = new Set(new URLSearchParams(search).keys());
  const isKnown = (name: string): boolean =>
    Object.hasOwn(known, name) || (Object.hasOwn(known, listName(name)) && known[listName(name)]?.isList === true);
  const unknown = [...names].filter((name) => name !== "" && !isKnown(name));
  return unknown.length === 0 ? undefined : unknown.slice(0, MAX_NAMED).map(shortened).join(", ");
}

/** Percent-encodes a name. Cuts it before the character that would exceed the bound, so that it can be decoded. */
function shortened(name: string): string {
  let text = "";
  for (const character of name) {
    const encoded = encodeURIComponent(character);
    if (text.length + encoded.length > MAX_NAME_LENGTH) break;
    text += encoded;
  }
  return text;
}
