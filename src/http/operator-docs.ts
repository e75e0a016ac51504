/** The operations for operators in the OpenAPI document. */
import { CHAINS } from "../chains/chains.ts";
import { EXPORT_FORMATS } from "../exports/formats.ts";
import { COLLECTION_STATUSES } from "../operators/catalogue.ts";
import {
  AS_OF,
  COLLECTION_PATH,
  content,
  type Documented,
  errorResponses,
  headers,
  queries,
  READ,
  REFUSED,
} from "./docs.ts";
import { HEADER_EXAMPLES, NFT_ADDRESS } from "./examples.ts";
import { EXPLORE_OPERATIONS } from "./explore-docs.ts";
import type { WireTypes } from "./models.ts";

/** Statuses that every route may answer, and those among them that come before the query is read. */
const ALWAYS = [401, 403, 429, 500, 503] as const;
const UNREAD = [401, 403, 429] as const;

const TIME = HEADER_EXAMPLES.time;
const ID = "0b6fc1e0-5a3c-4d43-8d3e-6a1c1f0a2d11";
const COLLECTION = {
  chain: "eth",
  address: NFT_ADDRESS,
  name: "BoredApeYachtClub",
  symbol: "BAYC",
  type: "ERC721",
  status: "indexing",
  percent: 42,
  transfers: 61_000,
  nfts: null,
  transfersPerSecond: 21_000,
  secondsLeft: 4,
  requestedAt: TIME,
  finishedAt: null,
  attempts: 0,
  lastError: null,
  inDoubt: null,
  nextTry: null,
  calls: 120,
  bytes: 2_400_000,
};
const COUNTS = Object.fromEntries(COLLECTION_STATUSES.map((status) => [status, status === "indexing" ? 1 : 0]));
const BILL = { hour: { eth_getLogs: 120 }, day: { eth_getLogs: 2_400 } };
const STATUS = {
  instance: ID,
  version: "1.0.0",
  startedAt: TIME,
  log: {
    engine: "sqlite",
    bytes: 4_096,
    freeBytes: 10_000_000,
    writable: true,
    lastAppendAt: TIME,
    behindSeconds: 0.4,
  },
  memory: { rss: 200_000_000, heap: 40_000_000, collections: 1_000_000, metadata: 0 },
  leases: [{ what: "follow/1", holder: ID }],
  chains: [
    {
      name: "eth",
      chainId: 1,
      head: { number: 21_000_000, hash: HEADER_EXAMPLES.hash, time: TIME },
      finalized: 20_999_936,
      state: "following",
      since: TIME,
      endpoints: [
        {
          label: "eth#1",
          state: "available",
          reason: null,
          restsUntil: null,
          latencyMs: { p50: 42.1, p99: 310.5 },
          calls: BILL,
          units: { hour: 7_200, day: 144_000 },
          bytes: { hour: 60_000, day: 1_200_000 },
        },
      ],
    },
  ],
  keys: [{ name: "shop", calls: BILL, units: { hour: 3_600, day: 72_000 } }],
  collections: COUNTS,
  queue: 1,
};
const KEY = {
  name: "shop",
  scope: "read",
  source: "log",
  requestsPerMinute: 6_000,
  collectionsPerHour: 300,
  subscriptions: 1_000,
  createdAt: TIME,
  lastUse: TIME,
  requestsToday: 12,
};
const TEXT = { name: "shop", key: "Zk3vYlq0N1x8mC5oT7rW2sB9uD4eF6gH0iJkLmNoPqR" };
const NAME = {
  name: "name",
  in: "path",
  required: true,
  schema: { type: "string" },
  description: "Name of the key",
  example: "shop",
};

const LIST_PARAMETERS = queries(
  {
    chain: "eth",
    status: "indexing",
    text: "ape",
    limit: 100,
    cursor: "bmZ0LzEvMHhiYzRjYTBlZGE3NjQ3YThhYjdjMjA2MWMyZTExOGExOGE5MzZmMTNk",
  },
  [
    ["chain", { type: "string", enum: CHAINS.flatMap(({ name, code }) => [name, code]) }, "Only this chain"],
    ["status", { type: "string", enum: [...COLLECTION_STATUSES] }, "Only this status"],
    ["text", { type: "string", maxLength: 100 }, "Part of the address, the name or the symbol, in any case"],
    ["limit", { type: "integer", format: "int32", minimum: 1, maximum: 500, default: 100 }, "Page size"],
    ["cursor", { type: "string" }, "Cursor of the previous page"],
  ],
);

