/** The OpenAPI document's parts. */
import { Type } from "@sinclair/typebox";
import { CHAINS, DEFAULT_CHAIN } from "../chains/chains.ts";
import { EXCHANGES } from "../chains/exchanges.ts";

const text = (description: string) => Type.String({ description });
// OpenAPI 3.0 knows no null type, but this keyword.
const nullableText = (description: string) => Type.String({ description, nullable: true });

/** One of several shapes: what a parameter or the operator's WIRE_TYPES decide. Not `oneOf`: null is of all that may be it. */
const anyOf = (description: string, ...schemas: object[]) => Type.Unsafe({ description, anyOf: schemas });
const countOr = (description: string, nullable = false) =>
  anyOf(description, { type: "string", pattern: "^[0-9]+$", nullable }, { type: "integer", minimum: 0, nullable });
const flagOr = (description: string) =>
  anyOf(description, { type: "string", enum: ["true", "false"] }, { type: "boolean" });
const nullable = (type: string) => ({ type, nullable: true });
const objectOr = (description: string, properties: object) =>
  anyOf(description, { type: "string", enum: [""] }, { type: "object", properties });

const NormalizedMetadata = objectOr('"" unless normalizeMetadata=true', {
  name: nullable("string"),
  description: nullable("string"),
  image: nullable("string"),
  external_link: nullable("string"),
  external_url: nullable("string"),
  animation_url: nullable("string"),
  attributes: { type: "array", items: { type: "object", additionalProperties: true } },
});

const Preview = {
  type: "object",
  properties: { height: { type: "integer" }, width: { type: "integer" }, url: { type: "string" } },
};

const Media = objectOr('"" unless media_items=true', {
  status: {
    type: "string",
    enum: ["success", "processing", "unsupported_media", "invalid_url", "host_unavailable", "temporarily_unavailable"],
  },
  mimetype: nullable("string"),
  category: nullable("string"),
  original_media_url: nullable("string"),
  parent_hash: nullable("string"),
  updatedAt: nullable("string"),
  media_collection: {
    type: "object",
    nullable: true,
    properties: { low: Preview, medium: Preview, high: Preview },
  },
});

const NftRecord = Type.Object({
  token_address: text("Address of the contract, lower case"),
  token_id: text("Decimal, or 0x… with format=hex"),
  owner_of: text('Owner; "" for an ERC-1155 token with several holders'),
  token_hash: text("md5 of the lower-case contract address followed by the decimal token id"),
  block_number: text("Block of the last transfer"),
  block_number_minted: text("Block of the first mint"),
  contract_type: text("ERC721, ERC1155, or the family of a contract older than both: CRYPTOPUNKS, MOONCATS"),
  token_uri: nullableText("As the contract gave it"),
  metadata: nullableText("The raw JSON as one string"),
  normalized_metadata: NormalizedMetadata,
  media: Media,
  minter_address: text("Receiver of the first mint"),
  amount: text("1, or what is in circulation of an ERC-1155 token"),
  name: text("Name of the collection"),
  symbol: text("Symbol of the collection"),
  possible_spam: flagOr('"true" or "false"; a boolean with WIRE_TYPES=native'),
  verified_collection: flagOr('"true" or "false"; a boolean with WIRE_TYPES=native'),
  last_token_uri_sync: nullableText("ISO 8601"),
  last_metadata_sync: nullableText("ISO 8601"),
});

const NftPage = Type.Object({
  status: Type.String({ enum: ["SYNCING", "SYNCED"] }),
  total: countOr("Count with disable_total=false, else null; a number with WIRE_TYPES=native", true),
  page: countOr("Number of the page along the cursor, from 0; a number with WIRE_TYPES=native"),
  page_size: countOr("The limit in force; a number with WIRE_TYPES=native"),
  cursor: nullableText("For the next page; null on the last"),
  result: Type.Array(NftRecord),
});

const NativePrice = Type.Object(
  {
    value: text("Price of one whole token in the smallest unit of the native coin, truncated"),
    decimals: Type.Number(),
    name: Type.String(),
    symbol: Type.String(),
    address: text("The wrapped native coin"),
  },
  { nullable: true, description: "Null where the token has a dollar price and the native coin none" },
);

