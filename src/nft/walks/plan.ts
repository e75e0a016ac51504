/**
 * Plans the page of a walk in one go: decides the snapshot, and reads the entries from where the walk stands. Reads memory
 * only.
 */
import { type Collection, collectionAt } from "../collections/collection.ts";
import type { Entry } from "../ledger/entries.ts";
import { readSlice, type Slice } from "../ledger/listing.ts";
import type { Position } from "../ledger/rows.ts";
import { type PageFrom, resolveWalk, type Walk } from "./cursor.ts";
import { type PageChain, type Snapshot, snapshotOf } from "./snapshot.ts";

/** A page before its entries are read. */
export interface PageStart {
  readonly collection: Collection;
  /** Status and versions when the page was begun. The collection and the chain may change before it is finished. */
  readonly snapshot: Pick<Snapshot, "status" | "version" | "chainVersion">;
  readonly walk: Walk;
  readonly finalized: boolean;
}

/** A page before its records are written as JSON. */
export interface PagePlan extends PageStart {
  readonly entries: readonly Entry[];
  readonly starts: Slice["starts"];
  /** Start of the next page; undefined at the end of the walk. */
  readonly next: Position | undefined;
}

/**
 * Decides the block of the page and where its entries start.
 * @param snapshot of a first page, if it was decided before
 * @throws Refusal
 */
export function startPage(
  of: Pick<Walk, "chainId" | "address">,
  collection: Collection,
  chain: PageChain,
  from: PageFrom,
  snapshot = snapshotOf(collection, chain, "first" in from ? from.first.asOfBlock : undefined),
): PageStart {
  const walk = resolveWalk(of, collection, chain, from, snapshot);
  // A backfill reads final blocks only, perhaps above the known final block. Followed blocks may be reverted.
  const isBackfill = collection.status === "syncing" && collection.chainVersion === 0;
  const isFinal = isBackfill || (walk.block ?? 0) <= (chain.finalized()?.number ?? -1);
  return {
    collection: collectionAt(collection, walk.block),
    snapshot,
    walk,
    finalized: walk.block !== undefined && isFinal,
  };
}

/** The entries to read for a page; undefined if the page is empty. */
export function sliceOf({ block, position, limit, left }: Walk) {
  if (block === undefined || position === undefined) return undefined;
  return { block, from: position, limit: left === undefined ? limit : Math.min(limit, left) };
}

/** The slice of an empty page. */
export const EMPTY_SLICE: Slice = { entries: [], starts: [], next: undefined };

/** Plans a page in one go. @throws Refusal */
export function planPage(
  of: Pick<Walk, "chainId" | "address">,
  collection: Collection,
  chain: PageChain,
  from: PageFrom,
): PagePlan {
  const start = startPage(of, collection, chain, from);
  const { walk } = start;
  const options = sliceOf(walk);
  if (options === undefined) return { ...start, ...EMPTY_SLICE };
  return { ...start, ...readSlice(start.collection.ledger, { ...options, holders: walk.holders }) };
}

/** The plan cut after its first `count` entries. The page gets shorter; the walk continues after it. */
export function cutPlan(plan: PagePlan, count: number): PagePlan {
  const start = plan.starts[count];
  if (start === undefined) return plan;
  return { ...plan, entries: plan.entries.slice(0, count), next: positionOf(start) };
}

/** The place of an entry, of which a slice tells the row alone if that is enough. */
export const positionOf = (start: number | Position): Position =>
  typeof start === "number" ? [start, 0, 0, 0] : start;
