/** Bodies and messages of the service. Made by `bun scripts/client.ts types` from its schemas: do not edit. */

export type NftPage = {
  /** SYNCED once the whole history is indexed */
  readonly status: "SYNCING" | "SYNCED";
  /** Count with disable_total=false, else null */
  readonly total: string | number | null;
  /** Number of the page along the cursor, from 0 */
  readonly page: string | number;
  /** The page size in effect */
  readonly page_size: string | number;
  /** Cursor of the next page; null on the last page */
  readonly cursor: string | null;
  readonly result: readonly NftRecord[];
};

export type NftRecord = {
  /** Address of the contract, lower case */
  readonly token_address: string;
  /** Decimal, or 0x… with format=hex */
  readonly token_id: string;
  /** Owner; "" for an ERC-1155 token with several holders */
  readonly owner_of: string;
  /** md5 of the lower-case contract address followed by the decimal token id */
  readonly token_hash: string;
  /** Block of the last transfer */
  readonly block_number: string;
  /** Block of the first mint */
  readonly block_number_minted: string;
  /** ERC721, ERC1155, or the family of a contract older than both: CRYPTOPUNKS, MOONCATS */
  readonly contract_type: string;
  /** Token URI as the contract returned it */
  readonly token_uri: string | null;
  /** The raw JSON as one string */
  readonly metadata: string | null;
  /** "" unless normalizeMetadata=true */
  readonly normalized_metadata: "" | NormalizedMetadata;
  /** "" unless media_items=true */
  readonly media: "" | Media;
  /** Receiver of the first mint; a fixed sentence for ERC-1155, where a token can have several */
  readonly minter_address: string;
  /** 1, or the circulating amount of an ERC-1155 token */
  readonly amount: string;
  /** Name of the collection */
  readonly name: string;
  /** Symbol of the collection */
  readonly symbol: string;
  /** true if the contract looks like spam */
  readonly possible_spam: "true" | "false" | boolean;
  /** true if the operator lists the contract as genuine */
  readonly verified_collection: "true" | "false" | boolean;
  /** Time of the last read of the URI */
  readonly last_token_uri_sync: string | null;
  /** Time of the last read of the metadata */
  readonly last_metadata_sync: string | null;
};

export type NormalizedMetadata = {
  /** Name of the token */
  readonly name: string | null;
  /** Description of the token */
  readonly description: string | null;
  /** URI of the image */
  readonly image: string | null;
  /** Link to the token's page */
  readonly external_link: string | null;
  /** Link to the token's page */
  readonly external_url: string | null;
  /** URI of a video, sound or page */
  readonly animation_url: string | null;
  readonly attributes: readonly Attribute[];
};

export type Attribute = {
  /** Name of the trait */
  readonly trait_type: string | null;
  /** Any JSON value, in the type that the metadata gives it */
  readonly value: unknown;
  /** How to show the value, such as number or date */
  readonly display_type: string | null;
  /** Largest value of the trait; mostly null */
  readonly max_value: unknown;
  /** From the metadata, else 0 */
  readonly trait_count: number;
  /** Position among the traits; mostly null */
  readonly order: unknown;
};

export type Media = {
  /** Progress of the previews, or the reason that there are none */
  readonly status:
    | "success"
    | "processing"
    | "unsupported_media"
    | "invalid_url"
    | "host_unavailable"
    | "temporarily_unavailable";
  /** Media type of the original, detected from its content */
  readonly mimetype: string | null;
  /** image, video, audio and the like */
  readonly category: string | null;
  /** URL from the metadata; null when it has none */
  readonly original_media_url: string | null;
  /** SHA-256 of the original */
  readonly parent_hash: string | null;
  /** Time at which the image was examined */
  readonly updatedAt: string | null;
  /** Previews of 100, 250 and 500 pixels */
  readonly media_collection: {
    readonly low: Preview;
    readonly medium: Preview;
    readonly high: Preview;
  } | null;
};

