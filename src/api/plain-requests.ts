/**
 * Refuses a request that a proxy before this service may have understood in another way: one with two hosts, or with a
 * path that the runtime would resolve to another one.
 */
import type { BunRequest, Server } from "bun";
import { invalidParameter } from "../core/errors.ts";
import type { SocketData } from "./socket-peer.ts";
import { errorResponse, withRequestId } from "./wire/answers.ts";

export type Answerer = (
  request: Request,
  server: Server<SocketData>,
) => Response | undefined | Promise<Response | undefined>;

/** A name or an address, and a port (RFC 3986 section 3.2.2). A comma is left out: no name has one. */
const HOST = /^(?:\[[0-9A-Za-z:.%]+\]|(?:[\w.~!$&'()*+;=-]|%[0-9A-Fa-f]{2})*)(?::\d*)?$/;

/** The newest host that passed. Nearly all requests name the same, and the test takes one or two microseconds. */
let lastHost: string | undefined;

/**
 * A proxy and this service could take different ones of two hosts for the request's own (RFC 9112 section 3.2). The
 * runtime joins repeated headers with commas. It refuses a request of HTTP/1.1 without a host itself, with a bare 400;
 * HTTP/1.0 has none.
 */
export function hasOneHost({ headers }: Request): boolean {
  const host = headers.get("host");
  if (host === null || host === lastHost) return true;
  if (!HOST.test(host)) return false;
  lastHost = host;
  return true;
}

export const NOT_ONE_HOST = invalidParameter(
  "host",
  "the request must have one Host header, with a name or an address",
);

/** Segments of the longest path that is checked so. The longest route has seven. */
export const MAX_SEGMENTS = 16;

type Handler = (request: BunRequest<string>, server: Server<SocketData>) => ReturnType<Answerer>;

/**
 * The patterns of the runtime's own routes, which match the bytes of the request and decode each segment: any number of
 * segments, with or without a slash at the end. Elsewhere the runtime hands out URLs in which dots are resolved and
 * backslashes are slashes, so a proxy's rules for paths may have seen another path than the router.
 */
export function routesOf(handler: Handler): Record<string, Handler> {
  const routes: Record<string, Handler> = { "/": handler };
  let pattern = "";
  for (let segment = 1; segment <= MAX_SEGMENTS; segment++) {
    pattern += `/:s${segment}`;
    routes[pattern] = handler;
    routes[`${pattern}/`] = handler;
  }
  return routes;
}

/** True if a decoded segment is no dot segment and has neither slash nor backslash. */
export const isPlain = (segment: string): boolean => segment !== "." && segment !== ".." && !/[\\/]/.test(segment);

/** True for such segments of a path that the runtime has not decoded. */
export const arePlain = (path: string): boolean =>
  path.split("/").every((segment) => isPlain(segment.replace(/%(2e|2f|5c)/gi, (code) => decodeURIComponent(code))));

export const refusePath = (): Response => withRequestId(errorResponse(NOT_PLAIN));

const NOT_PLAIN = invalidParameter("url", "the path must have no backslash, no dot segment, no %2f and no %5c");
