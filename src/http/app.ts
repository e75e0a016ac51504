/**
 * The Elysia application: routes and the steps that every request passes. Built from its collaborators, so that tests
 * call `handle` without a socket. Key check and rate limit come first, also for cached responses.
 */
import { swagger } from "@elysiajs/swagger";
import { Elysia } from "elysia";
import { LIMITS } from "../config.ts";
import { ApiError, invalidParameter, invariant } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { Metrics } from "../core/metrics.ts";
import type { Spending } from "../core/spending.ts";
import type { ApiKey } from "../operators/keys.ts";
import {
  cachedResponse,
  errorResponse,
  isNodeRefusal,
  json,
  NO_STORE,
  pathOf,
  preflight,
  ResponseCache,
  type RouteResponse,
  routerRequest,
  searchOf,
  targetOf,
  toApiError,
  whileLogAnswers,
  withoutBody,
  withoutOrigins,
} from "./answers.ts";
import { consolePage } from "./console-page.ts";
import {
  HEADERS,
  healthDetail,
  INFO,
  mediaDetail,
  metricsDetail,
  nftDetail,
  priceDetail,
  socketDetail,
} from "./docs.ts";
import { documents } from "./documents.ts";
import { schemasOf } from "./models.ts";
import {
  createMediaRoute,
  createNftRoute,
  createPriceRoute,
  type MediaRouteDeps,
  type NftRouteDeps,
  type PriceRouteDeps,
} from "./operations.ts";
import {
  addOperatorRoutes,
  assertMayUse,
  ignoredParameters,
  OPERATOR_ROUTES,
  type OperatorDeps,
  operatorRoute,
} from "./operator-routes.ts";
import { API_PREFIX, isApiPath, isOperatorPath, methodCheck, routeLabel } from "./paths.ts";
import {
  assertMetricsKey,
  NFT_PARAMETERS,
  PRICE_PARAMETERS,
  type RateLimiter,
  UNKNOWN_PARAMETERS,
  unknownParameters,
} from "./requests.ts";
import { swaggerPage } from "./swagger-page.ts";

interface AppDeps extends NftRouteDeps, PriceRouteDeps, MediaRouteDeps, OperatorDeps {
  readonly limiter: RateLimiter;
  /** SHA-256 of the key that `/metrics` requires, if there is one. */
  readonly metricsKeyHash: Uint8Array | undefined;
  readonly metrics: Metrics;
  /** The account of a key's calls. */
  readonly accountOf: (key: ApiKey) => Spending;
  readonly logger: Logger;
  readonly logRequests: boolean;
  readonly hasConsole: boolean;
  /** The configured public URL, its path ("" for none), and the base URL that clients see. */
  readonly publicUrl: string | undefined;
  readonly prefix: string;
  readonly url: () => string;
  /** True while this process is behind the event log. */
  readonly isBehind: () => boolean;
  /** True once the service has begun to stop. */
  readonly isStopping: () => boolean;
}

export interface App {
  /** Answers any request except a WebSocket upgrade. `target` is from `targetOf`, `path` from `pathOf`. Never rejects. */
  handle(request: Request, target: string, path: string): Response | Promise<Response>;
}

/** Path of the OpenAPI plugin's own page, which is not served: it loads scripts from another host. */
const PLUGIN_PAGE = "/swagger/plugin";
const DOCUMENT = "/swagger/json";

