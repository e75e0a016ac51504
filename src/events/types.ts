/**
 * The closed vocabulary of events: one union per kind of stream, in the past tense, never rewritten. Every fold handles
 * its union by one exhaustive `switch`. Block numbers are numbers; amounts and ids are decimal strings or bigints.
 */
import type { Address, Hash } from "../core/hex.ts";

export interface BlockRef {
  readonly number: number;
  readonly hash: Hash;
}

/** A range of blocks, both ends included. */
export interface BlockRange {
  readonly fromBlock: number;
  readonly toBlock: number;
}

/** A header as the chain stream stores it; `timestamp` in seconds. */
export interface HeaderRef extends BlockRef {
  readonly parentHash: Hash;
  readonly timestamp: number;
}

/** Forms of log that count as NFT transfers. Identification decides once which ones apply to a contract. */
export type TransferForm =
  /** ERC-721 `Transfer` with three indexed arguments. */
  | "erc721"
  /** `Transfer` with the token id in the data: from and to indexed. */
  | "erc721-id-in-data"
  /** `Transfer` without indexed arguments (CryptoKitties). */
  | "erc721-unindexed"
  /** ERC-2309 `ConsecutiveTransfer`. */
  | "erc2309"
  /** ERC-1155 `TransferSingle` and `TransferBatch`. */
  | "erc1155"
  /** ERC-6909 `Transfer` with sender, receiver and id indexed; caller and amount in the data. */
  | "erc6909"
  /** `Transfer` of both ERC-821 drafts (Decentraland's LAND). Counted once if ERC-721's is there, too. */
  | "erc821"
  /** `Create` and `Destroy`, the mints and burns of ERC-821's earliest implementation. */
  | "erc821-created"
  /** MoonCats' `CatRescued` and `CatAdopted`. */
  | "mooncats"
  /** CryptoPunks' `Assign`, `PunkTransfer`, `PunkBought`. */
  | "cryptopunks";

/** A client requested the collection. */
interface IndexingRequested {
  readonly type: "IndexingRequested";
}

/**
 * Identification has ended. `kind` is `nft` if `forms` tells how to read the contract's transfers; `not_nft` if there
 * is code but no NFT standard and no NFT log up to `block`; `not_a_contract` if there is neither code nor an NFT log.
 */
export interface ContractIdentified {
  readonly type: "ContractIdentified";
  readonly kind: "nft" | "not_nft" | "not_a_contract";
  readonly forms: readonly TransferForm[];
  readonly name: string;
  readonly symbol: string;
  /** First block that can hold a transfer: the deployment, or the first log found. */
  readonly startBlock: number;
  /** Head at the time of identification. */
  readonly block: number;
}

/**
 * The contract told another name or symbol at `block` than before. Its transfers and its kind stay as they were
 * identified.
 */
export interface ContractRenamed {
  readonly type: "ContractRenamed";
  readonly name: string;
  readonly symbol: string;
  readonly block: number;
}

/**
 * All transfers of a contiguous block range, in chain order, in columns (see `events/columns.ts`). `fromBlock` is the
 * previous end + 1. An event without transfers only moves the end.
 */
export interface TransfersCommitted extends BlockRange {
  readonly type: "TransfersCommitted";
  readonly toHash: Hash;
  /**
   * Version of the chain's stream that the writer knew. A reader shows these blocks only once it has folded the chain
   * up to that version; earlier it could confuse blocks of two branches. Absent for blocks that can't be reverted.
   */
  readonly chainVersion?: number;
  readonly count: number;
  readonly transfers: Uint8Array;
}

/** All blocks above the common ancestor left the canonical chain. */
export interface BlocksReverted {
  readonly type: "BlocksReverted";
  readonly ancestor: BlockRef;
  /** As in `TransfersCommitted`. */
  readonly chainVersion?: number;
  /** Set if the collection was on a lost branch after a crash: its history is read again from the ancestor on. */
  readonly rejoins?: true;
}

/**
 * After this final block the address had no code. The tokens of the contract end with it; later transfers are those of
 * another contract at the address. The stream does not end above the block.
 */
export interface ContractDestroyed {
  readonly type: "ContractDestroyed";
  readonly block: number;
  /** As in `TransfersCommitted`. */
  readonly chainVersion?: number;
}

/** The backfill reached the head of the chain's follower. From here on the follower writes the stream. */
interface IndexingCompleted {
  readonly type: "IndexingCompleted";
  readonly block: number;
  readonly hash: Hash;
  /** True if an archive told the history: it counts as complete once `HistoryProven` says what is proven of it. */
  readonly isUnproven?: true;
}