const TOKEN_ROW = {
  token_id: "1234",
  contract_type: "ERC721",
  owner_of: "0xf4a1f3ba15a8b3a93a9b84e0e2e8a2ab5dc9e8ce",
  amount: "1",
  block_number: 21_000_000,
  block_number_minted: 12_346_178,
  minter_address: "0xf4a1f3ba15a8b3a93a9b84e0e2e8a2ab5dc9e8ce",
  token_uri: "ipfs://QmeSjSinHpPnmXmspMjwiXyN6zS4E9zccariGR3jxcaWtq/1234",
  metadata: null,
  last_token_uri_sync: TIME,
  last_metadata_sync: null,
};
const FILES = {
  "text/csv": {
    schema: { type: "string" },
    example: `${Object.keys(TOKEN_ROW).join(",")}\r\n${Object.values(TOKEN_ROW).join(",")}\r\n`,
  },
  "application/x-ndjson": { schema: { type: "string" }, example: `${JSON.stringify(TOKEN_ROW)}\n` },
  "application/vnd.apache.parquet": { schema: { type: "string", format: "binary" }, example: "PAR1" },
};
const EXPORT_PARAMETERS = queries({ format: "parquet", holders: false, as_of_block: 21_000_000 }, [
  ["format", { type: "string", enum: [...EXPORT_FORMATS], default: "csv" }, "Format of the file"],
  ["holders", { type: "boolean", default: false }, "A row per owner, with share and rank, in place of a row per token"],
  [
    "as_of_block",
    { type: "integer", format: "int64", minimum: 0 },
    "Block; by default the newest final one that has the collection, else the newest shown one",
  ],
]);

const exactly = (count: number) => ({ low: count, high: count });
const ESTIMATE = {
  ...{ chain: "eth", address: NFT_ADDRESS, status: null, name: "BoredApeYachtClub" },
  blocks: { from: 12_287_507, fromAtLatest: 12_287_507, to: 24_100_000, count: 11_812_494 },
  transfers: { low: 60_000, high: 400_000 },
  calls: { eth_getLogs: exactly(1_182), eth_getBlockByNumber: exactly(1_250), eth_getCode: exactly(64) },
  total: exactly(2_496),
  units: { ...exactly(97_200), list: "compute units" },
  seconds: 30,
  limits: { maxBlocks: 10_000, answered: 10_000, source: "probed", batch: true, multicall: true },
  probes: 17,
  time: TIME,
};

