/** HTTP responses: their headers, JSON in one piece or in slices, errors with their status, and the response to HEAD. */
import { Budget, OverBudget } from "../../core/budget.ts";
import { type Clock, withTimeout } from "../../core/clock.ts";
import { AppError, BlobsUnavailable, type ErrorCode, Refusal } from "../../core/errors.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import type { KeyRate } from "../../operators/keys.ts";
import { UNKNOWN_PARAMETERS } from "./parameters.ts";

const JSON_TYPE = "application/json; charset=utf-8";

/** Web pages of any origin may read responses. An API key guards them, and no browser sends it by itself. */
const ANY_ORIGIN = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers": [
    "content-disposition, deprecation, etag, link, ratelimit, ratelimit-policy, retry-after, x-as-of-block, x-as-of-hash, x-as-of-time, x-chain-status, x-covered, x-finality, x-request-id",
    UNKNOWN_PARAMETERS,
  ].join(", "),
};

/** Lets web pages of any origin read a response, or takes that back. */
export function tellOrigins(headers: Headers, isForOrigins: boolean): void {
  for (const [name, value] of Object.entries(ANY_ORIGIN)) {
    if (!isForOrigins) headers.delete(name);
    else if (!headers.has(name)) headers.set(name, value);
  }
}

/** Adds the id of the request in the server's log. */
export function withRequestId(response: Response, id: string = crypto.randomUUID()): Response {
  response.headers.set("x-request-id", id);
  return response;
}

/** What the response to one request has of its own. */
export interface Responding {
  readonly request: Request;
  readonly id: string;
  /** Undefined on paths without a key. */
  readonly rate: KeyRate | undefined;
  /** Returns the body to send of a finished one. @throws Refusal `rate_limited` */
  readonly sent: (body: Blob) => Blob | ReadableStream<Uint8Array>;
}

/** Tells a key's rate (draft-ietf-httpapi-ratelimit-headers). */
export function tellRate(headers: Headers, { limit, left, resetSeconds }: KeyRate): void {
  headers.set("ratelimit-policy", `"minute";q=${limit};w=60`);
  headers.set("ratelimit", `"minute";r=${left};t=${resetSeconds}`);
}

/** nginx logs this status for a request whose client left before the answer. It counts as no failure of the service. */
export const CLIENT_GONE = 499;
/** The status of a body over its bound. */
export const TOO_LARGE = 413;

/** For responses that no cache may store, errors above all. */
export const NO_STORE = "no-store";

/** The token of RFC 6750's scheme. */
export const bearerToken = (headers: Headers): string | undefined =>
  /^Bearer +(\S+) *$/i.exec(headers.get("authorization") ?? "")?.[1];

/** The key of a request: the header of the contract, else a bearer token. */
export const keyText = (headers: Headers): string | undefined => headers.get("x-api-key") || bearerToken(headers);

/** The page about deprecated parameters. */
export const DEPRECATIONS = "/swagger/deprecations";

/** Says that a request used a deprecated parameter, and where to read what to do (RFC 9745). */
export function tellDeprecation(headers: Headers, since: Date, base: string): void {
  headers.set("deprecation", `@${Math.floor(since.getTime() / 1_000)}`);
  headers.append("link", `<${base}${DEPRECATIONS}>; rel="deprecation"; type="text/html"`);
}

/** Methods of the routes that web pages may call. */
export const ORIGIN_METHODS = ["GET", "POST", "PUT"] as const;

/** Answers a CORS preflight: a browser asks if a web page may send a key. */
export function preflight(id: string): Response {
  const headers = {
    ...ANY_ORIGIN,
    "access-control-allow-methods": "GET, HEAD, POST, PUT, OPTIONS",
    "access-control-allow-headers":
      "x-api-key, authorization, accept, content-type, if-none-match, mcp-protocol-version",
    "access-control-max-age": "86400",
    "cache-control": NO_STORE,
    "x-request-id": id,
  };
  return new Response(null, { status: 204, headers });
}

