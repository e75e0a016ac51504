/**
 * The interface between a chain's follower and its consumers, collections and prices. Each consumer gets batches of new
 * blocks with the logs of its addresses, and reverts. The follower asks the node once per poll for all consumers.
 */
import type { Address, Hash } from "../core/hex.ts";
import type { BlockRef, HeaderRef } from "../events/types.ts";
import type { ChainLog } from "../rpc/port.ts";

/** New canonical blocks, with all logs of the consumer's addresses and topics, in order. */
export interface FollowBatch {
  readonly fromBlock: number;
  /** The new head. */
  readonly to: HeaderRef;
  /** Headers of the batch's unfinalised blocks, the last one being `to`. After a long gap older ones are left out. */
  readonly headers: readonly HeaderRef[];
  readonly logs: readonly ChainLog[];
  /** Version of the chain's stream at the follower. It guards the consumer's writes. */
  readonly chainVersion: number;
}

export interface BlockConsumer {
  readonly name: string;
  /** First topics of the requested events. */
  readonly topics: readonly Hash[];
  /** Contracts whose logs the consumer needs; read at each poll. */
  addresses(): readonly Address[];
  /** Called in chain order. The follower's head moves after it resolves. May get a batch again after a crash. */
  apply(batch: FollowBatch): Promise<void>;
  /** Called when all blocks above the ancestor are orphaned, before the blocks that replace them. */
  revert(ancestor: BlockRef, orphaned: readonly BlockRef[], chainVersion: number): Promise<void>;
}

/** The followed chain as readers see it. */
export interface ChainView {
  /** The followed head; undefined while the chain is not followed. */
  head(): HeaderRef | undefined;
  finalized(): BlockRef | undefined;
  /** The header of a recent unfinalised block, if the follower has it. */
  header(number: number): HeaderRef | undefined;
  /** False if the block is known to be orphaned. */
  isCanonical(block: BlockRef): boolean;
}

// Reports of the indexer for metrics and progress. No decision depends on them.

export interface IndexingObserver {
  /** Logs under a known topic that could not be decoded. */
  malformed(chainId: number, count: number): void;
  /** Progress of a backfill: the block reached, and the block where it ends. */
  progress(chainId: number, address: Address, at: { block: number; target: number; transfers: number }): void;
  completed(chainId: number, address: Address): void;
  failed(chainId: number, address: Address): void;
  /** The newest block that the node shows to the follower. */
  head(chainId: number, nodeHead: number): void;
  /** An endpoint omitted logs of a followed block; a later transfer revealed it. */
  omitted(chainId: number): void;
  reorg(chainId: number, depth: number): void;
  /** `isHalted` is true while a fork deeper than finality stops the follower. */
  halted(chainId: number, isHalted: boolean): void;
}