export type Preview = {
  /** Pixels */
  readonly height: number;
  /** Pixels */
  readonly width: number;
  /** Absolute URL under the server's public URL */
  readonly url: string;
};

export type TokenPrice = {
  /** Name of the token */
  readonly tokenName: string;
  /** Symbol of the token */
  readonly tokenSymbol: string;
  /** URL, or "" */
  readonly tokenLogo: string;
  /** Decimals of the token */
  readonly tokenDecimals: string;
  /** Null if the token has a dollar price but the native coin has none */
  readonly nativePrice: {
    /** Price of one whole token in the smallest unit of the native coin, truncated */
    readonly value: string;
    /** Decimals of the native coin */
    readonly decimals: number;
    /** Name of the native coin */
    readonly name: string;
    /** Symbol of the native coin */
    readonly symbol: string;
    /** The wrapped native coin */
    readonly address: string;
  } | null;
  /** US dollars for one whole token */
  readonly usdPrice: number;
  /** The shortest decimal that parses back to usdPrice */
  readonly usdPriceFormatted: string;
  /** With include=percent_change, if there was a price 24 hours earlier */
  readonly "24hrPercentChange"?: string;
  /** The factory; "" if no pool measures the price */
  readonly exchangeAddress: string;
  /** Display name of the exchange */
  readonly exchangeName: string;
  /** The token */
  readonly tokenAddress: string;
  /** Block of the price */
  readonly toBlock: string;
  readonly provenance?: Provenance;
};

export type Provenance = {
  /** From the token to the dollar */
  readonly route: readonly PoolState[];
  /** Pool of the native price, if it is not on the route */
  readonly nativeRoute?: readonly PoolState[];
  /** Smaller side of the shallowest pool on the route, in US dollars */
  readonly liquidityUsd: string;
  /** From 0 to 1; at most 0.5 while stablecoins are in dispute */
  readonly confidence: string;
  /** Configured stablecoins that are more than 2 % off a trusted one; absent while all agree */
  readonly disputedStablecoins?: readonly DisputedStablecoin[];
  /** 30-minute average in US dollars; null if it cannot be computed */
  readonly twap30m: string | null;
  /** Spread between the usable routes, in per cent */
  readonly spreadPercent: string;
  /** Set if the node lacks the block's state: name, symbol and decimals are those of its newest block */
  readonly factsOf?: "newest";
};

export type PoolState = {
  /** The pool */
  readonly pool: string;
  /** Display name of the exchange */
  readonly exchange: string;
  /** The pool's factory */
  readonly factory: string;
  /** Hundredths of a basis point */
  readonly fee: number;
  /** First token */
  readonly token0: string;
  /** Second token */
  readonly token1: string;
  /** Decimals of the first token */
  readonly decimals0: number;
  /** Decimals of the second token */
  readonly decimals1: number;
  /** v2 pools only */
  readonly reserve0?: string;
  /** v2 pools only */
  readonly reserve1?: string;
  /** v3 pools only */
  readonly sqrtPriceX96?: string;
  /** v3 pools only: liquidity in range */
  readonly liquidity?: string;
  /** true for a pair on the curve of x³y + y³x */
  readonly stableCurve?: boolean;
  /** The pool's balance of the first token, if known; caps its depth */
  readonly balance0?: string;
  /** The pool's balance of the second token, if known; caps its depth */
  readonly balance1?: string;
  /** Block of the state */
  readonly block: number;
  /** Hash of that block */
  readonly blockHash: string;
  /** Transaction that set the state, if it comes from a log */
  readonly transactionHash?: string;
  /** Index of that log in its block */
  readonly logIndex?: number;
};

export type DisputedStablecoin = {
  /** The stablecoin, lower case */
  readonly address: string;
  /** Symbol of the stablecoin */
  readonly symbol: string;
  /** Its measured price in US dollars */
  readonly usdPrice: string;
};

export type ErrorBody = {
  /** The error and the allowed values, in words */
  readonly message: string;
  readonly code: ErrorCode;
  readonly details?: ErrorDetails;
};

