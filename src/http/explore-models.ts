/** The schemas of the routes that explore a collection, and of the price series. */
import { Type } from "@sinclair/typebox";
import { address, blockHash, digits, int64, named, nullableText, oneOf, text } from "../core/schema-parts.ts";

const Holder = Type.Object({
  rank: int64("1 plus the number of owners that hold more units; owners with equal units share a rank"),
  owner: address("The owner"),
  tokens: int64("Number of token ids"),
  units: digits("Sum of the amounts; for ERC-721 the number of tokens"),
  share: Type.Number({ format: "double", description: "Part of all units, from 0 to 1" }),
});

const HolderList = Type.Object({
  total: int64("Number of owners"),
  result: Type.Array(named("Holder", Holder)),
  cursor: nullableText("Cursor of the next page, at the same block; null on the last page"),
});

const record = Type.Unsafe<unknown>({ $ref: "#/components/schemas/NftRecord" });

const TokenList = Type.Object({
  result: Type.Array(record),
  cursor: nullableText("Cursor of the next page, at the same block; null on the last page"),
});

const TokenTransfer = Type.Object({
  block: int64("Block of the transfer"),
  from: address("The sender; the zero address for a mint"),
  to: address("The receiver; the zero address for a burn"),
  amount: digits("1, or an amount of an ERC-1155 token"),
});

const MetadataOutcome = Type.Object({
  time: text("Time of the attempt", { format: "date-time" }),
  outcome: oneOf(["resolved", "failed"] as const, "Whether metadata was found"),
  reason: nullableText("Why it failed"),
  hash: Type.Unsafe<string | null>({
    ...blockHash("Hash of the stored document; equal ones are the same"),
    nullable: true,
  }),
});

const TokenDetails = Type.Object({
  record: Type.Optional(record),
  history: Type.Array(named("TokenTransfer", TokenTransfer), { description: "Newest first" }),
  metadata: Type.Array(named("MetadataOutcome", MetadataOutcome), {
    description: "The newest attempts to fetch the metadata, newest first; on the first page only",
  }),
  cursor: nullableText("Cursor of older transfers; null at the end"),
});

const TraitValue = Type.Object({
  value: text("Value of the trait, as text"),
  count: int64("Tokens with this value"),
});

const Trait = Type.Object({
  type: text("Type of the trait"),
  distinct: int64("Number of different values"),
  values: Type.Array(named("TraitValue", TraitValue), { description: "The most frequent values, at most 500" }),
});

const TraitList = Type.Object({
  of: int64("Tokens in the collection"),
  indexed: int64("Tokens whose metadata is known, as far as it is indexed"),
  truncated: Type.Optional(
    Type.Boolean({ description: "True if there are more traits than are indexed or listed: counts may be too low" }),
  ),
  result: Type.Array(named("Trait", Trait)),
});

const SeriesPoint = Type.Object({
  block: int64("Block"),
  time: text("Time of the block", { format: "date-time" }),
  usdPrice: Type.Unsafe<number | null>({
    type: "number",
    format: "double",
    nullable: true,
    description: "US dollars for one whole token, as the price at that block has it; null without one",
  }),
  pool: Type.Unsafe<string | null>({ ...address("The first pool of the price's route"), nullable: true }),
});

const PriceSeries = Type.Object({
  chain: text("Name of the chain"),
  address: address("The token"),
  result: Type.Array(named("SeriesPoint", SeriesPoint), { description: "By block, the oldest first" }),
});

const KnownToken = Type.Object({
  chain: text("Name of the chain"),
  address: address("The token"),
  symbol: text("Symbol, as the chain's entry or the operator's list has it"),
  name: nullableText("Name, as the operator's list has it; null if no list names the token"),
});

const KnownTokenList = Type.Object({ result: Type.Array(named("KnownToken", KnownToken)) });

export const EXPLORE_SCHEMAS = {
  ...{ HolderList, Holder, TokenList, TokenDetails, TokenTransfer, MetadataOutcome, TraitList, Trait, TraitValue },
  ...{ PriceSeries, SeriesPoint, KnownToken, KnownTokenList },
};
