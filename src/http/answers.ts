/**
 * Answers that are ready: the bytes, headers and compressed forms of what was asked before, under the raw path and query,
 * for as long as the same question has the same answer. A hit costs a look-up and a response: nothing is parsed, routed,
 * validated or serialised. In: a response of a route and how to know that it still holds. Out: a response on the wire.
 */
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { LRUCache } from "lru-cache";
import { ApiError, AppError } from "../core/errors.ts";
import { UNKNOWN_PARAMETERS } from "./query.ts";

// What a request asks for, as text: path and query, whatever name the server was called by. A file of its own since
// everything that looks at a path has to see the same one: the check of keys, the routes, the answers that are ready. The
// router's own reading expects a host of four characters and more, and none that is left out.

/** The origin of URLs that are handed to the router. */
const ORIGIN = "http://localhost";
/** Nothing in it is said otherwise in a URL: no dots, escapes or backslashes in the path, no fragment. */
const PLAIN = /^\/[\w/-]*(?:\?[^#]*)?$/;

/**
 * Path and query of a URL as the runtime gives it, as a URL has them: `/x/../y` and `/%2e/y` are `/y`. Where no host was
 * named, or none that can be, the runtime gives the bare text of the request, and a `Request` made of it reads it so.
 */
export function targetOf(url: string): string {
  const target = url.startsWith("/") ? url : afterHost(url);
  if (PLAIN.test(target)) return target;
  const { pathname, search } = new URL(ORIGIN + target);
  return pathname + search;
}

function afterHost(url: string): string {
  const start = url.indexOf("/", url.indexOf("://") + 3);
  return start < 0 ? "/" : url.slice(start);
}

export function pathOf(target: string): string {
  const end = target.indexOf("?");
  return end < 0 ? target : target.slice(0, end);
}

/** Query string of a target or a URL of our own, without the question mark. */
export function searchOf(target: string): string {
  const at = target.indexOf("?");
  return at < 0 ? "" : target.slice(at + 1);
}

/** The request as the router is to see it: HEAD like GET, and no body, which no route reads. */
export function routed(request: Request, target: string): Request {
  const method = request.method === "HEAD" ? "GET" : request.method;
  return new Request(ORIGIN + target, { method, headers: request.headers });
}

// Answers before they are put on the wire: JSON from ready text, errors as the contract has them, HEAD.

const JSON_TYPE = "application/json; charset=utf-8";

/** Pages of any origin may read answers: what guards them is a key, which no browser sends by itself. */
const ANY_ORIGIN = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers": [
    "etag, retry-after, x-as-of-block, x-as-of-hash, x-as-of-time, x-chain-status, x-finality, x-request-id",
    UNKNOWN_PARAMETERS,
  ].join(", "),
};

/** For answers that no cache may give to another client, errors above all. */
export const NO_STORE = "no-store";

/** The answer to a browser that asks whether a page may send a key. */
export function preflight(id: string): Response {
  const headers = {
    ...ANY_ORIGIN,
    "access-control-allow-methods": "GET, HEAD, OPTIONS",
    "access-control-allow-headers": "x-api-key, accept, content-type, if-none-match",
    "access-control-max-age": "86400",
    "cache-control": NO_STORE,
    "x-request-id": id,
  };
  return new Response(null, { status: 204, headers });
}

/** A JSON answer from ready text, which is not stored unless `headers` say otherwise. */
export function json(body: string, headers: Record<string, string> = {}, status = 200): Response {
  return new Response(body, { status, headers: jsonHeaders(headers) });
}

/** The headers of a JSON answer. */
export const jsonHeaders = (headers: Record<string, string>): Headers =>
  new Headers({ "content-type": JSON_TYPE, "cache-control": NO_STORE, ...ANY_ORIGIN, ...headers });

/** The answer to anything thrown. Faults of ours tell nothing internal. */
export function errorResponse(error: unknown): Response {
  const known = toApiError(error);
  const { message, code, details, status, headers } = known;
  return json(JSON.stringify({ message, code, ...(details === undefined ? {} : { details }) }), headers, status);
}

/** The error as API.md's table has it. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (isOfTheChain(error)) {
    const chain = error.meta["chain"];
    const name = typeof chain === "string" ? chain : "the chain";
    return new ApiError(503, "chain_unavailable", `no endpoint of ${name} answers at the moment; try again later`, {
      headers: { "retry-after": "5" },
    });
  }
  return new ApiError(500, "internal", "internal error; the request id names it in the server's log");
}

/** Whether the chain's endpoints are what an answer failed for: none answers, they moved on meanwhile, or they refused. */
function isOfTheChain(error: unknown): error is AppError {
  return error instanceof AppError && (/^chain_(?:unavailable|moved)$/.test(error.code) || isRefusal(error));
}

/** Whether an endpoint has refused what was asked, for a reason that asking again does not change. */
export function isRefusal(error: unknown): boolean {
  return error instanceof AppError && (error.code === "state_unavailable" || error.code.startsWith("rpc_"));
}

/** Whether an `if-none-match` names the entity tag; a weak one is as good (RFC 9110, 13.1.2). */
export function isNamed(etag: string, ifNoneMatch: string | null): boolean {
  if (ifNoneMatch === null) return false;
  const strong = (tag: string): string => (tag.startsWith("W/") ? tag.slice(2) : tag);
  const wanted = strong(etag);
  return ifNoneMatch.trim() === "*" || ifNoneMatch.split(",").some((tag) => strong(tag.trim()) === wanted);
}