export type ErrorCode =
  | "invalid_parameter"
  | "chain_not_enabled"
  | "missing_api_key"
  | "invalid_api_key"
  | "not_found"
  | "not_a_contract"
  | "no_pool"
  | "low_liquidity"
  | "not_a_token"
  | "unknown_decimals"
  | "no_price_at_block"
  | "method_not_allowed"
  | "not_indexed_yet"
  | "conflict"
  | "forbidden"
  | "cursor_reorged"
  | "upgrade_required"
  | "rate_limited"
  | "internal"
  | "chain_unavailable"
  | "log_unavailable"
  | "starting";

export type ErrorDetails = {
  /** Name of the invalid parameter */
  readonly parameter?: string;
  readonly pools?: readonly SkippedPool[];
  readonly [name: string]: unknown;
};

export type SkippedPool = {
  /** The pool */
  readonly pool: string;
  /** Display name of the exchange */
  readonly exchange: string;
  /** Reason to skip the pool */
  readonly reason: string;
  /** Its smaller side in US dollars */
  readonly liquidityUsd?: string;
  /** The liquidity floor that it is below */
  readonly minLiquidityUsd?: string;
  readonly [name: string]: unknown;
};

export type Health = {
  /** State of the process */
  readonly status: "live" | "ready";
};

export type CollectionEstimate = {
  /** Name of the chain */
  readonly chain: string;
  /** The contract */
  readonly address: string;
  /** Status of the collection; null if it was never requested. Then the costs are those of a reindex */
  readonly status: string | null;
  /** Name of the contract */
  readonly name: string;
  readonly blocks: EstimatedBlocks;
  readonly transfers: EstimatedRange;
  readonly calls: EstimatedCalls;
  readonly total: EstimatedRange;
  readonly units: EstimatedUnits;
  /** Until it is ready */
  readonly seconds: number;
  readonly limits: EndpointLimits;
  /** Calls that this estimate made */
  readonly probes: number;
  /** When it was made; it is kept for ten minutes */
  readonly time: string;
};

export type EstimatedRange = {
  /** At least */
  readonly low: number;
  /** At most; equal if it was counted, or follows from the blocks; null if nothing bounds it */
  readonly high: number | null;
};

export type EstimatedBlocks = {
  /** No transfer is before this block */
  readonly from: number;
  /** The history begins here at the latest: a few calls tell the deployment to some blocks */
  readonly fromAtLatest: number;
  /** The newest block */
  readonly to: number;
  /** Blocks to read from the first of them on */
  readonly count: number;
};

export type EstimatedCalls = {
  readonly [name: string]: EstimatedRange;
};

export type EstimatedUnits = {
  /** At least */
  readonly low: number;
  /** At most; null if nothing bounds it */
  readonly high: number | null;
  /** Name of the price list */
  readonly list: string;
};

export type EndpointLimits = {
  /** Blocks per request; null if no limit was met */
  readonly maxBlocks: number | null;
  /** Most blocks that it gave logs of at once; 0 if it gave none yet */
  readonly answered: number;
  /** Known from earlier work, or found by the estimate's own calls */
  readonly source: "known" | "probed";
  /** Several ranges fit into one request */
  readonly batch: boolean;
  /** Many reads of state are one call */
  readonly multicall: boolean;
};

export type ServiceStatus = {
  /** Id of this process */
  readonly instance: string;
  /** Version of the program */
  readonly version: string;
  /** Start of this process */
  readonly startedAt: string;
  readonly log: LogState;
  readonly memory: MemoryState;
  readonly leases: readonly LeaseState[];
  readonly chains: readonly ChainStatus[];
  /** What each key made the service ask of endpoints */
  readonly keys: readonly KeyUsage[];
  readonly collections: CollectionCounts;
  /** Collections that wait for work or have some */
  readonly queue: number;
};

export type KeyUsage = {
  /** Name of the key */
  readonly name: string;
  readonly calls: CallCounts;
  readonly units: HourAndDay;
};

