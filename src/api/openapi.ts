/** The OpenAPI document's parts that follow from the operations: their details, and the schemas that they name. */

import type { TSchema } from "@sinclair/typebox";
import type { Chains } from "../chains/chains.ts";
import { EXAMPLE_BLOCK, EXAMPLE_HASH, EXAMPLE_TIME } from "../core/examples.ts";
import { exampleOf, formsOf, nameOfSchema, type WireTypes } from "../core/schema-parts.ts";
import { NO_STORE } from "./wire/answers.ts";
import { ERROR_EXAMPLES, ErrorBody } from "./wire/errors.ts";
import type { Operation } from "./wire/operation.ts";
import type { Parameters } from "./wire/parameters.ts";
import { schemaOf } from "./wire/parameters.ts";

export const INFO = {
  title: "EVM data service",
  version: "2.0",
  description: "NFT listings and token prices of EVM chains, indexed from JSON-RPC by this server.",
  license: { name: "MIT", url: "https://spdx.org/licenses/MIT.html" },
};

/** Settings of routes that the document leaves out. */
export const HIDDEN = { detail: { hide: true } };

export const SECURITY_SCHEMES = {
  ApiKeyAuth: { type: "apiKey", in: "header", name: "X-API-Key" },
  BearerAuth: { type: "http", scheme: "bearer", description: "The same key, as a bearer token" },
} as const;
/** Either of them. */
export const SECURITY = [{ ApiKeyAuth: [] }, { BearerAuth: [] }];

const header = (description: string, example: unknown, schema: object = { type: "string" }) => ({
  description,
  schema,
  example,
});

/** Headers by their name in the document. A response has only those that apply to it. */
export const HEADERS = {
  RequestId: header("Id of the request in the server's log", "0b4e6a2c-4a27-4d4c-9c1a-1f1f0e5b7a55"),
  CacheControl: header("Caching rules of the response", "private, no-cache"),
  NoStore: header("No cache may store the response", NO_STORE),
  ETag: header("Entity tag, for If-None-Match", 'W/"e968996a16214729"'),
  AsOfBlock: header("Block that the response is valid for", String(EXAMPLE_BLOCK)),
  AsOfHash: header("Hash of that block, if known", EXAMPLE_HASH),
  AsOfTime: header("Time of that block, ISO 8601, if its header is known", EXAMPLE_TIME),
  Finality: header("Finality of that block", "finalized", { type: "string", enum: ["finalized", "latest", "stale"] }),
  ChainStatus: header(
    "Why answers of the chain may be old: halted after a reorg deeper than finality, endpoints of another chain, silent for a minute, or behind",
    "halted",
    { type: "string", enum: ["halted", "wrong_chain", "unreachable", "behind"] },
  ),
  RetryAfter: header("Seconds to wait before a retry", 5, { type: "integer", format: "int32" }),
  UnknownParameters: header(
    "The first five query parameters that the operation ignored as unknown, percent-encoded, cut at 64 characters",
    "limits, normalize_metadata",
  ),
  RateLimit: header("What is left of the key's rate, and the seconds until it is whole again", '"minute";r=5990;t=1'),
  RateLimitPolicy: header("The key's rate: requests in a window of so many seconds", '"minute";q=6000;w=60'),
  Covered: header("Collections of the chain that are indexed here, of which the answer is", "12 collections"),
  Deprecation: header("Since when a parameter of the request is deprecated (RFC 9745), if one is", "@1795824000"),
  Link: header(
    "The page that says what to do instead",
    '<https://nft.example.org/swagger/deprecations>; rel="deprecation"',
  ),
  Upgrade: header("The protocol of this path", "websocket"),
} as const;

type HeaderNames = Readonly<Record<string, keyof typeof HEADERS>>;

const headers = (names: HeaderNames) =>
  Object.fromEntries(
    Object.entries(names).map(([name, component]) => [name, { $ref: `#/components/headers/${component}` }]),
  );

const READ: HeaderNames = { "x-unknown-parameters": "UnknownParameters" };
const DEPRECATED: HeaderNames = { deprecation: "Deprecation", link: "Link" };
const AS_OF: HeaderNames = {
  "x-as-of-block": "AsOfBlock",
  "x-as-of-hash": "AsOfHash",
  "x-as-of-time": "AsOfTime",
  "x-finality": "Finality",
  "x-chain-status": "ChainStatus",
};
const CACHED: HeaderNames = { "x-request-id": "RequestId", "cache-control": "CacheControl", etag: "ETag" };
/** Of every answer to a request with a key. */
const RATE: HeaderNames = { ratelimit: "RateLimit", "ratelimit-policy": "RateLimitPolicy" };
const NOT_CACHED: HeaderNames = { "x-request-id": "RequestId", "cache-control": "NoStore" };

const ERRORS = {
  400: "Invalid parameter: the message names it and the allowed values; or the chain is not enabled",
  401: "No API key, or a wrong one",
  403: "The key's scope does not allow it",
  404: "Not found, or no price; code and details give the reason",
  409: "as_of_block is above the indexed blocks while the backfill runs; or the block asked for is nowhere to read, because the endpoints have pruned it",
  410: "The cursor's block left the canonical chain",
  413: "The body is over its bound",
  426: "Not a WebSocket upgrade",
  429: "Rate limit exceeded, or the key's share of a queue; see Retry-After",
  500: "Internal server error",
  503: "No endpoint of the chain answers, the event log can't be reached, pools are still searched for, or the server is starting; see Retry-After",
} as const;

type DocumentedStatus = keyof typeof ERRORS;

const MORE_HEADERS: Partial<Record<DocumentedStatus, HeaderNames>> = {
  426: { upgrade: "Upgrade" },
  429: { "retry-after": "RetryAfter" },
  503: { "retry-after": "RetryAfter" },
};