/** An attempt failed; the next one starts at `retryAt` (ms since the epoch). */
export interface IndexingFailed {
  readonly type: "IndexingFailed";
  readonly reason: string;
  readonly attempt: number;
  readonly retryAt: number;
}

/**
 * The nodes' answers about the collection's logs of a block contradict themselves, and so do the block's receipts. A
 * followed collection is followed no longer. Its history is read again from its end on, at `retryAt`, until a range with
 * that block is committed.
 */
export interface LogsDoubted {
  readonly type: "LogsDoubted";
  readonly block: number;
  readonly reason: string;
  readonly attempt: number;
  readonly retryAt: number;
}

/**
 * The contract names other owners than its logs, as of a block. The collection is followed on, and the blocks in question
 * are read a second time. `OwnersSettled` ends the doubt.
 */
export interface OwnersDoubted {
  readonly type: "OwnersDoubted";
  readonly block: number;
  readonly reason: string;
}

/**
 * The second reading has ended: logs were missing and are read again, or the receipts have the same logs, so that the
 * contract contradicts its own logs about so many holdings.
 */
export interface OwnersSettled {
  readonly type: "OwnersSettled";
  readonly contradicted: number;
}

/** Indexing has made no progress for a minute or longer, and the attempt goes on. */
interface IndexingStalled {
  readonly type: "IndexingStalled";
  /** The step that makes no progress, and the error of its last request. */
  readonly reason: string;
}

/** A flag changed by a named rule; `rule` is "" if the flag was lifted because no rule applies any more. */
export interface FlagsChanged {
  readonly type: "FlagsChanged";
  readonly possibleSpam: boolean;
  readonly verifiedCollection: boolean;
  readonly rule: string;
}

/**
 * An archive told the history up to the join, and this is what the operator's node has proven of it. `touched` counts
 * the blocks with a log, `hashed` those whose header makes their hash, `sampled` those with the same logs in the node's
 * receipts, `byRoot` those whose receipts make the header's root. `absent` counts blocks whose header excludes a log. The
 * contract confirms `holdings` of `of` holdings at `block`. It contradicts its own logs about `contradicted` of them, or
 * the node can't tell.
 */
export interface HistoryProven {
  readonly type: "HistoryProven";
  /** Labels of the archives, separated by commas. */
  readonly archives: string;
  readonly touched: number;
  readonly hashed: number;
  readonly sampled: number;
  readonly byRoot: number;
  readonly absent: number;
  readonly block: number;
  readonly holdings: number;
  readonly of: number;
  readonly contradicted: number;
  /** Blocks that archives told, with and without a log. Absent in older releases. */
  readonly blocks?: number;
  /** The first block that the node can prove, if it has pruned older ones. */
  readonly provableFrom?: number | null;
  /** Label of a second archive that told the same history. */
  readonly witness?: string | null;
  /**
   * True if the contract confirms every holding, and its own counts show that none is missing; false if it can't. Absent in
   * older releases.
   */
  readonly isComplete?: boolean | null;
}

/** The collection is indexed anew. Readers forget its earlier events, which needn't be readable. Versions go on counting. */
interface ReindexRequested {
  readonly type: "ReindexRequested";
}

/** The collection is not indexed any more, until a client requests it again. Readers forget its earlier events. */
interface CollectionRemoved {
  readonly type: "CollectionRemoved";
}

/** Facts of a stream `nft/<chainId>/<address>`: a contract, its transfers and its indexing. */
export type NftEvent =
  | IndexingRequested
  | ReindexRequested
  | CollectionRemoved
  | ContractIdentified
  | ContractRenamed
  | TransfersCommitted
  | BlocksReverted
  | ContractDestroyed
  | IndexingCompleted
  | IndexingFailed
  | LogsDoubted
  | OwnersDoubted
  | OwnersSettled
  | IndexingStalled
  | FlagsChanged
  | HistoryProven;

/** The token's own answers. Without `decimals` the token can't have a price. */
export interface TokenIdentified {
  readonly type: "TokenIdentified";
  readonly name: string;
  readonly symbol: string;
  readonly decimals?: number;
  readonly isContract: boolean;
  readonly block: number;
}

/** A pool of the token with a quote token, found by asking `factory`. */
export interface PoolDiscovered {
  readonly type: "PoolDiscovered";
  /** Its address, or its hash inside the factory's contract. */
  readonly pool: Address | Hash;
  readonly factory: Address;
  /** A `PoolStyle` of `chains`. */
  readonly style: string;
  /** Hundredths of a basis point, when the pool was found. */
  readonly fee: number;
  readonly token0: Address;
  readonly token1: Address;
  /** True for a pair on the x³y + y³x curve; absent for the rest. */
  readonly stableCurve?: boolean;
  /** For a pool inside the factory's contract: what its hash is of besides its second token. */
  readonly key?: {
    readonly currency0: Address;
    readonly fee: number;
    readonly spacing: number;
    readonly hooks: Address;
  };
  readonly block: number;
}

