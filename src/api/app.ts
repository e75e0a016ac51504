/**
 * The Elysia application: routes and the steps that every request passes. Built from its collaborators, so that tests
 * call `handle` without a socket. Key check and rate limit come first, also for cached responses.
 */
import { Elysia } from "elysia";
import { LIMITS } from "../config.ts";
import { ClientGone, invalidParameter, invariant, Refusal } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import { noteRequest, runInSlices, turnToStart } from "../core/turns.ts";
import { type ApiKey, type KeyLimits, WAY_TO_OPERATE } from "../operators/keys.ts";
import type { Question, Questions } from "../operators/questions.ts";
import { consolePage } from "./console-page.ts";
import { deprecationsPage } from "./deprecations-page.ts";
import { documents } from "./documents.ts";
import { HIDDEN } from "./openapi.ts";
import { DOCUMENT, openApiDocument } from "./openapi-document.ts";
import { COLLECTION_OPERATIONS } from "./routes/collections.ts";
import { EXPLORE_OPERATIONS } from "./routes/explore.ts";
import { EXPORT_OPERATIONS } from "./routes/export.ts";
import { hostedNftOperations } from "./routes/hosted-nfts.ts";
import { HOSTED_TOKEN_OPERATIONS } from "./routes/hosted-tokens.ts";
import { hostedTransferOperations } from "./routes/hosted-transfers.ts";
import { hostedWalletOperations } from "./routes/hosted-wallets.ts";
import { KEPT_PROOF_OPERATIONS } from "./routes/kept-proofs.ts";
import { KEY_OPERATIONS } from "./routes/keys.ts";
import { listingOperations } from "./routes/listing.ts";
import { mcpOperation } from "./routes/mcp.ts";
import { NOT_SERVED, notServed, servedOf } from "./routes/not-served.ts";
import { PRICE_OPERATIONS } from "./routes/price.ts";
import { PROOF_OPERATIONS } from "./routes/proof.ts";
import { SERVICE_OPERATIONS } from "./routes/service.ts";
import { swaggerPage } from "./swagger-page.ts";
import {
  asRefusal,
  CLIENT_GONE,
  errorResponse,
  isFile,
  isNodeRefusal,
  jsonHeaders,
  jsonParts,
  keyText,
  NO_STORE,
  ORIGIN_METHODS,
  preflight,
  tellDeprecation,
  tellOrigins,
  tellRate,
  whileLogAnswers,
  withoutBody,
  withRequestId,
} from "./wire/answers.ts";
import type { Answered, Operation } from "./wire/operation.ts";
import { deprecatedSince, UNKNOWN_PARAMETERS, unknownParameters } from "./wire/parameters.ts";
import { API_PREFIX, isApiPath, isOperatorPath, methodNotAllowed, RouteTable, routeLabel } from "./wire/paths.ts";
import { ResponseCache, type RouteResponse, responseToShare } from "./wire/response-cache.ts";
import { pathOf, routerRequest, searchOf, targetOf } from "./wire/target.ts";
import { UnreadAnswers } from "./wire/unread-answers.ts";

type DepsOf<T> = T extends readonly Operation<infer Deps>[] ? Deps : never;

/** What the handlers need. */
type OperationDeps = DepsOf<ReturnType<typeof listingOperations>> &
  DepsOf<typeof PRICE_OPERATIONS> &
  DepsOf<typeof SERVICE_OPERATIONS> &
  DepsOf<typeof COLLECTION_OPERATIONS> &
  DepsOf<typeof EXPLORE_OPERATIONS> &
  DepsOf<typeof KEPT_PROOF_OPERATIONS> &
  DepsOf<typeof EXPORT_OPERATIONS> &
  DepsOf<ReturnType<typeof hostedNftOperations>> &
  DepsOf<ReturnType<typeof hostedTransferOperations>> &
  DepsOf<ReturnType<typeof hostedWalletOperations>> &
  DepsOf<typeof HOSTED_TOKEN_OPERATIONS> &
  DepsOf<typeof KEY_OPERATIONS>;

/** All operations. To add one, add it to the list of its file. @param maxPageSize the operator's bound on a page of a listing */
export function operationsOf(maxPageSize: number): readonly Operation<OperationDeps>[] {
  const operations: readonly Operation<OperationDeps>[] = [
    ...SERVICE_OPERATIONS,
    ...listingOperations(maxPageSize),
    ...hostedNftOperations(maxPageSize),
    ...hostedTransferOperations(maxPageSize),
    ...hostedWalletOperations(maxPageSize),
    ...PRICE_OPERATIONS,
    ...HOSTED_TOKEN_OPERATIONS,
    ...KEPT_PROOF_OPERATIONS,
    ...COLLECTION_OPERATIONS,
    ...EXPLORE_OPERATIONS,
    ...PROOF_OPERATIONS,
    ...EXPORT_OPERATIONS,
    ...KEY_OPERATIONS,
  ];
  return [...operations, mcpOperation(operations)];
}

