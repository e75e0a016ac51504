/**
 * TypeBox schemas of the response bodies, one per body. The OpenAPI document and the static types derive from them.
 * OpenAPI 3.0 has no null type, so a nullable field has `nullable` beside its type. Only the configured wire types are
 * described, since code generators cannot handle "a string or a number".
 */
import { type Static, type TSchema, Type } from "@sinclair/typebox";
import { ERROR_CODES } from "../core/errors.ts";
import {
  address,
  blockHash,
  decimal,
  digits,
  int32,
  int64,
  named,
  nullableText,
  nullableTime,
  oneOf,
  text,
} from "../core/schema-parts.ts";
import type { MediaStatus } from "../metadata/media/media.ts";
import { EXPLORE_SCHEMAS } from "./explore-models.ts";
import { OPERATOR_SCHEMAS } from "./operator-models.ts";

/** The types of counts and flags: strings (`seed`), or numbers and booleans (`native`). */
export type WireTypes = "seed" | "native";

/** The object, or "" unless a parameter requests it: the seed API leaves a field out in this way. */
const orEmpty = <T extends TSchema>(name: string, schema: T, description: string) =>
  Type.Unsafe<"" | Static<T>>({ description, oneOf: [{ type: "string", enum: [""] }, named(name, schema)] });

const Attribute = Type.Object({
  trait_type: nullableText("Name of the trait"),
  value: Type.Unknown({ description: "Any JSON value, in the type that the metadata gives it" }),
  display_type: nullableText("How to show the value, such as number or date"),
  max_value: Type.Unknown({ description: "Largest value of the trait; mostly null" }),
  trait_count: Type.Number({ format: "double", description: "From the metadata, else 0" }),
  order: Type.Unknown({ description: "Position among the traits; mostly null" }),
});

const NormalizedMetadata = Type.Object({
  name: nullableText("Name of the token"),
  description: nullableText("Description of the token"),
  image: nullableText("URI of the image"),
  external_link: nullableText("Link to the token's page"),
  external_url: nullableText("Link to the token's page"),
  animation_url: nullableText("URI of a video, sound or page"),
  attributes: Type.Array(named("Attribute", Attribute)),
});

const Preview = Type.Object({
  height: int32("Pixels"),
  width: int32("Pixels"),
  url: text("Absolute URL under the server's public URL", { format: "uri" }),
});

const preview = named("Preview", Preview);
const Previews = Type.Object({ low: preview, medium: preview, high: preview });

const MEDIA_STATUSES = [
  "success",
  "processing",
  "unsupported_media",
  "invalid_url",
  "host_unavailable",
  "temporarily_unavailable",
] as const satisfies readonly MediaStatus[];

const Media = Type.Object({
  status: oneOf(MEDIA_STATUSES, "Progress of the previews, or the reason that there are none"),
  mimetype: nullableText("Media type of the original, detected from its content"),
  category: nullableText("image, video, audio and the like"),
  original_media_url: nullableText("URL from the metadata; null when it has none"),
  parent_hash: nullableText("SHA-256 of the original"),
  updatedAt: nullableTime("Time at which the image was examined"),
  media_collection: Type.Unsafe<Static<typeof Previews> | null>({
    ...Previews,
    nullable: true,
    description: "Previews of 100, 250 and 500 pixels",
  }),
});

/** A whole number: a string of digits, or a number with `native`. */
const count = (wire: WireTypes, description: string) =>
  Type.Unsafe<string | number>(wire === "native" ? int64(description) : digits(description));
const flag = (wire: WireTypes, description: string) =>
  Type.Unsafe<string | boolean>(
    wire === "native" ? { type: "boolean", description } : { type: "string", enum: ["true", "false"], description },
  );

