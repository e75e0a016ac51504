/** Where an event of a collection is on the chain, and which events the shown chain lets a process fold. Pure. */
import type { ChainPlace, PublishedChain } from "../../chain/view.ts";
import type { NftEvent, Recorded } from "../../events/types.ts";

/** Returns where an event is on the chain; undefined for an event that depends on no block. */
export function placeOf(event: NftEvent): ChainPlace | undefined {
  switch (event.type) {
    case "TransfersCommitted":
      // A backfill reads final blocks. All of it counts, independent of the head.
      if (event.chainVersion === undefined) return { chainVersion: 0, block: 0 };
      return { chainVersion: event.chainVersion, block: event.toBlock };
    case "BlocksReverted":
    case "ContractDestroyed":
      return { chainVersion: event.chainVersion ?? 0, block: 0 };
    case "IndexingCompleted":
      return { chainVersion: 0, block: event.block };
    default:
      return undefined;
  }
}

/** The newest block up to which an event leaves the earlier ones as they are; undefined if it takes none of them back. */
export function keptUpTo(event: NftEvent): number | undefined {
  if (event.type === "BlocksReverted") return event.ancestor.number;
  return event.type === "ReindexRequested" || event.type === "CollectionRemoved" ? -1 : undefined;
}

/**
 * The number of first events of a page that the chain's clock shows. An event that waits holds up those behind it, until a
 * shown revert has taken its blocks back: a follower that crashed may have written it for a head that never came.
 */
export function foldableOf(
  page: readonly Recorded<NftEvent>[],
  clock: Pick<PublishedChain, "shows"> | undefined,
): number {
  if (clock === undefined) return page.length;
  let [count, isHeldUp] = [0, false];
  for (const [at, { event }] of page.entries()) {
    const place = placeOf(event);
    const isShown = place === undefined || clock.shows(place);
    if (isShown && (!isHeldUp || event.type === "BlocksReverted")) [count, isHeldUp] = [at + 1, false];
    else isHeldUp = true;
  }
  return count;
}