interface AppDeps extends OperationDeps {
  readonly keyLimits: KeyLimits;
  readonly questions: Questions;
  readonly logRequests: boolean;
  readonly hasConsole: boolean;
  /** Addresses of block explorers that the console links to, by names and codes of chains. */
  readonly explorers: Readonly<Record<string, string>>;
  /** The configured public URL, its path ("" for none), and the base URL that clients see. */
  readonly publicUrl: string | undefined;
  readonly prefix: string;
  readonly url: () => string;
  readonly isLogAnswering: () => boolean;
  /** Ms that this process is behind the log. */
  readonly behindMs: () => number;
}

export interface App {
  /** Answers any request except a WebSocket upgrade. `target` is from `targetOf`, `path` from `pathOf`. Never rejects. */
  handle(request: Request, target: string, path: string): Response | Promise<Response>;
}

/** Documents that a page of another origin may load, such as an editor of OpenAPI. */
const OPEN_DOCUMENTS: readonly string[] = [DOCUMENT, "/asyncapi.json", "/llms.txt"];

export const createApp = (deps: AppDeps): App => new Application(deps);

class Application implements App {
  readonly #deps: Checks;
  readonly #elysia: Elysia;
  readonly #routes: Routes;
  /** What the refusal of other hosted paths names. */
  readonly #served: readonly string[];
  readonly #ready = new ResponseCache(LIMITS.pageCacheBytes);
  readonly #unread = new UnreadAnswers();

