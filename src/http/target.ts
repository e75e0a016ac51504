/**
 * What a request asks for, as text: path and query, whatever name the server was called by. A file of its own since
 * everything that looks at a path has to see the same one: the check of keys, the routes, the answers that are ready. The
 * router's own reading expects a host of four characters and more, and none that is left out.
 */

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