const nftRecord = (wire: WireTypes) =>
  Type.Object({
    token_address: address("Address of the contract, lower case"),
    token_id: text("Decimal, or 0x… with format=hex", { pattern: "^([0-9]+|0x[0-9a-f]+)$" }),
    owner_of: text('Owner; "" for an ERC-1155 token with several holders'),
    token_hash: text("md5 of the lower-case contract address followed by the decimal token id", {
      pattern: "^[0-9a-f]{32}$",
    }),
    block_number: digits("Block of the last transfer"),
    block_number_minted: digits("Block of the first mint"),
    contract_type: text("ERC721, ERC1155, or the family of a contract older than both: CRYPTOPUNKS, MOONCATS"),
    token_uri: nullableText("Token URI as the contract returned it"),
    metadata: nullableText("The raw JSON as one string"),
    normalized_metadata: orEmpty("NormalizedMetadata", NormalizedMetadata, '"" unless normalizeMetadata=true'),
    media: orEmpty("Media", Media, '"" unless media_items=true'),
    minter_address: text("Receiver of the first mint; a fixed sentence for ERC-1155, where a token can have several"),
    amount: digits("1, or the circulating amount of an ERC-1155 token"),
    name: text("Name of the collection"),
    symbol: text("Symbol of the collection"),
    possible_spam: flag(wire, "true if the contract looks like spam"),
    verified_collection: flag(wire, "true if the operator lists the contract as genuine"),
    last_token_uri_sync: nullableTime("Time of the last read of the URI"),
    last_metadata_sync: nullableTime("Time of the last read of the metadata"),
  });

const nftPage = (wire: WireTypes, record: ReturnType<typeof nftRecord>) => {
  const total = count(wire, "Count with disable_total=false, else null");
  return Type.Object({
    status: oneOf(["SYNCING", "SYNCED"], "SYNCED once the whole history is indexed"),
    total: Type.Unsafe<string | number | null>({ ...total, nullable: true }),
    page: count(wire, "Number of the page along the cursor, from 0"),
    page_size: count(wire, "The page size in effect"),
    cursor: nullableText("Cursor of the next page; null on the last page"),
    result: Type.Array(named("NftRecord", record)),
  });
};

const NativePrice = Type.Object({
  value: digits("Price of one whole token in the smallest unit of the native coin, truncated"),
  decimals: int32("Decimals of the native coin"),
  name: text("Name of the native coin"),
  symbol: text("Symbol of the native coin"),
  address: address("The wrapped native coin"),
});

const PoolState = Type.Object(
  {
    pool: address("The pool"),
    exchange: text("Display name of the exchange"),
    factory: address("The pool's factory"),
    fee: int32("Hundredths of a basis point"),
    token0: address("First token"),
    token1: address("Second token"),
    decimals0: int32("Decimals of the first token"),
    decimals1: int32("Decimals of the second token"),
    reserve0: Type.Optional(digits("v2 pools only")),
    reserve1: Type.Optional(digits("v2 pools only")),
    sqrtPriceX96: Type.Optional(digits("v3 pools only")),
    liquidity: Type.Optional(digits("v3 pools only: liquidity in range")),
    stableCurve: Type.Optional(Type.Boolean({ description: "true for a pair on the curve of x³y + y³x" })),
    balance0: Type.Optional(digits("The pool's balance of the first token, if known; caps its depth")),
    balance1: Type.Optional(digits("The pool's balance of the second token, if known; caps its depth")),
    block: int64("Block of the state"),
    blockHash: blockHash("Hash of that block"),
    transactionHash: Type.Optional(blockHash("Transaction that set the state, if it comes from a log")),
    logIndex: Type.Optional(int32("Index of that log in its block")),
  },
  { description: "State of one pool: enough to recompute its price to the last digit" },
);

const DisputedStablecoin = Type.Object({
  address: address("The stablecoin, lower case"),
  symbol: text("Symbol of the stablecoin"),
  usdPrice: decimal("Its measured price in US dollars"),
});

