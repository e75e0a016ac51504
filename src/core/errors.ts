/**
 * Errors, classified by what the caller should do. Each has a `code`, says whether the same call may be tried again
 * (`retryable`), carries `meta` that locates the fault (chain, block range, attempt) and redacts itself: endpoint URLs
 * carry keys, so no message or meta of an `AppError` can hold one.
 */

export type ErrorMeta = Readonly<Record<string, string | number | boolean | null | undefined>>;

export interface AppErrorOptions {
  readonly code: string;
  readonly retryable?: boolean;
  readonly meta?: ErrorMeta;
  readonly cause?: unknown;
}

/** Anything that looks like a URL: replaced, since paths and queries of RPC URLs are keys. */
const URL_PATTERN = /\b(?:https?|wss?|postgres(?:ql)?):\/\/[^\s"'`<>)\]}]+/gi;

/** Replaces every URL in `text` by its scheme alone; user names, hosts, paths and keys are gone. */
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

/** The log's tail is not where the writer believed it is: somebody else appended first. */
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

/** Something that must be true is not: a damaged record, a gap in versions, a range that does not connect. */
export class InvariantError extends AppError {
  constructor(message: string, meta: ErrorMeta = {}, cause?: unknown) {
    super(message, { code: "invariant", meta, cause });
  }
}

/** Throws `InvariantError` unless `condition` holds. */
export function invariant(condition: boolean, message: string, meta: ErrorMeta = {}): asserts condition {
  if (!condition) throw new InvariantError(message, meta);
}

/** The codes of answers other than 200. The OpenAPI document lists them. */
export const ERROR_CODES = [
  "invalid_parameter",
  "chain_not_enabled",
  "missing_api_key",
  "invalid_api_key",
  "not_found",
  "not_a_contract",
  "no_pool",
  "low_liquidity",
  "not_a_token",
  "unknown_decimals",
  "no_price_at_block",
  "method_not_allowed",
  "not_indexed_yet",
  "cursor_reorged",
  "upgrade_required",
  "rate_limited",
  "internal",
  "chain_unavailable",
  "log_unavailable",
  "starting",
] as const;

export type ErrorCode = (typeof ERROR_CODES)[number];

/** An HTTP answer other than 200, as API.md's error table has it. */
export class ApiError extends AppError {
  declare readonly code: ErrorCode;
  readonly status: number;
  readonly details: Readonly<Record<string, unknown>> | undefined;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    code: ErrorCode,
    message: string,
    options: { details?: Record<string, unknown>; headers?: Record<string, string> } = {},
  ) {
    super(message, { code });
    this.status = status;
    this.details = options.details;
    this.headers = options.headers ?? {};
  }
}

/** A 400 that names the parameter and what is allowed. */
export function invalidParameter(parameter: string, allowed: string): ApiError {
  return new ApiError(400, "invalid_parameter", `${parameter}: ${allowed}`, { details: { parameter } });
}

/** The message of anything thrown, redacted, on one line. */
export function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return redact(text).replace(/\s+/g, " ").slice(0, 500);
}

/** Whether the same call may succeed later; unknown errors are taken to be final. */
export function isRetryable(error: unknown): boolean {
  return error instanceof AppError && error.retryable;
}

/** Whether the error is an abort of ours rather than a failure. */
export function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === "AbortError";
}
