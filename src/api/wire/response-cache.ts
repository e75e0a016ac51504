/**
 * The cache of finished responses by target, the raw path and query of a request. A response is reused as long as
 * everything that it was made from has the same version. The cache also keeps the compressed forms of a body, and answers 304 to
 * a client that already has the body.
 */
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { LRUCache } from "lru-cache";
import { yieldToEventLoop } from "../../core/turns.ts";
import { matchesEtag, NO_STORE, type Responding, tellRate } from "./answers.ts";

const gzipAsync = promisify(gzip);
/** Below this size a compressed body saves too little. */
const MIN_COMPRESSED = 1_024;
/** Bytes that are copied in the turn of the event loop in which they were made: half a millisecond. */
const COPIED_AT_ONCE = 1024 * 1024;
/** Memory of an entry besides its bodies and its key: headers and objects. */
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

/**
 * A route's response. It is cached only if `isCurrent` is defined, and reused as long as that returns true for the key
 * that asks.
 */
export interface RouteResponse {
  readonly answer: CachedResponse;
  readonly isCurrent?: ((key: string) => boolean) | undefined;
}

/** True if clients may keep the response, and so get an entity tag. */
const isTagged = (status: number, headers: Headers): boolean =>
  status === 200 && headers.get("cache-control") !== NO_STORE;

/**
 * Makes a response body of a text, or of bytes, which it copies. Adds an entity tag if clients may cache the response.
 * The tag is weak, since the compressed forms share it.
 */
export function cachedResponse(
  body: string | Uint8Array<ArrayBuffer>,
  status: number,
  headers: Headers,
): CachedResponse {
  const etag = isTagged(status, headers) ? `W/"${Bun.hash.xxHash3(body).toString(16)}"` : "";
  if (etag !== "") headers.set("etag", etag);
  return responseOfBlob(new Blob([body]), status, headers, etag);
}

/** Makes a response like `cachedResponse` of a finished one. Copies its body only if it needs a tag: it may have megabytes. */
export async function responseToShare(finished: Response): Promise<CachedResponse> {
  const { status, headers } = finished;
  if (isTagged(status, headers)) return cachedResponse(new Uint8Array(await finished.arrayBuffer()), status, headers);
  return responseOfBlob(await finished.blob(), status, headers, "");
}

function responseOfBlob(body: Blob, status: number, headers: Headers, etag: string): CachedResponse {
  headers.append("vary", "accept-encoding");
  return { status, body, headers, etag, compressed: {} };
}

export class ResponseCache {
  readonly #entries: LRUCache<string, RouteResponse>;

  /** @param maxBytes bound on all bodies, with compressed forms and keys: a query string can be long */
  constructor(maxBytes: number) {
    this.#entries = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: ({ answer }, target) => bytesOf(answer) + target.length,
    });
  }

  get bytes(): number {
    return this.#entries.calculatedSize;
  }

  /** Returns the cached response if it is still current. @param key name of the key that asks */
  get(target: string, key: string): CachedResponse | undefined {
    const kept = this.#entries.get(target);
    if (kept === undefined) return undefined;
    if (kept.isCurrent?.(key) === true) return kept.answer;
    this.#entries.delete(target);
    return undefined;
  }

  /** Caches a response, if it is current. */
  put(target: string, response: RouteResponse, key: string): void {
    if (response.isCurrent?.(key) === true) this.#entries.set(target, response);
  }

  /**
   * Makes the response to this request: as it is, compressed, or a 304. Synchronous, unless it must compress first.
   * @throws Refusal `rate_limited` if the key's clients leave too much unread
   */
  respond(
    target: string,
    answer: CachedResponse,
    { request, id, rate, sent }: Responding,
  ): Response | Promise<Response> {
    const { status, body, headers, etag } = answer;
    /** Sets the headers that differ for each request. */
    const setOwn = () => {
      headers.set("x-request-id", id);
      if (rate !== undefined) tellRate(headers, rate);
    };
    setOwn();
    if (etag !== "" && matchesEtag(etag, request.headers.get("if-none-match"))) return notModified(headers);
    const encoding = body.size >= MIN_COMPRESSED ? encodingOf(request.headers.get("accept-encoding")) : undefined;
    if (encoding === undefined) return new Response(sent(body), { status, headers });
    const known = answer.compressed[encoding] ?? this.#compress(target, answer, encoding);
    if (known instanceof Blob) return encoded(answer, encoding, sent(known));
    return known.then((form) => {
      // A concurrent request may have changed the shared headers.
      setOwn();
      return encoded(answer, encoding, sent(form));
    });
  }

  /** Compresses off the main thread, once for all concurrent requests. */
  #compress(target: string, answer: CachedResponse, encoding: Encoding): Promise<Blob> {
    const { compressed } = answer;
    const work = compress(answer.body, encoding).then(
      (form) => {
        compressed[encoding] = form;
        // Setting the entry anew makes the cache measure its new size.
        const kept = this.#entries.peek(target);
        if (kept?.answer === answer) this.#entries.set(target, kept);
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
  // The body was just made, and takes as long to copy again.
  if (body.size > COPIED_AT_ONCE) await yieldToEventLoop();
  const bytes = await body.bytes();
  const form = encoding === "zstd" ? await Bun.zstdCompress(bytes) : await gzipAsync(bytes, { level: 5 });
  return new Blob([form as Uint8Array<ArrayBuffer>]);
}

function encoded(
  { status, headers }: CachedResponse,
  encoding: Encoding,
  form: Blob | ReadableStream<Uint8Array>,
): Response {
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