const TokenPrice = Type.Object({
  tokenName: Type.String(),
  tokenSymbol: Type.String(),
  tokenLogo: text('URL, or ""'),
  tokenDecimals: Type.String(),
  nativePrice: NativePrice,
  usdPrice: Type.Number(),
  usdPriceFormatted: text("The shortest decimal that reads back as usdPrice"),
  "24hrPercentChange": Type.Optional(text("With include=percent_change, when there was a price then")),
  exchangeAddress: text("The factory"),
  exchangeName: Type.String(),
  tokenAddress: Type.String(),
  toBlock: text("The block priced at"),
  provenance: Type.Optional(
    Type.Object({}, { additionalProperties: true, description: "With include=provenance: enough to recompute it" }),
  ),
});

const ErrorBody = Type.Object({
  message: Type.String(),
  code: Type.String(),
  details: Type.Optional(Type.Object({}, { additionalProperties: true })),
});

const Health = Type.Object({ status: Type.String() });

/** JSON Schemas named in the document. */
export const SCHEMAS = { NftRecord, NftPage, TokenPrice, ErrorBody, Health };

const content = (schema: keyof typeof SCHEMAS) => ({
  "application/json": { schema: { $ref: `#/components/schemas/${schema}` } },
});

const ERRORS: Readonly<Record<string, string>> = {
  400: "A bad parameter: the message names it and says what is allowed; or a chain that is not enabled",
  401: "No API key, or a wrong one",
  404: "Not found, or no price; code and details say why",
  409: "as_of_block is above what is indexed while the backfill runs",
  410: "The cursor's block left the canonical chain",
  429: "Rate limit exceeded; see Retry-After",
  500: "Our fault",
  503: "No endpoint of the chain answers",
};

function responses(schema: keyof typeof SCHEMAS, errors: readonly number[]): Record<string, unknown> {
  return {
    200: { description: "OK", content: content(schema) },
    ...Object.fromEntries(
      errors.map((status) => [String(status), { description: ERRORS[status], content: content("ErrorBody") }]),
    ),
  };
}

interface ParameterSchema {
  readonly type: string;
  readonly [key: string]: unknown;
}

const query = (name: string, schema: ParameterSchema, description: string, extra: object = {}) => ({
  name,
  in: "query",
  required: false,
  schema,
  description,
  ...extra,
});

const ADDRESS = {
  name: "address",
  in: "path",
  required: true,
  schema: { type: "string", pattern: "^0x[0-9a-fA-F]{40}$" },
  description: "20-byte hex; a mixed-case address must have a right EIP-55 checksum",
};
const CHAIN = query(
  "chain",
  { type: "string", default: DEFAULT_CHAIN.name, enum: CHAINS.flatMap(({ name, code }) => [name, code]) },
  "Name or code of the chain, any case",
);
const BOOLEAN = { type: "boolean" };
const SECURITY = [{ ApiKeyAuth: [] }];

/** The listing operation. */
export function nftDetail(maxPageSize: number): object {
  return {
    operationId: "getContractNFTs",
    summary: "Get NFTs by contract",
    description: "A page of the NFTs of one contract. A contract nobody asked for before is indexed from now on.",
    tags: ["NFT"],
    security: SECURITY,
    parameters: [
      ADDRESS,
      CHAIN,
      query("format", { type: "string", enum: ["decimal", "hex"], default: "decimal" }, "Format of the token id"),
      query(
        "limit",
        { type: "integer", minimum: 1, maximum: maxPageSize, default: Math.min(100, maxPageSize) },
        "Desired page size",
      ),
      query("totalRanges", { type: "integer", minimum: 1, maximum: 1000 }, "Number of subranges to split into"),
      query("range", { type: "integer", minimum: 0, maximum: 999 }, "Subrange to query, from 0; needs totalRanges"),
      query("disable_total", { ...BOOLEAN, default: true }, "false: the total is counted", { deprecated: true }),
      query("cursor", { type: "string" }, "Cursor of the previous page"),
      query("normalizeMetadata", { ...BOOLEAN, default: false }, "Adds normalised metadata"),
      query("media_items", { ...BOOLEAN, default: false }, "Adds preview media"),
      query("as_of_block", { type: "integer", minimum: 0 }, "The listing as it stood after that block"),
      query(
        "metadata_as_of",
        { type: "string", format: "date-time" },
        "The metadata known then instead of the newest; ISO 8601 with its zone",
      ),
      query("holders", { ...BOOLEAN, default: false }, "One record per token id and owner"),
    ],
    responses: responses("NftPage", [400, 401, 404, 409, 410, 429, 500, 503]),
  };
}

