/**
 * The chain-reader port: what the other folders may ask of a chain. Implemented over ethers and an endpoint pool
 * (`reading/reader.ts`) and by the simulated chain of the tests. Everything that it returns has passed `verify`: it is
 * lower case, and belongs to the requested range and addresses.
 */
import type { Address, Hash } from "../core/hex.ts";
import type { BlockRange, BlockRef, CallCounts, HeaderRef, TransferForm } from "../events/types.ts";

export interface BlockHeader extends HeaderRef {
  /**
   * Bloom filter of 256 bytes over addresses and topics of the block's logs, hex with 0x. With `settledHeight`, over
   * those of the blocks that it settles.
   */
  readonly logsBloom: string;
  /** Root of the same blocks' receipts; absent if the node doesn't tell it. */
  readonly receiptsRoot?: Hash;
  /**
   * The newest block that this header settles (ACP-194). Its bloom and root are those of the blocks above the one that
   * its parent settles, up to here. Absent where each header has the bloom and root of its own block.
   */
  readonly settledHeight?: number;
  /** True if its fields make its hash; absent if that was not looked at. */
  readonly isHashed?: boolean;
}

export interface ChainLog {
  readonly address: Address;
  readonly topics: readonly Hash[];
  /** Hex with 0x. */
  readonly data: string;
  readonly blockNumber: number;
  readonly blockHash: Hash;
  readonly transactionHash: Hash;
  /** Index of its transaction in the block; 0 for all logs of an answer if the node doesn't tell it. */
  readonly transactionIndex: number;
  /** Index in the block. Some nodes give one index to two logs of different transactions. */
  readonly logIndex: number;
}

/** Logs of a contract that can't be read: all endpoints, and the block's receipts, contradict themselves about them. */
export interface LogsInDoubt {
  readonly contract: Address;
  readonly block: number;
  /** The last answer's fault, in words. */
  readonly reason: string;
}

export type MoreTopics = readonly (readonly Hash[] | undefined)[];

/** True if the topics after a log's first one are among those that are asked for. */
export const hasMoreTopics = (
  topics: readonly string[],
  wanted: readonly (readonly string[] | undefined)[] = [],
): boolean => wanted.every((some, at) => some?.includes(topics[at + 1] ?? "") !== false);

/** Which logs are wanted of a block: contracts and topics in lower case. */
export interface Watched {
  /** Any of these; an empty list means any address. */
  readonly addresses: readonly Address[];
  /** Any of these as the first topic; an empty list means any. */
  readonly topics: readonly Hash[];
  /** For each topic after the first, any of these; undefined for any. */
  readonly moreTopics?: MoreTopics;
}

export interface LogFilter extends Watched, BlockRange {
  /** Most logs that the caller has room for. Default: no limit. */
  readonly maxLogs?: number;
  /** Requests that this read may still make. It counts them down. Default: no limit. */
  readonly requests?: { left: number };
  /** Called if an archive tells the logs of a part of the range. What it leaves out, no single log shows: see `check`. */
  readonly onArchived?: (part: ArchivedPart) => void;
}

/** A range of which an archive told the logs, in place of the node. */
export interface ArchivedPart extends BlockRange {
  /** The archive, as logs and errors name it: `archive eth#1`. */
  readonly label: string;
  /** True if another archive told the very same logs. */
  readonly isWitnessed: boolean;
  /**
   * Compares claims with the node, from their newest blocks on, as far as few requests reach.
   * @param allowance of several checks together, which leave out claims that are not within reach
   * @returns for each claim the block from which on it is confirmed, up to its end; above its end if nothing is
   * @throws ArchiveDisprovedError if the node has other logs. The archive then rests: read again
   */
  check(claims: readonly LogClaim[], allowance?: CheckAllowance): Promise<readonly number[]>;
}

/** Requests for logs that several checks may still make together. Each counts them down. */
export interface CheckAllowance {
  left: number;
}

/** What an archive says by leaving out all other logs: these are all logs of the contract in the range. */
export interface LogClaim extends Watched, BlockRange {
  /** In chain order. */
  readonly logs: readonly ChainLog[];
}

