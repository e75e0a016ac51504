/** The operations of the OpenAPI document. Bodies are in `models.ts`, examples in `examples.ts`. */
import { CHAINS, DEFAULT_CHAIN } from "../chains/chains.ts";
import { EXCHANGES } from "../chains/exchanges.ts";
import { NO_STORE } from "./answers.ts";
import {
  ERROR_EXAMPLES,
  HEADER_EXAMPLES,
  NFT_ADDRESS,
  NO_CONTRACT,
  NO_PRICE,
  PARAMETER_EXAMPLES,
  PRICE_EXAMPLE,
  pageExample,
  STARTING,
} from "./examples.ts";
import type { ErrorModel, HealthModel, SchemaName, WireTypes } from "./models.ts";

const header = (description: string, example: unknown, schema: object = { type: "string" }) => ({
  description,
  schema,
  example,
});

/** Headers by their name in the document. A response has only those that apply to it. */
export const HEADERS = {
  RequestId: header("Id of the request in the server's log", HEADER_EXAMPLES.requestId),
  CacheControl: header("Caching rules of the response", "private, no-cache"),
  NoStore: header("No cache may store the response", NO_STORE),
  ETag: header("Entity tag, for If-None-Match", HEADER_EXAMPLES.etag),
  AsOfBlock: header("Block that the response is valid for", HEADER_EXAMPLES.block),
  AsOfHash: header("Hash of that block, if known", HEADER_EXAMPLES.hash),
  AsOfTime: header("Time of that block, ISO 8601, if its header is known", HEADER_EXAMPLES.time),
  Finality: header("Finality of that block", "finalized", { type: "string", enum: ["finalized", "latest", "stale"] }),
  ChainStatus: header("halted after a reorg deeper than finality", "halted", { type: "string", enum: ["halted"] }),
  RetryAfter: header("Seconds to wait before a retry", 5, { type: "integer", format: "int32" }),
  UnknownParameters: header(
    "The first five query parameters that the operation ignored as unknown, percent-encoded, cut at 64 characters",
    HEADER_EXAMPLES.unknown,
  ),
  Upgrade: header("The protocol of this path", "websocket"),
} as const;

export const headers = (names: Readonly<Record<string, keyof typeof HEADERS>>) =>
  Object.fromEntries(
    Object.entries(names).map(([name, component]) => [name, { $ref: `#/components/headers/${component}` }]),
  );

export const READ = { "x-unknown-parameters": "UnknownParameters" } as const;
export const AS_OF = {
  "x-as-of-block": "AsOfBlock",
  "x-as-of-hash": "AsOfHash",
  "x-as-of-time": "AsOfTime",
  "x-finality": "Finality",
  "x-chain-status": "ChainStatus",
} as const;
const ANSWERED = {
  ...READ,
  "x-request-id": "RequestId",
  "cache-control": "CacheControl",
  etag: "ETag",
  ...AS_OF,
} as const;
export const REFUSED = { "x-request-id": "RequestId", "cache-control": "NoStore" } as const;

export const content = (schema: SchemaName, example: unknown) => ({
  "application/json": { schema: { $ref: `#/components/schemas/${schema}` }, example },
});

const ERRORS = {
  400: "Invalid parameter: the message names it and the allowed values; or the chain is not enabled",
  401: "No API key, or a wrong one",
  403: "The key's scope does not allow it",
  404: "Not found, or no price; code and details give the reason",
  409: "as_of_block is above the indexed blocks while the backfill runs",
  410: "The cursor's block left the canonical chain",
  426: "Not a WebSocket upgrade",
  429: "Rate limit exceeded; see Retry-After",
  500: "Internal server error",
  503: "No endpoint of the chain answers, the event log can't be reached, or the server is starting; see Retry-After",
} as const;

type ErrorStatus = keyof typeof ERRORS;

const MORE_HEADERS: Partial<Record<ErrorStatus, Readonly<Record<string, keyof typeof HEADERS>>>> = {
  426: { upgrade: "Upgrade" },
  429: { "retry-after": "RetryAfter" },
  503: { "retry-after": "RetryAfter" },
};

/** @param unread statuses that are returned before the query is parsed, so without the header of unknown parameters */
export function errorResponses(
  statuses: readonly ErrorStatus[],
  examples: Partial<Record<ErrorStatus, ErrorModel>> = {},
  unread: readonly ErrorStatus[] = statuses,
): Record<string, unknown> {
  const refusal = (status: ErrorStatus) => ({
    description: ERRORS[status],
    headers: headers({ ...REFUSED, ...MORE_HEADERS[status], ...(unread.includes(status) ? {} : READ) }),
    content: content("ErrorBody", examples[status] ?? ERROR_EXAMPLES[status]),
  });
  return Object.fromEntries(statuses.map((status) => [String(status), refusal(status)]));
}

