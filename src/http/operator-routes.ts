/**
 * The routes under `/api` for operators: status, collections, keys. A table of routes, from which the router, the
 * scopes and the OpenAPI document are made. The command line and the console use these routes and nothing else.
 */
import type { Static, TSchema } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import type { Elysia } from "elysia";
import type { Chain } from "../chains/chains.ts";
import { LIMITS } from "../config.ts";
import { ApiError, invalidParameter } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { KeyScope, StreamName } from "../events/types.ts";
import type { Demand } from "../indexing/demand.ts";
import {
  type Catalogue,
  type CatalogueFilter,
  COLLECTION_STATUSES,
  type CollectionStatus,
} from "../operators/catalogue.ts";
import { type ApiKey, type ApiKeys, WAY_TO_OPERATE } from "../operators/keys.ts";
import type { ServiceStatus } from "../operators/status.ts";
import type { KnownToken } from "../prices/known-tokens.ts";
import { pathOf, searchOf, whileLogAnswers } from "./answers.ts";
import {
  countedTraits,
  type ExploreDeps,
  type Explorer,
  foundTokens,
  HOLDER_PARAMETERS,
  listedHolders,
  priceSeries,
  SERIES_PARAMETERS,
  TOKEN_LIST_PARAMETERS,
  TOKEN_PARAMETERS,
  tokenDetails,
} from "./explore-routes.ts";
import { EXPORT_PARAMETERS, type ExportDeps, exportOf, RunningExports } from "./export-route.ts";
import { operatorDetail } from "./operator-docs.ts";
import { BODIES } from "./operator-models.ts";
import { patternOf } from "./paths.ts";
import {
  addressOf,
  chainNamed,
  chainOf,
  integer,
  notEnabled,
  parseQueryString,
  single,
  unknownParameters,
} from "./requests.ts";

export interface OperatorDeps extends ExportDeps, ExploreDeps {
  readonly keys: ApiKeys;
  readonly catalogue: Catalogue;
  readonly status: ServiceStatus;
  readonly isLogAnswering: () => boolean;
  /** What requests for whole collections share. */
  readonly explorer: Explorer;
  /** Ms that this process is behind the log. */
  readonly behindMs: () => number;
  /** Says what indexing a contract will cost; undefined if the chain is not enabled. */
  estimate(chainId: number, address: Address): Promise<{ readonly time: number }> | undefined;
  /** Finds ERC-20 tokens of enabled chains by a text in lower case. */
  findTokens(text: string, limit: number): readonly KnownToken[];
  /** True if the chain is enabled. */
  readonly isEnabled: (chainId: number) => boolean;
  /** What clients want of collections. */
  readonly demand: Pick<Demand, "request">;
  /** Has a collection indexed anew, or removed. Returns the status before; undefined if it was never requested. */
  beginAnew(chainId: number, address: Address, type: "ReindexRequested" | "CollectionRemoved"): Promise<unknown>;
  /** Has metadata fetched again. Returns false if none was fetched yet. */
  refreshMetadata(chainId: number, address: Address, ids: readonly bigint[] | undefined): Promise<boolean>;
}

interface Asked {
  readonly search: string;
  readonly params: Readonly<Record<string, string>>;
  /** The key, which was checked before, and its text. */
  readonly requester: ApiKey;
  readonly key: string;
  /** Returns the body. @throws ApiError 400 that names the field */
  body<T extends TSchema>(schema: T): Promise<Static<T>>;
}

export interface OperatorRoute {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly scope: KeyScope;
  /** Names of its query parameters. */
  readonly parameters?: ReadonlySet<string>;
  /** Returns the body as an object, or the whole response. */
  readonly answer: (asked: Asked, deps: RouteDeps) => Promise<object>;
}

interface RouteDeps extends OperatorDeps {
  readonly exports: RunningExports;
}

/** A replica that is cut off from the log for this long answers no operator: what it shows may be over. */
const CUT_OFF_MS = 10_000;
const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 500;
const DEFAULT_GRACE_SECONDS = 86_400;

/** One collection. */
const ONE = "/api/collections/:chain/:address";