export function createApp(deps: AppDeps): App {
  const { metrics, logger } = deps;
  const elysia = createRoutes(deps, (method, path) => checkMethod(method, path));
  const checkMethod: CheckMethod = methodCheck(elysia.routes);
  const ready = new ResponseCache(LIMITS.pageCacheBytes);
  metrics.onScrape(() => {
    metrics.answerCacheBytes.set(ready.bytes);
  });

  /** Runs the route, and caches its response if the route can tell how long it stays current. */
  const make = async (original: Request, target: string, { id, key }: Caller): Promise<Response> => {
    const request = routerRequest(original, target);
    const progress: InProgress = { id, key };
    inProgress.set(request, progress);
    const routed = () => elysia.handle(request);
    const response = await (key === undefined ? routed() : deps.accountOf(key).run(routed));
    const { answered, unknown } = progress;
    if (unknown !== undefined) (answered?.answer ?? response).headers.set(UNKNOWN_PARAMETERS, unknown);
    if (answered !== undefined) {
      ready.put(target, answered);
      return ready.respond(target, answered.answer, original, id);
    }
    const path = pathOf(target);
    if (isOperatorPath(path)) {
      const ignored = ignoredParameters(request.method, target);
      if (ignored !== undefined) response.headers.set(UNKNOWN_PARAMETERS, ignored);
      response.headers.set("x-request-id", id);
      return response;
    }
    if (!response.headers.has("cache-control")) {
      // The document changes only with the program, so a client may cache it and revalidate.
      response.headers.set("cache-control", path === DOCUMENT ? "no-cache" : NO_STORE);
    }
    const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
    if (!isJson) {
      response.headers.set("x-request-id", id);
      return response;
    }
    const body = new Uint8Array(await response.arrayBuffer());
    return ready.respond(target, cachedResponse(body, response.status, response.headers), original, id);
  };

  /** Returns the response. Throws or rejects with the error. */
  const answer = (request: Request, target: string, path: string, caller: Caller): Response | Promise<Response> => {
    const { id } = caller;
    if (request.method === "OPTIONS" && isApiPath(path)) return preflight(id);
    const key = checkRequest(request, target, path, deps);
    caller.key = key;
    if (path.startsWith(PLUGIN_PAGE)) throw noSuchPath();
    if (request.method !== "GET") checkMethod(request.method, path);
    const known = request.method === "GET" ? ready.get(target) : undefined;
    if (known !== undefined) return ready.respond(target, known, request, id);
    const made = make(request, target, caller);
    return request.method === "HEAD" ? made.then(withoutBody) : made;
  };

  return {
    handle: (request, target, path) => {
      const started = performance.now();
      const id = crypto.randomUUID();
      const caller: Caller = { id };
      const done = (response: Response): Response => {
        const ms = performance.now() - started;
        metrics.requestSeconds.observe(routeLabel(path), response.status, ms / 1_000);
        if (deps.logRequests)
          logRequest(logger, { method: request.method, target, path, ms, ...caller }, response.status);
        return isOperatorPath(path) ? withoutOrigins(response) : response;
      };
      const failed = (error: unknown): Response => {
        const response = failure(error, id, logger);
        response.headers.set("x-request-id", id);
        return done(response);
      };
      try {
        const response = answer(request, target, path, caller);
        return response instanceof Promise ? response.then(done, failed) : done(response);
      } catch (error) {
        return failed(error);
      }
    },
  };
}

/** The sender of a request, as far as it is known. */
interface Caller {
  /** Id of the request, for the log. */
  readonly id: string;
  /** Undefined on paths without a key, and until the key was checked. */
  key?: ApiKey | undefined;
}

/** A request on its way through the router. */
export interface InProgress extends Caller {
  /** The route's response. A `Response` through the router would cost two copies of the bytes. */
  answered?: RouteResponse;
  /** Names of unknown parameters, for the header of its response or its error. */
  unknown?: string | undefined;
}

const inProgress = new WeakMap<Request, InProgress>();

/** The key of a request on its way through the router. The route's path needs one. */
export function callerOf(request: Request): ApiKey {
  const key = inProgress.get(request)?.key;
  invariant(key !== undefined, "a request reached a route without a checked key");
  return key;
}

interface Logged extends Caller {
  readonly method: string;
  readonly target: string;
  readonly path: string;
  readonly ms: number;
}