const OPERATIONS: Readonly<Record<string, Documented>> = {
  "GET /api/status": {
    operationId: "getStatus",
    summary: "State of the service: log, leases, chains with their endpoints, collections by status",
    answer: "ServiceStatus",
    example: STATUS,
    errors: [],
  },
  "GET /api/collections": {
    operationId: "listCollections",
    summary: "All collections with their progress, by chain and address",
    answer: "CollectionList",
    example: { cursor: null, result: [COLLECTION] },
    parameters: LIST_PARAMETERS,
    errors: [400],
  },
  "POST /api/collections": {
    operationId: "requestCollections",
    summary: "Requests the indexing of up to 500 contracts",
    answer: "IndexAnswer",
    example: { items: [{ chain: "eth", address: NFT_ADDRESS, before: null }] },
    body: { schema: "IndexRequest", example: { items: [{ chain: "eth", address: NFT_ADDRESS }] } },
    errors: [400],
  },
  "GET /api/collections/:chain/:address": {
    operationId: "getCollection",
    summary: "A collection's progress, its flags with the rules behind them, and how far its metadata is",
    answer: "CollectionDetails",
    example: {
      ...COLLECTION,
      flags: { possibleSpam: false, verifiedCollection: true, rule: "verified-list" },
      metadata: { resolved: 9_950, failed: 40, left: 10, reasons: { timeout: 40 }, failedTokens: ["17"] },
    },
    parameters: COLLECTION_PATH,
    errors: [400, 404],
  },
  "POST /api/collections/:chain/:address/reindex": {
    operationId: "reindexCollection",
    summary: "Indexes a collection anew. Its versions go on counting; cursors from before are 410",
    answer: "IndexAnswerItem",
    example: { chain: "eth", address: NFT_ADDRESS, before: "following" },
    parameters: COLLECTION_PATH,
    errors: [400, 404],
  },
  "POST /api/collections/:chain/:address/refresh": {
    operationId: "refreshMetadata",
    summary: "Fetches the metadata of all tokens, or of some, again",
    answer: "IndexAnswerItem",
    example: { chain: "eth", address: NFT_ADDRESS, before: "following" },
    body: { schema: "RefreshRequest", example: { tokenIds: ["1", "2"] } },
    parameters: COLLECTION_PATH,
    errors: [400, 404, 409],
  },
  "DELETE /api/collections/:chain/:address": {
    operationId: "removeCollection",
    summary: "Stops following a collection and frees its memory. A later request indexes it again",
    answer: "IndexAnswerItem",
    example: { chain: "eth", address: NFT_ADDRESS, before: "following" },
    parameters: COLLECTION_PATH,
    errors: [400, 404],
  },
  "GET /api/collections/:chain/:address/estimate": {
    operationId: "estimateCollection",
    summary: "What indexing a contract would cost, without metadata: blocks, calls, units, seconds",
    answer: "CollectionEstimate",
    example: ESTIMATE,
    parameters: COLLECTION_PATH,
    errors: [400, 404],
  },
  ...EXPLORE_OPERATIONS,
  "GET /api/collections/:chain/:address/export": {
    operationId: "exportCollection",
    summary: "All tokens or all owners at one block, as a file. A lost block breaks the connection",
    answer: FILES,
    example: undefined,
    answerHeaders: AS_OF,
    parameters: [...COLLECTION_PATH, ...EXPORT_PARAMETERS],
    errors: [400, 404, 409],
  },
  "GET /api/keys": {
    operationId: "listKeys",
    summary: "The API keys, without their texts",
    answer: "KeyList",
    example: { result: [KEY] },
    errors: [],
  },
  "POST /api/keys": {
    operationId: "addKey",
    summary: "Adds an API key and shows its text once",
    answer: "KeyText",
    example: TEXT,
    body: { schema: "KeyRequest", example: { name: "shop", scope: "read", requestsPerMinute: 600 } },
    errors: [400, 409],
  },
  "POST /api/keys/:name/rotate": {
    operationId: "rotateKey",
    summary: "Gives a key a new text; the former one stays valid for a while",
    answer: "KeyText",
    example: TEXT,
    body: { schema: "RotateRequest", example: { graceSeconds: 86_400 } },
    parameters: [NAME],
    errors: [400, 404, 409],
  },
  "DELETE /api/keys/:name": {
    operationId: "revokeKey",
    summary: "Revokes a key on all replicas and closes its sockets. Answers with the keys that are left",
    answer: "KeyList",
    example: { result: [] },
    parameters: [NAME],
    errors: [404, 409],
  },
};

/** Describes a route. @throws TypeError for a route without a description */
export function operatorDetail(
  { method, path }: { readonly method: string; readonly path: string },
  wire: WireTypes,
): object {
  const documented = OPERATIONS[`${method} ${path}`];
  if (documented === undefined) throw new TypeError(`${method} ${path} is not documented`);
  const { operationId, summary, answer, example, answerHeaders = {}, body, parameters, errors } = documented;
  return {
    operationId,
    summary,
    tags: ["Operators"],
    security: [{ ApiKeyAuth: [] }],
    ...(parameters === undefined ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: { required: true, content: content(body.schema, body.example) } }),
    responses: {
      200: {
        description: "OK",
        headers: headers({ ...REFUSED, ...READ, ...answerHeaders }),
        content:
          typeof answer === "string"
            ? content(answer, typeof example === "function" ? example(wire) : example)
            : answer,
      },
      ...errorResponses(
        [...errors, ...ALWAYS].sort((a, b) => a - b),
        {},
        UNREAD,
      ),
    },
  };
}
