/** Which methods a path answers to, read from the router's own list of routes. Knows nothing of keys and parameters. */
import { ApiError } from "../core/errors.ts";

interface Route {
  readonly method: string;
  /** With `:name` where any segment may stand. */
  readonly path: string;
}

export class RouteMethods {
  readonly #routes: readonly { readonly method: string; readonly pattern: RegExp }[];

  constructor(routes: readonly Route[]) {
    this.#routes = routes.map(({ method, path }) => ({ method, pattern: patternOf(path) }));
  }

  /**
   * Refuses a method that the path has no route for.
   * @param isAskedAhead whether browsers may ask in advance with OPTIONS
   * @throws ApiError 405 with `Allow`
   */
  check(method: string, path: string, isAskedAhead: boolean): void {
    const known = this.#routes.filter(({ pattern }) => pattern.test(path)).map((route) => route.method);
    // The router answers an unknown path by itself.
    if (known.length === 0 || known.includes(method) || (method === "HEAD" && known.includes("GET"))) return;
    const head = known.includes("GET") ? ["HEAD"] : [];
    const allow = [...new Set([...known, ...head, ...(isAskedAhead ? ["OPTIONS"] : [])])].join(", ");
    const message = `${method} is not answered here; the methods of this path are ${allow}`;
    throw new ApiError(405, "method_not_allowed", message, { headers: { allow } });
  }
}

/** The router takes a slash at the end for none. */
function patternOf(path: string): RegExp {
  const segments = path
    .replace(/\/$/, "")
    .split("/")
    .map((segment) => (segment.startsWith(":") ? "[^/]+" : RegExp.escape(segment)));
  return new RegExp(`^${segments.join("/")}/?$`);
}