/** Logs a request with the names of its known parameters. Values, headers and other names may be secrets. */
function logRequest(logger: Logger, { method, target, path, id, key, ms }: Logged, status: number): void {
  const names = new Set(new URLSearchParams(searchOf(target)).keys());
  const parameters = [...names].filter((name) => KNOWN_PARAMETERS.has(name)).join(",");
  const shown = routeLabel(path) === "other" ? "/…" : path;
  const fields = { requestId: id, key: key?.key, method, path: shown, parameters, status };
  logger.info({ ...fields, ms: Math.round(ms * 10) / 10 }, "request");
}

const KNOWN_PARAMETERS = new Set([
  ...[...NFT_PARAMETERS, ...PRICE_PARAMETERS],
  ...OPERATOR_ROUTES.flatMap(({ parameters }) => [...(parameters ?? [])]),
]);

type Operation = (search: string, address: string, key: ApiKey) => Promise<RouteResponse>;

/** Stores an operation's response in `inProgress` and returns an empty `Response` to the router. */
const respondTo =
  ({ isLogAnswering, clock }: AppDeps, operation: Operation, known: ReadonlySet<string>) =>
  async ({ request, params }: { request: Request; params: { address: string } }): Promise<Response> => {
    const search = searchOf(request.url);
    const progress = inProgress.get(request) as InProgress;
    progress.unknown = unknownParameters(search, known);
    progress.answered = await whileLogAnswers(
      isLogAnswering,
      clock,
      operation(search, params.address, callerOf(request)),
    );
    return new Response(null);
  };

function failure(error: unknown, id: string, logger: Logger): Response {
  if (toApiError(error).status === 500) logger.error({ err: error, requestId: id }, "a request failed");
  // The node's own error text goes to the operator's log; the client gets a 503 with retry-after.
  else if (isNodeRefusal(error)) logger.warn({ err: error, requestId: id }, "a request was refused by the node");
  return errorResponse(error);
}

/** Checks URL length, key, rate and scope. Returns the key if the path needs one. @throws ApiError 400, 401, 403, 429, 503 */
function checkRequest(request: Request, target: string, path: string, deps: AppDeps): ApiKey | undefined {
  if (target.length > LIMITS.maxUrlLength) {
    const name = longestParameter(target);
    throw invalidParameter(name, `too long: a URL must not be longer than ${LIMITS.maxUrlLength} characters`);
  }
  const isForOperators = isOperatorPath(path);
  if (!isForOperators && !isApiPath(path)) return undefined;
  const key = deps.keys.check(request.headers.get("x-api-key"));
  deps.limiter.take(key);
  if (isForOperators) assertMayUse(key, operatorRoute(request.method, path), deps);
  return key;
}

const noSuchPath = (): ApiError => new ApiError(404, "not_found", "no such path; see /swagger");

/** Returns the longest parameter of a URL that is too long, so that the error can name it. */
function longestParameter(target: string): string {
  let longest = { name: "url", length: 0 };
  for (const part of searchOf(target).split("&")) {
    const name = part.slice(0, Math.max(0, part.indexOf("=")));
    if (part.length > longest.length) longest = { name, length: part.length };
  }
  return longest.name.slice(0, 64) || "url";
}

/** @throws ApiError 405 if the path has routes, but none of this method */
type CheckMethod = (method: string, path: string) => void;

