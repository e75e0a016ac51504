/** The schemas of the hosted service's neighbours of the listing: contracts, transfers, wallets, tokens, pairs, blocks. */
import { type Static, Type } from "@sinclair/typebox";
import {
  address,
  blockHash,
  digits,
  int64,
  named,
  nullable,
  nullableText,
  nullableTime,
  oneOf,
  poolId,
  text,
  time,
  type WireTypes,
} from "../../core/schema-parts.ts";
import { glossaryOf, LISTING_WORDS, wireValues } from "../../status-words.ts";
import { HEADER_EXAMPLES, NFT_ADDRESS, TOKEN_ADDRESS } from "../wire/examples.ts";
import { flagText, wireCount, wireForm } from "./nft-models.ts";

const SAME_BLOCK = "Cursor of the next page, at the same block; null on the last page";
const UNKNOWN = "Null: this service does not know it";

const ListingStatus = oneOf(wireValues(LISTING_WORDS), glossaryOf(LISTING_WORDS));

export const ContractMetadata = named(
  "ContractMetadata",
  Type.Object({
    token_address: address("The contract"),
    name: text("Name of the collection"),
    symbol: text("Symbol of the collection"),
    contract_type: nullableText("Standard of its tokens; null before it is known"),
    synced_at: nullableTime("Time at which its history was complete"),
    possible_spam: flagText("true if the contract looks like spam"),
    verified_collection: flagText("true if the operator lists the contract as genuine"),
    collection_logo: nullableText("Picture of the collection, by its own document (ERC-7572)"),
    collection_banner_image: nullableText(UNKNOWN),
    collection_category: nullableText(UNKNOWN),
    project_url: nullableText("Link of the collection, by its own document (ERC-7572)"),
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
    token_id: text("Decimal, or 0x… with format=hex; the first one of an ERC-2309 range", {
      pattern: "^([0-9]+|0x[0-9a-f]+)$",
    }),
    from_address: address("The sender; the zero address for a mint"),
    to_address: address("The receiver; the zero address for a burn"),
    value: nullableText("Null: what was paid is not known from logs"),
    amount: digits("1, or an amount of an ERC-1155 or ERC-6909 token; for an ERC-2309 range the number of its ids"),
    contract_type: nullableText("Standard of the token"),
    block_number: digits("Block of the transfer"),
    block_timestamp: time("Time of the block"),
    block_hash: nullable(blockHash("Hash of the block")),
    transaction_hash: nullable(blockHash("The transaction; null if two of the block have a log of this index")),
    transaction_type: nullable(oneOf(["Single", "Batch"], "Whether its log moves several tokens")),
    transaction_index: nullable(int64("Index of the transaction in the block, as the node tells it with the log")),
    log_index: int64("Index of the log in the block; the transfers of a batch share it"),
    operator: nullable(address("The operator that an ERC-1155 log names")),
    possible_spam: flagText("true if the contract looks like spam"),
    verified_collection: flagText("true if the operator lists the contract as genuine"),
  }),
);

export const HostedTransferPage = named(
  "HostedTransferPage",
  Type.Object({
    page: wireCount("Number of the page along the cursor, from 0"),
    page_size: wireCount("The page size in effect"),
    cursor: nullableText(SAME_BLOCK),
    result: Type.Array(HostedTransfer, {
      description: "Fewer than the page size if the node is asked about many blocks: go on with the cursor",
    }),
    block_exists: Type.Boolean({ description: "false if the range begins above the block of the answer" }),
    index_complete: Type.Boolean({ description: "false while the history of the contract is being read" }),
  }),
);

export const SyncAnswer = named("SyncAnswer", Type.Object({ message: text("What happens"), status: ListingStatus }));

export const ResyncAnswer = named(
  "ResyncAnswer",
  Type.Object({ status: oneOf(["submitted", "completed"], "completed with mode=sync, once it was fetched again") }),
);

const WalletCollection = named(
  "WalletCollection",
  Type.Object({
    token_address: address("The contract"),
    contract_type: nullableText("Standard of its tokens"),
    name: text("Name of the collection"),
    symbol: text("Symbol of the collection"),
    possible_spam: flagText("true if the contract looks like spam"),
    verified_collection: flagText("true if the operator lists the contract as genuine"),
    count: Type.Optional(int64("With token_counts=true: token ids that the wallet holds")),
    collection_logo: nullableText(UNKNOWN),
    collection_banner_image: nullableText(UNKNOWN),
  }),
);

export const WalletCollectionPage = named(
  "WalletCollectionPage",
  Type.Object({
    status: ListingStatus,
    page: wireCount("Number of the page along the cursor, from 0"),
    page_size: wireCount("The page size in effect"),
    cursor: nullableText(SAME_BLOCK),
    result: Type.Array(WalletCollection),
  }),
);