/** The price operation. */
export function priceDetail(): object {
  const exchanges = EXCHANGES.map(({ realName }) => realName).join(", ");
  return {
    operationId: "getTokenPrice",
    summary: "Get ERC20 token price",
    description: "The price of one token, in the native coin and in US dollars, now or after a block.",
    tags: ["Token"],
    security: SECURITY,
    parameters: [
      ADDRESS,
      CHAIN,
      query("include", { type: "string" }, "percent_change, provenance, or both joined by a comma"),
      query("exchange", { type: "string" }, `${exchanges}, a stand-in name such as dexa_v2, or a factory's address`),
      query("to_block", { type: "integer", minimum: 0 }, "The price after that block"),
      query("min_liquidity_usd", { type: "number", minimum: 0 }, "Floor of a pool's smaller side"),
    ],
    responses: responses("TokenPrice", [400, 401, 404, 429, 500, 503]),
  };
}

/** The WebSocket channel's door. */
export function socketDetail(): object {
  return {
    operationId: "subscribe",
    summary: "WebSocket channel",
    description:
      "Upgrade to a WebSocket. The key goes into the header, or, from a browser, into the subprotocols evm.v2 and apikey.<key>. Send {action: subscribe, chain, address, since?}; the server tells status, progress, indexed, transfers, metadata, reorged and failed.",
    tags: ["Push"],
    security: SECURITY,
    responses: {
      101: { description: "Switching protocols" },
      400: { description: "Not a handshake, or evm.v2 is not offered", content: content("ErrorBody") },
      401: { description: ERRORS[401], content: content("ErrorBody") },
      426: { description: "Not an upgrade", content: content("ErrorBody") },
      429: { description: ERRORS[429], content: content("ErrorBody") },
      503: { description: "Too many connections", content: content("ErrorBody") },
    },
  };
}

/** The previews. */
export function mediaDetail(): object {
  const binary = { schema: { type: "string", format: "binary" } };
  return {
    operationId: "getMediaPreview",
    summary: "Get a preview picture",
    description: "As a record's media names it: by its own SHA-256, so it never changes.",
    tags: ["NFT"],
    security: [],
    parameters: [
      { name: "hash", in: "path", required: true, schema: { type: "string", pattern: "^[0-9a-f]{64}$" } },
      { name: "size", in: "path", required: true, schema: { type: "integer", enum: [100, 250, 500] } },
    ],
    responses: {
      200: { description: "OK", content: { "image/webp": binary } },
      404: { description: ERRORS[404], content: content("ErrorBody") },
    },
  };
}

export function healthDetail(operationId: string, summary: string, isAlways: boolean): object {
  const notYet = { 503: { description: "Not ready", content: content("ErrorBody") } };
  return {
    operationId,
    summary,
    tags: ["Service"],
    security: [],
    responses: { 200: { description: "OK", content: content("Health") }, ...(isAlways ? {} : notYet) },
  };
}

export function metricsDetail(): object {
  const plain = { "text/plain": { schema: { type: "string" } } };
  return {
    operationId: "metrics",
    summary: "Prometheus metrics",
    tags: ["Service"],
    security: [],
    responses: { 200: { description: "OK", content: plain }, 401: { description: ERRORS[401] } },
  };
}

export const INFO = {
  title: "EVM data service",
  version: "2.0",
  description: "NFT listings and token prices of EVM chains, indexed from JSON-RPC by this very server.",
  license: { name: "MIT" },
};