export type LogState = {
  /** sqlite or postgres */
  readonly engine: string;
  /** On disk */
  readonly bytes: number;
  /** Left on the disk; null if the engine doesn't tell */
  readonly freeBytes: number | null;
  /** False if the log takes no appends */
  readonly writable: boolean;
  /** Time of the newest event */
  readonly lastAppendAt: string | null;
  /** How far this process is behind the log */
  readonly behindSeconds: number;
};

export type MemoryState = {
  /** Resident bytes of the process */
  readonly rss: number;
  /** Bytes of JavaScript objects */
  readonly heap: number;
  /** Bytes of collections in memory */
  readonly collections: number;
  /** Bytes of metadata in memory */
  readonly metadata: number;
};

export type LeaseState = {
  /** follow/<chain id>, metadata/<chain id> or index/<stream> */
  readonly what: string;
  /** Id of the process */
  readonly holder: string;
};

export type ChainStatus = {
  /** Name of the chain */
  readonly name: string;
  /** Id of the chain */
  readonly chainId: number;
  readonly head: {
    /** Block */
    readonly number: number;
    /** Its hash */
    readonly hash: string;
    /** Its time */
    readonly time: string;
  } | null;
  /** Newest final block */
  readonly finalized: number | null;
  /** idle: nothing is followed; the rest as the word says */
  readonly state: "following" | "idle" | "halted" | "unreachable" | "wrong_chain";
  /** When this process noticed the state */
  readonly since: string;
  readonly endpoints: readonly EndpointState[];
};

export type EndpointState = {
  /** Stands for the endpoint's URL in logs and metrics */
  readonly label: string;
  /** available, or the reason that other endpoints are preferred */
  readonly state: "unused" | "available" | "wrong_chain" | "lied" | "behind" | "paused" | "failed";
  /** The fault in words */
  readonly reason: string | null;
  /** Until then other endpoints are preferred */
  readonly restsUntil: string | null;
  readonly latencyMs: {
    /** Median in ms */
    readonly p50: number;
    /** 99th percentile in ms */
    readonly p99: number;
  } | null;
  readonly calls: CallCounts;
  readonly units: HourAndDay;
  readonly bytes: HourAndDay;
};

export type CallCounts = {
  readonly hour: MethodCounts;
  readonly day: MethodCounts;
};

export type MethodCounts = {
  readonly [name: string]: number;
};

export type HourAndDay = {
  /** Last 60 minutes */
  readonly hour: number;
  /** Last 24 hours */
  readonly day: number;
};

export type CollectionCounts = {
  /** Collections */
  readonly requested: number;
  /** Collections */
  readonly indexing: number;
  /** Collections */
  readonly joining: number;
  /** Collections */
  readonly following: number;
  /** Collections */
  readonly failing: number;
  /** Collections */
  readonly not_nft: number;
  /** Collections */
  readonly not_a_contract: number;
  /** Collections */
  readonly removed: number;
};

export type CollectionList = {
  /** Cursor of the next page; null on the last page */
  readonly cursor: string | null;
  readonly result: readonly ListedCollection[];
};

export type ListedCollection = {
  /** Name of the chain */
  readonly chain: string;
  /** The contract */
  readonly address: string;
  /** Name; null if the log doesn't tell yet */
  readonly name: string | null;
  /** Symbol */
  readonly symbol: string | null;
  /** ERC721, ERC1155, CRYPTOPUNKS or MOONCATS */
  readonly type: string | null;
  /** Progress of the indexing */
  readonly status:
    | "requested"
    | "indexing"
    | "joining"
    | "following"
    | "failing"
    | "not_nft"
    | "not_a_contract"
    | "removed";
  /** From 0 to 100; 100 only when complete */
  readonly percent: number | null;
  /** Transfers in the log */
  readonly transfers: number | null;
  /** Tokens, as they were last counted */
  readonly nfts: number | null;
  /** Since the start of the attempt; null while nothing is read */
  readonly transfersPerSecond: number | null;
  /** Estimate */
  readonly secondsLeft: number | null;
  /** First request */
  readonly requestedAt: string | null;
  /** Last completion */
  readonly finishedAt: string | null;
  /** Failed attempts in a row */
  readonly attempts: number;
  /** The last failure in words */
  readonly lastError: string | null;
  /** A block whose logs no endpoint tells without a contradiction; it is read again at nextTry */
  readonly inDoubt: {
    /** The block. The listing ends before it */
    readonly block: number;
    /** How the nodes' answers contradict themselves */
    readonly reason: string;
  } | null;
  /** Time of the next attempt */
  readonly nextTry: string | null;
  /** Calls to endpoints that indexing took */
  readonly calls: number | null;
  /** Bytes of its events */
  readonly bytes: number | null;
};