export interface Call {
  /**
   * Undefined to run the data as the creation code of a contract, and to take what it returns in place of code. That must
   * begin with a word that is the number of the block; the result is what follows.
   */
  readonly to: Address | undefined;
  /** Hex with 0x. */
  readonly data: string;
  /**
   * Calls of contracts that nobody vouches for: those with the same name here run apart from all other calls, with little
   * gas, which also limits their answers. If it is not enough, all of them fail.
   */
  readonly apart?: string;
  /** True for getters that answer shortly with little gas. A contract that doesn't counts as costly: see `isCostly`. */
  readonly isGetter?: boolean;
  /** True for a getter of a long text, such as a token's document. It gets more gas than other getters, and even more alone. */
  readonly isText?: boolean;
  /** True for a getter of a contract of which nothing is known yet, one of many: each gets little gas and a short answer. */
  readonly isNew?: boolean;
}

/** The beginning of an account's code. */
export interface CodeStart {
  readonly bytes: number;
  /** The first three bytes in hex without 0x, zeroes where the code is shorter. */
  readonly start: string;
}

/** A call on state in which some accounts have this code and balance in place of their own. */
export interface OverriddenCall {
  readonly from: Address;
  readonly to: Address;
  /** Hex with 0x. */
  readonly data: string;
  readonly accounts: Readonly<Record<Address, { readonly code: string; readonly balance: bigint }>>;
}

/** A transaction of an account, as wallets send them. */
export interface SimulatedTransaction {
  readonly from: Address;
  readonly to: Address;
  /** Hex with 0x. */
  readonly data: string;
  /** Wei. Default: 0. */
  readonly value?: bigint;
  readonly gas: number;
}

/** A block on top of a real one, or of another simulated one. Its number and time may leave a gap to the block below. */
export interface SimulatedBlock {
  readonly number: number;
  /** Seconds. */
  readonly timestamp: number;
  /** Accounts that have this code or balance from this block on. */
  readonly accounts?: Readonly<Record<Address, { readonly code?: string; readonly balance?: bigint }>>;
  readonly transactions: readonly SimulatedTransaction[];
}

/** A call's outcome. `ok` is false if it reverted or ran out of gas. */
export interface CallResult {
  readonly ok: boolean;
  /** Return data, or revert data, hex with 0x. */
  readonly data: string;
  /**
   * What it needed more of than it was given: gas, alone or beside the calls of its batch, or bytes for its answer. Then its
   * failure says nothing about what the contract would answer. Undefined also where the endpoint doesn't tell.
   */
  readonly exceeds?: "gas" | "bytes";
}

/** Results of calls, and the header of the block at which they ran. */
export interface CallsAtHead {
  readonly header: BlockHeader;
  readonly results: CallResult[];
}

/** The block of a state read: a number, or the newest block. */
export type BlockTag = number | "latest";

export interface Tips {
  readonly head: BlockHeader;
  readonly finalized: BlockHeader;
  /** The endpoint that showed both blocks, if it was the same one. */
  readonly shownBy?: Endpoint;
}

/** The newest block of the endpoint that showed it. */
export interface Newest {
  readonly head: BlockHeader;
  readonly shownBy?: Endpoint;
}

/** The blocks above one block up to another. */
interface Stretch {
  readonly below: BlockRef;
  readonly head: BlockHeader;
  /** The endpoint that showed the head. Another one is asked for the head before its logs count. */
  readonly shownBy?: Endpoint | undefined;
}

/** The contracts and topics of a `LogFilter`, for the blocks of a stretch. */
export interface StretchFilter extends Pick<LogFilter, "addresses" | "topics">, Pick<CompleteLogsOptions, "onDoubt"> {
  readonly stretch: Stretch;
}

export interface CompleteLogsOptions {
  /** Reads every block that a bloom names from its receipts, even if logs of it came. */
  readonly strict?: boolean;
  /**
   * Where one bloom is over several blocks and names an address, reads the receipts of all unless each has a log of it.
   * Otherwise a log in one of them explains the bloom.
   */
  readonly isByBlock?: boolean;
  /** Numbers of blocks that are also checked against their receipts, if an endpoint has them. */
  readonly sampled?: ReadonlySet<number>;
  /** Called if an endpoint left out logs. */
  readonly onMissed?: () => void;
  /**
   * Called for a contract without a usable answer about a block. The result then has none of its logs. Default: the
   * read fails with `LogsInDoubtError`.
   */
  readonly onDoubt?: ((doubt: LogsInDoubt) => void) | undefined;
  /**
   * A block that the answering endpoint must have, if the headers do not cover the range. An endpoint that is behind
   * omits newer logs without an error.
   */
  readonly requiredBlock?: BlockRef | undefined;
}

export interface ChainReader {
  readonly chainId: number;

  /** Returns the newest block. @throws AppError `chain_unavailable` if no endpoint answers, like all methods here */
  head(): Promise<BlockHeader>;