  constructor(deps: AppDeps) {
    const operations = operationsOf(deps.maxPageSize);
    const operationOf: Checks["operationOf"] = (method, path) => {
      const route = this.#routes.find(method, path);
      return typeof route === "object" ? route : undefined;
    };
    this.#deps = { ...deps, operationOf, isKnownParameter: parameterNames(operations) };
    this.#elysia = createRoutes(deps, operations, (method, path) => this.#assertRoute(method, path));
    this.#routes = routesOf(operations, this.#elysia.routes);
    this.#served = servedOf(operations);
    deps.metrics.onScrape(() => {
      deps.metrics.answerCacheBytes.set(this.#ready.bytes);
    });
  }

  handle(request: Request, target: string, path: string): Response | Promise<Response> {
    const { metrics, logger, logRequests, keys } = this.#deps;
    const started = performance.now();
    const caller: Caller = { id: crypto.randomUUID(), client: request };
    const done = (response: Response): Response => {
      const ms = performance.now() - started;
      if (caller.isWhole !== true) {
        if (caller.key !== undefined) tellRate(response.headers, keys.rateOf(caller.key));
        this.#tellOrigins(response.headers, request.method, path);
      }
      metrics.requestSeconds.observe(routeLabel(path), response.status, ms / 1_000);
      if (logRequests) logRequest(this.#deps, { method: request.method, target, path, ms, ...caller }, response.status);
      return response;
    };
    const failed = (error: unknown): Response => {
      caller.isWhole = false;
      return done(withRequestId(failure(error, caller, logger), caller.id));
    };
    try {
      const response = this.#answer(request, target, path, caller);
      return response instanceof Promise ? response.then(done, failed) : done(response);
    } catch (error) {
      return failed(error);
    }
  }

  /** Lets web pages of other origins read routes of scope `read`, and the documents. */
  #tellOrigins(headers: Headers, method: string, path: string): void {
    tellOrigins(headers, this.#isForOrigins(method, path));
  }

  #isForOrigins(method: string, path: string): boolean {
    if (method === "OPTIONS") return this.#hasPreflight(path);
    if (isOperatorPath(path)) return this.#deps.operationOf(method, path)?.scope === "read";
    return isApiPath(path) || OPEN_DOCUMENTS.includes(path);
  }

  /** True for a path that such pages may send a key to. */
  #hasPreflight(path: string): boolean {
    return isApiPath(path) || ORIGIN_METHODS.some((method) => this.#deps.operationOf(method, path)?.scope === "read");
  }

  /** @throws Refusal 404 of a hosted path that is not served, or of an unknown path of the API; 405 for another method */
  #assertRoute(method: string, path: string): void {
    const routes = this.#routes.at(path);
    const [first] = routes?.values() ?? [];
    if (typeof first === "string" && !/^\/api\/v2\/(?!0x)[^/]+\/?$/i.test(path)) throw notServed(first, this.#served);
    if (routes === undefined || typeof first === "string") {
      // The router itself answers an unknown path.
      if (isApiPath(path) || isOperatorPath(path)) throw noSuchPath();
    } else if (!routes.has(method === "HEAD" ? "GET" : method))
      throw methodNotAllowed(method, path, [...routes.keys()]);
  }

  /** Returns the response. Throws or rejects with the error. */
  #answer(request: Request, target: string, path: string, caller: Caller): Response | Promise<Response> {
    const { id } = caller;
    if (request.method === "OPTIONS" && this.#hasPreflight(path)) return preflight(id);
    caller.key = checkRequest(request, target, path, this.#deps);
    if (caller.key !== undefined) noteRequest(caller.key);
    const name = path === DOCUMENT ? path : target;
    const known = request.method === "GET" ? this.#ready.get(name, caller.key?.key ?? "") : undefined;
    if (known !== undefined) return this.#respond(name, known, request, caller);
    this.#assertRoute(request.method, path);
    const made = this.#make(request, target, caller);
    return request.method === "HEAD" ? made.then(withoutBody) : made;
  }

  /** Runs the route, and caches its response if the route can tell how long it stays current. */
  async #make(original: Request, target: string, caller: Caller): Promise<Response> {
    const { key } = caller;
    const request = routerRequest(original, target);
    const question = key && this.#deps.questions.begin(key);
    question?.endWith(original.signal);
    const progress: InProgress = { ...caller, question };
    inProgress.set(request, progress);
    await question?.budget.run(turnToStart);
    if (original.signal.aborted) {
      question?.end();
      throw new ClientGone("the client left before its request began");
    }
    const routed = () => this.#elysia.handle(request);
    const response = await (question === undefined ? routed() : question.budget.run(routed)).finally(() => {
      if (question?.isStreamed !== true) question?.end();
    });
    const { answered, unknown, isDeprecated } = progress;
    const { headers } = answered?.answer ?? response;
    if (unknown !== undefined) headers.set(UNKNOWN_PARAMETERS, unknown);
    if (isDeprecated !== undefined) tellDeprecation(headers, isDeprecated, this.#deps.url());
    if (question?.isStreamed === true) return withRequestId(response, caller.id);
    if (answered === undefined) return this.#finish(response, target, original, caller);
    this.#tellOrigins(headers, original.method, pathOf(target));
    this.#ready.put(target, answered, key?.key ?? "");
    return this.#respond(target, answered.answer, original, caller);
  }

  /** Makes a response of bytes that are shared. Its headers are written before, which costs less than to change them. */
  #respond(
    target: string,
    answer: RouteResponse["answer"],
    request: Request,
    caller: Caller,
  ): Response | Promise<Response> {
    const { id, key } = caller;
    caller.isWhole = true;
    const sent = (body: Blob) => this.#unread.send(body, key, request.signal);
    return this.#ready.respond(target, answer, { request, id, rate: key && this.#deps.keys.rateOf(key), sent });
  }

  /** Completes a response of the router. The documents and errors of clients get an entity tag, and are compressed. */
  async #finish(response: Response, target: string, original: Request, caller: Caller): Promise<Response> {
    const { headers, status } = response;
    const path = pathOf(target);
    // The document changes only with the program, so a client may cache it and revalidate.
    if (!headers.has("cache-control")) headers.set("cache-control", path === DOCUMENT ? "no-cache" : NO_STORE);
    const isJson = headers.get("content-type")?.startsWith("application/json") === true;
    if (isOperatorPath(path) || !isJson) {
      if (caller.key === undefined || response.body === null || isFile(response))
        return withRequestId(response, caller.id);
      const body = this.#unread.send(await response.blob(), caller.key, original.signal);
      return withRequestId(new Response(body, { status, headers }), caller.id);
    }
    this.#tellOrigins(headers, original.method, path);
    const answer = await responseToShare(response);
    if (path !== DOCUMENT) return this.#respond(target, answer, original, caller);
    // It is the same for every query, and takes milliseconds to make and to compress.
    this.#ready.put(path, { answer, isCurrent: () => status === 200 }, "");
    return this.#respond(path, answer, original, caller);
  }
}

/** The sender of a request, as far as it is known. */
interface Caller {
  /** Id of the request, for the log. */
  readonly id: string;
  /** The request as it came. Its signal aborts when the client is gone. */
  readonly client: Request;
  /** Undefined on paths without a key, and until the key was checked. */
  key?: ApiKey | undefined;
  /** True if the response tells the key's rate and its origins already. */
  isWhole?: boolean;
}