export type CollectionDetails = {
  /** Name of the chain */
  readonly chain: string;
  /** The contract */
  readonly address: string;
  /** Name; null if the log doesn't tell yet */
  readonly name: string | null;
  /** Symbol */
  readonly symbol: string | null;
  /** ERC721, ERC1155, CRYPTOPUNKS or MOONCATS */
  readonly type: string | null;
  /** Progress of the indexing */
  readonly status:
    | "requested"
    | "indexing"
    | "joining"
    | "following"
    | "failing"
    | "not_nft"
    | "not_a_contract"
    | "removed";
  /** From 0 to 100; 100 only when complete */
  readonly percent: number | null;
  /** Transfers in the log */
  readonly transfers: number | null;
  /** Tokens, as they were last counted */
  readonly nfts: number | null;
  /** Since the start of the attempt; null while nothing is read */
  readonly transfersPerSecond: number | null;
  /** Estimate */
  readonly secondsLeft: number | null;
  /** First request */
  readonly requestedAt: string | null;
  /** Last completion */
  readonly finishedAt: string | null;
  /** Failed attempts in a row */
  readonly attempts: number;
  /** The last failure in words */
  readonly lastError: string | null;
  /** A block whose logs no endpoint tells without a contradiction; it is read again at nextTry */
  readonly inDoubt: {
    /** The block. The listing ends before it */
    readonly block: number;
    /** How the nodes' answers contradict themselves */
    readonly reason: string;
  } | null;
  /** Time of the next attempt */
  readonly nextTry: string | null;
  /** Calls to endpoints that indexing took */
  readonly calls: number | null;
  /** Bytes of its events */
  readonly bytes: number | null;
  readonly flags: CollectionFlags;
  readonly metadata: MetadataHealth;
};

export type CollectionFlags = {
  /** The flag of the listing */
  readonly possibleSpam: boolean;
  /** The flag of the listing */
  readonly verifiedCollection: boolean;
  /** The rules behind the flags; null without a flag */
  readonly rule: string | null;
};

export type MetadataHealth = {
  /** Tokens with metadata */
  readonly resolved: number;
  /** Tokens that only failed so far */
  readonly failed: number;
  /** Tokens without any attempt; null if the tokens are not counted yet */
  readonly left: number | null;
  /** Failed tokens by the reason of the last attempt */
  readonly reasons: {
    readonly [name: string]: number;
  };
  /** Some of the failed tokens, at most 500 */
  readonly failedTokens: readonly string[];
};

export type IndexRequest = {
  /** The contracts to index */
  readonly items: readonly RequestedItem[];
};

export type RequestedItem = {
  /** Name or code of the chain; eth by default */
  readonly chain?: string;
  /** 20-byte hex */
  readonly address: string;
};

export type IndexAnswer = {
  readonly items: readonly IndexAnswerItem[];
};

export type IndexAnswerItem = {
  /** Name of the chain */
  readonly chain: string;
  /** The contract */
  readonly address: string;
  /** Status before this request; null if it was unknown */
  readonly before: string | null;
};

export type RefreshRequest = {
  /** All tokens by default */
  readonly tokenIds?: readonly string[];
};

export type KeyList = {
  readonly result: readonly Key[];
};