function createRoutes(deps: AppDeps, checkMethod: CheckMethod): Elysia {
  const nft = createNftRoute(deps);
  const price = createPriceRoute(deps);
  const media = createMediaRoute(deps);
  /** The error of a request without a route: a 405 if the path has other methods. */
  const notFound = ({ method, url }: Request): unknown => {
    try {
      checkMethod(method, pathOf(targetOf(url)));
    } catch (error) {
      return error;
    }
    return noSuchPath();
  };
  const app = new Elysia({ aot: true, normalize: false })
    .onError(({ error, code, request }) => {
      const known = code === "NOT_FOUND" ? notFound(request) : error;
      return failure(known, inProgress.get(request)?.id ?? "", deps.logger);
    })
    .use(swaggerPage(deps.prefix))
    .use(documents(deps))
    .use(deps.hasConsole ? consolePage(deps.prefix) : withoutConsole(deps.prefix))
    .get("/health/live", () => json('{"status":"live"}'), {
      detail: healthDetail("live", "Liveness: the process answers"),
    })
    .get("/health/ready", () => readiness(deps), {
      detail: healthDetail("ready", "Readiness: the event log answers, and this process has read it up to now"),
    })
    .get("/metrics", ({ request }) => metricsPage(request, deps), { detail: metricsDetail() })
    .get("/media/:hash/:size", ({ request, params }) => media(request, params.hash, params.size), {
      detail: mediaDetail(),
    })
    .get(`${API_PREFIX}/ws`, () => upgradeRequired(), { detail: socketDetail() })
    .get(`${API_PREFIX}/nft/:address`, respondTo(deps, nft, NFT_PARAMETERS), {
      detail: nftDetail(deps.maxPageSize, deps.wireTypes),
    })
    .get(`${API_PREFIX}/erc20/:address/price`, respondTo(deps, price, PRICE_PARAMETERS), { detail: priceDetail() });
  addOperatorRoutes(app as unknown as Elysia, deps, callerOf);
  // The plugin generates the document from the routes above. Its own page is replaced by `swagger-page.ts`.
  return app.use(
    swagger({
      path: PLUGIN_PAGE,
      specPath: DOCUMENT,
      exclude: [PLUGIN_PAGE, DOCUMENT],
      documentation: {
        info: INFO,
        ...(deps.publicUrl === undefined ? {} : { servers: [{ url: deps.publicUrl }] }),
        tags: [
          { name: "NFT", description: "Collections" },
          { name: "Token", description: "ERC-20 prices" },
          { name: "Push", description: "WebSocket" },
          { name: "Operators", description: "Status, collections and keys; needs a key of scope operate" },
          { name: "Service", description: "Health and metrics" },
        ],
        components: {
          schemas: schemasOf(deps.wireTypes) as Record<string, object>,
          headers: HEADERS,
          securitySchemes: { ApiKeyAuth: { type: "apiKey", in: "header", name: "X-API-Key" } },
        },
        security: [{ ApiKeyAuth: [] }],
      },
    }),
  ) as unknown as Elysia;
}

/** Without the console, `/` leads to the API's document. */
const withoutConsole = (prefix: string) =>
  new Elysia().get(
    "/",
    () => new Response(null, { status: 302, headers: { location: `${prefix}/swagger`, "cache-control": "no-cache" } }),
    { detail: { hide: true } },
  );

/** @throws ApiError 503 */
function readiness({ isBehind, isStopping }: AppDeps): Response {
  const headers = { "retry-after": "1" };
  if (isStopping()) throw new ApiError(503, "starting", "the service is stopping", { headers });
  if (isBehind()) throw new ApiError(503, "log_unavailable", "this process is behind the event log", { headers });
  return json('{"status":"ready"}');
}

async function metricsPage(request: Request, deps: AppDeps): Promise<Response> {
  if (deps.metricsKeyHash !== undefined) {
    const bearer = /^Bearer (.+)$/i.exec(request.headers.get("authorization") ?? "")?.[1];
    assertMetricsKey(deps.metricsKeyHash, bearer ?? request.headers.get("x-api-key"));
  }
  const { metrics } = deps;
  return new Response(await metrics.text(), { headers: { "content-type": metrics.registry.contentType } });
}

/** @throws ApiError 426 */
function upgradeRequired(): never {
  throw new ApiError(426, "upgrade_required", "this path is a WebSocket: send an upgrade request", {
    headers: { upgrade: "websocket", connection: "Upgrade" },
  });
}