/** State of a pool at a block: decimal strings in the tokens' smallest units. The styles name the two kinds of state. */
export type PoolState =
  | { readonly style: "v2"; readonly reserve0: string; readonly reserve1: string }
  | { readonly style: "v3"; readonly sqrtPriceX96: string; readonly liquidity: string; readonly tick: number };

/** The pool's state after a block; `balance0` and `balance1` are the pool's token balances, if they were read. */
export interface PriceObserved {
  readonly type: "PriceObserved";
  readonly pool: Address | Hash;
  readonly state: PoolState;
  readonly balance0?: string;
  readonly balance1?: string;
  readonly block: number;
  readonly blockHash: Hash;
  readonly timestamp: number;
  readonly transactionHash?: Hash;
  readonly logIndex?: number;
}

/**
 * The token's price at a block, in what it is quoted in, with the states that it follows from: see `events/price-columns.ts`.
 * A token that is read at each head gets one where its states differ from those before, or where such reading begins.
 */
export interface TokenPriced {
  readonly type: "TokenPriced";
  readonly price: Uint8Array;
}

/**
 * Facts of a stream `priced/<chainId>/<address>`: a token, its pools and its prices. In `price/…` older releases recorded states
 * of pools (`PriceObserved`, `BlocksReverted`), from which nothing is answered.
 */
export type PriceEvent = TokenIdentified | PoolDiscovered | TokenPriced | PriceObserved | BlocksReverted;

/**
 * Prices at a head were read: the block, and the coin's pool with its state, see `events/price-columns.ts`. From a
 * reader it says that each token of its set was read there: those without a `TokenPriced` at the block kept their state.
 */
export interface HeadPriced {
  readonly type: "HeadPriced";
  readonly head: Uint8Array;
  /** Id of the process that reads ahead from now on. Its set begins empty. Absent while it stays the same. */
  readonly reader?: string;
  /** Tokens that are read at this head and the next ones. Each has a `TokenPriced` at this block. */
  readonly joined?: readonly Address[];
  /** Tokens of the set that are not read at this head. */
  readonly left?: readonly Address[];
  /** The coin's pool, if it is not one of those before. */
  readonly pool?: Omit<PoolDiscovered, "type" | "block">;
  /** All pools of the coin so far, where a reader's set begins. A fold may begin here. */
  readonly pools?: readonly Omit<PoolDiscovered, "type" | "block">[];
  /** Stablecoins that disagree with a trusted one, with numerator and denominator of their prices in it. Absent if none does. */
  readonly disputed?: readonly { readonly coin: Address; readonly usd: readonly [string, string] }[];
}

/**
 * Clients of another process than the reader wait for these tokens, by the names of their keys. It holds for a minute. Without
 * tokens it says that clients wait for heads.
 */
export interface PricesWanted {
  readonly type: "PricesWanted";
  readonly tokens: { readonly [address: Address]: readonly string[] };
}

/** Of the heads below a block only the last one of each span of time is kept, and the last ones of tokens that left. */
export interface PricesThinned {
  readonly type: "PricesThinned";
  readonly before: number;
  readonly seconds: number;
}

/** Facts of a stream `prices/<chainId>`: the heads at which prices were read. */
export type PriceBookEvent = HeadPriced | PricesWanted | PricesThinned;

/** Reason why a token's metadata or picture could not be fetched. */
export type MetadataReason =
  /** The contract has no URI for the token: the call reverts, or returns nothing or no text. */
  | "no_uri"
  /** The contract's call took all gas that the node gave it, alone or beside the calls of the contract's other tokens. */
  | "out_of_gas"
  | "invalid_uri"
  | "unsupported_scheme"
  | "credentials_in_url"
  | "forbidden_port"
  /** The host is, or resolves to, an address outside the public internet. */
  | "forbidden_address"
  | "too_many_redirects"
  | "dns_failed"
  | "connection_failed"
  | "timeout"
  | "not_found"
  | "refused"
  | "server_error"
  | "too_large"
  | "bad_encoding"
  | "not_json"
  | "not_an_object";

/**
 * Metadata of tokens was fetched. Each token's hash names a blob `{uri, body | image}` with the contract's answer and
 * the hash of the fetched body. `since` is the stream's version when the contract was asked, so that an announcement
 * made in between still counts. `bytes` is an upper bound for the size of new blobs, because tokens may share them.
 * `tokens`: see `encodeTokens` in `events/columns.ts`.
 */
