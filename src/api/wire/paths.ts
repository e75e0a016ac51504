/** The paths of requests: of which part of the service they are, which routes they have, and their metric's label. */
import { ProtocolRefusal } from "./answers.ts";

export const API_PREFIX = "/api/v2";

export const isApiPath = (path: string): boolean => path === API_PREFIX || path.startsWith(`${API_PREFIX}/`);

/** True for paths of operators. */
export const isOperatorPath = (path: string): boolean => path.startsWith("/api/") && !isApiPath(path);

/** True for the start page, and for paths below the first segments of all routes. */
export const isOwnPath = (path: string): boolean =>
  /^\/(?:(?:api|asyncapi\.json|console|health|llms\.txt|media|metrics|swagger)(?:\/|$)|$)/.test(path);

/** The paths of a route, in which `:name` stands for any segment. Allows a slash at the end, as the router does. */
export function patternOf(path: string): RegExp {
  const segments = path
    .replace(/\/$/, "")
    .split("/")
    .map((segment) => (segment.startsWith(":") ? "[^/]+" : RegExp.escape(segment)));
  return new RegExp(`^${segments.join("/")}/?$`);
}

/**
 * Returns a function that refuses a method that the path has no route for, with a 405 and `Allow`. It does not check
 * keys or parameters.
 */
export function methodCheck(routes: readonly { readonly method: string; readonly path: string }[]) {
  const patterns = routes.map(({ method, path }) => ({ method, pattern: patternOf(path) }));
  return (method: string, path: string): void => {
    const known = patterns.filter(({ pattern }) => pattern.test(path)).map((route) => route.method);
    // The router itself answers an unknown path.
    if (known.length === 0 || known.includes(method) || (method === "HEAD" && known.includes("GET"))) return;
    const head = known.includes("GET") ? ["HEAD"] : [];
    const allow = [...new Set([...known, ...head, ...(isApiPath(path) ? ["OPTIONS"] : [])])].join(", ");
    const message = `method ${method} is not allowed; the methods of this path are ${allow}`;
    throw new ProtocolRefusal("method_not_allowed", message, { allow });
  };
}

/** The label of a path in metrics. */
export function routeLabel(path: string): string {
  if (path.startsWith(`${API_PREFIX}/nft/`)) return "nft";
  if (path.startsWith(`${API_PREFIX}/erc20/`)) return "price";
  if (isOperatorPath(path)) return "operators";
  if (path.startsWith("/health/")) return "health";
  if (path === "/metrics") return "metrics";
  if (path.startsWith("/media/")) return "media";
  if (path === "/" || path.startsWith("/console/")) return "console";
  return path.startsWith("/swagger") || path === "/asyncapi.json" || path === "/llms.txt" ? "swagger" : "other";
}