export const OPERATOR_ROUTES: readonly OperatorRoute[] = [
  { method: "GET", path: "/api/status", scope: "operate", answer: (_asked, { status }) => status.report() },
  {
    method: "GET",
    path: "/api/collections",
    scope: "operate",
    parameters: new Set(["chain", "status", "text", "limit", "cursor"]),
    answer: listCollections,
  },
  { method: "POST", path: "/api/collections", scope: "operate", answer: requestCollections },
  { method: "POST", path: `${ONE}/reindex`, scope: "operate", answer: (asked, deps) => beginAnew(asked, deps, true) },
  { method: "POST", path: `${ONE}/refresh`, scope: "operate", answer: refresh },
  { method: "DELETE", path: ONE, scope: "operate", answer: (asked, deps) => beginAnew(asked, deps, false) },
  { method: "GET", path: ONE, scope: "read", answer: describeCollection },
  {
    method: "GET",
    path: `${ONE}/holders`,
    scope: "read",
    parameters: HOLDER_PARAMETERS,
    answer: async (asked, deps) => listedHolders(await exploredBy(asked, deps), deps, deps.explorer),
  },
  {
    method: "GET",
    path: `${ONE}/tokens`,
    scope: "read",
    parameters: TOKEN_LIST_PARAMETERS,
    answer: async (asked, deps) => foundTokens(await exploredBy(asked, deps), deps, deps.explorer),
  },
  {
    method: "GET",
    path: `${ONE}/tokens/:id`,
    scope: "read",
    parameters: TOKEN_PARAMETERS,
    answer: async (asked, deps) => tokenDetails(await exploredBy(asked, deps), deps, deps.explorer),
  },
  {
    method: "GET",
    path: `${ONE}/traits`,
    scope: "read",
    answer: async (asked, deps) => countedTraits(await exploredBy(asked, deps), deps, deps.explorer),
  },
  {
    method: "GET",
    path: "/api/prices/:chain/:address/series",
    scope: "read",
    parameters: SERIES_PARAMETERS,
    answer: async (asked, deps) => priceSeries({ ...asked, ...contractIn(asked, deps) }, deps, deps.explorer),
  },
  { method: "GET", path: "/api/tokens", scope: "read", parameters: new Set(["text", "limit"]), answer: listTokens },
  { method: "GET", path: `${ONE}/estimate`, scope: "operate", answer: estimated },
  {
    method: "GET",
    path: `${ONE}/export`,
    scope: "read",
    parameters: EXPORT_PARAMETERS,
    answer: async (asked, deps) => exportOf({ ...asked, ...(await collectionOf(asked, deps)) }, deps),
  },
  {
    method: "GET",
    path: "/api/keys",
    scope: "operate",
    answer: async (_asked, { keys }) => ({ result: keys.list() }),
  },
  { method: "POST", path: "/api/keys", scope: "operate", answer: addKey },
  { method: "POST", path: "/api/keys/:name/rotate", scope: "operate", answer: rotateKey },
  { method: "DELETE", path: "/api/keys/:name", scope: "operate", answer: revokeKey },
];

const PATTERNS = OPERATOR_ROUTES.map((route) => ({ route, pattern: patternOf(route.path) }));

/** The route of a request; HEAD has that of GET. */
export function operatorRoute(method: string, path: string): OperatorRoute | undefined {
  const wanted = method === "HEAD" ? "GET" : method;
  return PATTERNS.find(({ route, pattern }) => route.method === wanted && pattern.test(path))?.route;
}

/** The header's value for a request's unknown query parameters; undefined if there are none, or no such route. */
export function ignoredParameters(method: string, target: string): string | undefined {
  const route = operatorRoute(method, pathOf(target));
  return route && unknownParameters(searchOf(target), route.parameters ?? new Set());
}

/**
 * Checks that the key may use the route, and that this process knows the log well enough to answer an operator. Without
 * a route, the key must be an operator's: others learn nothing of the paths.
 * @throws ApiError 403, 503
 */
export function assertMayUse(
  { key: name, scope }: Pick<ApiKey, "key" | "scope">,
  route: OperatorRoute | undefined,
  deps: OperatorDeps,
): void {
  if (route?.scope === "read") return;
  if (scope !== "operate") {
    const text = `the key ${name} is of scope read; this path needs a key of scope operate`;
    throw new ApiError(403, "forbidden", `${text}: ${WAY_TO_OPERATE}`);
  }
  if (deps.behindMs() <= CUT_OFF_MS) return;
  throw new ApiError(503, "log_unavailable", "this process has lost the event log; ask another one, or try again", {
    headers: { "retry-after": "1" },
  });
}

