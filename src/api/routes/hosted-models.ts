/** The schemas of the hosted service's neighbours of the listing: contracts, transfers, wallets, tokens, pairs, blocks. */
import { type Static, Type } from "@sinclair/typebox";
import {
  COLLECTION_LINK,
  COLLECTION_PICTURE,
  EXAMPLE_BLOCK,
  EXAMPLE_TIME,
  MINTER_EXAMPLE,
  OWNER_EXAMPLE,
  PAIR_EXAMPLE,
  TOKEN_ADDRESS,
  WETH_ADDRESS,
} from "../../core/examples.ts";
import {
  address,
  blockHash,
  boolean,
  digits,
  exampleOf,
  int64,
  named,
  nullable,
  nullableText,
  nullableTime,
  oneOf,
  poolId,
  text,
  time,
  withExample,
} from "../../core/schema-parts.ts";
import { glossaryOf, LISTING_WORDS, wireValues } from "../../status-words.ts";
import { CONTRACT_FLAGS, CONTRACT_NAMES, wireCount } from "./nft-models.ts";

const SAME_BLOCK = "Cursor of the next page, at the same block; null on the last page";
const UNKNOWN = "Null: this service does not know it";

export const ContractMetadata = named(
  "ContractMetadata",
  Type.Object({
    token_address: address("The contract"),
    ...CONTRACT_NAMES,
    contract_type: nullableText("Standard of its tokens; null before it is known", "ERC721"),
    synced_at: nullableTime("Time at which its history was complete"),
    ...CONTRACT_FLAGS,
    collection_logo: nullableText("Picture of the collection, by its own document (ERC-7572)", COLLECTION_PICTURE),
    collection_banner_image: nullableText(UNKNOWN),
    collection_category: nullableText(UNKNOWN),
    project_url: nullableText("Link of the collection, by its own document (ERC-7572)", COLLECTION_LINK),
    wiki_url: nullableText(UNKNOWN),
    discord_url: nullableText(UNKNOWN),
    telegram_url: nullableText(UNKNOWN),
    twitter_username: nullableText(UNKNOWN),
    instagram_username: nullableText(UNKNOWN),
  }),
);

const HostedTransfer = named(
  "HostedTransfer",
  Type.Object({
    token_address: address("The contract"),
    token_id: text("Decimal, or 0x… with format=hex; the first one of an ERC-2309 range", "1234", {
      pattern: "^([0-9]+|0x[0-9a-f]+)$",
    }),
    from_address: address("The sender; the zero address for a mint", MINTER_EXAMPLE),
    to_address: address("The receiver; the zero address for a burn", OWNER_EXAMPLE),
    value: nullableText("Null: what was paid is not known from logs"),
    amount: digits(
      "1, or an amount of an ERC-1155 or ERC-6909 token; for an ERC-2309 range the number of its ids",
      "1",
    ),
    contract_type: nullableText("Standard of the token", "ERC721"),
    block_number: digits("Block of the transfer", String(EXAMPLE_BLOCK)),
    block_timestamp: time("Time of the block"),
    block_hash: nullable(blockHash("Hash of the block")),
    transaction_hash: nullable(blockHash("The transaction; null if two of the block have a log of this index")),
    transaction_type: nullable(oneOf(["Single", "Batch"], "Whether its log moves several tokens")),
    transaction_index: nullable(int64("Index of the transaction in the block, as the node tells it with the log", 91)),
    log_index: int64("Index of the log in the block; the transfers of a batch share it", 71),
    operator: nullable(address("The operator that an ERC-1155 log names"), null),
    ...CONTRACT_FLAGS,
  }),
);

export const HostedTransferPage = named(
  "HostedTransferPage",
  Type.Object({
    page: wireCount("Number of the page along the cursor, from 0", 0),
    page_size: wireCount("The page size in effect", 100),
    cursor: nullableText(SAME_BLOCK),
    result: Type.Array(HostedTransfer, {
      description: "Fewer than the page size if the node is asked about many blocks: go on with the cursor",
    }),
    block_exists: boolean("false if the range begins above the block of the answer", true),
    index_complete: boolean("false while the history of the contract is being read", true),
  }),
);

