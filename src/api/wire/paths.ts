/** The paths of requests: of which part of the service they are, which routes they have, and their metric's label. */
import { ProtocolRefusal } from "./answers.ts";

export const API_PREFIX = "/api/v2";

/** The endpoint for language models, by the Model Context Protocol. */
export const MCP_PATH = "/mcp";

export const isApiPath = (path: string): boolean =>
  path === API_PREFIX || path.startsWith(`${API_PREFIX}/`) || path === MCP_PATH || path === `${MCP_PATH}/`;

/** True for paths of operators. */
export const isOperatorPath = (path: string): boolean => path.startsWith("/api/") && !isApiPath(path);

/** True for the start page, and for paths below the first segments of all routes. */
export const isOwnPath = (path: string): boolean =>
  /^\/(?:(?:api|asyncapi\.json|console|health|llms\.txt|mcp|media|metrics|swagger)(?:\/|$)|$)/.test(path);

const isParameter = (segment: string): boolean => segment.startsWith(":");
const segmentsOf = (path: string): readonly string[] => path.replace(/\/$/, "").split("/");

interface PathRoute<T> {
  readonly method: string;
  /** With `:name` for its parameters. */
  readonly path: string;
  readonly route: T;
}

interface Pattern<T> {
  readonly regex: RegExp;
  /** 0 for a word and 1 for a parameter, by segment: the least one that matches a path is its pattern. */
  readonly order: string;
  readonly routes: Map<string, T>;
}

/**
 * The routes of paths. A word at a place of a path is never the value of a parameter at that place: `/nft/:address/owners`
 * hides `/nft/:address/:token_id` from `owners`. The router does the same, but goes back to the parameter where the rest of
 * a path has no route below the word.
 */
export class RouteTable<T> {
  /** By the number of segments. */
  readonly #patterns = new Map<number, Pattern<T>[]>();

  constructor(routes: readonly PathRoute<T>[]) {
    const byPath = Map.groupBy(routes, ({ path }) => segmentsOf(path).join("/"));
    /** The words that stand at a place, by the path before it. */
    const words = new Map<string, Set<string>>();
    for (const path of byPath.keys()) {
      for (const [at, segment] of segmentsOf(path).entries()) {
        if (!isParameter(segment)) words.getOrInsertComputed(placeOf(path, at), () => new Set()).add(segment);
      }
    }
    for (const [path, own] of byPath) {
      const segments = segmentsOf(path);
      const parts = segments.map((segment, at) => {
        if (!isParameter(segment)) return RegExp.escape(segment);
        const hidden = [...(words.get(placeOf(path, at)) ?? [])].map((word) => `${RegExp.escape(word)}(?:/|$)`);
        return hidden.length === 0 ? "[^/]+" : `(?!${hidden.join("|")})[^/]+`;
      });
      this.#patterns
        .getOrInsertComputed(segments.length, () => [])
        .push({
          // A slash at the end is allowed, as the router does.
          regex: new RegExp(`^${parts.join("/")}/?$`),
          order: segments.map((segment) => Number(isParameter(segment))).join(""),
          routes: new Map(own.map(({ method, route }) => [method, route])),
        });
    }
    for (const patterns of this.#patterns.values()) patterns.sort((a, b) => (a.order < b.order ? -1 : 1));
  }

  /** The routes of a path by method; undefined if it has none. */
  at(path: string): ReadonlyMap<string, T> | undefined {
    const patterns = this.#patterns.get(segmentsOf(path).length) ?? [];
    return patterns.find(({ regex }) => regex.test(path))?.routes;
  }

  /** The route of a method and a path. HEAD has that of GET. */
  find(method: string, path: string): T | undefined {
    return this.at(path)?.get(method === "HEAD" ? "GET" : method);
  }
}

/** The path before a segment, the same for all names of parameters. */
const placeOf = (path: string, at: number): string =>
  segmentsOf(path)
    .slice(0, at)
    .map((segment) => (isParameter(segment) ? ":" : segment))
    .join("/");

/** The refusal of a method that a path has no route for, with `Allow`. @param known its methods */
export function methodNotAllowed(method: string, path: string, known: readonly string[]): ProtocolRefusal {
  const head = known.includes("GET") ? ["HEAD"] : [];
  const allow = [...new Set([...known, ...head, ...(isApiPath(path) ? ["OPTIONS"] : [])])].join(", ");
  const message = `method ${method} is not allowed; the methods of this path are ${allow}`;
  return new ProtocolRefusal("method_not_allowed", message, { allow });
}

/** The label of a path in metrics. */
export function routeLabel(path: string): string {
  if (path.startsWith(`${API_PREFIX}/nft/`) || /^\/api\/v2\/[^/]+\/nft(?:\/|$)/.test(path)) return "nft";
  if (path.startsWith(`${API_PREFIX}/erc20/`)) return "price";
  if (path.startsWith(MCP_PATH)) return "mcp";
  if (isOperatorPath(path)) return "operators";
  if (path.startsWith("/health/")) return "health";
  if (path === "/metrics") return "metrics";
  if (path.startsWith("/media/")) return "media";
  if (path === "/" || path.startsWith("/console/")) return "console";
  return path.startsWith("/swagger") || path === "/asyncapi.json" || path === "/llms.txt" ? "swagger" : "other";
}
