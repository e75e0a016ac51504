/**
 * What the chain's one follower offers to those who want blocks: collections and prices both consume batches of new
 * blocks with the logs of the addresses they named, and hear of reverts. The follower asks the node once per poll for
 * all consumers together.
 */
import type { Address, Hash } from "../core/hex.ts";
import type { BlockRef, HeaderRef } from "../events/types.ts";
import type { ChainLog } from "../rpc/port.ts";

/** New canonical blocks, and in them all logs of the consumer's addresses with the consumer's topics, in order. */
export interface FollowBatch {
  readonly fromBlock: number;
  /** The new head. */
  readonly to: HeaderRef;
  /** Headers of the unfinalised blocks of the batch, the last being `to`; after a long gap the older ones are left out. */
  readonly headers: readonly HeaderRef[];
  readonly logs: readonly ChainLog[];
  /** Version of the chain's stream that the follower stands at: what is written goes by it. */
  readonly chainVersion: number;
}

export interface BlockConsumer {
  readonly name: string;
  /** First topics of the events wanted. */
  readonly topics: readonly Hash[];
  /** Contracts whose logs are wanted now; asked at each poll. */
  addresses(): readonly Address[];
  /** Called in chain order; the follower's head moves after it has resolved. May see a batch again after a crash. */
  apply(batch: FollowBatch): Promise<void>;
  /** Everything above the ancestor is gone; called before the blocks that replace it. */
  revert(ancestor: BlockRef, orphaned: readonly BlockRef[], chainVersion: number): Promise<void>;
}

/** The followed chain as readers see it. */
export interface ChainView {
  /** The followed head; undefined while the chain is not followed. */
  head(): HeaderRef | undefined;
  finalized(): BlockRef | undefined;
  /** The header of a recent unfinalised block the follower holds. */
  header(number: number): HeaderRef | undefined;
  /** False when the block is known to have left the canonical chain. */
  isCanonical(block: BlockRef): boolean;
}