export const SyncAnswer = named(
  "SyncAnswer",
  Type.Object({
    message: text("What happens", "Request initiated"),
    status: oneOf(wireValues(LISTING_WORDS), glossaryOf(LISTING_WORDS)),
  }),
);

export const ResyncAnswer = named(
  "ResyncAnswer",
  Type.Object({ status: oneOf(["submitted", "completed"], "completed with mode=sync, once it was fetched again") }),
);

const WalletCollection = named(
  "WalletCollection",
  Type.Object({
    token_address: address("The contract"),
    contract_type: nullableText("Standard of its tokens", "ERC721"),
    ...CONTRACT_NAMES,
    ...CONTRACT_FLAGS,
    count: Type.Optional(int64("With token_counts=true: token ids that the wallet holds", 3)),
    collection_logo: nullableText(UNKNOWN),
    collection_banner_image: nullableText(UNKNOWN),
  }),
);

export const WalletCollectionPage = named(
  "WalletCollectionPage",
  Type.Object({
    status: oneOf(wireValues(LISTING_WORDS), glossaryOf(LISTING_WORDS), "SYNCED"),
    page: wireCount("Number of the page along the cursor, from 0", 0),
    page_size: wireCount("The page size in effect", 100),
    cursor: nullableText(SAME_BLOCK),
    result: Type.Array(WalletCollection),
  }),
);

const TokenMetadata = named(
  "TokenMetadata",
  Type.Object({
    address: address("The token", TOKEN_ADDRESS),
    name: nullableText("Its name, as the contract tells it now; null if it tells none", "Uniswap"),
    symbol: nullableText("Its symbol", "UNI"),
    decimals: nullable(digits("Its decimals; null if it is no ERC-20 token", "18")),
    logo: nullableText("URL, by the operator's token lists"),
    logo_hash: nullableText(UNKNOWN),
    thumbnail: nullableText(UNKNOWN),
    block_number: nullableText(UNKNOWN),
    validated: nullable(int64(UNKNOWN)),
    created_at: nullableTime(UNKNOWN, null),
    possible_spam: boolean("Whether the operator's list names it, or its words lure", false),
    verified_contract: boolean("Whether lists or this program's data name it", true),
  }),
);
export type TokenMetadata = Static<typeof TokenMetadata>;
export const TokenMetadataList = named("TokenMetadataList", Type.Array(TokenMetadata));

export const PairModel = named(
  "Pair",
  Type.Object({
    token0: TokenMetadata,
    token1: withExample(TokenMetadata, {
      ...exampleOf(TokenMetadata),
      ...{ address: WETH_ADDRESS, name: "Wrapped Ether", symbol: "WETH" },
    }),
    pairAddress: poolId("The pool of the two tokens; of Uniswap v4 its id", PAIR_EXAMPLE),
  }),
);

export const ReservesModel = named(
  "PairReserves",
  Type.Object({
    reserve0: digits("Of token0, in its smallest unit", "400000000000000000000000"),
    reserve1: digits("Of token1", "1000000000000000000000"),
  }),
);

export const BlockDate = named(
  "BlockDate",
  Type.Object({
    date: time("The time asked for", "2024-10-19T08:12:50.000Z"),
    block: int64("The last block at or before it", EXAMPLE_BLOCK),
    timestamp: int64("Time of that block, in seconds since the epoch", Date.parse(EXAMPLE_TIME) / 1_000),
    block_timestamp: time("Time of that block"),
    hash: blockHash("Hash of that block"),
    parent_hash: blockHash("Hash of the block before", `0x${"5b".repeat(32)}`),
  }),
);

export const WebVersion = named("ApiVersion", Type.Object({ version: text("Version of this server", "1.1.0") }));
