/**
 * The closed vocabulary of facts. One union per kind of stream, past tense, nothing ever rewritten; every fold handles
 * its union by one exhaustive `switch`. Block numbers are numbers, amounts and ids decimal strings or bigints.
 */
import type { Address, Hash } from "../core/hex.ts";

export interface BlockRef {
  readonly number: number;
  readonly hash: Hash;
}

/** A header as the chain stream keeps it; `timestamp` in seconds. */
export interface HeaderRef extends BlockRef {
  readonly parentHash: Hash;
  readonly timestamp: number;
}

// ── nft/<chainId>/<address> ─────────────────────────────────────────────────────────────────────────────────────────

/** The shapes of event that are read as NFT transfers of a contract; which ones is decided once, by identification. */
export type TransferForm =
  /** ERC-721 `Transfer` with three indexed arguments. */
  | "erc721"
  /** `Transfer` with the token id in the data: from and to indexed. */
  | "erc721-id-in-data"
  /** `Transfer` with nothing indexed (CryptoKitties). */
  | "erc721-unindexed"
  /** ERC-2309 `ConsecutiveTransfer`. */
  | "erc2309"
  /** ERC-1155 `TransferSingle` and `TransferBatch`. */
  | "erc1155"
  /** The `Transfer` of both ERC-821 drafts (Decentraland's LAND); beside ERC-721's it is counted once. */
  | "erc821"
  /** `Create` and `Destroy`, by which the earliest logic of ERC-821 announced mints and burns. */
  | "erc821-created"
  /** MoonCats' `CatRescued` and `CatAdopted`. */
  | "mooncats"
  /** CryptoPunks' `Assign`, `PunkTransfer`, `PunkBought`. */
  | "cryptopunks";

/** Somebody asked for the collection. */
export interface IndexingRequested {
  readonly type: "IndexingRequested";
}

/**
 * What the contract is. `kind` is `nft` when `forms` says how its transfers read; `not_nft` when there is code but no
 * NFT standard and no NFT log up to `block`; `not_a_contract` when there is neither code nor an NFT log.
 */
export interface ContractIdentified {
  readonly type: "ContractIdentified";
  readonly kind: "nft" | "not_nft" | "not_a_contract";
  readonly forms: readonly TransferForm[];
  readonly name: string;
  readonly symbol: string;
  /** First block that can hold a transfer: the deployment, or the first log found. */
  readonly startBlock: number;
  /** Head when asked. */
  readonly block: number;
}

/**
 * All transfers of a contiguous block range, in chain order, in columns (see `events/columns.ts`). `fromBlock` is the
 * previous end + 1. The event may hold no transfer when it only moves the end.
 */
export interface TransfersCommitted {
  readonly type: "TransfersCommitted";
  readonly fromBlock: number;
  readonly toBlock: number;
  readonly toHash: Hash;
  /**
   * Version of the chain's stream that the writer knew: a reader shows this only once it has folded that one as far, or
   * it would take blocks of one branch for another's. Left out where nothing can be reverted.
   */
  readonly chainVersion?: number;
  readonly count: number;
  readonly transfers: Uint8Array;
}

/** Everything above the common ancestor is gone from the canonical chain. */
export interface BlocksReverted {
  readonly type: "BlocksReverted";
  readonly ancestor: BlockRef;
  /** As in `TransfersCommitted`. */
  readonly chainVersion?: number;
  /** A collection that was found on a branch that is gone, after a crash: it is read anew from the ancestor on. */
  readonly rejoins?: true;
}

/** The backfill reached the head the chain's follower stands at; from here on the stream follows. */
export interface IndexingCompleted {
  readonly type: "IndexingCompleted";
  readonly block: number;
  readonly hash: Hash;
}

/** An attempt failed; the next starts at `retryAt` (ms since the epoch). */
export interface IndexingFailed {
  readonly type: "IndexingFailed";
  readonly reason: string;
  readonly attempt: number;
  readonly retryAt: number;
}

/** Indexing has made no progress for a minute or longer, and what it tries goes on. */
export interface IndexingStalled {
  readonly type: "IndexingStalled";
  /** What is being tried, and what the last request failed for. */
  readonly reason: string;
}

