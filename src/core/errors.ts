/**
 * Errors, classified by what the caller should do. Each has a `code`, a `retryable` flag for the same call, and `meta`
 * that locates the fault (chain, block range, attempt). Endpoint URLs carry keys, so an `AppError` redacts its message
 * and meta itself.
 */
import type { Secrets } from "./secrets.ts";

export type ErrorMeta = Readonly<Record<string, string | number | boolean | null | undefined>>;

interface AppErrorOptions {
  readonly code: string;
  readonly retryable?: boolean;
  readonly meta?: ErrorMeta;
  readonly cause?: unknown;
}

/**
 * Matches URLs. The whole URL is replaced, because paths and queries of RPC URLs are keys. A login may contain any
 * punctuation.
 */
const URL_PATTERN = /\b(?:https?|wss?|postgres(?:ql)?):\/\/(?:[^\s/?#@]*@)?[^\s"'`<>)\]}]+/gi;

/** Replaces every URL in `text` with its scheme. Removes user names, hosts, paths and keys. */
export function redact(text: string): string {
  return text.replace(URL_PATTERN, (url) => `${url.slice(0, url.indexOf(":"))}://[redacted]`);
}

export class AppError extends Error {
  readonly code: string;
  readonly retryable: boolean;
  readonly meta: ErrorMeta;

  constructor(message: string, options: AppErrorOptions) {
    super(redact(message), options.cause === undefined ? undefined : { cause: options.cause });
    this.name = new.target.name;
    this.code = options.code;
    this.retryable = options.retryable ?? false;
    const meta: Record<string, string | number | boolean | null | undefined> = {};
    for (const [key, value] of Object.entries(options.meta ?? {})) {
      meta[key] = typeof value === "string" ? redact(value) : value;
    }
    this.meta = meta;
  }
}

/** The stream is not at the version that the writer expects: another writer appended first. */
export class ConcurrencyError extends AppError {
  readonly stream: string;
  readonly expectedVersion: number;
  readonly actualVersion: number;

  constructor(stream: string, expectedVersion: number, actualVersion: number) {
    super(`stream ${stream} is at version ${actualVersion}, expected ${expectedVersion}`, {
      code: "concurrency",
      meta: { stream, expectedVersion, actualVersion },
    });
    this.stream = stream;
    this.expectedVersion = expectedVersion;
    this.actualVersion = actualVersion;
  }
}

/** The events of the log can be read, but the store of its blobs can't be reached, or refuses. */
export class BlobsUnavailable extends AppError {
  constructor(message: string, retryable = true) {
    super(message, { code: "log_unavailable", retryable });
  }
}

/** A broken invariant: a damaged record, a gap in versions, a range that does not connect. */
export class InvariantError extends AppError {
  constructor(message: string, meta: ErrorMeta = {}, cause?: unknown) {
    super(message, { code: "invariant", meta, cause });
  }
}

/** @throws InvariantError unless `condition` holds */
export function invariant(condition: boolean, message: string, meta: ErrorMeta = {}): asserts condition {
  if (!condition) throw new InvariantError(message, meta);
}

/** Codes of refusals. The documents list them; the room `http` knows the status of each. */
export const ERROR_CODES = [
  "invalid_parameter",
  "chain_not_enabled",
  "missing_api_key",
  "invalid_api_key",
  "not_found",
  "not_a_contract",
  "not_served",
  "no_pool",
  "low_liquidity",
  "not_a_token",
  "unknown_decimals",
  "no_price_at_block",
  "no_dollar",
  "method_not_allowed",
  "history_pruned",
  "state_unavailable",
  "not_indexed_yet",
  "conflict",
  "forbidden",
  "cursor_reorged",
  "too_large",
  "upgrade_required",
  "rate_limited",
  "internal",
  "chain_unavailable",
  "log_unavailable",
  "searching",
  "starting",
] as const;

export type ErrorCode = (typeof ERROR_CODES)[number];

interface RefusalFacts {
  /** Facts for programs, such as the name of the parameter. */
  readonly details?: Readonly<Record<string, unknown>>;
  /** Seconds after which the same request may succeed. */
  readonly retryAfter?: number;
}

/** A request can't be fulfilled, for a reason that its sender learns in words and as a code. */
export class Refusal extends AppError {
  declare readonly code: ErrorCode;
  readonly details: Readonly<Record<string, unknown>> | undefined;
  readonly retryAfter: number | undefined;

  constructor(code: ErrorCode, message: string, { details, retryAfter }: RefusalFacts = {}) {
    super(message, { code });
    this.details = details;
    this.retryAfter = retryAfter;
  }
}

/** The refusal of a parameter, which names it and the allowed values. */
export function invalidParameter(parameter: string, allowed: string): Refusal {
  return new Refusal("invalid_parameter", `${parameter}: ${allowed}`, { details: { parameter } });
}

/** The client left before it had sent its whole request. */
export class ClientGone extends Error {}

/** Most characters of a message that are examined, and that are kept. */
const [MAX_EXAMINED, MAX_MESSAGE] = [2_000, 500];

/**
 * Returns the message of any thrown value, redacted, on one line, of at most 500 characters.
 * @param secrets the secrets of the place that the error came from
 */
export function messageOf(error: unknown, secrets?: Secrets): string {
  const text = redact(error instanceof Error ? error.message : String(error)).replace(/\s+/g, " ");
  return secrets === undefined ? text.slice(0, MAX_MESSAGE) : secrets.redact(text.slice(0, MAX_EXAMINED), MAX_MESSAGE);
}

/** True if the same call may succeed later. Unknown errors count as final. */
export function isRetryable(error: unknown): boolean {
  return error instanceof AppError && error.retryable;
}

/** True if the error is an abort by this program, not a failure. */
export function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === "AbortError";
}
