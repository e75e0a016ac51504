/** Answers before they are put on the wire: JSON from ready text, errors as the contract has them, HEAD. */
import { ApiError, AppError } from "../core/errors.ts";

export const JSON_TYPE = "application/json; charset=utf-8";

/** A JSON answer from ready text. */
export function json(body: string, headers: Record<string, string> = {}, status = 200): Response {
  return new Response(body, { status, headers: jsonHeaders(headers) });
}

/** The headers of a JSON answer. */
export const jsonHeaders = (headers: Record<string, string>): Headers =>
  new Headers({ "content-type": JSON_TYPE, ...headers });

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

/** The answer to HEAD: the headers of GET, with the length its body would have. */
export async function withoutBody(response: Response): Promise<Response> {
  const bytes = await response.arrayBuffer();
  const headers = new Headers(response.headers);
  if (response.status !== 304) headers.set("content-length", String(bytes.byteLength));
  return new Response(null, { status: response.status, headers });
}
