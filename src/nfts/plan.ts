/**
 * The plan of a page as a route needs it: at once where that takes no long walk, else after the pairs of its block were
 * counted in slices. The snapshot is decided before anything is awaited and holds for as long as its block does; where the
 * block changes meanwhile, all begins anew.
 */
import type { Address } from "../core/hex.ts";
import type { Collection } from "./collection.ts";
import { currentCollection, type ShownChain } from "./current.ts";
import type { Ledger } from "./ledger.ts";
import { type FirstPage, isStillTrue, type PageFrom, type PagePlan, planPage, snapshotOf } from "./pages.ts";
import { makePairIndexSoon } from "./pairs.ts";
import { areHoldersReady } from "./places.ts";
import type { CollectionProjections } from "./projections.ts";

export interface PlanSource {
  readonly projections: CollectionProjections;
  readonly chain: ShownChain;
  readonly chainId: number;
  readonly address: Address;
}

/** A chain that takes back a block so often while it is counted is counted in one go: the request must end. */
const MAX_BEGINNINGS = 4;

/**
 * The plan of a page of what `currentCollection` just gave.
 * @throws ApiError, at once or later; AppError `chain_moved`, to be tried again
 */
export function currentPlan(source: PlanSource, collection: Collection, from: PageFrom): PagePlan | Promise<PagePlan> {
  if ("cursor" in from || !from.first.holders) return planPage(collection, source.chain, from);
  return planHolders(source, collection, from.first);
}

async function planHolders(source: PlanSource, before: Collection, first: FirstPage): Promise<PagePlan> {
  const { projections, chain, chainId, address } = source;
  let collection = before;
  for (let beginning = 1; ; beginning++) {
    const { ledger } = collection;
    const snapshot = snapshotOf(collection, chain, first.asOfBlock);
    const block = snapshot.block?.number;
    if (block === undefined || isPlannedAtOnce(ledger, block, first) || beginning > MAX_BEGINNINGS) {
      return planPage(collection, chain, { first }, snapshot);
    }
    const isMade = await makePairIndexSoon(ledger, block);
    // Nothing is awaited between these looks and the plan.
    if (isMade && isStillTrue(snapshot, collection, chain) && isPlannedAtOnce(ledger, block, first)) {
      return planPage(collection, chain, { first }, snapshot);
    }
    collection = await currentCollection({ projections, chain }, { chainId, address }, undefined);
  }
}

function isPlannedAtOnce(ledger: Ledger, block: number, { withTotal, part }: FirstPage): boolean {
  return (!withTotal && part === undefined) || areHoldersReady(ledger, block, part !== undefined);
}