  /** Like `head`, with the endpoint that showed it. */
  newest(): Promise<Newest>;

  /** Returns the newest final block: by the node's tag, or by depth if the tag is refused or a depth is set. */
  finalized(head: BlockHeader): Promise<BlockHeader>;

  /** Returns the newest block and the newest final one, in one round trip if the node knows the tag. */
  tips(): Promise<Tips>;

  /** Returns the canonical block of that number. Undefined above the head of every endpoint. */
  header(number: number): Promise<BlockHeader | undefined>;

  /** Reads many headers in one round trip, in the requested order. Undefined for a block that the endpoint lacks. */
  headers(numbers: readonly number[]): Promise<(BlockHeader | undefined)[]>;

  /** Like `headers`, for blocks that were shown before. An endpoint that lacks one is behind; the read is retried. */
  presentHeaders(numbers: readonly number[]): Promise<BlockHeader[]>;

  /**
   * True if any endpoint has this block on its branch. Then benches the endpoints that have another block in its place:
   * they are on an orphaned branch.
   */
  anyHolds(block: BlockRef): Promise<boolean>;

  /**
   * Asks all endpoints for their newest block and benches those that are behind the furthest one. True if there are
   * any. Makes no request if the chain has only one endpoint.
   * @param known the block that wins between two equally advanced heads
   */
  benchLaggards(known: BlockRef): Promise<boolean>;

  /**
   * Returns all matching logs in chain order. Splits the range only if the provider demands it. For small ranges: the
   * backfill has its own path that decodes off this thread.
   * @throws AppError `too_many_logs` above the filter's limit
   */
  logs(filter: LogFilter): Promise<ChainLog[]>;

  /**
   * Like `logs`, and complete as far as headers can prove it. If a header's bloom names an address without a log here,
   * the block's receipts decide, or a second endpoint if there are no receipts.
   * @param headers of the blocks to check; a promise lets the reader start its own requests before. The range's other
   * blocks are read like by `logs`.
   */
  completeLogs(
    filter: LogFilter,
    headers: readonly BlockHeader[] | Promise<readonly BlockHeader[]>,
    options?: CompleteLogsOptions,
  ): Promise<ChainLog[]>;

  /**
   * Returns the logs of a stretch without reading the headers within it. The endpoint must have both of its ends on its
   * branch while it answers; undefined if it has not. Only the head's bloom is checked.
   */
  logsOfStretch(filter: StretchFilter): Promise<ChainLog[] | undefined>;

  /**
   * Runs many calls at one block in one round trip: through Multicall3 if the chain has it, else as a JSON-RPC batch.
   * @throws AppError `state_unavailable` if the node does not have that block's state
   */
  calls(calls: readonly Call[], block: BlockTag): Promise<CallResult[]>;

  /**
   * Like `calls` at a block that was shown before, by an endpoint that has this very block.
   * @throws AppError `chain_unavailable` if no endpoint has it
   */
  callsAtBlock(calls: readonly Call[], block: BlockRef): Promise<CallsAtHead>;

  /**
   * True if the calls of this contract took so much gas, or gave such long answers, that they run apart for a while. Read
   * such a contract rarely.
   */
  isCostly(address: Address): boolean;

  /** Like `calls` at the newest block. Returns the header of the block at which they ran, in the same round trip. */
  callsAtHead(calls: readonly Call[]): Promise<CallsAtHead>;

  /**
   * Runs one call on overridden state at a block, for at most 5 s; a failure is retried once. Undefined if no endpoint
   * takes overrides.
   * @throws AppError `state_unavailable` like `calls`, `rpc_late` after that time
   */
  callOverridden(call: OverriddenCall, block: number): Promise<CallResult | undefined>;

  /**
   * Runs transactions in a row on top of a block by one `eth_simulateV1`, for at most 5 s; a failure is retried once.
   * Returns the outcome of each, those of all blocks in one list. Undefined if no endpoint ran them.
   * @throws AppError `state_unavailable` like `calls`, `rpc_late` after that time
   */
  simulate(blocks: readonly SimulatedBlock[], block: number): Promise<readonly CallResult[] | undefined>;

  /** Returns contract code, hex with 0x; `0x` if there is none. @throws AppError `state_unavailable` like `calls` */
  code(address: Address, block: BlockTag): Promise<string>;

  /** For each address the number of bytes of its newest code, and the first three of them, by as few calls as possible. */
  codes(addresses: readonly Address[]): Promise<CodeStart[]>;

  /** Returns the number of transactions sent from the address, at the newest block. */
  transactionCount(address: Address): Promise<number>;
}