export type Key = {
  /** Name of the key */
  readonly name: string;
  /** read: the two operations; operate: everything */
  readonly scope: "read" | "operate";
  /** Keys of the environment can't be changed here */
  readonly source: "environment" | "log";
  /** Per replica */
  readonly requestsPerMinute: number;
  /** New collections an hour, per replica; null without a limit */
  readonly collectionsPerHour: number | null;
  /** Subscriptions at one time, per replica; null without a limit */
  readonly subscriptions: number | null;
  /** Null for keys of the environment and the first one */
  readonly createdAt: string | null;
  /** In this process, to the minute */
  readonly lastUse: string | null;
  /** In this process, since midnight UTC */
  readonly requestsToday: number;
};

export type KeyRequest = {
  /** 1 to 64 lower-case letters, digits, dots, hyphens or underscores */
  readonly name: string;
  /** read by default */
  readonly scope?: "read" | "operate";
  /** RATE_LIMIT_PER_MINUTE by default */
  readonly requestsPerMinute?: number;
  /** COLLECTIONS_PER_HOUR by default; for scope read */
  readonly collectionsPerHour?: number;
  /** SUBSCRIPTIONS_PER_KEY by default; for scope read */
  readonly subscriptions?: number;
};

export type RotateRequest = {
  /** How long the former text stays valid; a day by default */
  readonly graceSeconds?: number;
};

export type KeyText = {
  /** Name of the key */
  readonly name: string;
  /** The key's text. It is shown once and kept only as a hash */
  readonly key: string;
};

export type HolderList = {
  /** Number of owners */
  readonly total: number;
  readonly result: readonly Holder[];
  /** Cursor of the next page, at the same block; null on the last page */
  readonly cursor: string | null;
};

export type Holder = {
  /** 1 plus the number of owners that hold more units; owners with equal units share a rank */
  readonly rank: number;
  /** The owner */
  readonly owner: string;
  /** Number of token ids */
  readonly tokens: number;
  /** Sum of the amounts; for ERC-721 the number of tokens */
  readonly units: string;
  /** Part of all units, from 0 to 1 */
  readonly share: number;
};

export type TokenList = {
  readonly result: readonly NftRecord[];
  /** Cursor of the next page, at the same block; null on the last page */
  readonly cursor: string | null;
};

export type TokenDetails = {
  readonly record?: NftRecord;
  /** Newest first */
  readonly history: readonly TokenTransfer[];
  /** The newest attempts to fetch the metadata, newest first; on the first page only */
  readonly metadata: readonly MetadataOutcome[];
  /** Cursor of older transfers; null at the end */
  readonly cursor: string | null;
};

export type TokenTransfer = {
  /** Block of the transfer */
  readonly block: number;
  /** The sender; the zero address for a mint */
  readonly from: string;
  /** The receiver; the zero address for a burn */
  readonly to: string;
  /** 1, or an amount of an ERC-1155 token */
  readonly amount: string;
};

export type MetadataOutcome = {
  /** Time of the attempt */
  readonly time: string;
  /** Whether metadata was found */
  readonly outcome: "resolved" | "failed";
  /** Why it failed */
  readonly reason: string | null;
  /** Hash of the stored document; equal ones are the same */
  readonly hash: string | null;
};

export type TraitList = {
  /** Tokens in the collection */
  readonly of: number;
  /** Tokens whose metadata is known, as far as it is indexed */
  readonly indexed: number;
  /** True if there are more traits than are indexed or listed: counts may be too low */
  readonly truncated?: boolean;
  readonly result: readonly Trait[];
};

export type Trait = {
  /** Type of the trait */
  readonly type: string;
  /** Number of different values */
  readonly distinct: number;
  /** The most frequent values, at most 500 */
  readonly values: readonly TraitValue[];
};

export type TraitValue = {
  /** Value of the trait, as text */
  readonly value: string;
  /** Tokens with this value */
  readonly count: number;
};

export type PriceSeries = {
  /** Name of the chain */
  readonly chain: string;
  /** The token */
  readonly address: string;
  /** By block, the oldest first */
  readonly result: readonly SeriesPoint[];
};