/** The answer to HEAD: the headers of GET, with the length its body would have. */
export async function withoutBody(response: Response): Promise<Response> {
  const bytes = await response.arrayBuffer();
  const headers = new Headers(response.headers);
  if (response.status !== 304) headers.set("content-length", String(bytes.byteLength));
  return new Response(null, { status: response.status, headers });
}

const gzipAsync = promisify(gzip);
/** Below this a compressed body is hardly smaller than its headers. */
const MIN_COMPRESSED = 1_024;
/** What an entry costs beside its bodies and its key: headers and objects. */
const ENTRY_BYTES = 2_048;

type Encoding = "zstd" | "gzip";

/** A body ready to be sent, and what is sent with it. Blobs, since a response shares theirs and copies any other bytes. */
interface ReadyAnswer {
  readonly status: number;
  readonly body: Blob;
  /** With `x-request-id`, of whichever request was answered last: a response copies them when it is made. */
  readonly headers: Headers;
  /** "" where the answer has none. */
  readonly etag: string;
  readonly compressed: Partial<Record<Encoding, Blob | Promise<Blob>>>;
}

interface Kept {
  readonly answer: ReadyAnswer;
  /** Whether the question would be answered the same now. */
  readonly isCurrent: () => boolean;
}

/** What a route answers, and how to know that it would answer the same again; undefined: it might not. */
export interface RouteAnswer {
  readonly answer: ReadyAnswer;
  readonly isCurrent?: (() => boolean) | undefined;
}

/**
 * An answer of a text, or of its bytes, which are copied. With an entity tag where it may be kept by clients; a weak one:
 * the same answer compressed is the same answer.
 */
export function readyAnswer(body: string | Uint8Array<ArrayBuffer>, status: number, headers: Headers): ReadyAnswer {
  const isTagged = status === 200 && headers.get("cache-control") !== NO_STORE;
  const etag = isTagged ? `W/"${Bun.hash.xxHash3(body).toString(16)}"` : "";
  if (isTagged) headers.set("etag", etag);
  headers.append("vary", "accept-encoding");
  return { status, body: new Blob([body]), headers, etag, compressed: {} };
}

export class ReadyAnswers {
  readonly #kept: LRUCache<string, Kept>;

  /** @param maxBytes of all bodies, compressed ones among them, and of what was asked: anything may stand in a query */
  constructor(maxBytes: number) {
    this.#kept = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: ({ answer }, question) => bytesOf(answer) + question.length,
    });
  }

  get bytes(): number {
    return this.#kept.calculatedSize;
  }

  /** The answer to a path and query, when it was given before and still holds. */
  get(question: string): ReadyAnswer | undefined {
    const kept = this.#kept.get(question);
    if (kept === undefined) return undefined;
    if (kept.isCurrent()) return kept.answer;
    this.#kept.delete(question);
    return undefined;
  }

  keep(question: string, answer: ReadyAnswer, isCurrent: () => boolean): void {
    this.#kept.set(question, { answer, isCurrent });
  }

  /** Counts what an answer has grown by: a compressed form. */
  #grown(question: string, answer: ReadyAnswer): void {
    const kept = this.#kept.peek(question);
    if (kept?.answer === answer) this.#kept.set(question, kept);
  }

  /** The answer as this request takes it: as it is, compressed, or as a 304. At once, unless it has to be compressed. */
  respond(question: string, answer: ReadyAnswer, request: Request, id: string): Response | Promise<Response> {
    const { status, body, headers, etag } = answer;
    headers.set("x-request-id", id);
    if (etag !== "" && isNamed(etag, request.headers.get("if-none-match"))) return notModified(headers);
    const encoding = body.size >= MIN_COMPRESSED ? encodingOf(request.headers.get("accept-encoding")) : undefined;
    if (encoding === undefined) return new Response(body, { status, headers });
    const known = answer.compressed[encoding] ?? this.#compress(question, answer, encoding);
    if (known instanceof Blob) return encoded(answer, encoding, known);
    return known.then((form) => {
      // Others may have been answered meanwhile.
      headers.set("x-request-id", id);
      return encoded(answer, encoding, form);
    });
  }

  /** Off this thread, once however many ask for it meanwhile. */
  #compress(question: string, answer: ReadyAnswer, encoding: Encoding): Promise<Blob> {
    const { compressed } = answer;
    const work = compress(answer.body, encoding).then(
      (form) => {
        compressed[encoding] = form;
        this.#grown(question, answer);
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

function bytesOf({ body, compressed }: ReadyAnswer): number {
  let bytes = ENTRY_BYTES + body.size;
  for (const form of [compressed.gzip, compressed.zstd]) if (form instanceof Blob) bytes += form.size;
  return bytes;
}

async function compress(body: Blob, encoding: Encoding): Promise<Blob> {
  const bytes = new Uint8Array(await body.arrayBuffer());
  const form = encoding === "zstd" ? await Bun.zstdCompress(bytes) : await gzipAsync(bytes, { level: 5 });
  return new Blob([new Uint8Array(form)]);
}

function encoded({ status, headers }: ReadyAnswer, encoding: Encoding, form: Blob): Response {
  const response = new Response(form, { status, headers });
  response.headers.set("content-encoding", encoding);
  return response;
}

function notModified(headers: Headers): Response {
  const response = new Response(null, { status: 304, headers });
  response.headers.delete("content-type");
  return response;
}

/** The best of zstd and gzip that the client takes, by quality; zstd where it takes both alike. */
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
