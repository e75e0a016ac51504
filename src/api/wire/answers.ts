/**
 * HTTP responses: the target of a request, JSON and errors, and the cache of finished responses by raw path and query.
 * A cached response is given again while the versions that it was made of stand.
 */
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { LRUCache } from "lru-cache";
import { OverBudget } from "../../core/budget.ts";
import { type Clock, withTimeout } from "../../core/clock.ts";
import { AppError, type ErrorCode, Refusal } from "../../core/errors.ts";
import type { KeyRate } from "../../operators/keys.ts";
import { UNKNOWN_PARAMETERS } from "./parameters.ts";

// The target of a request: path and query, independent of the host name. The key check, the router and the response
// cache must all see the same path, so all of them use this file. The router's own parser needs a host of at least four
// characters.

/** Origin of the URLs that the router gets. */
const ORIGIN = "http://localhost";
/** A target in normal form: no dots, escapes or backslashes in the path, no fragment. */
const PLAIN = /^\/[\w/-]*(?:\?[^#]*)?$/;

/**
 * Returns path and query of a URL from the runtime, normalised: `/x/../y` and `/%2e/y` become `/y`. For a request with
 * no or an invalid host, the runtime passes the bare target instead of a URL.
 */
export function targetOf(url: string): string {
  const start = url.startsWith("/") ? 0 : url.indexOf("/", url.indexOf("://") + 3);
  const target = start < 0 ? "/" : url.slice(start);
  if (PLAIN.test(target)) return target;
  const { pathname, search } = new URL(ORIGIN + target);
  return pathname + search;
}

export function pathOf(target: string): string {
  const end = target.indexOf("?");
  return end < 0 ? target : target.slice(0, end);
}

/** Returns the query string of a target, or of a URL from `routed`, without the question mark. */
export function searchOf(target: string): string {
  const at = target.indexOf("?");
  return at < 0 ? "" : target.slice(at + 1);
}

/** Makes the request for the router: GET in place of HEAD. */
export function routerRequest(request: Request, target: string): Request {
  const method = request.method === "HEAD" ? "GET" : request.method;
  const body = method === "GET" ? null : request.body;
  return new Request(ORIGIN + target, { method, headers: request.headers, body });
}

const JSON_TYPE = "application/json; charset=utf-8";

/** Web pages of any origin may read responses. An API key guards them, and no browser sends it by itself. */
const ANY_ORIGIN = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers": [
    "etag, ratelimit, ratelimit-policy, retry-after, x-as-of-block, x-as-of-hash, x-as-of-time, x-chain-status, x-finality, x-request-id",
    UNKNOWN_PARAMETERS,
  ].join(", "),
};

/** Takes back that web pages of any origin may read a response. */
export function withoutOrigins(response: Response): Response {
  for (const name of Object.keys(ANY_ORIGIN)) response.headers.delete(name);
  return response;
}

/** Adds the id of the request in the server's log. */
export function withRequestId(response: Response, id: string = crypto.randomUUID()): Response {
  response.headers.set("x-request-id", id);
  return response;
}

/** What the response to one request has of its own. */
interface Responding {
  readonly request: Request;
  readonly id: string;
  /** Undefined on paths without a key. */
  readonly rate: KeyRate | undefined;
}

/** Tells a key's rate (draft-ietf-httpapi-ratelimit-headers). */
export function tellRate(headers: Headers, { limit, left, resetSeconds }: KeyRate): void {
  headers.set("ratelimit-policy", `"minute";q=${limit};w=60`);
  headers.set("ratelimit", `"minute";r=${left};t=${resetSeconds}`);
}

/** What a proxy's log has for a request whose client left before the answer (nginx). It counts as no failure of the service. */
export const CLIENT_GONE = 499;

/** For responses that no cache may store, errors above all. */
export const NO_STORE = "no-store";