/** A request on its way through the router. */
interface InProgress extends Caller {
  /** Undefined on paths without a key. */
  readonly question: Question | undefined;
  /** The route's response. A `Response` through the router would cost two copies of the bytes. */
  answered?: RouteResponse;
  /** Names of unknown parameters, for the header of its response or its error. */
  unknown?: string | undefined;
  /** Since when the oldest deprecated parameter of the request is deprecated. */
  isDeprecated?: Date | undefined;
}

const inProgress = new WeakMap<Request, InProgress>();

interface Logged extends Omit<Caller, "client" | "isWhole"> {
  readonly method: string;
  readonly target: string;
  readonly path: string;
  readonly ms: number;
}

/** Deps with lookups of operations. */
interface Checks extends AppDeps {
  operationOf(method: string, path: string): Operation<OperationDeps> | undefined;
  readonly isKnownParameter: ReadonlySet<string>;
}

/** Logs a request with the names of its known parameters. Values, headers and other names may be secrets. */
function logRequest(
  { logger, isKnownParameter }: Checks,
  { method, target, path, id, key, ms }: Logged,
  status: number,
): void {
  const names = new Set(new URLSearchParams(searchOf(target)).keys());
  const parameters = [...names].filter((name) => isKnownParameter.has(name)).join(",");
  const shown = routeLabel(path) === "other" ? "/…" : path;
  const fields = { requestId: id, key: key?.key, method, path: shown, parameters, status };
  logger.info({ ...fields, ms: Math.round(ms * 10) / 10 }, "request");
}

const parameterNames = (operations: readonly Operation<OperationDeps>[]): ReadonlySet<string> =>
  new Set(operations.flatMap(({ query }) => Object.keys(query)));

interface Routed {
  readonly request: Request;
  readonly params: Readonly<Record<string, string>>;
}

/** The router's handler of an operation. A cached answer goes to `inProgress`, and an empty response to the router. */
const handlerOf =
  (operation: Operation<OperationDeps>, deps: AppDeps) =>
  async ({ request, params }: Routed): Promise<Response> => {
    const search = searchOf(request.url);
    const progress = inProgress.get(request);
    const { chains } = deps;
    const { key: requester, question, client } = progress ?? {};
    const incoming = { request, search, params, chains, requester, question, client: client?.signal };
    if (operation.scope === undefined) return await responseOf(await operation.handle(incoming, deps), jsonHeaders);
    invariant(progress?.key !== undefined, "a request reached a route without a checked key");
    if (operation.isUpgrade !== true) progress.unknown = unknownParameters(search, operation.query);
    progress.isDeprecated = deprecatedSince(search, operation.query);
    const answering = operation.handle(incoming, deps);
    const answered = await whileLogAnswers(deps.isLogAnswering, deps.clock, answering);
    if (!("cached" in answered))
      return await responseOf(answered, (headers) => ({ ...headers, "cache-control": NO_STORE }));
    progress.answered = answered.cached;
    return new Response(null);
  };

type HeadersOf = (headers: Record<string, string>) => Headers | Record<string, string>;

async function responseOf(answered: Answered, headersOf: HeadersOf): Promise<Response> {
  if ("response" in answered) return answered.response;
  invariant("body" in answered, "only operations with a key may be cached");
  const headers = new Headers(headersOf({ ...answered.headers }));
  // As the runtime writes it in answers of JSON.
  if (!headers.has("content-type")) headers.set("content-type", "application/json;charset=utf-8");
  return new Response(new Blob(await runInSlices(jsonParts(answered.body as object))), { headers });
}

function failure(error: unknown, { id, client }: Pick<Caller, "id" | "client">, logger: Logger): Response {
  if (client.signal.aborted || error instanceof ClientGone) return new Response(null, { status: CLIENT_GONE });
  if (asRefusal(error).code === "internal") logger.error({ err: error, requestId: id }, "a request failed");
  // The node's own error text goes to the operator's log; the client gets a 503 with retry-after.
  else if (isNodeRefusal(error)) logger.warn({ err: error, requestId: id }, "a request was refused by the node");
  return errorResponse(error);
}

