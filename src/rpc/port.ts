/**
 * The chain-reader port: what the rest of the program may ask of a chain. Implemented over ethers and an endpoint pool
 * (`rpc/reader.ts`) and by the simulated chain of the tests. Everything it returns has passed `verify`: lower case,
 * inside the asked range, of the asked addresses.
 */
import type { Address, Hash } from "../core/hex.ts";
import type { BlockRef, HeaderRef } from "../events/types.ts";
import type { Endpoint } from "./endpoint.ts";

export interface BlockHeader extends HeaderRef {
  /** 256 bytes of bloom filter over addresses and topics of the block's logs, hex with 0x. */
  readonly logsBloom: string;
}

export interface ChainLog {
  readonly address: Address;
  readonly topics: readonly Hash[];
  /** Hex with 0x. */
  readonly data: string;
  readonly blockNumber: number;
  readonly blockHash: Hash;
  readonly transactionHash: Hash;
  readonly logIndex: number;
}

export interface LogFilter {
  /** Any of these; an empty list means any address. */
  readonly addresses: readonly Address[];
  /** Any of these as the first topic; an empty list means any. */
  readonly topics: readonly Hash[];
  readonly fromBlock: number;
  /** Inclusive. */
  readonly toBlock: number;
  /** Logs that whoever asks has room for; any number unless told. */
  readonly most?: number;
}

export interface Call {
  readonly to: Address;
  /** Hex with 0x. */
  readonly data: string;
}

/** A call's outcome; `ok` false: it reverted, or ran out of gas. */
export interface CallResult {
  readonly ok: boolean;
  /** Return data, or revert data, hex with 0x. */
  readonly data: string;
}

/** Calls' outcomes, and the header of the block that they are of. */
export interface CallsAtHead {
  readonly header: BlockHeader;
  readonly results: CallResult[];
}

/** What is there, or will be: what needs it asks for its own part meanwhile. */
export type MaybeLater<T> = T | Promise<T>;

/** Where a state read looks: a block's number, or the newest block. */
export type BlockTag = number | "latest";

export interface Tips {
  readonly head: BlockHeader;
  readonly finalized: BlockHeader;
  /** Who has shown both, where that was one. */
  readonly shownBy?: Endpoint;
}

export interface CompleteLogsOptions {
  /** Every block a bloom speaks of is read from its receipts, whether logs of it came or not. */
  readonly strict?: boolean;
  /** Numbers of blocks that are read from their receipts, too, where an endpoint has them. */
  readonly sampled?: ReadonlySet<number>;
  /**
   * A block that whoever gives logs must have, where the headers do not cover the range: one that is behind leaves out what
   * it does not know yet, and does not say so.
   */
  readonly reaching?: BlockRef | undefined;
}

export interface ChainReader {
  readonly chainId: number;

  /** The newest block. @throws AppError `chain_unavailable` when no endpoint answers (as all of these) */
  head(): Promise<BlockHeader>;

  /** The newest finalised block by the node's tag, or by depth where the tag is refused or the operator set one. */
  finalized(head: BlockHeader): Promise<BlockHeader>;

  /** The newest block and the newest finalised one, in one round trip where the node knows the tag. */
  tips(): Promise<Tips>;

  /** The canonical block of that number; undefined above the head, when nobody has it. */
  header(number: number): Promise<BlockHeader | undefined>;

  /**
   * Many headers in one round trip, in the order asked; undefined for a block that the endpoint lacks.
   * @param isKnown the blocks were shown before: an endpoint that lacks one is behind, and the request is tried again
   */
  headers(numbers: readonly number[], isKnown?: boolean): Promise<(BlockHeader | undefined)[]>;

  /**
   * Whether any endpoint that answers has this block on its branch. Where one has, those with another block in its place
   * rest for a while: they are behind on a branch that lost.
   */
  anyHolds(block: BlockRef): Promise<boolean>;

  /**
   * Asks everybody for the newest block and has those rest for a while that are behind the furthest one, so that others
   * are asked next. Whether there are such; at no cost where there is one endpoint only.
   * @param known which of two blocks that are equally far counts
   */
  passOverLaggards(known: BlockRef): Promise<boolean>;

  /**
   * All matching logs in chain order. Splits the range as the provider demands; one `eth_getLogs` when it does not.
   * Small ranges only: the backfill has a path of its own that decodes off this thread.
   * @throws AppError `too_many_logs` once there are more than the filter says
   */
  logs(filter: LogFilter): Promise<ChainLog[]>;

  /**
   * As `logs`, and complete as far as the headers can tell: where a header's bloom speaks of an address without a log
   * here, the block's receipts decide, or a second endpoint where there are none.
   * @param headers of the blocks to check, perhaps still to come; the others of the range are read as by `logs`
   */
  completeLogs(
    filter: LogFilter,
    headers: MaybeLater<readonly BlockHeader[]>,
    options?: CompleteLogsOptions,
  ): Promise<ChainLog[]>;

  /**
   * Many calls against one block in one round trip: through Multicall3 where the chain has it, else a JSON-RPC batch.
   * @throws AppError code `state_unavailable` when the node does not have that block's state
   */
  calls(calls: readonly Call[], block: BlockTag): Promise<CallResult[]>;

  /**
   * As `calls` at the newest block, with the header of the very block they were answered at, in the same round trip.
   */
  callsAtHead(calls: readonly Call[]): Promise<CallsAtHead>;

  /** Contract code, hex with 0x; `0x` when there is none. @throws AppError `state_unavailable` as `calls` */
  code(address: Address, block: BlockTag): Promise<string>;

  /** Transactions sent from the address, at the newest block. */
  transactionCount(address: Address): Promise<number>;
}