/** Statuses that are answered before the query is read, so without the header of unknown parameters. */
const UNREAD: readonly DocumentedStatus[] = [401, 403, 429];

/** The statuses of an operation's errors: its own, and those of keys, rates and failures. */
function errorStatuses({ scope, errors, body, isUpgrade }: Operation<never>): DocumentedStatus[] {
  const ofKeys: DocumentedStatus[] = scope === undefined ? [] : [401, 429, 503];
  if (scope !== undefined && isUpgrade !== true) ofKeys.push(500);
  const ofScope: DocumentedStatus[] = scope === "operate" ? [403] : [];
  const ofBody: DocumentedStatus[] = body === undefined ? [] : [413];
  return [...new Set([...errors, ...ofKeys, ...ofScope, ...ofBody])].sort((a, b) => a - b);
}

/** Schemas by their name in the document. */
type Components = Map<string, object>;

/** The form of a schema for a document. Collects the named ones that it refers to. */
export function documented(schema: TSchema, wire: WireTypes, components: Components): object {
  const name = nameOfSchema(schema);
  if (name === undefined) return unnamed(schema, wire, components);
  if (!components.has(name)) {
    // Holds the place, so that a schema stands before those that it refers to.
    components.set(name, {});
    components.set(name, unnamed(schema, wire, components));
  }
  return reference(name);
}

const reference = (name: string): object => ({ $ref: `#/components/schemas/${name}` });

/** The form of a schema in an operation: a named one is only referred to. */
function mentioned(schema: TSchema, wire: WireTypes): object {
  const name = nameOfSchema(schema);
  return name === undefined ? documented(schema, wire, new Map()) : reference(name);
}

function unnamed(schema: TSchema, wire: WireTypes, components: Components): object {
  const form = formsOf(schema)?.[wire] ?? schema;
  const inner = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(inner);
    return typeof value === "object" && value !== null ? documented(value as TSchema, wire, components) : value;
  };
  const fields = Object.entries(form).map(([key, value]) => {
    if (key === "properties") {
      const properties = Object.entries(value as object).map(([name, one]) => [name, inner(one)]);
      return [key, Object.fromEntries(properties)];
    }
    return [key, /^(?:items|oneOf|anyOf|additionalProperties)$/.test(key) ? inner(value) : value];
  });
  return Object.fromEntries(fields);
}

/** All schemas that operations name, by their name. */
export function schemasOf(operations: readonly Operation<never>[], wire: WireTypes): Record<string, object> {
  const components: Components = new Map();
  for (const { answer, body } of operations) {
    if ("schema" in answer) documented(answer.schema, wire, components);
    if (body !== undefined) documented(body, wire, components);
  }
  documented(ErrorBody, wire, components);
  return Object.fromEntries(components);
}

const parametersIn = (place: "path" | "query", parameters: Parameters, chains: Chains) =>
  Object.entries(parameters).map(([name, { description, example, deprecated, isRequired = false, ...parameter }]) => ({
    name,
    in: place,
    required: place === "path" || isRequired,
    schema: schemaOf(parameter, chains),
    description,
    example,
    ...(deprecated === undefined ? {} : { deprecated: true }),
  }));

/** Describes an operation for the document. */
export function detailOf(operation: Operation<never>, wire: WireTypes, chains: Chains): object {
  const { id, summary, description, tag, scope, parts, query, body, answer, hasBlock, isCached, isUpgrade } = operation;
  const content = (schema: TSchema, example: unknown = exampleOf(schema, wire)) => ({
    "application/json": { schema: mentioned(schema, wire), example },
  });
  const read = scope === undefined || isUpgrade === true ? {} : READ;
  const rate = scope === undefined || isUpgrade === true ? {} : RATE;
  const isDeprecating = Object.values(query).some(({ deprecated }) => deprecated !== undefined);
  const covered: HeaderNames = operation.isOfCovered === true ? { "x-covered": "Covered" } : {};
  const given = { ...read, ...rate, ...covered, ...(isDeprecating ? DEPRECATED : {}) };
  const names = { ...given, ...(isCached ? CACHED : NOT_CACHED), ...(hasBlock === true ? AS_OF : {}) };
  const refusal = (status: DocumentedStatus) => ({
    description: ERRORS[status],
    headers: headers({
      ...{ ...NOT_CACHED, ...MORE_HEADERS[status] },
      // Without a valid key there is no rate.
      ...(status === 401 ? {} : rate),
      ...(UNREAD.includes(status) ? {} : read),
    }),
    content: content(ErrorBody, errorOf(operation, status)),
  });
  const parameters = [...parametersIn("path", parts, chains), ...parametersIn("query", query, chains)];
  const success = "schema" in answer ? content(answer.schema) : answer.content;
  return {
    operationId: id,
    summary,
    ...(description === undefined ? {} : { description }),
    tags: [tag],
    security: scope === undefined ? [] : [...SECURITY],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: { required: true, content: content(body) } }),
    responses: {
      ...(isUpgrade === true
        ? { 101: { description: "Switching protocols", headers: headers({ "x-request-id": "RequestId" }) } }
        : { 200: { description: "OK", headers: headers(names), content: success } }),
      ...(isCached
        ? {
            304: {
              description: "Not modified: the client's copy is current (If-None-Match)",
              headers: headers(names),
            },
          }
        : {}),
      ...Object.fromEntries(errorStatuses(operation).map((status) => [String(status), refusal(status)])),
    },
  };
}

function errorOf({ errorExamples = {} }: Operation<never>, status: DocumentedStatus): ErrorBody {
  return (errorExamples as Partial<Record<DocumentedStatus, ErrorBody>>)[status] ?? ERROR_EXAMPLES[status];
}
