/**
 * A request's rate and its parameters, from raw text to typed values. A 400 names the parameter and the allowed values.
 */
import { timingSafeEqual } from "node:crypto";
import { CHAINS, type Chain, DEFAULT_CHAIN, parseChain } from "../chains/chains.ts";
import { LIMITS } from "../config.ts";
import type { Clock } from "../core/clock.ts";
import { ApiError, invalidParameter } from "../core/errors.ts";
import { type Address, parseAddress } from "../core/hex.ts";
import { TokenBuckets } from "../core/token-buckets.ts";
import type { FirstPage } from "../listings/walk.ts";
import type { PageFactsOptions } from "../metadata/page.ts";
import type { ApiKey } from "../operators/keys.ts";

/** Checks the key of the metrics. @param expected SHA-256 of the key. @throws ApiError 401 */
export function assertMetricsKey(expected: Uint8Array, key: string | null | undefined): void {
  if (!key) throw new ApiError(401, "missing_api_key", "API KEY missing from x-api-key header");
  if (timingSafeEqual(expected, Bun.SHA256.hash(key.slice(0, 256)) as Uint8Array)) return;
  throw new ApiError(401, "invalid_api_key", "x-api-key: the API key is not valid on this server");
}

const MINUTE_MS = 60_000;

/** Limits the rate of each key by a token bucket that holds one minute's worth. */
export class RateLimiter {
  readonly #buckets: TokenBuckets;

  constructor(clock: Clock) {
    this.#buckets = new TokenBuckets(clock);
  }

  /** Takes one request from the key's bucket. @throws ApiError 429 with Retry-After */
  take({ key, requestsPerMinute }: Pick<ApiKey, "key" | "requestsPerMinute">): void {
    const wait = this.#buckets.take(key, { capacity: requestsPerMinute, fillMs: MINUTE_MS });
    if (wait === 0) return;
    const seconds = Math.max(1, Math.ceil(wait / 1_000));
    throw new ApiError(429, "rate_limited", "Rate limit exceeded", { headers: { "retry-after": String(seconds) } });
  }
}

// Parameters that an operation doesn't know are ignored; a response header names the first five.

export const UNKNOWN_PARAMETERS = "x-unknown-parameters";
/** Five names of 64 characters with separators: at most 328 bytes of header. */
const MAX_NAMED = 5;
const MAX_NAME_LENGTH = 64;

export const NFT_PARAMETERS: ReadonlySet<string> = new Set([
  ...["chain", "format", "limit", "totalRanges", "range", "disable_total", "cursor", "normalizeMetadata"],
  ...["media_items", "as_of_block", "metadata_as_of", "holders"],
]);
export const PRICE_PARAMETERS: ReadonlySet<string> = new Set([
  ...["chain", "include", "exchange", "to_block", "min_liquidity_usd"],
]);

/** Returns the header's value for a query string; undefined when all parameters are known. */
export function unknownParameters(search: string, known: ReadonlySet<string>): string | undefined {
  const names = new Set(new URLSearchParams(search).keys());
  const unknown = [...names].filter((name) => name !== "" && !known.has(name));
  return unknown.length === 0 ? undefined : unknown.slice(0, MAX_NAMED).map(shown).join(", ");
}

/** Percent-encodes a name. Cuts it before the character that would exceed the bound, so that it can be decoded. */
function shown(name: string): string {
  let text = "";
  for (const character of name) {
    const encoded = encodeURIComponent(character);
    if (text.length + encoded.length > MAX_NAME_LENGTH) break;
    text += encoded;
  }
  return text;
}

/** A parsed query string. A repeated parameter is a list. */
export type RawQuery = Readonly<Record<string, string | readonly string[]>>;

/** Parses a query string. Keeps repetitions, so that they can be refused by name. */
export function parseQueryString(search: string): RawQuery {
  const query: Record<string, string | string[]> = Object.create(null);
  for (const [name, value] of new URLSearchParams(search)) {
    const before = query[name];
    if (before === undefined) query[name] = value;
    else if (typeof before === "string") query[name] = [before, value];
    else before.push(value);
  }
  return query;
}

/** Returns a parameter's only value; undefined when absent. @throws ApiError 400 when it is repeated */
export function single(query: RawQuery, name: string): string | undefined {
  const value = query[name];
  if (value === undefined || typeof value === "string") return value;
  throw invalidParameter(name, "must be given at most once");
}

export function chainOf(query: RawQuery): Chain {
  const text = single(query, "chain");
  return text === undefined ? DEFAULT_CHAIN : chainNamed(text);
}

