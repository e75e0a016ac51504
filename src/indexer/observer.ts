/** Reports of the indexer for metrics and progress. No decision depends on them. */
import type { Address } from "../core/hex.ts";

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