/** Spam or verification changed, by a named rule; `rule` is "" when the flag was lifted since no rule fires any more. */
export interface FlagsChanged {
  readonly type: "FlagsChanged";
  readonly possibleSpam: boolean;
  readonly verifiedCollection: boolean;
  readonly rule: string;
}

export type NftEvent =
  | IndexingRequested
  | ContractIdentified
  | TransfersCommitted
  | BlocksReverted
  | IndexingCompleted
  | IndexingFailed
  | IndexingStalled
  | FlagsChanged;

// ── price/<chainId>/<address> ───────────────────────────────────────────────────────────────────────────────────────

/** The token's own words. `decimals` undefined: the contract does not say, no price can be given. */
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
  readonly pool: Address;
  readonly factory: Address;
  readonly style: "v2" | "v3" | "v2-camelot";
  /** v3: hundredths of a basis point. v2: basis points times 100. */
  readonly fee: number;
  readonly token0: Address;
  readonly token1: Address;
  /** A pair on the x³y + y³x curve; absent: on no such curve. */
  readonly stableCurve?: boolean;
  readonly block: number;
}

/** State of a pool at a block: decimal strings in the tokens' smallest units. */
export type PoolState =
  | { readonly style: "v2"; readonly reserve0: string; readonly reserve1: string }
  | { readonly style: "v3"; readonly sqrtPriceX96: string; readonly liquidity: string; readonly tick: number };

/** The pool's state after a block; `balance0`/`balance1` are the pool's real token balances where they were read. */
export interface PriceObserved {
  readonly type: "PriceObserved";
  readonly pool: Address;
  readonly state: PoolState;
  readonly balance0?: string;
  readonly balance1?: string;
  readonly block: number;
  readonly blockHash: Hash;
  readonly timestamp: number;
  readonly transactionHash?: Hash;
  readonly logIndex?: number;
}

export type PriceEvent = TokenIdentified | PoolDiscovered | PriceObserved | BlocksReverted;

// ── metadata/<chainId>/<address> ────────────────────────────────────────────────────────────────────────────────────

/** Why a token's metadata, or its picture, could not be had. */
export type MetadataReason =
  /** The contract has no URI for the token: it reverts, or answers with nothing or with no text. */
  | "no_uri"
  | "invalid_uri"
  | "unsupported_scheme"
  | "credentials_in_url"
  | "forbidden_port"
  /** The host is, or resolves to, an address that is nobody's on the public internet. */
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
 * Metadata of tokens was had. Each token's hash names a blob `{uri, body | image}`: what the contract said, and the hash
 * of the body found there. `since`: the stream's version when the contract was asked, so that what was announced
 * meanwhile still counts. `bytes`: what the blobs of those tokens that were not as before take, at most: some may share
 * theirs. `tokens`: see `events/tokens.ts`.
 */
export interface MetadataResolved {
  readonly type: "MetadataResolved";
  readonly since: number;
  readonly count: number;
  readonly bytes: number;
  readonly tokens: Uint8Array;
}

/** An attempt failed for one reason; each token's hash names a blob `{uri}`, or is zero where there is no URI. */
export interface MetadataFailed {
  readonly type: "MetadataFailed";
  readonly since: number;
  readonly reason: MetadataReason;
  readonly count: number;
  /** As in `MetadataResolved`. */
  readonly bytes: number;
  readonly tokens: Uint8Array;
}

/** What is known of the ids from `fromId` to `toId` (inclusive, decimal) may have changed. */
export interface MetadataOutdated {
  readonly type: "MetadataOutdated";
  readonly fromId: string;
  readonly toId: string;
  /** Said by the contract's log, found by asking a sample again, or in doubt since a block was reverted. */
  readonly cause: "announced" | "sampled" | "reverted";
  readonly block: number;
}

/** Somebody looked at tokens in a process that does not fetch; `media`: their pictures were wanted too. */
export interface MetadataRequested {
  readonly type: "MetadataRequested";
  readonly media: boolean;
  readonly count: number;
  readonly tokens: Uint8Array;
}