/** Makes a JSON response from ready text. `no-store` unless `headers` override it. */
export function json(body: string, headers: Record<string, string> = {}, status = 200): Response {
  return new Response(body, { status, headers: jsonHeaders(headers) });
}

/** Characters of JSON that are written between two turns of the event loop: a millisecond or two. */
const SLICE_CHARACTERS = 256 * 1024;

/**
 * The JSON of a body, in slices: a list of records with metadata may have megabytes. Each slice becomes bytes at once,
 * because encoding all of them together would take as long as writing them. @returns its parts in order
 */
export function* jsonParts(body: object): Generator<void, (Blob | string)[]> {
  const slices: Blob[] = [];
  const parts: string[] = [];
  let slice = 0;
  function* add(text: string): Generator<void> {
    parts.push(text);
    slice += text.length;
    if (slice < SLICE_CHARACTERS) return;
    slice = 0;
    slices.push(new Blob(parts.splice(0)));
    yield;
  }
  function* addList(list: readonly unknown[]): Generator<void> {
    parts.push("[");
    for (const [at, one] of list.entries()) yield* add(`${at === 0 ? "" : ","}${JSON.stringify(one) ?? "null"}`);
    parts.push("]");
  }
  function* all(): Generator<void, (Blob | string)[]> {
    // The caller's copy of many megabytes takes some milliseconds.
    if (slices.length > 0) yield;
    return [...slices, ...parts];
  }
  if (Array.isArray(body)) {
    yield* addList(body);
    return yield* all();
  }
  let comma = "";
  parts.push("{");
  for (const [name, value] of Object.entries(body)) {
    if (value === undefined) continue;
    parts.push(`${comma}${JSON.stringify(name)}:`);
    comma = ",";
    if (Array.isArray(value)) yield* addList(value);
    else yield* add(JSON.stringify(value));
  }
  parts.push("}");
  return yield* all();
}

/** The text of a blob as a string of JSON, in slices. @returns its parts in order */
export async function quotedParts(body: Blob): Promise<(Blob | string)[]> {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const parts: (Blob | string)[] = ['"'];
  for (let at = 0; at < body.size; at += SLICE_CHARACTERS) {
    const isLast = at + SLICE_CHARACTERS >= body.size;
    const bytes = await body.slice(at, at + SLICE_CHARACTERS).arrayBuffer();
    const quoted = Budget.timed(() => JSON.stringify(decoder.decode(bytes, { stream: !isLast })).slice(1, -1));
    parts.push(isLast ? quoted : new Blob([quoted]));
    if (!isLast) await yieldToEventLoop();
  }
  return [...parts, '"'];
}

export const jsonHeaders = (headers: Record<string, string>): Headers =>
  new Headers({ "content-type": JSON_TYPE, "cache-control": NO_STORE, ...ANY_ORIGIN, ...headers });

/** The status of each refusal, by the error table of API.md. */
const STATUSES: Readonly<Record<ErrorCode, number>> = {
  invalid_parameter: 400,
  chain_not_enabled: 400,
  missing_api_key: 401,
  invalid_api_key: 401,
  forbidden: 403,
  not_found: 404,
  not_a_contract: 404,
  not_served: 404,
  no_pool: 404,
  low_liquidity: 404,
  not_a_token: 404,
  unknown_decimals: 404,
  no_price_at_block: 404,
  no_dollar: 404,
  method_not_allowed: 405,
  history_pruned: 409,
  state_unavailable: 409,
  not_indexed_yet: 409,
  conflict: 409,
  cursor_reorged: 410,
  too_large: TOO_LARGE,
  upgrade_required: 426,
  rate_limited: 429,
  internal: 500,
  chain_unavailable: 503,
  log_unavailable: 503,
  searching: 503,
  starting: 503,
};

export const statusOf = ({ code }: Pick<Refusal, "code">): number => STATUSES[code];

/** A refusal of HTTP itself, with headers that say what would be accepted. */
export class ProtocolRefusal extends Refusal {
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: ErrorCode, message: string, headers: Readonly<Record<string, string>>) {
    super(code, message);
    this.headers = headers;
  }
}