export type SeriesPoint = {
  /** Block */
  readonly block: number;
  /** Time of the block */
  readonly time: string;
  /** US dollars for one whole token, as the price at that block has it; null without one */
  readonly usdPrice: number | null;
  /** The first pool of the price's route */
  readonly pool: string | null;
};

export type KnownToken = {
  /** Name of the chain */
  readonly chain: string;
  /** The token */
  readonly address: string;
  /** Symbol, as the chain's entry or the operator's list has it */
  readonly symbol: string;
  /** Name, as the operator's list has it; null if no list names the token */
  readonly name: string | null;
};

export type KnownTokenList = {
  readonly result: readonly KnownToken[];
};

/** The state of a collection: the first message of a subscription */
export type StatusMessage = {
  readonly type: "status";
  /** Name of the chain */
  readonly chain: string;
  /** The contract */
  readonly address: string;
  /** Version of the collection's stream. A message without a change repeats the last one */
  readonly version: number;
  /** Names the record of the version. A client that connects again sends it as since */
  readonly resume?: string;
  /** The status of the listing */
  readonly status: "SYNCING" | "SYNCED";
  /** Null before any block is read */
  readonly block: number | null;
  /** Progress of the backfill */
  readonly percent: number;
  /** Present while no endpoint tells the collection's logs of a block without a contradiction */
  readonly inDoubt?: {
    /** The block. Pages end before it */
    readonly block: number;
    /** How the nodes' answers contradict themselves */
    readonly reason: string;
  };
  /** Messages after since can't be sent again: read the listing anew */
  readonly gap?: true;
  /** Limits of this connection, in the answer to subscribe */
  readonly limits?: {
    /** Messages of the client in a second, above which the connection is closed with 1008 */
    readonly messagesPerSecond: number;
    /** Subscriptions of a connection. Open another one for more */
    readonly subscriptionsPerConnection: number;
    /** Subscriptions of the key over all connections to this process */
    readonly subscriptionsPerKey?: number;
    /** Bytes of a message of the client */
    readonly messageBytes: number;
    /** Bytes that the client leaves unread, above which the connection is closed with 1013 */
    readonly unreadBytes: number;
  };
};

/** Progress of the backfill, at most four times a second */
export type ProgressMessage = {
  readonly type: "progress";
  /** Name of the chain */
  readonly chain: string;
  /** The contract */
  readonly address: string;
  /** Version of the collection's stream. A message without a change repeats the last one */
  readonly version: number;
  /** Names the record of the version. A client that connects again sends it as since */
  readonly resume?: string;
  /** Progress of the backfill */
  readonly percent: number;
  /** Blocks that are not read yet */
  readonly blocksLeft: number;
  /** Transfers that are indexed */
  readonly transfers: number;
  /** Present if nothing has moved for a minute: the current step and the last request's error */
  readonly reason?: string;
};

/** The collection has finished indexing. Once for each connection and collection */
export type IndexedMessage = {
  readonly type: "indexed";
  /** Name of the chain */
  readonly chain: string;
  /** The contract */
  readonly address: string;
  /** Version of the collection's stream. A message without a change repeats the last one */
  readonly version: number;
  /** Names the record of the version. A client that connects again sends it as since */
  readonly resume?: string;
  /** Last block that was read */
  readonly block: number;
  /** Hash of that block */
  readonly hash: string;
  /** Tokens in circulation */
  readonly total: number;
};

/** New blocks moved tokens of the collection */
export type TransfersMessage = {
  readonly type: "transfers";
  /** Name of the chain */
  readonly chain: string;
  /** The contract */
  readonly address: string;
  /** Version of the collection's stream. A message without a change repeats the last one */
  readonly version: number;
  /** Names the record of the version. A client that connects again sends it as since */
  readonly resume?: string;
  /** Newest block with any of the transfers. Several blocks may share a message */
  readonly block: number;
  /** The tokens that moved */
  readonly tokenIds: readonly string[];
  /** More than 1,000 tokens moved */
  readonly truncated?: true;
};

