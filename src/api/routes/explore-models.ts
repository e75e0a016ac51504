/** The schemas of what clients receive when they explore a collection: holders, tokens, transfers, traits. */
import { Type } from "@sinclair/typebox";
import { EXAMPLE_BLOCK, MINTER_EXAMPLE, OWNER_EXAMPLE } from "../../core/examples.ts";
import {
  address,
  blockHash,
  boolean,
  digits,
  double,
  exampleOf,
  int64,
  named,
  nullable,
  nullableText,
  oneOf,
  seldom,
  text,
  time,
  withExample,
} from "../../core/schema-parts.ts";
import { glossaryOf, OUTCOME_WORDS, wireValues } from "../../status-words.ts";
import { NftRecord } from "./nft-models.ts";

const Holder = Type.Object({
  rank: int64("1 plus the number of owners that hold more units; owners with equal units share a rank", 1),
  owner: address("The owner", OWNER_EXAMPLE),
  tokens: int64("Number of token ids", 112),
  units: digits("Sum of the amounts; for ERC-721 the number of tokens", "112"),
  share: double("Part of all units, from 0 to 1", 0.0112),
});

const SAME_BLOCK = "Cursor of the next page, at the same block; null on the last page";
export const HolderList = named(
  "HolderList",
  Type.Object({
    total: int64("Number of owners", 1),
    result: Type.Array(named("Holder", Holder)),
    cursor: nullableText(SAME_BLOCK),
  }),
);

export const TokenHolderList = named(
  "TokenHolderList",
  Type.Object({
    result: Type.Array(
      named(
        "TokenHolder",
        Type.Object({
          owner: address("The owner", OWNER_EXAMPLE),
          amount: digits("What it holds of the token; 1 for a token without amounts", "3"),
          block: int64("Block of the last transfer that changed it", EXAMPLE_BLOCK),
        }),
      ),
      { description: "Those who came last first" },
    ),
    cursor: nullableText(SAME_BLOCK),
  }),
);

export const TokenList = named(
  "TokenList",
  Type.Object({ result: Type.Array(NftRecord), cursor: nullableText(SAME_BLOCK) }),
);

const TokenTransfer = Type.Object({
  block: int64("Block of the transfer", EXAMPLE_BLOCK),
  from: address("The sender; the zero address for a mint", MINTER_EXAMPLE),
  to: address("The receiver; the zero address for a burn", OWNER_EXAMPLE),
  amount: digits("1, or an amount of an ERC-1155 or ERC-6909 token", "1"),
});

const CollectionTransfer = Type.Object({
  block: int64("Block of the transfer", EXAMPLE_BLOCK),
  time: nullable(time("Time of the block; null if it is not known here. `times=true` asks the node for it")),
  from: address("The sender, as the log names it; the zero address for a mint", MINTER_EXAMPLE),
  to: address("The receiver; the zero address for a burn", OWNER_EXAMPLE),
  tokenId: digits("Decimal token id; the first one of an ERC-2309 range", "1"),
  amount: digits(
    "1, or an amount of an ERC-1155 or ERC-6909 token. For an ERC-2309 range the number of its consecutive ids; with a token id as the filter 1",
    "1",
  ),
  logIndex: int64("Index of the log in the block; the transfers of a batch share it", 71),
  transaction: seldom(
    nullable(blockHash("Hash of the transaction, with `transactions=true`; null if no endpoint tells it")),
  ),
});

export const TransferList = named(
  "TransferList",
  Type.Object({
    result: Type.Array(named("CollectionTransfer", CollectionTransfer), {
      description:
        "Newest first, in the reverse order of the logs. Fewer than the limit if they are far apart, or if the node is asked about many blocks",
    }),
    cursor: nullableText(SAME_BLOCK),
  }),
);

const MetadataOutcome = Type.Object({
  time: time("Time of the attempt"),
  outcome: oneOf(wireValues(OUTCOME_WORDS), glossaryOf(OUTCOME_WORDS)),
  reason: nullableText("Why it failed"),
  hash: nullable(blockHash("Hash of the stored document; equal ones are the same", `0x${"5e".repeat(32)}`)),
});

export const TokenDetails = named(
  "TokenDetails",
  Type.Object({
    record: Type.Optional(NftRecord),
    locked: nullable(
      boolean("Whether the token is locked (ERC-5192); null if its contract doesn't tell, or no endpoint does"),
    ),
    history: Type.Array(named("TokenTransfer", TokenTransfer), { description: "Newest first" }),
    metadata: Type.Array(named("MetadataOutcome", MetadataOutcome), {
      description: "The newest attempts to fetch the metadata, newest first; on the first page only",
    }),
    cursor: nullableText("Cursor of older transfers; null at the end"),
  }),
);

const TraitValue = Type.Object({
  value: text("Value of the trait, as text", "Brown"),
  count: int64("Tokens with this value", 9_954),
});

const Trait = Type.Object({
  type: text("Type of the trait", "Fur"),
  distinct: int64("Number of different values", 2),
  values: withExample(
    Type.Array(named("TraitValue", TraitValue), { description: "The most frequent values, at most 500" }),
    [exampleOf(TraitValue), { value: "Golden", count: 46 }],
  ),
});

export const TraitList = named(
  "TraitList",
  Type.Object({
    of: int64("Tokens in the collection", 10_000),
    indexed: int64("Tokens whose metadata is known, as far as it is indexed", 10_000),
    truncated: Type.Optional(
      boolean("True if there are more traits than are indexed or listed: counts may be too low"),
    ),
    result: Type.Array(named("Trait", Trait)),
  }),
);