/** Adds the routes to the application. */
export function addOperatorRoutes(app: Elysia, given: OperatorDeps, callerOf: (request: Request) => ApiKey): Elysia {
  const deps: RouteDeps = { ...given, exports: new RunningExports(given.clock) };
  for (const route of OPERATOR_ROUTES) {
    const handler = async ({ request, params }: { request: Request; params: Record<string, string> }) => {
      const asked: Asked = {
        search: searchOf(request.url),
        params,
        requester: callerOf(request),
        key: request.headers.get("x-api-key") ?? "",
        body: (schema) => bodyOf(request, schema),
      };
      const answer = await whileLogAnswers(deps.isLogAnswering, deps.clock, route.answer(asked, deps));
      if (answer instanceof Response) return answer;
      return Response.json(answer, { headers: { "cache-control": "no-store" } });
    };
    app.route(route.method, route.path, handler, { detail: operatorDetail(route, deps.wireTypes) });
  }
  return app;
}

async function bodyOf<T extends TSchema>(request: Request, schema: T): Promise<Static<T>> {
  const bytes = await bytesOf(request);
  let value: unknown;
  try {
    value = bytes.length === 0 ? {} : JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw invalidParameter("body", "must be JSON in UTF-8");
  }
  const error = Value.Errors(schema, value).First();
  if (error !== undefined) throw invalidParameter(error.path.slice(1).replaceAll("/", ".") || "body", error.message);
  return value as Static<T>;
}

