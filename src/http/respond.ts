/**
 * Answers on their way out: JSON errors, entity tags and 304, compression by what the client takes, HEAD. In: a
 * response of a route. Out: the response on the wire.
 */
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { ApiError, AppError } from "../core/errors.ts";

const gzipAsync = promisify(gzip);
/** Below this a compressed body is hardly smaller than its headers. */
const MIN_COMPRESSED = 1_024;

export const JSON_TYPE = "application/json; charset=utf-8";

/** A JSON answer from ready text. */
export function json(body: string, headers: Record<string, string> = {}, status = 200): Response {
  return new Response(body, { status, headers: { "content-type": JSON_TYPE, ...headers } });
}

/** The answer to anything thrown. Faults of ours tell nothing internal. */
export function errorResponse(error: unknown): Response {
  const known = toApiError(error);
  const { message, code, details, status, headers } = known;
  return json(JSON.stringify({ message, code, ...(details === undefined ? {} : { details }) }), headers, status);
}

/** The error as API.md's table has it. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof AppError && (error.code === "chain_unavailable" || error.code === "chain_moved")) {
    const chain = error.meta["chain"];
    const name = typeof chain === "string" ? chain : "the chain";
    return new ApiError(503, "chain_unavailable", `no endpoint of ${name} answers at the moment; try again later`, {
      headers: { "retry-after": "5" },
    });
  }
  return new ApiError(500, "internal", "internal error; the request id names it in the server's log");
}

/** The first of zstd, gzip that the client takes, by quality. */
function encodingOf(accept: string | null): "zstd" | "gzip" | undefined {
  if (accept === null) return undefined;
  let best: { name: "zstd" | "gzip"; quality: number } | undefined;
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

function matches(ifNoneMatch: string | null, etag: string): boolean {
  if (ifNoneMatch === null) return false;
  return ifNoneMatch.trim() === "*" || ifNoneMatch.split(",").some((tag) => tag.trim() === etag);
}

/** Adds entity tag and caching to a 200 of the API, answers 304 where the client has it already, compresses. */
export async function finish(request: Request, response: Response): Promise<Response> {
  const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
  if (!isJson) return response;
  const body = new Uint8Array(await response.arrayBuffer());
  const headers = response.headers;
  if (response.status === 200 && headers.has("cache-control")) {
    // Weak: the same answer compressed is the same answer.
    const etag = `W/"${Bun.hash.xxHash3(body).toString(16)}"`;
    headers.set("etag", etag);
    if (matches(request.headers.get("if-none-match"), etag)) {
      headers.delete("content-type");
      return new Response(null, { status: 304, headers });
    }
  }
  headers.append("vary", "accept-encoding");
  const encoding = body.length >= MIN_COMPRESSED ? encodingOf(request.headers.get("accept-encoding")) : undefined;
  if (encoding === undefined) return new Response(body, { status: response.status, headers });
  const compressed = encoding === "zstd" ? await Bun.zstdCompress(body) : await gzipAsync(body, { level: 5 });
  headers.set("content-encoding", encoding);
  return new Response(new Uint8Array(compressed), { status: response.status, headers });
}

/** The answer to HEAD: the headers of GET, with the length its body would have. */
export async function withoutBody(response: Response): Promise<Response> {
  const bytes = await response.arrayBuffer();
  const headers = new Headers(response.headers);
  if (response.status !== 304) headers.set("content-length", String(bytes.byteLength));
  return new Response(null, { status: response.status, headers });
}