/** @param name of the parameter, for the error. @throws ApiError 400 for a chain that is none */
export function chainNamed(text: string, name = "chain"): Chain {
  const chain = parseChain(text);
  if (chain !== undefined) return chain;
  const names = CHAINS.map((one) => `${one.name} (${one.code})`).join(", ");
  throw invalidParameter(name, `must be one of ${names}`);
}

/** The error for a chain that is known but not enabled. @param name of the parameter */
export function notEnabled(chain: Chain, name = "chain"): ApiError {
  return new ApiError(400, "chain_not_enabled", `chain ${chain.name} is not enabled on this server`, {
    details: { parameter: name },
  });
}

/** @param name of the parameter, for the error. @throws ApiError 400 */
export function addressOf(text: string, name = "address"): Address {
  let decoded = text;
  try {
    decoded = decodeURIComponent(text);
  } catch {
    // Keeps the text: no valid address has a percent sign, so parsing refuses it.
  }
  const address = parseAddress(decoded);
  if (address === undefined) {
    throw invalidParameter(name, "must be 0x and 40 hex digits, in one case or with a valid EIP-55 checksum");
  }
  return address;
}

export function integer(query: RawQuery, name: string, min: number, max: number): number | undefined {
  const text = single(query, name);
  if (text === undefined) return undefined;
  // Accepts ASCII digits only: no sign, no exponent.
  const value = /^[0-9]{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw invalidParameter(name, `must be a whole number from ${min} to ${max}`);
}

export function flag(query: RawQuery, name: string, fallback: boolean): boolean {
  const text = single(query, name);
  if (text === undefined) return fallback;
  if (text === "true" || text === "false") return text === "true";
  throw invalidParameter(name, "must be true or false");
}

interface NftQuery {
  /** A raw cursor, or the parameters of a first page. */
  readonly from: { readonly cursor: string } | { readonly first: FirstPage };
  readonly facts: PageFactsOptions;
}

const ISO_TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})$/;

/** True if the calendar has the day. The engine would accept 31 February as a day in March. */
const isDay = (text: string): boolean => {
  const value = Date.parse(text);
  return !Number.isNaN(value) && new Date(value).toISOString().startsWith(text);
};

export function time(query: RawQuery, name: string): number | undefined {
  const text = single(query, name);
  if (text === undefined) return undefined;
  const value = ISO_TIME.test(text) && isDay(text.slice(0, 10)) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(value)) return value;
  throw invalidParameter(name, "must be an ISO 8601 time with a time zone, such as 2026-01-31T12:00:00Z");
}

const DEFAULT_LIMIT = 100;

/** Parses the listing's parameters. A cursor fixes most of them; those are ignored then. @throws ApiError 400 */
export function nftQuery(query: RawQuery, maxPageSize: number): NftQuery {
  const facts: PageFactsOptions = {
    normalizeMetadata: flag(query, "normalizeMetadata", false),
    mediaItems: flag(query, "media_items", false),
    asOf: time(query, "metadata_as_of"),
  };
  // An empty cursor is the same as none.
  const cursor = single(query, "cursor") || undefined;
  if (cursor !== undefined) {
    if (cursor.length > LIMITS.maxCursorLength) throw invalidCursor();
    return { from: { cursor }, facts };
  }
  const format = single(query, "format") ?? "decimal";
  if (format !== "decimal" && format !== "hex") throw invalidParameter("format", "must be decimal or hex");
  const totalRanges = integer(query, "totalRanges", 1, LIMITS.maxTotalRanges);
  const range = integer(query, "range", 0, LIMITS.maxTotalRanges - 1);
  if (range !== undefined) {
    if (totalRanges === undefined) throw invalidParameter("range", "needs totalRanges, the number of ranges, as well");
    if (range >= totalRanges) {
      throw invalidParameter("range", `must be below totalRanges, so from 0 to ${totalRanges - 1}`);
    }
  }
  const first = {
    limit: integer(query, "limit", 1, maxPageSize) ?? Math.min(DEFAULT_LIMIT, maxPageSize),
    hex: format === "hex",
    holders: flag(query, "holders", false),
    withTotal: !flag(query, "disable_total", true),
    asOfBlock: integer(query, "as_of_block", 0, Number.MAX_SAFE_INTEGER),
    part: totalRanges === undefined ? undefined : { range: range ?? 0, totalRanges },
  };
  return { from: { first }, facts };
}

export function invalidCursor(): Error {
  return invalidParameter("cursor", "must be a cursor of this server, unchanged, for the same address and chain");
}