/** Answers a CORS preflight: a browser asks if a web page may send a key. */
export function preflight(id: string): Response {
  const headers = {
    ...ANY_ORIGIN,
    "access-control-allow-methods": "GET, HEAD, POST, OPTIONS",
    "access-control-allow-headers": "x-api-key, accept, content-type, if-none-match",
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

/** The JSON of a body, in slices: a list of records with metadata may have megabytes. @returns its parts in order */
export function* jsonParts(body: object): Generator<void, string[]> {
  const parts: string[] = [];
  let slice = 0;
  function* add(text: string): Generator<void> {
    parts.push(text);
    slice += text.length;
    if (slice < SLICE_CHARACTERS) return;
    slice = 0;
    yield;
  }
  function* addList(list: readonly unknown[]): Generator<void> {
    parts.push("[");
    for (const [at, one] of list.entries()) yield* add(`${at === 0 ? "" : ","}${JSON.stringify(one) ?? "null"}`);
    parts.push("]");
  }
  if (Array.isArray(body)) {
    yield* addList(body);
    return parts;
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
  return parts;
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
  no_pool: 404,
  low_liquidity: 404,
  not_a_token: 404,
  unknown_decimals: 404,
  no_price_at_block: 404,
  no_dollar: 404,
  method_not_allowed: 405,
  history_pruned: 409,
  not_indexed_yet: 409,
  conflict: 409,
  cursor_reorged: 410,
  too_large: 413,
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

/** Makes the response to HEAD: the headers of GET, with the content length of its body. */
export async function withoutBody(response: Response): Promise<Response> {
  // A file is made while it is read, and its length is not known before.
  if (response.headers.has("content-disposition")) {
    await response.body?.cancel();
    return new Response(null, { status: response.status, headers: response.headers });
  }
  const bytes = await response.arrayBuffer();
  const headers = new Headers(response.headers);
  if (response.status !== 304) headers.set("content-length", String(bytes.byteLength));
  return new Response(null, { status: response.status, headers });
}

const gzipAsync = promisify(gzip);
/** Below this size a compressed body saves too little. */
const MIN_COMPRESSED = 1_024;
/** Cost of an entry in addition to its bodies and its key: headers and objects. */
const ENTRY_BYTES = 2_048;

type Encoding = "zstd" | "gzip";

/** A body with its status and headers. Bodies are blobs, because a `Response` shares a blob and copies other bytes. */
interface CachedResponse {
  readonly status: number;
  readonly body: Blob;
  /** Includes the `x-request-id` of the latest request. Each `Response` copies the headers when it is made. */
  readonly headers: Headers;
  /** "" for a response without an entity tag. */
  readonly etag: string;
  readonly compressed: Partial<Record<Encoding, Blob | Promise<Blob>>>;
}

/** A route's response. Cached only if `isCurrent` is defined, and used while it returns true. */
export interface RouteResponse {
  readonly answer: CachedResponse;
  readonly isCurrent?: (() => boolean) | undefined;
}

/**
 * Makes a response body of a text, or of bytes, which it copies. Adds an entity tag if clients may cache the response.
 * The tag is weak, since the compressed forms share it.
 */
export function cachedResponse(
  body: string | Uint8Array<ArrayBuffer>,
  status: number,
  headers: Headers,
): CachedResponse {
  const isTagged = status === 200 && headers.get("cache-control") !== NO_STORE;
  const etag = isTagged ? `W/"${Bun.hash.xxHash3(body).toString(16)}"` : "";
  if (isTagged) headers.set("etag", etag);
  headers.append("vary", "accept-encoding");
  return { status, body: new Blob([body]), headers, etag, compressed: {} };
}

export class ResponseCache {
  readonly #entries: LRUCache<string, RouteResponse>;

  /** @param maxBytes bound on all bodies, with compressed forms and keys: a query string can be long */
  constructor(maxBytes: number) {
    this.#entries = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: ({ answer }, question) => bytesOf(answer) + question.length,
    });
  }

  get bytes(): number {
    return this.#entries.calculatedSize;
  }

  /** Returns the cached response to a path and query if it is still current. */
  get(question: string): CachedResponse | undefined {
    const kept = this.#entries.get(question);
    if (kept === undefined) return undefined;
    if (kept.isCurrent?.() === true) return kept.answer;
    this.#entries.delete(question);
    return undefined;
  }

  /** Caches a response that is current. */
  put(question: string, response: RouteResponse): void {
    if (response.isCurrent?.() === true) this.#entries.set(question, response);
  }

  /** Makes the response to this request: as it is, compressed, or a 304. Synchronous, unless it must compress first. */
  respond(question: string, answer: CachedResponse, { request, id, rate }: Responding): Response | Promise<Response> {
    const { status, body, headers, etag } = answer;
    const setOwn = () => {
      headers.set("x-request-id", id);
      if (rate !== undefined) tellRate(headers, rate);
    };
    setOwn();
    if (etag !== "" && matchesEtag(etag, request.headers.get("if-none-match"))) return notModified(headers);
    const encoding = body.size >= MIN_COMPRESSED ? encodingOf(request.headers.get("accept-encoding")) : undefined;
    if (encoding === undefined) return new Response(body, { status, headers });
    const known = answer.compressed[encoding] ?? this.#compress(question, answer, encoding);
    if (known instanceof Blob) return encoded(answer, encoding, known);
    return known.then((form) => {
      // A concurrent request may have changed the shared headers.
      setOwn();
      return encoded(answer, encoding, form);
    });
  }

  /** Compresses off the main thread, once for all concurrent requests. */
  #compress(question: string, answer: CachedResponse, encoding: Encoding): Promise<Blob> {
    const { compressed } = answer;
    const work = compress(answer.body, encoding).then(
      (form) => {
        compressed[encoding] = form;
        // Updates the size of the entry.
        const kept = this.#entries.peek(question);
        if (kept?.answer === answer) this.#entries.set(question, kept);
        return form;
      },
      (error: unknown) => {
        delete compressed[encoding];
        throw error;
      },
    );
    compressed[encoding] = work;
    return work;
  }
}

function bytesOf({ body, compressed }: CachedResponse): number {
  let bytes = ENTRY_BYTES + body.size;
  for (const form of [compressed.gzip, compressed.zstd]) if (form instanceof Blob) bytes += form.size;
  return bytes;
}

async function compress(body: Blob, encoding: Encoding): Promise<Blob> {
  const bytes = new Uint8Array(await body.arrayBuffer());
  const form = encoding === "zstd" ? await Bun.zstdCompress(bytes) : await gzipAsync(bytes, { level: 5 });
  return new Blob([new Uint8Array(form)]);
}

function encoded({ status, headers }: CachedResponse, encoding: Encoding, form: Blob): Response {
  const response = new Response(form, { status, headers });
  response.headers.set("content-encoding", encoding);
  return response;
}

function notModified(headers: Headers): Response {
  const response = new Response(null, { status: 304, headers });
  response.headers.delete("content-type");
  return response;
}

/** Returns the encoding with the highest quality that the client accepts; zstd wins over gzip if they are equal. */
function encodingOf(accept: string | null): Encoding | undefined {
  if (accept === null) return undefined;
  let best: { name: Encoding; quality: number } | undefined;
  for (const part of accept.toLowerCase().split(",")) {
    const [name = "", ...parameters] = part.split(";").map((piece) => piece.trim());
    if (name !== "zstd" && name !== "gzip") continue;
    const q = parameters.find((parameter) => parameter.startsWith("q="));
    const quality = q === undefined ? 1 : Number(q.slice(2));
    const better = best === undefined || quality > best.quality || (quality === best.quality && name === "zstd");
    if (quality > 0 && better) best = { name, quality };
  }
  return best?.name;
}