/** Checks URL length, key, rate and scope. Returns the key if the path needs one. @throws Refusal 400, 401, 403, 429, 503 */
function checkRequest(request: Request, target: string, path: string, deps: Checks): ApiKey | undefined {
  if (target.length > LIMITS.maxUrlLength) {
    const name = longestParameter(target);
    throw invalidParameter(name, `too long: a URL must not be longer than ${LIMITS.maxUrlLength} characters`);
  }
  const isForOperators = isOperatorPath(path);
  if (!isForOperators && !isApiPath(path)) return undefined;
  const key = deps.keys.check(keyText(request.headers));
  deps.questions.take(key);
  if (isForOperators) assertMayUse(key, deps.operationOf(request.method, path), target, deps);
  return key;
}

/** A replica that is cut off from the log for this long answers no operator: what it shows may be over. */
const CUT_OFF_MS = 10_000;

/**
 * Checks that the key may use the operation, and that this process knows the log well enough to answer an operator.
 * Without an operation, the key must be an operator's: others learn nothing of the paths.
 * @throws Refusal 403, 503
 */
function assertMayUse(
  { key: name, scope }: Pick<ApiKey, "key" | "scope">,
  operation: Operation<OperationDeps> | undefined,
  target: string,
  { behindMs }: AppDeps,
): void {
  if (operation?.scope === "read") return;
  const isOfNames = new URLSearchParams(searchOf(target)).get("fields") === "names";
  if (operation?.hasNamesForRead === true && isOfNames) return;
  if (scope !== "operate") {
    const text = `the key ${name} is of scope read; this path needs a key of scope operate`;
    throw new Refusal("forbidden", `${text}: ${WAY_TO_OPERATE}`);
  }
  if (behindMs() <= CUT_OFF_MS) return;
  throw new Refusal("log_unavailable", "this process has lost the event log; ask another one, or try again", {
    retryAfter: 1,
  });
}

const noSuchPath = (): Refusal => new Refusal("not_found", "no such path; see /swagger");

/** Returns the longest parameter of a URL that is too long, so that the error can name it. */
function longestParameter(target: string): string {
  let longest = { name: "url", length: 0 };
  for (const part of searchOf(target).split("&")) {
    const name = part.slice(0, Math.max(0, part.indexOf("=")));
    if (part.length > longest.length) longest = { name, length: part.length };
  }
  return longest.name.slice(0, 64) || "url";
}

/** Operations, other routes, and what a hosted path that is not served is about. */
type Routes = RouteTable<Operation<OperationDeps> | symbol | string>;
/** A route that is no operation: of a document or a page. */
const DOCUMENT_ROUTE = Symbol("document");

function routesOf(
  operations: readonly Operation<OperationDeps>[],
  all: readonly { readonly method: string; readonly path: string }[],
): Routes {
  const own = operations.map((route) => ({ method: route.method, path: route.path, route }));
  const known = new Set(own.map(({ method, path }) => `${method} ${path}`));
  const others = all.filter(({ method, path }) => !known.has(`${method} ${path}`));
  return new RouteTable<Operation<OperationDeps> | symbol | string>([
    ...own,
    ...others.map(({ method, path }) => ({ method, path, route: DOCUMENT_ROUTE })),
    ...NOT_SERVED.map(({ path, what }) => ({ method: "any", path: API_PREFIX + path, route: what })),
  ]);
}

/** @throws Refusal 404 or 405 if the path has no route of this method */
type AssertRoute = (method: string, path: string) => void;

function createRoutes(
  deps: AppDeps,
  operations: readonly Operation<OperationDeps>[],
  assertRoute: AssertRoute,
): Elysia {
  /** The error of a request without a route: a 405 if the path has other methods. */
  const notFound = ({ method, url }: Request): unknown => {
    try {
      assertRoute(method, pathOf(targetOf(url)));
    } catch (error) {
      return error;
    }
    return noSuchPath();
  };
  const app = new Elysia({ aot: true, normalize: false })
    .onError(({ error, code, request }) => {
      const known = code === "NOT_FOUND" ? notFound(request) : error;
      return failure(known, inProgress.get(request) ?? { id: "", client: request }, deps.logger);
    })
    .use(swaggerPage(deps.prefix))
    .use(openApiDocument({ ...deps, operations }))
    .use(documents({ ...deps, operations }))
    .use(deprecationsPage(operations))
    .use(deps.hasConsole ? consolePage(deps.prefix, deps.explorers) : withoutConsole(deps.prefix)) as unknown as Elysia;
  for (const operation of operations) {
    app.route(operation.method, operation.path, handlerOf(operation, deps));
  }
  return app;
}

/** Without the console, `/` leads to the API's document. */
const withoutConsole = (prefix: string) =>
  new Elysia(HIDDEN).get(
    "/",
    () => new Response(null, { status: 302, headers: { location: `${prefix}/swagger`, "cache-control": "no-cache" } }),
  );
