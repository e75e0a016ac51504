/**
 * One page of a listing: a walk in, the envelope out. The first step reads the entries, the second adds the metadata of
 * the tokens and signs the cursor. Both read memory only.
 */

import type { Collection } from "../collections/collection.ts";
import type { PageChain } from "../collections/hot-collections.ts";
import type { ContractNames } from "../collections/operator-lists.ts";
import { ByteWriter } from "../core/byte-text.ts";
import type { Hash } from "../core/hex.ts";
import type { Entry } from "../ledger/entries.ts";
import { readSlice, type Slice } from "../ledger/listing.ts";
import type { Position } from "../ledger/rows.ts";
import { addRecords, type RecordFacts } from "./record.ts";
import { type PageFrom, resolveWalk, type Snapshot, signCursor, snapshotOf, type Walk } from "./walk.ts";

interface PageOptions {
  readonly native: boolean;
  readonly cursorSecret: string;
  /** Time of the page's block in seconds since the epoch, if it is known; the cursor carries it. */
  readonly time?: number | undefined;
  /** Fallback for an empty name or symbol. */
  readonly names?: ContractNames | undefined;
}

export interface Page {
  /** JSON in UTF-8, in a buffer that the next page overwrites: copy it before the next await. */
  readonly body: Uint8Array<ArrayBuffer>;
  readonly block: number | undefined;
  readonly hash: Hash | "";
  readonly finalized: boolean;
}

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
 * @throws ApiError
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
  return { collection, snapshot, walk, finalized: walk.block !== undefined && isFinal };
}

/** The entries to read for a page; undefined if the page is empty. */
export function sliceOf({ block, position, limit, left }: Walk) {
  if (block === undefined || position === undefined) return undefined;
  return { block, from: position, limit: left === undefined ? limit : Math.min(limit, left) };
}

/** The slice of an empty page. */
export const EMPTY_SLICE: Slice = { entries: [], starts: [], next: undefined };

/** Adds the entries to the page: those in `read`, or else as the ledger has them now. */
export function fillPage(start: PageStart, read?: Slice): PagePlan {
  if (read !== undefined) return { ...start, ...read };
  const { collection, walk } = start;
  const options = sliceOf(walk);
  if (options === undefined) return { ...start, ...EMPTY_SLICE };
  return { ...start, ...readSlice(collection.ledger, { ...options, holders: walk.holders }) };
}

/** Plans a page in one go. @throws ApiError */
export function planPage(
  of: Pick<Walk, "chainId" | "address">,
  collection: Collection,
  chain: PageChain,
  from: PageFrom,
): PagePlan {
  return fillPage(startPage(of, collection, chain, from));
}

/** The plan cut after its first `count` entries. The page gets shorter; the walk continues after it. */
function cutPlan(plan: PagePlan, count: number): PagePlan {
  const start = plan.starts[count];
  if (start === undefined) return plan;
  const next: Position = typeof start === "number" ? [start, 0, 0, 0] : start;
  return { ...plan, entries: plan.entries.slice(0, count), next };
}

/** The buffer of all pages. They are written one after the other, never at the same time. */
const out = new ByteWriter();

/** Writes the page's body, with one record per element of `facts`. */
export function finishPage(whole: PagePlan, facts: readonly RecordFacts[], options: PageOptions): Page {
  const { collection, snapshot, walk, entries, next, finalized } = cutPlan(whole, facts.length);
  const { block, hash, page, limit, total, hex, address } = walk;
  const { native, cursorSecret, time, names } = options;
  const left = walk.left === undefined ? undefined : walk.left - entries.length;
  const number = (value: number) => (native ? String(value) : `"${value}"`);
  const status = snapshot.status === "syncing" ? "SYNCING" : "SYNCED";
  const cursor =
    next === undefined || left === 0
      ? "null"
      : `"${signCursor({ ...walk, time, position: next, page: page + 1, left }, cursorSecret)}"`;
  out.start();
  out.text(
    `{"status":"${status}","total":${total === undefined ? "null" : number(total)},"page":${number(page)},` +
      `"page_size":${number(limit)},"cursor":${cursor},"result":`,
  );
  addRecords(out, { address, collection, names }, entries, facts, { hex, native });
  out.ascii("}");
  return { body: out.view(), block, hash, finalized };
}