/** Makes the response to anything thrown. An internal error reveals no details. @param status in place of the code's */
export function errorResponse(error: unknown, status?: number): Response {
  const refusal = asRefusal(error);
  const { message, code, details, retryAfter } = refusal;
  const headers = {
    ...(refusal instanceof ProtocolRefusal ? refusal.headers : {}),
    ...(retryAfter === undefined ? {} : { "retry-after": String(retryAfter) }),
  };
  return json(JSON.stringify({ message, code, details }), headers, status ?? statusOf(refusal));
}

/** Maps anything thrown to a refusal. */
export function asRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  if (error instanceof OverBudget) {
    return new Refusal("invalid_parameter", `${error.message}: ask for less at once, such as fewer rows or blocks`);
  }
  if (error instanceof BlobsUnavailable) {
    const text = "the store of metadata and pictures can't be reached at the moment; pages are served on; try again";
    return new Refusal("log_unavailable", text, { retryAfter: 5 });
  }
  if (error instanceof AppError && error.code === "log_unavailable") return logUnavailable();
  if (error instanceof AppError && error.code === "history_pruned") {
    const { block } = error.meta;
    return new Refusal("history_pruned", error.message, { details: { block } });
  }
  // The chain's endpoints caused it: none answered, a reorg interrupted the read, or they refused.
  if (
    error instanceof AppError &&
    (/^chain_(?:unavailable|moved)$|^logs_in_doubt$/.test(error.code) || isNodeRefusal(error))
  ) {
    const chain = error.meta["chain"];
    const name = typeof chain === "string" ? chain : "the chain";
    return new Refusal("chain_unavailable", `no endpoint of ${name} answers at the moment; try again later`, {
      retryAfter: 5,
    });
  }
  return new Refusal("internal", "internal error; the request id names it in the server's log");
}

const logUnavailable = (): Refusal =>
  new Refusal("log_unavailable", "the event log can't be reached at the moment; try again", {
    retryAfter: 1,
  });

/** A request notices after this many ms that the log does not answer. */
const LOG_CHECK_MS = 250;

/** Waits for a response. @throws Refusal `log_unavailable` as soon as the log has stopped answering */
export async function whileLogAnswers<T>(isLogAnswering: () => boolean, clock: Clock, making: Promise<T>): Promise<T> {
  for (;;) {
    const made = await withTimeout(clock, LOG_CHECK_MS, making);
    if (made !== undefined) return made.value;
    if (!isLogAnswering()) throw logUnavailable();
  }
}

/** True if an endpoint refused a request for a reason that a retry does not change. */
export function isNodeRefusal(error: unknown): boolean {
  return error instanceof AppError && (error.code === "state_unavailable" || error.code.startsWith("rpc_"));
}

/** True if an `if-none-match` names the entity tag. Uses weak comparison (RFC 9110, 13.1.2). */
export function matchesEtag(etag: string, ifNoneMatch: string | null): boolean {
  if (ifNoneMatch === null) return false;
  const strong = (tag: string): string => (tag.startsWith("W/") ? tag.slice(2) : tag);
  const wanted = strong(etag);
  return ifNoneMatch.trim() === "*" || ifNoneMatch.split(",").some((tag) => strong(tag.trim()) === wanted);
}

/** A body of HEAD that ends in a later turn: of one that is empty at once the engine writes that it has no bytes. */
const unknownLength = () =>
  new ReadableStream({
    async pull(controller) {
      await yieldToEventLoop();
      controller.close();
    },
  });

/** True for a file: it is made while its client reads it, and its length is not known before. */
export const isFile = ({ headers }: Response): boolean => headers.has("content-disposition");

/** Makes the response to HEAD: the headers of GET, with the content length of its body. */
export async function withoutBody(response: Response): Promise<Response> {
  if (isFile(response)) {
    await response.body?.cancel();
    return new Response(unknownLength(), { status: response.status, headers: response.headers });
  }
  const bytes = await response.arrayBuffer();
  const headers = new Headers(response.headers);
  if (response.status !== 304) headers.set("content-length", String(bytes.byteLength));
  return new Response(null, { status: response.status, headers });
}
