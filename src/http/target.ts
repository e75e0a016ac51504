/**
 * What a request asks for, as text: path and query, whatever name the server was called by. A file of its own since
 * everything that looks at a path has to see the same one: the check of keys, the routes, the answers that are ready. The
 * router's own reading expects a host of four characters and more, and none that is left out.
 */

/** The origin of URLs that are handed to the router. */
const ORIGIN = "http://localhost";

/** Path and query of a URL as the runtime gives it; that of a request without a host has neither scheme nor host. */
export function targetOf(url: string): string {
  if (url.startsWith("/")) return url;
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
  if (at < 0) return "";
  const hash = target.indexOf("#", at);
  return hash < 0 ? target.slice(at + 1) : target.slice(at + 1, hash);
}

/** The request as the router is to see it: HEAD like GET, and no body, which no route reads. */
export function routed(request: Request, target: string): Request {
  const method = request.method === "HEAD" ? "GET" : request.method;
  return new Request(ORIGIN + target, { method, headers: request.headers });
}
