/** What the indexer tells its surroundings beside the log: for metrics and progress, never for decisions. */
import type { Address } from "../core/hex.ts";

export interface IndexingObserver {
  /** Logs under a known topic that do not decode. */
  malformed(chainId: number, count: number): void;
  /** Progress of a backfill: the block reached, out of the block it goes to. */
  progress(chainId: number, address: Address, at: { block: number; target: number; transfers: number }): void;
  completed(chainId: number, address: Address): void;
  failed(chainId: number, address: Address): void;
  /** The newest block that the node shows to the follower. */
  head(chainId: number, nodeHead: number): void;
  /** Logs that an endpoint left out of a followed block, found by a transfer that they explain. */
  omitted(chainId: number): void;
  reorg(chainId: number, depth: number): void;
  /** Whether a fork deeper than finality keeps the chain from being followed. */
  halted(chainId: number, isHalted: boolean): void;
}
