/**
 * One page of a listing: query in, envelope out. The first step decides the snapshot and reads the entries, the second
 * adds the metadata of the tokens and signs the cursor. Both read memory only.
 */
import type { Collection } from "../collections/collection.ts";
import { currentBlock, isBehind, type PageChain } from "../collections/current.ts";
import type { ContractNames } from "../collections/operator-lists.ts";
import { ByteWriter } from "../core/byte-text.ts";
import { ApiError, invalidParameter } from "../core/errors.ts";
import type { Address, Hash } from "../core/hex.ts";
import type { BlockRef } from "../events/types.ts";
import { type Entry, readSlice, type Slice } from "../ledger/listing.ts";
import { countEntries, positionAfter } from "../ledger/places.ts";
import { type Position, START } from "../ledger/rows.ts";
import { type Cursor, signCursor } from "./cursor.ts";
import { addRecords, type RecordFacts } from "./record.ts";

/** A first page, as the request's parameters ask for it. */
export interface FirstPage {
  readonly limit: number;
  readonly hex: boolean;
  readonly holders: boolean;
  readonly withTotal: boolean;
  readonly asOfBlock: number | undefined;
  readonly part: { readonly range: number; readonly totalRanges: number } | undefined;
}

interface PageOptions {
  readonly chainId: number;
  readonly address: Address;
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

export interface Walk {
  readonly block: number;
  readonly hash: Hash | "";
  /** Seconds since the epoch, if an earlier page of the walk knew it. */
  readonly time: number | undefined;
  readonly chainVersion: number;
  readonly position: Position | undefined;
  readonly page: number;
  readonly limit: number;
  readonly hex: boolean;
  readonly holders: boolean;
  readonly total: number | undefined;
  readonly left: number | undefined;
}

/** The block that a first page is valid for. Decided once, before the planning of the page awaits anything. */
interface Snapshot {
  /** Undefined if there is nothing to list, now or ever. */
  readonly block: BlockRef | undefined;
  readonly status: Collection["status"];
  readonly version: number;
  readonly chainVersion: number;
}

/** @throws ApiError 400 above the head, 409 above what is indexed */
export function snapshotOf(collection: Collection, chain: PageChain, asOfBlock: number | undefined): Snapshot {
  const { status, version } = collection;
  return { block: blockOf(collection, chain, asOfBlock), status, version, chainVersion: chain.version };
}

/**
 * True if the same snapshot could be decided now: its block is on the visible chain, the collection has indexed it, and
 * the collection depends on no later chain version than the visible one.
 */
export function isStillTrue(
  { block, status }: Pick<Snapshot, "block" | "status">,
  collection: Collection,
  chain: PageChain,
): boolean {
  if (collection.status !== status || chain.version < collection.chainVersion) return false;
  return block === undefined || !(hasLeft(collection, chain, block) || isBehind(collection, block.number));
}

function blockOf(collection: Collection, chain: PageChain, asOfBlock: number | undefined): BlockRef | undefined {
  const current = currentBlock(collection, chain);
  if (asOfBlock === undefined) return current;
  const { end, status } = collection;
  // A backfill may be ahead of the followed head.
  const head = Math.max(chain.head()?.number ?? -1, current?.number ?? -1);
  const isHeadKnown = chain.head() !== undefined || status === "synced";
  if (isHeadKnown && head >= 0 && asOfBlock > head) {
    throw invalidParameter("as_of_block", `must not be above the chain's head, ${head}`);
  }
  // A contract that is not an NFT has an empty listing at every block.
  if (status === "not_nft") return undefined;
  if (current === undefined || asOfBlock > current.number) {
    const at = current === undefined ? "nothing yet" : `block ${current.number}`;
    throw new ApiError(409, "not_indexed_yet", `as_of_block: the collection is indexed up to ${at}; ask again later`);
  }
  // Blocks of a backfill are final and may be ahead of the followed head, so the followed headers don't have their
  // hash.
  const known = end?.number === asOfBlock ? end : status === "synced" ? chain.header(asOfBlock) : undefined;
  return { number: asOfBlock, hash: known?.hash ?? ("" as Hash) };
}

/** Number of entries before a range, of `count` in all. */
export const beginningOf = ({ range, totalRanges }: NonNullable<FirstPage["part"]>, count: number): number =>
  Math.floor((range * count) / totalRanges);

function begin({ ledger }: Collection, { block: at, chainVersion }: Snapshot, first: FirstPage): Walk | undefined {
  if (at === undefined) return undefined;
  const { number: block, hash } = at;
  const { holders, limit, hex, part } = first;
  const count = first.withTotal || part !== undefined ? countEntries(ledger, block, holders) : undefined;
  const total = first.withTotal ? count : undefined;
  const common = { block, hash, time: undefined, chainVersion, page: 0, limit, hex, holders, total };
  if (part === undefined || count === undefined) return { ...common, position: START, left: undefined };
  const from = beginningOf(part, count);
  const to = beginningOf({ ...part, range: part.range + 1 }, count);
  const position = to > from ? positionAfter(ledger, block, holders, from) : undefined;
  return { ...common, position, left: to - from };
}

function resume(cursor: Cursor, collection: Collection, chain: PageChain): Walk {
  const { block, hash } = cursor;
  if (hasLeft(collection, chain, { number: block, hash })) {
    throw new ApiError(410, "cursor_reorged", "cursor: its block left the canonical chain; start again without it", {
      details: { block, hash },
    });
  }
  if (isBehind(collection, block)) {
    const text =
      "cursor: the collection is being indexed again and has not reached the cursor's block; ask again later";
    throw new ApiError(409, "not_indexed_yet", text);
  }
  return cursor;
}

/** True if the block of an earlier page left the canonical chain. */
function hasLeft({ status }: Collection, chain: PageChain, at: { number: number; hash: Hash | "" }): boolean {
  const { number: block, hash } = at;
  const head = chain.head();
  // A block that an earlier page showed but is above the head now was reverted, however long ago.
  const isAbove = status === "synced" && head !== undefined && block > head.number;
  return isAbove || (hash !== "" && !chain.isCanonical({ number: block, hash }));
}

/** A page before its records are written as JSON. */
export interface PagePlan {
  readonly collection: Collection;
  /** Status and versions at the snapshot. The collection and the chain may change before the page is finished. */
  readonly status: Collection["status"];
  readonly version: number;
  readonly chainVersion: number;
  readonly limit: number;
  readonly withTotal: boolean;
  readonly walk: Walk | undefined;
  readonly entries: readonly Entry[];
  readonly starts: Slice["starts"];
  /** Start of the next page; undefined at its end. */
  readonly next: Position | undefined;
  readonly finalized: boolean;
}

/** The origin of a page: a walk's cursor, or the parameters of a first page. */
export type PageFrom = { readonly cursor: Cursor } | { readonly first: FirstPage };

/** A page before its entries are read: the snapshot and the walk. */
export type PageStart = Omit<PagePlan, keyof Slice>;

/**
 * Decides the block of the page and where its entries start.
 * @param snapshot of a first page, if it was decided before
 * @throws ApiError
 */
export function startPage(collection: Collection, chain: PageChain, from: PageFrom, snapshot?: Snapshot): PageStart {
  const asOfBlock = "first" in from ? from.first.asOfBlock : undefined;
  const taken = snapshot ?? snapshotOf(collection, chain, asOfBlock);
  const walk = "cursor" in from ? resume(from.cursor, collection, chain) : begin(collection, taken, from.first);
  // A backfill reads final blocks only, perhaps above the known final block. Followed blocks may be reverted.
  const isBackfill = collection.status === "syncing" && collection.chainVersion === 0;
  const finalized = walk !== undefined && (isBackfill || walk.block <= (chain.finalized()?.number ?? -1));
  const { limit } = "cursor" in from ? from.cursor : from.first;
  const { status, version, chainVersion } = taken;
  const withTotal = "first" in from && from.first.withTotal;
  return { collection, status, version, chainVersion, limit, withTotal, walk, finalized };
}

/** The entries to read for a page; undefined if the page is empty. */
export function sliceOf({ walk }: PageStart): { block: number; from: Position; limit: number } | undefined {
  if (walk?.position === undefined) return undefined;
  const limit = walk.left === undefined ? walk.limit : Math.min(walk.limit, walk.left);
  return { block: walk.block, from: walk.position, limit };
}

/** The slice of an empty page. */
export const EMPTY_SLICE: Slice = { entries: [], starts: [], next: undefined };

/** Adds the entries to the page: those in `read`, or else as the ledger has them now. */
export function fillPage(start: PageStart, read?: Slice): PagePlan {
  if (read !== undefined) return { ...start, ...read };
  const options = sliceOf(start);
  if (options === undefined) return { ...start, ...EMPTY_SLICE };
  return { ...start, ...readSlice(start.collection.ledger, { ...options, holders: start.walk?.holders === true }) };
}

/** Plans a page in one go. @throws ApiError */
export function planPage(collection: Collection, chain: PageChain, from: PageFrom): PagePlan {
  return fillPage(startPage(collection, chain, from));
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
  const plan = cutPlan(whole, facts.length);
  const { collection, limit, walk, entries, next, finalized } = plan;
  const status = plan.status === "syncing" ? "SYNCING" : "SYNCED";
  const number = (value: number) => (options.native ? String(value) : `"${value}"`);
  out.start();
  const begin = (total: string, page: number, cursor: string) =>
    out.text(
      `{"status":"${status}","total":${total},"page":${number(page)},"page_size":${number(limit)},"cursor":${cursor},"result":`,
    );
  if (walk === undefined) {
    begin(plan.withTotal ? number(0) : "null", 0, "null");
    out.ascii("[]}");
    return { body: out.view(), block: undefined, hash: "", finalized };
  }
  const left = walk.left === undefined ? undefined : walk.left - entries.length;
  const { chainId, address, cursorSecret, time } = options;
  const cursor =
    next === undefined || left === 0
      ? "null"
      : `"${signCursor({ ...walk, time, chainId, address, position: next, page: walk.page + 1, left }, cursorSecret)}"`;
  const style = { hex: walk.hex, native: options.native };
  begin(walk.total === undefined ? "null" : number(walk.total), walk.page, cursor);
  addRecords(out, { address, collection, names: options.names }, entries, facts, style);
  out.ascii("}");
  return { body: out.view(), block: walk.block, hash: walk.hash, finalized };
}