export interface MetadataResolved {
  readonly type: "MetadataResolved";
  readonly since: number;
  readonly count: number;
  readonly bytes: number;
  readonly tokens: Uint8Array;
}

/** An attempt failed for one reason. Each token's hash names a blob `{uri}`, or is zero if there is no URI. */
export interface MetadataFailed {
  readonly type: "MetadataFailed";
  readonly since: number;
  readonly reason: MetadataReason;
  readonly count: number;
  /** As in `MetadataResolved`. */
  readonly bytes: number;
  readonly tokens: Uint8Array;
}

/**
 * The metadata of ids from `fromId` to `toId` (inclusive, decimal) may have changed; of all ids, and the document about
 * the collection may have, too. With `contract` it is that document alone.
 */
export interface MetadataOutdated {
  readonly type: "MetadataOutdated";
  readonly contract?: true;
  readonly fromId: string;
  readonly toId: string;
  /** Announced by the contract's log, found by sampling, in doubt after a reverted block, or requested by an operator. */
  readonly cause: "announced" | "sampled" | "reverted" | "requested";
  readonly block: number;
}

/** A client read tokens in a process that doesn't fetch metadata; `media`: it also asked for their pictures. */
interface MetadataRequested {
  readonly type: "MetadataRequested";
  readonly media: boolean;
  readonly count: number;
  readonly tokens: Uint8Array;
}

/** Pictures of tokens were fetched and examined. Each token's hash names a blob with the result. */
interface MediaExamined {
  readonly type: "MediaExamined";
  readonly count: number;
  readonly tokens: Uint8Array;
}

/** All due tokens were fetched when the collection's own stream was at version `collection`. Next due at `dueAt`. */
interface MetadataSettled {
  readonly type: "MetadataSettled";
  readonly collection: number;
  /** ms since the epoch. */
  readonly dueAt: number;
}

/** Facts of a stream `metadata/<chainId>/<address>`: a collection's documents and pictures. */
export type MetadataEvent =
  | MetadataResolved
  | MetadataFailed
  | MetadataOutdated
  | MetadataRequested
  | MediaExamined
  | MetadataSettled;

/**
 * The follower reached `headers.at(-1)`. `headers` are unfinalised ones in rising order; neighbours are linked by parent
 * hash. `fromBlock` is the previous head + 1. The first headers may lie below it: the node's final block, if it was not
 * held, and a few blocks above it when following begins.
 */
interface HeadAdvanced {
  readonly type: "HeadAdvanced";
  readonly fromBlock: number;
  readonly headers: readonly HeaderRef[];
}

/** The blocks in `orphaned` left the canonical chain; `ancestor` is the newest block that stayed. */
interface ChainReverted {
  readonly type: "ChainReverted";
  readonly ancestor: BlockRef;
  readonly orphaned: readonly BlockRef[];
}

/** No block up to this one can be reverted any more. */
interface ChainFinalized {
  readonly type: "ChainFinalized";
  readonly block: BlockRef;
}

/** Blocks above `ancestor` up to `top` were orphaned by the event of that version of the chain's stream. */
export interface RevertedRange {
  readonly version: number;
  readonly ancestor: number;
  readonly top: number;
}

/** The fold of the stream so far. A reader needs only the newest checkpoint and the events after it. */
interface ChainCheckpointed {
  readonly type: "ChainCheckpointed";
  readonly headers: readonly HeaderRef[];
  readonly finalized: BlockRef;
  readonly orphaned: readonly BlockRef[];
  readonly reverts: readonly RevertedRange[];
}

/** The node's chain lacks the finalised block. Following stops until the node has it again. */
interface ChainHalted {
  readonly type: "ChainHalted";
  readonly finalized: BlockRef;
  /** The node's block at that height. */
  readonly found: BlockRef;
}

/**
 * Another process follows the chain from now on. It writes this event before it reads the chain. Later appends of its
 * predecessor are refused, because the stream has moved.
 */
interface FollowingBegan {
  readonly type: "FollowingBegan";
  /** Identifies the process during its run. */
  readonly holder: string;
}

/** Facts of a stream `chain/<chainId>`: the blocks that the follower reached, reverted or saw final. */
export type ChainEvent =
  | HeadAdvanced
  | ChainReverted
  | ChainFinalized
  | ChainCheckpointed
  | ChainHalted
  | FollowingBegan;

/** `read`: the operations on NFTs and prices. `operate`: everything. */
export type KeyScope = "read" | "operate";

