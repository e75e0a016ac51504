/** Answers before they are put on the wire: JSON from ready text, errors as the contract has them, HEAD. */
import { ApiError, AppError } from "../core/errors.ts";
import { UNKNOWN_PARAMETERS } from "./unknown.ts";

export const JSON_TYPE = "application/json; charset=utf-8";

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
