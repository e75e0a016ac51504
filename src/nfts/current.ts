/**
 * The collection a page is made of, at a moment when it and the chain as it is shown go together: what it holds must not
 * be of a branch that is not shown yet, and a walk that began in another process must find here what it found there.
 */
import { AppError } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { Collection } from "./collection.ts";
import { isBehind, type PageChain } from "./pages.ts";
import type { CollectionProjections } from "./projections.ts";

/** The followed chain, as far as it can be brought forward. */
export interface ShownChain extends PageChain {
  /** Resolves once that version is shown, or all there is. */
  catchUp(version: number): Promise<void>;
}

/** The snapshot of a walk under way. */
export interface WalkSnapshot {
  readonly block: number;
  readonly chainVersion: number;
}

/** Beyond it the chain moves faster than the log can be read. */
const MAX_ATTEMPTS = 8;

/**
 * The collection, to be read before anything else is awaited.
 * @param walk what a walk is true at: who made its first page may know a later branch, or more final blocks, than this
 *   process shows
 * @throws AppError `chain_moved`, to be tried again
 */
export async function currentCollection(
  { projections, chain }: { projections: CollectionProjections; chain: ShownChain },
  { chainId, address }: { chainId: number; address: Address },
  walk: WalkSnapshot | undefined,
): Promise<Collection> {
  if (walk !== undefined && chain.version < walk.chainVersion) {
    await chain.catchUp(walk.chainVersion);
    if (chain.version < walk.chainVersion) throw moved("the walk began where more of the chain is known");
  }
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    const collection = await projections.get(chainId, address);
    const isStale = walk !== undefined && attempt === 1 && isBehind(collection, walk.block);
    if (isStale) await projections.newest(chainId, address);
    else if (chain.version >= collection.chainVersion) return collection;
    else await chain.catchUp(collection.chainVersion);
  }
  throw moved("the chain moves too fast to be read");
}

const moved = (message: string): AppError => new AppError(message, { code: "chain_moved", retryable: true });