/** Progress of the collection's metadata, at most once a second */
export type MetadataMessage = {
  readonly type: "metadata";
  /** Name of the chain */
  readonly chain: string;
  /** The contract */
  readonly address: string;
  /** Version of the collection's stream. A message without a change repeats the last one */
  readonly version: number;
  /** Names the record of the version. A client that connects again sends it as since */
  readonly resume?: string;
  /** Tokens with metadata */
  readonly resolved: number;
  /** Tokens that only failed so far */
  readonly failed: number;
  /** Tokens without any attempt */
  readonly left: number;
};

/** Blocks above the common ancestor left the canonical chain */
export type ReorgedMessage = {
  readonly type: "reorged";
  /** Name of the chain */
  readonly chain: string;
  /** The contract */
  readonly address: string;
  /** Version of the collection's stream. A message without a change repeats the last one */
  readonly version: number;
  /** Names the record of the version. A client that connects again sends it as since */
  readonly resume?: string;
  /** The common ancestor */
  readonly block: number;
  /** Hash of the common ancestor */
  readonly hash: string;
};

/** Indexing failed */
export type FailedMessage = {
  readonly type: "failed";
  /** Name of the chain */
  readonly chain: string;
  /** The contract */
  readonly address: string;
  /** Version of the collection's stream. A message without a change repeats the last one */
  readonly version: number;
  /** Names the record of the version. A client that connects again sends it as since */
  readonly resume?: string;
  /** indexing_failed, in_doubt or not_a_contract */
  readonly code: string;
  /** The cause, in words */
  readonly reason: string;
  /** Present while no endpoint tells the collection's logs of a block without a contradiction */
  readonly inDoubt?: {
    /** The block. Pages end before it */
    readonly block: number;
    /** How the nodes' answers contradict themselves */
    readonly reason: string;
  };
  /** Null if there is none */
  readonly nextTry: string | null;
};

/** The answer to unsubscribe */
export type UnsubscribedMessage = {
  readonly type: "unsubscribed";
  /** Name of the chain */
  readonly chain: string;
  /** The contract */
  readonly address: string;
};

/** A message of the client was refused, or could not be handled */
export type ErrorMessage = {
  readonly type: "error";
  /** Chain of the refused message, as the client wrote it if it is unknown */
  readonly chain?: string;
  /** Address of the refused message */
  readonly address?: string;
  /** Version of the collection's stream, if the collection is known */
  readonly version?: number;
  /** Names the record of the version */
  readonly resume?: string;
  /** One of invalid_parameter, chain_not_enabled, missing_api_key, invalid_api_key, not_found, not_a_contract, no_pool, low_liquidity, not_a_token, unknown_decimals, no_price_at_block, method_not_allowed, not_indexed_yet, conflict, forbidden, cursor_reorged, upgrade_required, rate_limited, internal, chain_unavailable, log_unavailable, starting */
  readonly code: string;
  /** The fault, and the way out */
  readonly message: string;
};

/** The answer to ping */
export type PongMessage = {
  readonly type: "pong";
};

/** Names of chains by their codes. */
export const CHAIN_NAMES: Readonly<Record<string, string>> = {
  "0x1": "eth",
  "0x5": "goerli",
  "0xaa36a7": "sepolia",
  "0x89": "polygon",
  "0x13881": "mumbai",
  "0x38": "bsc",
  "0x61": "bsc testnet",
  "0xa86a": "avalanche",
  "0xfa": "fantom",
  "0x2a15c308d": "palm",
  "0x19": "cronos",
  "0xa4b1": "arbitrum",
};

export type ServerMessage =
  | StatusMessage
  | ProgressMessage
  | IndexedMessage
  | TransfersMessage
  | MetadataMessage
  | ReorgedMessage
  | FailedMessage
  | UnsubscribedMessage
  | ErrorMessage
  | PongMessage;

export type MessageOf<T extends ServerMessage["type"]> = Extract<ServerMessage, { type: T }>;