const TokenMetadata = named(
  "TokenMetadata",
  Type.Object({
    address: address("The token"),
    name: nullableText("Its name, as the contract tells it now; null if it tells none"),
    symbol: nullableText("Its symbol"),
    decimals: nullable(digits("Its decimals; null if it is no ERC-20 token")),
    logo: nullableText("URL, by the operator's token lists"),
    logo_hash: nullableText(UNKNOWN),
    thumbnail: nullableText(UNKNOWN),
    block_number: nullableText(UNKNOWN),
    validated: nullable(int64(UNKNOWN)),
    created_at: nullableTime(UNKNOWN),
    possible_spam: Type.Boolean({ description: "Whether the operator's list names it, or its words lure" }),
    verified_contract: Type.Boolean({ description: "Whether lists or this program's data name it" }),
  }),
);
export type TokenMetadata = Static<typeof TokenMetadata>;
export const TokenMetadataList = named("TokenMetadataList", Type.Array(TokenMetadata));

export const PairModel = named(
  "Pair",
  Type.Object({
    token0: TokenMetadata,
    token1: TokenMetadata,
    pairAddress: poolId("The pool of the two tokens; of Uniswap v4 its id"),
  }),
);

export const ReservesModel = named(
  "PairReserves",
  Type.Object({ reserve0: digits("Of token0, in its smallest unit"), reserve1: digits("Of token1") }),
);

export const BlockDate = named(
  "BlockDate",
  Type.Object({
    date: time("The time asked for"),
    block: int64("The last block at or before it"),
    timestamp: int64("Time of that block, in seconds since the epoch"),
    block_timestamp: time("Time of that block"),
    hash: blockHash("Hash of that block"),
    parent_hash: blockHash("Hash of the block before"),
  }),
);

export const WebVersion = named("ApiVersion", Type.Object({ version: text("Version of this server") }));

const OWNER = "0x8f7a5e2d3c4b1a09f8e7d6c5b4a3928170605040";

export function contractMetadataExample(wire: WireTypes): Static<typeof ContractMetadata> {
  const { flag } = wireForm(wire === "native");
  const nothing = { collection_banner_image: null, collection_category: null, wiki_url: null, discord_url: null };
  return {
    ...{ token_address: NFT_ADDRESS, name: "BoredApeYachtClub", symbol: "BAYC", contract_type: "ERC721" },
    ...{ synced_at: HEADER_EXAMPLES.time, possible_spam: flag(false), verified_collection: flag(true) },
    ...{ collection_logo: "ipfs://QmeSjSinHpPnmXmspMjwiXyN6zS4E9zccariGR3jxcaWtq/collection" },
    ...{ project_url: "https://boredapeyachtclub.com", ...nothing },
    ...{ telegram_url: null, twitter_username: null, instagram_username: null },
  };
}

export function transferPageExample(wire: WireTypes): Static<typeof HostedTransferPage> {
  const { count, flag } = wireForm(wire === "native");
  return {
    ...{ page: count(0), page_size: count(100), cursor: null, block_exists: true, index_complete: true },
    result: [
      {
        ...{ token_address: NFT_ADDRESS, token_id: "1234", from_address: `0x${"0".repeat(40)}`, to_address: OWNER },
        ...{ value: null, amount: "1", contract_type: "ERC721", block_number: "12344138" },
        ...{ block_timestamp: HEADER_EXAMPLES.time, block_hash: HEADER_EXAMPLES.hash },
        ...{ transaction_hash: HEADER_EXAMPLES.hash, transaction_type: "Single" as const, transaction_index: 91 },
        ...{ log_index: 71, operator: null, possible_spam: flag(false), verified_collection: flag(true) },
      },
    ],
  };
}

export function walletCollectionsExample(wire: WireTypes): Static<typeof WalletCollectionPage> {
  const { count, flag } = wireForm(wire === "native");
  return {
    ...{ status: "SYNCED" as const, page: count(0), page_size: count(100), cursor: null },
    result: [
      {
        ...{ token_address: NFT_ADDRESS, contract_type: "ERC721", name: "BoredApeYachtClub", symbol: "BAYC" },
        ...{ possible_spam: flag(false), verified_collection: flag(true), count: 3 },
        ...{ collection_logo: null, collection_banner_image: null },
      },
    ],
  };
}

export const TOKEN_METADATA_EXAMPLE: TokenMetadata = {
  ...{ address: TOKEN_ADDRESS, name: "Uniswap", symbol: "UNI", decimals: "18", logo: null, logo_hash: null },
  ...{ thumbnail: null, block_number: null, validated: null, created_at: null },
  ...{ possible_spam: false, verified_contract: true },
};
