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
  /** Version of the chain's stream that is shown. */
  readonly version: number;
  /** Resolves once that version is shown, or all there is. */
  catchUp(version: number): Promise<void>;
  /** Resolves once a block of that number is shown, where the log has it. */
  reach(block: number): Promise<void>;
}

/** Beyond it the chain moves faster than the log can be read. */
const MAX_ATTEMPTS = 8;

/**
 * The collection, to be read before anything else is awaited.
 * @param cursorBlock the block a walk is true at
 * @throws AppError `chain_moved`, to be tried again
 */
export async function currentCollection(
  { projections, chain }: { projections: CollectionProjections; chain: ShownChain },
  { chainId, address }: { chainId: number; address: Address },
  cursorBlock: number | undefined,
): Promise<Collection> {
  if (cursorBlock !== undefined) await chain.reach(cursorBlock);
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    const collection = await projections.get(chainId, address);
    const isStale = cursorBlock !== undefined && attempt === 1 && isBehind(collection, cursorBlock);
    if (isStale) await projections.newest(chainId, address);
    else if (chain.version >= collection.chainVersion) return collection;
    else await chain.catchUp(collection.chainVersion);
  }
  throw new AppError("the chain moves too fast to be read", { code: "chain_moved", retryable: true });
}
