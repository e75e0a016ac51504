/**
 * Returns a collection at a moment when it and the visible chain agree. The collection must not contain blocks of a
 * branch that is not visible yet, and must contain the blocks of a walk that began on another replica.
 */
import { AppError } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { BlockRef } from "../events/types.ts";
import type { Collection } from "./collection.ts";
import type { HotCollections } from "./hot-collections.ts";

/** The visible chain, with a way to bring it forward. */
export interface ShownChain extends PageChain {
  /** Resolves once that version is visible, or the log has no more. */
  catchUp(version: number): Promise<void>;
}

/** The snapshot of a walk in progress. */
interface WalkSnapshot {
  readonly block: number;
  readonly chainVersion: number;
}

/** After so many, the chain changes faster than this replica reads the log. */
const MAX_ATTEMPTS = 8;

/**
 * Returns the collection. The caller must read it before its next await.
 * @param walk the snapshot of a walk. The replica that served its first page may know a later branch, or more final
 *   blocks, than this one
 * @throws AppError `chain_moved`, retryable
 */
export async function currentCollection(
  { projections, chain }: { projections: HotCollections; chain: ShownChain },
  { chainId, address }: { chainId: number; address: Address },
  walk: WalkSnapshot | undefined,
): Promise<Collection> {
  if (walk !== undefined && chain.version < walk.chainVersion) {
    await chain.catchUp(walk.chainVersion);
    if (chain.version < walk.chainVersion) throw moved("this replica has not read the chain version of the cursor yet");
  }
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    const collection = await projections.get(chainId, address);
    const isStale = walk !== undefined && attempt === 1 && isBehind(collection, walk.block);
    if (isStale) await projections.newest(chainId, address);
    else if (chain.version >= collection.chainVersion) return collection;
    else await chain.catchUp(collection.chainVersion);
  }
  throw moved("the chain changes faster than this replica reads the log");
}

const moved = (message: string): AppError => new AppError(message, { code: "chain_moved", retryable: true });

/** The part of the followed chain that pages use. */
export interface PageChain {
  /** Version of the chain's stream that clients see. */
  readonly version: number;
  head(): BlockRef | undefined;
  finalized(): BlockRef | undefined;
  header(number: number): (BlockRef & { readonly timestamp?: number }) | undefined;
  isCanonical(block: BlockRef): boolean;
}

/** The newest block the listing is valid for: the followed head if synced, else the block the backfill has reached. */
export function currentBlock(collection: Collection, chain: PageChain): BlockRef | undefined {
  const { status, end, completed } = collection;
  if (status !== "synced") return end;
  return chain.head() ?? end ?? completed;
}

/** True if the collection has not reached the block: another process may be ahead, or a crash set this one back. */
export function isBehind({ status, end }: Collection, block: number): boolean {
  return status === "syncing" && (end?.number ?? -1) < block;
}
