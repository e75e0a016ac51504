/**
 * The target of a request: path and query, independent of the host name. The key check, the router and the response
 * cache must all see the same path, so all of them use this file. The router's own parser needs a host of at least four
 * characters.
 */

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