const success = (names: Parameters<typeof headers>[0], body: object) => ({
  200: { description: "OK", headers: headers(names), content: body },
  304: { description: "Not modified: the client's copy is current (If-None-Match)", headers: headers(names) },
});

export interface ParameterSchema {
  readonly type: string;
  readonly [key: string]: unknown;
}

/** Makes optional query parameters with their examples. */
export function queries<Examples extends Readonly<Record<string, unknown>>>(
  examples: Examples,
  parameters: readonly [keyof Examples & string, ParameterSchema, string, object?][],
): object[] {
  return parameters.map(([name, schema, description, more]) => ({
    name,
    in: "query",
    required: false,
    schema,
    description,
    example: examples[name],
    ...more,
  }));
}

const addressParameter = (example: string) => ({
  name: "address",
  in: "path",
  required: true,
  schema: { type: "string", pattern: "^0x[0-9a-fA-F]{40}$" },
  description: "20-byte hex; a mixed-case address must have a valid EIP-55 checksum",
  example,
});

const CHAIN_SCHEMA = {
  type: "string",
  default: DEFAULT_CHAIN.name,
  enum: CHAINS.flatMap(({ name, code }) => [name, code]),
};
const CHAIN_TEXT = "Name or code of the chain, any case";
const flag = (fallback: boolean) => ({ type: "boolean", default: fallback });
const BLOCK = { type: "integer", format: "int64", minimum: 0 };
const SECURITY = [{ ApiKeyAuth: [] }];

export function nftDetail(maxPageSize: number, wire: WireTypes): object {
  const integer = { type: "integer", format: "int32" };
  const limit = { ...integer, minimum: 1, maximum: maxPageSize, default: Math.min(100, maxPageSize) };
  const examples = { ...PARAMETER_EXAMPLES.nft, limit: limit.default };
  const metadataText = "Uses the metadata known at that time instead of the newest; ISO 8601 with a time zone";
  return {
    operationId: "getContractNFTs",
    summary: "Get NFTs by contract",
    description: "A page of the NFTs of one contract. The first request for a contract starts its indexing.",
    tags: ["NFT"],
    security: SECURITY,
    parameters: [
      addressParameter(examples.address),
      ...queries(examples, [
        ["chain", CHAIN_SCHEMA, CHAIN_TEXT],
        ["format", { type: "string", enum: ["decimal", "hex"], default: "decimal" }, "Format of the token id"],
        ["limit", limit, "Desired page size"],
        ["totalRanges", { ...integer, minimum: 1, maximum: 1_000 }, "Number of subranges to split into"],
        ["range", { ...integer, minimum: 0, maximum: 999 }, "Subrange to query, from 0; needs totalRanges"],
        ["disable_total", flag(true), "false counts the total", { deprecated: true }],
        ["cursor", { type: "string" }, "Cursor of the previous page; empty is the same as absent"],
        ["normalizeMetadata", flag(false), "Adds normalised metadata"],
        ["media_items", flag(false), "Adds preview media"],
        ["as_of_block", BLOCK, "The listing as it was at the end of that block"],
        ["metadata_as_of", { type: "string", format: "date-time" }, metadataText],
        ["holders", flag(false), "One record per token id and owner"],
      ]),
    ],
    responses: {
      ...success(ANSWERED, content("NftPage", pageExample(wire))),
      ...errorResponses([400, 401, 404, 409, 410, 429, 500, 503], { 404: NO_CONTRACT }, [401, 429]),
    },
  };
}

const INCLUDES = ["percent_change", "provenance", "percent_change,provenance", "provenance,percent_change"];