/** The NFT transfers of a contract in a range of blocks, and the forms in which they read. */
export interface TransferFilter extends BlockRange {
  readonly address: Address;
  readonly forms: readonly TransferForm[];
}

/** Tells the decoder what it reads from an answer. */
export interface DecodeJob extends TransferFilter {
  /** Set if the answer is that of a batch. */
  readonly batch?: BatchIds;
  /** True if the answer is an archive's. */
  readonly isArchives?: boolean;
  /** True if headers of the chain have the blooms of other blocks (`BlockHeader.settledHeight`). */
  readonly isSettling?: boolean;
}

/** A range whose logs are requested as one element of a batch. */
export interface BatchPart extends BlockRange {
  readonly id: number;
}

/** Transfers of a range of blocks, in the columns of `TransfersCommitted`. */
export interface DecodedRange {
  readonly transfers: Uint8Array;
  readonly count: number;
  readonly malformed: number;
  /** Logs in the answer, including those that are not transfers. */
  readonly logs: number;
  /** Number and hash of the newest block that holds a log. */
  readonly lastBlock: number | undefined;
  readonly lastHash: string | undefined;
}

/** The blocks of a part that hold a log, in rising order: one entry per block in each column. */
export interface TouchedBlocks {
  readonly numbers: Uint32Array;
  /** 32 bytes per block. */
  readonly hashes: Uint8Array;
  /** The receipts' root, 32 bytes per block; zero where the source didn't tell it. */
  readonly receiptsRoots: Uint8Array;
  /** 1 for a block whose header fields hash to its hash, so that its receipts' root and its bloom belong to that hash. */
  readonly isHashed: Uint8Array;
}

/** Transfers as an archive tells them. */
export interface ArchivedRange extends DecodedRange {
  /** The last block up to which the answer is complete, and its hash. */
  readonly coveredThrough: number;
  readonly toHash: Hash;
  readonly touched: TouchedBlocks;
}

/** The elements of a batch: ranges of logs in rising order, and the ids of the requests for headers. */
export interface BatchIds {
  readonly logs: readonly BatchPart[];
  readonly headers: readonly number[];
}

/** Decoded logs of consecutive ranges, and the requested headers. A header that the endpoint lacks is undefined. */
export interface PartsAnswer {
  readonly decoded: DecodedRange;
  readonly headers: readonly (BlockHeader | undefined)[];
}

/** What one endpoint was used for since the start of this process. */
export interface EndpointUsage {
  counts(): CallCounts;
  /** Percentiles of the newest latencies in ms; null without an answer. */
  latencyMs(): { readonly p50: number; readonly p99: number } | null;
}

/** Consecutive blocks, with the bloom and the receipts' root over all of them. */
export interface BloomedBlocks {
  /** In rising order; at least one. */
  readonly blocks: readonly BlockHeader[];
  /** Hex with 0x. Undefined if no header has the bloom of these blocks yet. */
  readonly logsBloom: string | undefined;
  readonly receiptsRoot: Hash | undefined;
}

/** One endpoint as the pool uses it. Implemented over ethers by `provider.ts`, and by the simulation. */
export interface Endpoint {
  /** Replaces the URL in logs, metrics and errors: `eth#1`. */
  readonly label: string;
  /** Sends one request and returns the answer's `result`. @throws RpcError */
  request(method: string, params: unknown[]): Promise<unknown>;
  /** Requests the logs of the filter and decodes their transfers. @throws RpcError */
  transfers(filter: TransferFilter, signal: AbortSignal): Promise<DecodedRange>;
  /**
   * Like `transfers`, for consecutive parts of the range and the headers of some blocks in one request, so that one
   * node answers both. The request asks for the first header before the logs and for the others after them. Undefined
   * while the endpoint refuses batches.
   * @throws RpcError, of kind `range` if one range, or all of them together, are too large
   */
  readonly transfersInParts?:
    | ((
        filter: TransferFilter,
        parts: readonly BlockRange[],
        headers: readonly number[],
        signal: AbortSignal,
      ) => Promise<PartsAnswer>)
    | undefined;
  /** The node's chain id, if it is not the expected one. */
  readonly otherChainId?: number | undefined;
  /** What it was used for. */
  readonly usage?: EndpointUsage;
  destroy(): void;
}

/**
 * How strictly logs are checked. `sample`: 1 % of ranges against a second endpoint. `headers`: every block without a
 * log against its header's bloom. `receipts`: every block that the bloom names against its receipts.
 */
export type Verify = "sample" | "headers" | "receipts";
