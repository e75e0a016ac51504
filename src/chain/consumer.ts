/**
 * The interface between a chain's follower and its consumers: collections, prices, metadata. The follower asks the node
 * once per poll for all of them and delivers each change of the chain once, in order, to each.
 */
import type { Chain } from "../chains/chains.ts";
import type { Clock } from "../core/clock.ts";
import type { Address, Hash } from "../core/hex.ts";
import type { Logger } from "../core/logger.ts";
import type { BlockRange, BlockRef, HeaderRef } from "../events/types.ts";
import type { EventLog } from "../log/event-log.ts";
import type { BlockHeader, ChainLog, LogsInDoubt, Verify } from "../rpc/port.ts";
import type { RpcChainReader } from "../rpc/reading/reader.ts";
import type { HeaderBounds } from "./kept-headers.ts";
import type { Leases } from "./lease.ts";

/** New canonical blocks, with the logs of all consumers' addresses and topics, in order. `logsFor` selects a consumer's own. */
export interface AdvancedBlocks {
  readonly type: "advanced";
  readonly fromBlock: number;
  /** The new head. */
  readonly to: HeaderRef;
  /** Headers of blocks up to `to`, linked to each other. They include each block with logs that may still be reverted. */
  readonly headers: readonly BlockHeader[];
  readonly logs: readonly ChainLog[];
  /** Contracts whose logs are left out, because the endpoints' answers about them contradict each other. */
  readonly doubts: readonly LogsInDoubt[];
}

/** All blocks above the ancestor are orphaned. The blocks that replace them come afterwards. */
interface RevertedBlocks {
  readonly type: "reverted";
  readonly ancestor: BlockRef;
  /** The orphaned blocks that were unfinalised, lowest first. */
  readonly orphaned: readonly BlockRef[];
}

export type ChainChange = AdvancedBlocks | RevertedBlocks;

/** The chain as the follower has recorded it. The object is live: it moves with the chain's stream. */
export interface FollowedChain {
  /** Version of the chain's stream. It guards the consumers' writes: those of a former follower are refused. */
  readonly version: number;
  readonly head: HeaderRef | undefined;
  readonly finalized: BlockRef | undefined;
  /** Headers of the final block, the head, and the blocks between that were read and are kept, by number. */
  readonly headers: ReadonlyMap<number, HeaderRef>;
  /** Numbers of orphaned blocks, by hash. */
  readonly orphaned: ReadonlyMap<Hash, number>;
}

export interface ChainConsumer {
  readonly name: string;
  /** First topics of the requested events. */
  readonly topics: readonly Hash[];
  /** Contracts whose logs the consumer needs; read at each poll. */
  addresses(): readonly Address[];
  /** True if the consumer needs the chain's blocks now. A consumer without it only reads blocks that another one needs. */
  needsBlocks?(): boolean;
  /** True if the consumer holds a block above this one that it must compare with the followed branch. */
  holdsAbove?(block: number): boolean;
  /** This process follows the chain from now on, or again after an interruption. Reload from the log. */
  begin?(chain: FollowedChain): Promise<void>;
  /** The follower begins the chain at the last of these headers, which are linked and in order. */
  saw?(headers: readonly BlockHeader[]): void;
  /**
   * Takes a change. The head of the chain's stream moves forward after `advanced` resolves, and back before `reverted`
   * is delivered. `advanced` may come again after a crash.
   */
  apply(change: ChainChange): Promise<void>;
  /** Called at the start of each poll, for writes that need no node. */
  prepare?(): Promise<void>;
  /** Called once the poll has reached the head. Returns false if some work needs a newer head. */
  atHead?(head: HeaderRef): Promise<boolean>;
  /** Receipts show that a contract's logs of these followed blocks were false or incomplete. */
  suspected?(contract: Address, blocks: BlockRange): void;
  /** Called when no poll has succeeded for a while. */
  stalled?(reason: string): void;
}

/** The followed chain as readers see it. */
export interface ChainView {
  /** Version of the chain's stream that is shown. */
  readonly version: number;
  /** The followed head; undefined while the chain is not followed. */
  head(): HeaderRef | undefined;
  finalized(): BlockRef | undefined;
  /** The header of a recent unfinalised block, if the follower has it. */
  header(number: number): HeaderRef | undefined;
  /**
   * False if the block is known to be orphaned, or may be, because its header is not kept and a reorganisation went below
   * it. @param since version of the chain's stream at which the block was canonical, if the caller knows it
   */
  isCanonical(block: BlockRef, since?: number): boolean;
}

/** Reports of one chain's indexing, for metrics. No decision depends on them. */
export interface IndexingObserver {
  /** Logs under a known topic that could not be decoded. */
  malformed(count: number): void;
  /** A collection was completed, or an attempt to index one failed. */
  completed(): void;
  failed(): void;
  /** The newest block that the node shows to the follower. */
  head(nodeHead: number): void;
  /** An endpoint omitted logs of a followed block; a later transfer revealed it. */
  omitted(): void;
  reorg(): void;
  /** `isHalted` is true while a fork deeper than finality stops the follower. */
  halted(isHalted: boolean): void;
}

/** Bounds of the memory that following takes. */
export interface FollowBounds {
  readonly headers: HeaderBounds;
  /** Most blocks that a collection reads in one part when it joins the head. */
  readonly joinPart: number;
}

/** The parts that the follower, the jobs and the collections of a chain share. */
export interface ChainWork {
  readonly chain: Chain;
  readonly log: EventLog;
  readonly reader: RpcChainReader;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly observer: IndexingObserver;
  /** The leases of this process. */
  readonly leases: Leases;
  /** How strictly logs are checked. */
  readonly verify: Verify;
  /** Set by the simulation, whose chains are short. */
  readonly bounds?: FollowBounds | undefined;
}
