/** The operations that explore a collection, in the OpenAPI document. */
import { AS_OF, COLLECTION_PATH, type Documented, type ParameterSchema, queries } from "./docs.ts";
import { pageExample, TOKEN_ADDRESS } from "./examples.ts";
import type { WireTypes } from "./models.ts";

const TIME = "2026-11-23T09:00:00.000Z";
const recordOf = (wire: WireTypes) => pageExample(wire).result[0];

const PAGED: ["as_of_block" | "limit" | "cursor", ParameterSchema, string][] = [
  ["as_of_block", { type: "integer", format: "int64", minimum: 0 }, "Block; the newest one by default"],
  ["limit", { type: "integer", format: "int32", minimum: 1, maximum: 500, default: 100 }, "Page size"],
  ["cursor", { type: "string" }, "Cursor of the previous page"],
];
const KNOWN_AT: ["metadata_as_of", ParameterSchema, string] = [
  "metadata_as_of",
  { type: "string", format: "date-time" },
  "Uses the metadata known at that time instead of the newest; ISO 8601 with a time zone",
];
const PAGE_EXAMPLES = { as_of_block: 21_000_000, limit: 100, cursor: "bmZ0LzEvMHhiYzRjYTBlZGE3NjQ3YThhYjdjMjA2MWMy" };
const OWNER = "0xf4a1f3ba15a8b3a93a9b84e0e2e8a2ab5dc9e8ce";
const TOKEN_LIST_PARAMETERS = queries({ ...PAGE_EXAMPLES, owner: OWNER, trait: ["Fur:Golden"] }, [
  ...PAGED,
  ["owner", { type: "string", pattern: "^0x[0-9a-fA-F]{40}$" }, "Only tokens of this owner"],
  [
    "trait",
    { type: "array", items: { type: "string" }, maxItems: 20 },
    "Only tokens with this trait, as Type:Value; repeatable. For collections of up to 100,000 tokens",
  ],
]);
const ID = {
  name: "id",
  in: "path",
  required: true,
  schema: { type: "string", pattern: "^[0-9]{1,78}$" },
  description: "Decimal token id",
  example: "1",
};
const TOKEN_PATH = COLLECTION_PATH.map((parameter) =>
  parameter.name === "address" ? { ...parameter, description: "Token address", example: TOKEN_ADDRESS } : parameter,
);
const POOL = "0x1d42064fc4beb5f8aaf85f4617ae8b3b5b8bd801";
const MOMENT: ParameterSchema = { type: "string", pattern: "^(?:[0-9]{1,15}|[0-9]{4}-.+)$" };
const SERIES_PARAMETERS = queries({ from: "2026-11-22T00:00:00Z", to: "21000000", points: 50, stored: false }, [
  ["from", MOMENT, "First block, or an ISO time; 24 hours before the end by default"],
  ["to", MOMENT, "Last block, or an ISO time; the newest block by default"],
  ["points", { type: "integer", format: "int32", minimum: 1, maximum: 200, default: 50 }, "Number of blocks"],
  ["stored", { type: "boolean", default: false }, "true: prices that are stored only, at once; other points have none"],
]);
const TRANSFER = { block: 12_346_178, from: `0x${"0".repeat(40)}`, to: OWNER, amount: "1" };
const HOLDER = { owner: OWNER, tokens: 112, units: "112", share: 0.0112, rank: 1 };
const OUTCOME = { time: TIME, outcome: "resolved", reason: null, hash: `0x${"5e".repeat(32)}` };
const FUR = {
  type: "Fur",
  distinct: 2,
  values: [
    { value: "Brown", count: 9_954 },
    { value: "Golden", count: 46 },
  ],
};

export const EXPLORE_OPERATIONS: Readonly<Record<string, Documented>> = {
  "GET /api/collections/:chain/:address/holders": {
    operationId: "listHolders",
    summary: "Owners by what they hold, with share and rank, at one block",
    answer: "HolderList",
    example: { total: 1, result: [HOLDER], cursor: null },
    answerHeaders: AS_OF,
    parameters: [...COLLECTION_PATH, ...queries(PAGE_EXAMPLES, PAGED)],
    errors: [400, 404, 409, 410],
  },
  "GET /api/collections/:chain/:address/tokens": {
    operationId: "findTokens",
    summary: "Records of the tokens that an owner holds, or that have certain traits, at one block",
    answer: "TokenList",
    example: (wire) => ({ result: [recordOf(wire)], cursor: null }),
    answerHeaders: AS_OF,
    parameters: [...COLLECTION_PATH, ...TOKEN_LIST_PARAMETERS],
    errors: [400, 404, 409, 410],
  },
  "GET /api/collections/:chain/:address/tokens/:id": {
    operationId: "getToken",
    summary:
      "At a block: the record of a token unless it is burned, and its transfers; the attempts to fetch its metadata",
    answer: "TokenDetails",
    example: (wire) => ({ record: recordOf(wire), history: [TRANSFER], metadata: [OUTCOME], cursor: null }),
    answerHeaders: AS_OF,
    parameters: [...COLLECTION_PATH, ID, ...queries({ ...PAGE_EXAMPLES, metadata_as_of: TIME }, [...PAGED, KNOWN_AT])],
    errors: [400, 404, 409, 410],
  },
  "GET /api/collections/:chain/:address/traits": {
    operationId: "listTraits",
    summary: "How many tokens have which trait, by the metadata known now. Up to 100,000 tokens",
    answer: "TraitList",
    example: { of: 10_000, indexed: 10_000, result: [FUR] },
    answerHeaders: AS_OF,
    parameters: COLLECTION_PATH,
    errors: [400, 404, 409],
  },
  "GET /api/tokens": {
    operationId: "findErc20Tokens",
    summary:
      "ERC-20 tokens whose address, symbol or name has a text: well-known ones, and those of the operator's lists",
    answer: "KnownTokenList",
    example: { result: [{ chain: "eth", address: TOKEN_ADDRESS, symbol: "UNI", name: "Uniswap" }] },
    parameters: queries({ text: "uni", limit: 100 }, [
      ["text", { type: "string" }, "Part of the address, the symbol or the name, any case; all tokens by default"],
      ["limit", { type: "integer", format: "int32", minimum: 1, maximum: 500, default: 100 }, "Most tokens"],
    ]),
    errors: [400],
  },
  "GET /api/prices/:chain/:address/series": {
    operationId: "listPrices",
    summary: "Prices at evenly spaced blocks, each equal to the price at that block. At most 64 requests for logs",
    answer: "PriceSeries",
    example: {
      chain: "eth",
      address: TOKEN_ADDRESS,
      result: [{ block: 21_000_000, time: TIME, usdPrice: 7.25, pool: POOL }],
    },
    parameters: [...TOKEN_PATH, ...SERIES_PARAMETERS],
    errors: [400, 404],
  },
};