/** `hash` is the SHA-256 of the key's text, hex. A limit is null for the server's. */
interface KeyAdded {
  readonly type: "KeyAdded";
  readonly name: string;
  readonly scope: KeyScope;
  readonly hash: string;
  readonly requestsPerMinute: number | null;
  readonly collectionsPerHour: number | null;
  readonly subscriptions: number | null;
}

/** The key has a new text. The former one is valid until `graceUntil` (ms since the epoch). */
interface KeyRotated {
  readonly type: "KeyRotated";
  readonly name: string;
  readonly hash: string;
  readonly graceUntil: number;
}

interface KeyRevoked {
  readonly type: "KeyRevoked";
  readonly name: string;
}

/** Facts of the stream `keys/api`. */
export type KeyEvent = KeyAdded | KeyRotated | KeyRevoked;

/** Calls by method, and bytes received. */
export interface CallCounts {
  readonly calls: Readonly<Record<string, number>>;
  readonly bytes: number;
}

/** What one process used endpoints for since its last such event, by label, and what keys made it ask, by name. */
export interface UsageRecorded {
  readonly type: "UsageRecorded";
  /** Id of the process. */
  readonly instance: string;
  readonly endpoints: Readonly<Record<string, CallCounts>>;
  readonly keys: Readonly<Record<string, CallCounts>>;
}

/** Facts of the stream `usage/calls`. */
export type UsageEvent = UsageRecorded;

/** A document that proves the owners of some tokens, as it is kept. */
export interface KeptDocument {
  /** SHA-256 of the blob with the document, hex with 0x. */
  readonly blob: Hash;
  /** Decimal ids of the tokens that it is about. */
  readonly tokenIds: readonly string[];
}

/** Proofs of a collection's owners at a block were made and verified, and are kept as blobs. */
export interface ProofsKept {
  readonly type: "ProofsKept";
  readonly block: number;
  readonly hash: Hash;
  readonly documents: readonly KeptDocument[];
}

/** Facts of a stream `proofs/<chainId>/<address>`: what is kept to prove a collection's past. */
export type ProofEvent = ProofsKept;

export type DomainEvent =
  | NftEvent
  | PriceEvent
  | PriceBookEvent
  | MetadataEvent
  | ChainEvent
  | KeyEvent
  | UsageEvent
  | ProofEvent;

/** An event in the log; `time` is when it was appended, in ms since the epoch. */
export interface Recorded<E extends DomainEvent = DomainEvent> {
  readonly stream: StreamName;
  readonly version: number;
  readonly time: number;
  /** Tells two records of one version apart: a log that went back may be written to again. */
  readonly checksum: number;
  readonly event: E;
}

/** The name of a stream, made by the functions below. */
export type StreamName = string & { readonly __stream: true };

export const nftStream = (chainId: number, address: Address): StreamName => `nft/${chainId}/${address}` as StreamName;
/**
 * The prices of a token. Older releases recorded states of its pools in `price/…`: nothing is answered from these, and a year
 * of them would be read at a token's first question.
 */
export const priceStream = (chainId: number, address: Address): StreamName =>
  `priced/${chainId}/${address}` as StreamName;
/** The heads of a chain at which prices were read. */
export const priceBookStream = (chainId: number): StreamName => `prices/${chainId}` as StreamName;
export const metadataStream = (chainId: number, address: Address): StreamName =>
  `metadata/${chainId}/${address}` as StreamName;
export const proofStream = (chainId: number, address: Address): StreamName =>
  `proofs/${chainId}/${address}` as StreamName;
export const chainStream = (chainId: number): StreamName => `chain/${chainId}` as StreamName;

/** The one stream of API keys. */
export const keysStream = "keys/api" as StreamName;

/** The one stream of counted calls. */
export const usageStream = "usage/calls" as StreamName;

/** The parts of the name of a chain's stream, or of one of its contracts. @throws TypeError for any other name */
export function parseStream(
  stream: string,
):
  | { kind: "nft" | "price" | "priced" | "metadata"; chainId: number; address: Address }
  | { kind: "chain" | "prices"; chainId: number } {
  const [kind, chainId, address] = stream.split("/");
  const id = Number(chainId);
  if ((kind === "chain" || kind === "prices") && Number.isSafeInteger(id)) return { kind, chainId: id };
  if (
    (kind === "nft" || kind === "price" || kind === "priced" || kind === "metadata") &&
    Number.isSafeInteger(id) &&
    address !== undefined
  ) {
    return { kind, chainId: id, address: address as Address };
  }
  throw new TypeError(`not a stream: ${stream}`);
}