const Provenance = Type.Object(
  {
    route: Type.Array(named("PoolState", PoolState), { description: "From the token to the dollar" }),
    nativeRoute: Type.Optional(
      Type.Array(named("PoolState", PoolState), {
        description: "Pool of the native price, if it is not on the route",
      }),
    ),
    liquidityUsd: decimal("Smaller side of the shallowest pool on the route, in US dollars"),
    confidence: decimal("From 0 to 1; at most 0.5 while stablecoins are in dispute"),
    disputedStablecoins: Type.Optional(
      Type.Array(named("DisputedStablecoin", DisputedStablecoin), {
        description: "Configured stablecoins that are more than 2 % off a trusted one; absent while all agree",
      }),
    ),
    twap30m: nullableText("30-minute average in US dollars; null if it cannot be computed"),
    spreadPercent: decimal("Spread between the usable routes, in per cent"),
    factsOf: Type.Optional(
      oneOf(
        ["newest"],
        "Set if the node lacks the block's state: name, symbol and decimals are those of its newest block",
      ),
    ),
  },
  { description: "With include=provenance: the pool states that the price is computed from" },
);

const TokenPrice = Type.Object({
  tokenName: text("Name of the token"),
  tokenSymbol: text("Symbol of the token"),
  tokenLogo: text('URL, or ""'),
  tokenDecimals: digits("Decimals of the token"),
  nativePrice: Type.Unsafe<Static<typeof NativePrice> | null>({
    ...NativePrice,
    nullable: true,
    description: "Null if the token has a dollar price but the native coin has none",
  }),
  usdPrice: Type.Number({ format: "double", description: "US dollars for one whole token" }),
  usdPriceFormatted: decimal("The shortest decimal that parses back to usdPrice"),
  "24hrPercentChange": Type.Optional(decimal("With include=percent_change, if there was a price 24 hours earlier")),
  exchangeAddress: text('The factory; "" if no pool measures the price'),
  exchangeName: text("Display name of the exchange"),
  tokenAddress: address("The token"),
  toBlock: digits("Block of the price"),
  provenance: Type.Optional(named("Provenance", Provenance)),
});

const ErrorCode = oneOf(ERROR_CODES, "Error code, for programs");

const SkippedPool = Type.Object(
  {
    pool: address("The pool"),
    exchange: text("Display name of the exchange"),
    reason: text("Reason to skip the pool"),
    liquidityUsd: Type.Optional(decimal("Its smaller side in US dollars")),
    minLiquidityUsd: Type.Optional(decimal("The liquidity floor that it is below")),
  },
  { additionalProperties: Type.String(), description: "A skipped pool, with the numbers behind the reason" },
);

const ErrorDetails = Type.Object(
  {
    parameter: Type.Optional(text("Name of the invalid parameter")),
    pools: Type.Optional(Type.Array(named("SkippedPool", SkippedPool))),
  },
  { additionalProperties: true },
);

const ErrorBody = Type.Object({
  message: text("The error and the allowed values, in words"),
  code: named("ErrorCode", ErrorCode),
  details: Type.Optional(named("ErrorDetails", ErrorDetails)),
});

const Health = Type.Object({ status: oneOf(["live", "ready"], "State of the process") });

/** Returns the document's schemas by name, with the configured wire types. */
export function schemasOf(wire: WireTypes) {
  const NftRecord = nftRecord(wire);
  const NftPage = nftPage(wire, NftRecord);
  const listing = { NftPage, NftRecord, NormalizedMetadata, Attribute, Media, Preview };
  const price = { TokenPrice, Provenance, PoolState, DisputedStablecoin };
  return {
    ...listing,
    ...price,
    ErrorBody,
    ErrorCode,
    ErrorDetails,
    SkippedPool,
    Health,
    ...OPERATOR_SCHEMAS,
    ...EXPLORE_SCHEMAS,
  };
}

export type SchemaName = keyof ReturnType<typeof schemasOf>;
type Model<Name extends SchemaName> = Static<ReturnType<typeof schemasOf>[Name]>;

export type NftPageModel = Model<"NftPage">;
export type TokenPriceModel = Model<"TokenPrice">;
export type ErrorModel = Model<"ErrorBody">;
export type HealthModel = Model<"Health">;
