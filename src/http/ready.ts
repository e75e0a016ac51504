/**
 * Answers that are ready: the bytes, headers and compressed forms of what was asked before, under the raw path and query,
 * for as long as the same question has the same answer. A hit costs a look-up and a response: nothing is parsed, routed,
 * validated or serialised. In: a response of a route and how to know that it still holds. Out: a response on the wire.
 */
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { LRUCache } from "lru-cache";
import { isNamed, NO_STORE } from "./respond.ts";

const gzipAsync = promisify(gzip);
/** Below this a compressed body is hardly smaller than its headers. */
const MIN_COMPRESSED = 1_024;
/** What an entry costs beside its bodies and its key: headers and objects. */
const ENTRY_BYTES = 2_048;

type Encoding = "zstd" | "gzip";

/** A body ready to be sent, and what is sent with it. Blobs, since a response shares theirs and copies any other bytes. */
export interface ReadyAnswer {
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