export function priceDetail(): object {
  const exchanges = EXCHANGES.map(({ realName }) => realName).join(", ");
  const includeText = "Fields to add: percent_change, provenance, or both joined by a comma; not empty";
  const exchangeText = `${exchanges}, a stand-in name such as dexa_v2, or a factory's address`;
  const liquidityText = "Least depth of a pool's smaller side, in US dollars; plain digits, no exponent";
  const examples = PARAMETER_EXAMPLES.price;
  return {
    operationId: "getTokenPrice",
    summary: "Get ERC20 token price",
    description: "The price of one token, in the native coin and in US dollars, now or at the end of a block.",
    tags: ["Token"],
    security: SECURITY,
    parameters: [
      addressParameter(examples.address),
      ...queries(examples, [
        ["chain", CHAIN_SCHEMA, CHAIN_TEXT],
        ["include", { type: "string", enum: INCLUDES }, includeText],
        ["exchange", { type: "string", minLength: 1 }, exchangeText],
        ["to_block", BLOCK, "The price at the end of that block"],
        ["min_liquidity_usd", { type: "number", format: "double", minimum: 0 }, liquidityText],
      ]),
    ],
    responses: {
      ...success(ANSWERED, content("TokenPrice", PRICE_EXAMPLE)),
      ...errorResponses([400, 401, 404, 429, 500, 503], { 404: NO_PRICE }, [401, 429]),
    },
  };
}

export function socketDetail(): object {
  return {
    operationId: "subscribe",
    summary: "WebSocket channel",
    description:
      "Upgrade to a WebSocket. Send the key in the header or, from a browser, in the subprotocols evm.v2 and apikey.<key>. Send {action: subscribe, chain, address, since?}; since is the resume of the last message, and what was missed is sent again. The server sends status, progress, indexed, transfers, metadata, reorged and failed. All messages with their schemas: /asyncapi.json.",
    tags: ["Push"],
    security: SECURITY,
    responses: {
      101: { description: "Switching protocols", headers: headers({ "x-request-id": "RequestId" }) },
      ...errorResponses([400, 401, 426, 429, 503]),
    },
  };
}

export function mediaDetail(): object {
  const { hash, size } = PARAMETER_EXAMPLES.media;
  const binary = { schema: { type: "string", format: "binary" } };
  const common = { in: "path", required: true };
  const digest = { type: "string", pattern: "^[0-9a-f]{64}$" };
  const pixels = { type: "integer", format: "int32", enum: [100, 250, 500] };
  const caching = { "x-request-id": "RequestId", "cache-control": "CacheControl", etag: "ETag" } as const;
  return {
    operationId: "getMediaPreview",
    summary: "Get a preview picture",
    description: "A preview from a record's media. The URL contains its SHA-256, so its content never changes.",
    tags: ["NFT"],
    security: [],
    parameters: [
      { ...common, name: "hash", schema: digest, description: "SHA-256 of the preview", example: hash },
      { ...common, name: "size", schema: pixels, description: "Pixels of its longer side", example: size },
    ],
    responses: { ...success(caching, { "image/webp": binary }), ...errorResponses([404]) },
  };
}

export function healthDetail(operationId: "live" | "ready", summary: string): object {
  const example: HealthModel = { status: operationId };
  return {
    operationId,
    summary,
    tags: ["Service"],
    security: [],
    responses: {
      200: { description: "OK", headers: headers(REFUSED), content: content("Health", example) },
      ...(operationId === "live" ? {} : errorResponses([503], { 503: STARTING })),
    },
  };
}

export function metricsDetail(): object {
  const example = 'http_request_duration_seconds_count{route="nft",status="200"} 42\n';
  const plain = { "text/plain": { schema: { type: "string" }, example } };
  return {
    operationId: "metrics",
    summary: "Prometheus metrics",
    tags: ["Service"],
    security: [],
    responses: { 200: { description: "OK", headers: headers(REFUSED), content: plain }, ...errorResponses([401]) },
  };
}

export const INFO = {
  title: "EVM data service",
  version: "2.0",
  description: "NFT listings and token prices of EVM chains, indexed from JSON-RPC by this server.",
  license: { name: "MIT" },
};

/** An operation of the document. */
export interface Documented {
  readonly operationId: string;
  readonly summary: string;
  /** Body of the answer, by content type. */
  readonly answer: SchemaName | object;
  /** May depend on the wire types in force. */
  readonly example: object | undefined | ((wire: WireTypes) => object);
  readonly answerHeaders?: Parameters<typeof headers>[0];
  readonly body?: { readonly schema: SchemaName; readonly example: unknown };
  readonly parameters?: readonly object[];
  /** Statuses of errors in addition to 401, 403, 429, 500 and 503. */
  readonly errors: readonly (400 | 404 | 409 | 410)[];
}

/** The path parameters of a collection. */
export const COLLECTION_PATH = [
  {
    name: "chain",
    in: "path",
    required: true,
    schema: { type: "string" },
    description: "Name or code of the chain",
    example: "eth",
  },
  {
    name: "address",
    in: "path",
    required: true,
    schema: { type: "string", pattern: "^0x[0-9a-fA-F]{40}$" },
    description: "The contract",
    example: NFT_ADDRESS,
  },
];