/** Reads a body up to the limit. @throws ApiError 400 */
async function bytesOf({ headers, body }: Request): Promise<Buffer> {
  const tooLong = invalidParameter("body", `must not be longer than ${LIMITS.maxRequestBody} bytes`);
  if (Number(headers.get("content-length")) > LIMITS.maxRequestBody) throw tooLong;
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body ?? []) {
    length += chunk.length;
    if (length > LIMITS.maxRequestBody) throw tooLong;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function listCollections({ search }: Asked, { catalogue }: OperatorDeps): Promise<object> {
  const query = parseQueryString(search);
  const status = single(query, "status");
  if (status !== undefined && !COLLECTION_STATUSES.some((one) => one === status)) {
    throw invalidParameter("status", `must be one of ${COLLECTION_STATUSES.join(", ")}`);
  }
  const filter: CatalogueFilter = {
    chain: single(query, "chain") === undefined ? undefined : chainOf(query),
    status: status as CatalogueFilter["status"],
    text: single(query, "text")?.trim().toLowerCase().slice(0, 100) || undefined,
  };
  const cursor = single(query, "cursor") || undefined;
  const after = cursor === undefined ? undefined : (Buffer.from(cursor, "base64url").toString() as StreamName);
  if (after !== undefined && !/^nft\/\d{1,16}\/0x[0-9a-f]{40}$/.test(after)) {
    throw invalidParameter("cursor", "must be the cursor of an earlier answer, unchanged");
  }
  const limit = integer(query, "limit", 1, MAX_LIMIT) ?? DEFAULT_LIMIT;
  const { entries, next } = await catalogue.page(filter, { after, limit });
  return { cursor: next === undefined ? null : Buffer.from(next).toString("base64url"), result: entries };
}

async function listTokens({ search }: Asked, deps: OperatorDeps): Promise<object> {
  const query = parseQueryString(search);
  const text = single(query, "text")?.trim().toLowerCase().slice(0, 100) ?? "";
  const limit = integer(query, "limit", 1, MAX_LIMIT) ?? DEFAULT_LIMIT;
  return { result: deps.findTokens(text, limit) };
}

/** Statuses in which a request for a collection may have work to do. */
const OVER: readonly CollectionStatus[] = ["removed", "not_nft", "not_a_contract"];

async function requestCollections({ body, requester }: Asked, deps: OperatorDeps): Promise<object> {
  const { items } = await body(BODIES.index);
  const contracts = items.map(({ chain: name = "eth", address: text }, index) => {
    const chain = chainNamed(name, `items.${index}.chain`);
    if (!deps.isEnabled(chain.chainId)) throw notEnabled(chain, `items.${index}.chain`);
    return { chain, address: addressOf(text, `items.${index}.address`) };
  });
  const answers = [];
  for (const { chain, address } of contracts) {
    const before = await deps.catalogue.find(chain.chainId, address);
    if (before === undefined || OVER.includes(before.status)) {
      const collection = await deps.projections.newest(chain.chainId, address);
      await deps.demand.request({ chainId: chain.chainId, address }, collection, requester);
    }
    answers.push({ chain: chain.name, address, before: before?.status ?? null });
  }
  return { items: answers };
}

/** The contract of the path. @throws ApiError 400 */
function contractIn({ params }: Asked, { isEnabled }: OperatorDeps) {
  const chain = chainNamed(decoded(params["chain"]));
  if (!isEnabled(chain.chainId)) throw notEnabled(chain);
  return { chain, address: addressOf(params["address"] ?? "") };
}

/** The collection of the path. @throws ApiError 400, 404 if it was never requested */
async function collectionOf(asked: Asked, deps: OperatorDeps) {
  const { chain, address } = contractIn(asked, deps);
  const before = await deps.catalogue.find(chain.chainId, address);
  if (before !== undefined) return { chain, address, before: before.status };
  throw neverRequested(chain, address);
}

const neverRequested = ({ name }: Chain, address: Address): ApiError =>
  new ApiError(404, "not_found", `the collection ${address} on ${name} was never requested`);

async function describeCollection(asked: Asked, deps: RouteDeps): Promise<object> {
  const { chain, address } = contractIn(asked, deps);
  const described = await deps.catalogue.describe(chain.chainId, address);
  if (described === undefined) throw neverRequested(chain, address);
  const { entry, flags } = described;
  // The metadata of a collection that is not in memory is read whole.
  const reading = deps.explorer.memory.run(asked.requester, async () => deps.nftChain(chain)?.healthOf(address));
  const { resolved, failed, ...why } = (await reading) ?? NO_METADATA;
  const left = entry.nfts === null ? null : Math.max(0, entry.nfts - resolved - failed);
  return { ...entry, flags, metadata: { resolved, failed, left, ...why } };
}

const NO_METADATA = { resolved: 0, failed: 0, reasons: {}, failedTokens: [] };

async function estimated(asked: Asked, deps: OperatorDeps): Promise<object> {
  const { chain, address } = contractIn(asked, deps);
  const known = await deps.catalogue.find(chain.chainId, address);
  const estimate = await deps.estimate(chain.chainId, address);
  if (estimate === undefined) throw notEnabled(chain);
  const { time, ...costs } = estimate;
  return { chain: chain.name, address, status: known?.status ?? null, ...costs, time: new Date(time).toISOString() };
}

async function exploredBy(asked: Asked, deps: OperatorDeps) {
  return { ...asked, ...(await collectionOf(asked, deps)) };
}

async function beginAnew(asked: Asked, deps: OperatorDeps, isIndexedAgain: boolean): Promise<object> {
  const { chain, address, before } = await collectionOf(asked, deps);
  await deps.beginAnew(chain.chainId, address, isIndexedAgain ? "ReindexRequested" : "CollectionRemoved");
  return { chain: chain.name, address, before };
}

const MAX_ID = (1n << 256n) - 1n;

async function refresh(asked: Asked, deps: OperatorDeps): Promise<object> {
  const { chain, address, before } = await collectionOf(asked, deps);
  const { tokenIds } = await asked.body(BODIES.refresh);
  const ids = tokenIds?.map((text, index) => {
    const id = /^\d{1,78}$/.test(text) ? BigInt(text) : MAX_ID + 1n;
    if (id > MAX_ID) throw invalidParameter(`tokenIds.${index}`, "must be a decimal token id");
    return id;
  });
  if (await deps.refreshMetadata(chain.chainId, address, ids)) return { chain: chain.name, address, before };
  throw new ApiError(
    409,
    "conflict",
    "no metadata of this collection was fetched yet; it is fetched as soon as it can be",
  );
}

async function addKey({ body }: Asked, { keys }: OperatorDeps): Promise<object> {
  const { name, scope = "read", ...limits } = await body(BODIES.key);
  return { name, key: await keys.add(name, scope, limits) };
}

async function rotateKey({ body, params }: Asked, { keys }: OperatorDeps): Promise<object> {
  const { graceSeconds = DEFAULT_GRACE_SECONDS } = await body(BODIES.rotate);
  const name = nameOf(params);
  return { name, key: await keys.rotate(name, graceSeconds * 1_000) };
}

async function revokeKey({ params }: Asked, { keys }: OperatorDeps): Promise<object> {
  await keys.revoke(nameOf(params));
  return { result: keys.list() };
}

const nameOf = ({ name }: Readonly<Record<string, string>>): string => decoded(name);

/** A part of the path. Names of environment keys have a `#`, and names of chains a space. */
function decoded(text = ""): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