/** Pictures of tokens were fetched and looked at; each token's hash names a blob with what was found. */
export interface MediaExamined {
  readonly type: "MediaExamined";
  readonly count: number;
  readonly tokens: Uint8Array;
}

/** Whatever was due had been asked for when the collection's own stream stood at `collection`; next at `dueAt`. */
export interface MetadataSettled {
  readonly type: "MetadataSettled";
  readonly collection: number;
  /** ms since the epoch. */
  readonly dueAt: number;
}

export type MetadataEvent =
  | MetadataResolved
  | MetadataFailed
  | MetadataOutdated
  | MetadataRequested
  | MediaExamined
  | MetadataSettled;

// ── chain/<chainId> ─────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * The follower reached `headers.at(-1)`. `headers` are the unfinalised ones, linked by parent; below them `fromBlock`
 * reaches back to the previous head + 1.
 */
export interface HeadAdvanced {
  readonly type: "HeadAdvanced";
  readonly fromBlock: number;
  readonly headers: readonly HeaderRef[];
}

/** The blocks in `orphaned` left the canonical chain; `ancestor` is the newest that stayed. */
export interface ChainReverted {
  readonly type: "ChainReverted";
  readonly ancestor: BlockRef;
  readonly orphaned: readonly BlockRef[];
}

/** No block at or below can be reverted any more. */
export interface ChainFinalized {
  readonly type: "ChainFinalized";
  readonly block: BlockRef;
}

/** The fold of the stream so far, so that a reader needs only the newest of these and what follows. */
export interface ChainCheckpointed {
  readonly type: "ChainCheckpointed";
  readonly headers: readonly HeaderRef[];
  readonly finalized: BlockRef;
  readonly orphaned: readonly BlockRef[];
}

/** The node's chain does not hold the finalised block: nothing is followed until it does again. */
export interface ChainHalted {
  readonly type: "ChainHalted";
  readonly finalized: BlockRef;
  /** What the node has at that height. */
  readonly found: BlockRef;
}

/**
 * Another process follows the chain from here on. Written before it looks at what there is to follow: what its predecessor
 * had not written by then is refused, since the stream has moved.
 */
export interface FollowingBegan {
  readonly type: "FollowingBegan";
  /** Names the process, for as long as it runs. */
  readonly holder: string;
}

export type ChainEvent =
  | HeadAdvanced
  | ChainReverted
  | ChainFinalized
  | ChainCheckpointed
  | ChainHalted
  | FollowingBegan;

export type DomainEvent = NftEvent | PriceEvent | MetadataEvent | ChainEvent;

/** A fact once it is in the log. `time` is when it was appended, ms since the epoch. */
export interface Recorded<E extends DomainEvent = DomainEvent> {
  readonly stream: StreamName;
  readonly version: number;
  readonly time: number;
  readonly event: E;
}

// ── stream names ────────────────────────────────────────────────────────────────────────────────────────────────────

export type StreamName = string & { readonly __stream: true };

export const nftStream = (chainId: number, address: Address): StreamName => `nft/${chainId}/${address}` as StreamName;
export const priceStream = (chainId: number, address: Address): StreamName =>
  `price/${chainId}/${address}` as StreamName;
export const metadataStream = (chainId: number, address: Address): StreamName =>
  `metadata/${chainId}/${address}` as StreamName;
export const chainStream = (chainId: number): StreamName => `chain/${chainId}` as StreamName;

/** The parts of a stream's name; throws on a name that is none of ours. */
export function parseStream(
  stream: string,
): { kind: "nft" | "price" | "metadata"; chainId: number; address: Address } | { kind: "chain"; chainId: number } {
  const [kind, chainId, address] = stream.split("/");
  const id = Number(chainId);
  if (kind === "chain" && Number.isSafeInteger(id)) return { kind, chainId: id };
  if (
    (kind === "nft" || kind === "price" || kind === "metadata") &&
    Number.isSafeInteger(id) &&
    address !== undefined
  ) {
    return { kind, chainId: id, address: address as Address };
  }
  throw new TypeError(`not a stream: ${stream}`);
}
