/**
 * One page of a listing: query in, envelope out. Decides the snapshot, walks the ledger, signs the cursor. Reads memory
 * only; the one thing it may be given from outside is the hash of an old block.
 */
import { ApiError, invalidParameter } from "../core/errors.ts";
import type { Address, Hash } from "../core/hex.ts";
import type { BlockRef } from "../events/types.ts";
import type { Collection } from "./collection.ts";
import { type Cursor, signCursor } from "./cursor.ts";
import { countEntries, type Position, positionAfter, readSlice, START } from "./listing.ts";
import { encodeRecords } from "./record.ts";

/** A page asked for by parameters. */
export interface FirstPage {
  readonly limit: number;
  readonly hex: boolean;
  readonly holders: boolean;
  readonly withTotal: boolean;
  readonly asOfBlock: number | undefined;
  readonly part: { readonly range: number; readonly totalRanges: number } | undefined;
}

export interface PageOptions {
  readonly chainId: number;
  readonly address: Address;
  readonly normalizeMetadata: boolean;
  readonly mediaItems: boolean;
  readonly native: boolean;
  readonly cursorSecret: string;
}

/** The followed chain, as far as pages need it. */
export interface PageChain {
  head(): BlockRef | undefined;
  finalized(): BlockRef | undefined;
  header(number: number): BlockRef | undefined;
  isCanonical(block: BlockRef): boolean;
}

export interface Page {
  readonly body: string;
  readonly block: number | undefined;
  readonly hash: Hash | "";
  readonly finalized: boolean;
}

interface Walk {
  readonly block: number;
  readonly hash: Hash | "";
  readonly position: Position | undefined;
  readonly page: number;
  readonly limit: number;
  readonly hex: boolean;
  readonly holders: boolean;
  readonly total: number | undefined;
  readonly left: number | undefined;
}

/** The newest block the collection's listing is true at: the followed head once synced, else where the backfill is. */
export function currentBlock(collection: Collection, chain: PageChain): BlockRef | undefined {
  const { status, end, completed } = collection;
  if (status !== "synced") return end;
  return chain.head() ?? end ?? completed;
}

/** @throws ApiError 400 above the head, 409 above what is indexed */
function snapshotOf(collection: Collection, chain: PageChain, asOfBlock: number | undefined): BlockRef | undefined {
  const current = currentBlock(collection, chain);
  if (asOfBlock === undefined) return current;
  const { end, status } = collection;
  const head = chain.head() ?? (status === "synced" ? current : undefined);
  if (head !== undefined && asOfBlock > head.number) {
    throw invalidParameter("as_of_block", `must not be above the chain's head, ${head.number}`);
  }
  // No NFT: nothing was there at any block.
  if (status === "not_nft") return undefined;
  if (current === undefined || asOfBlock > current.number) {
    const at = current === undefined ? "nothing yet" : `block ${current.number}`;
    throw new ApiError(409, "not_indexed_yet", `as_of_block: the collection is indexed up to ${at}; ask again later`);
  }
  const known = chain.header(asOfBlock) ?? (end?.number === asOfBlock ? end : undefined);
  return { number: asOfBlock, hash: known?.hash ?? ("" as Hash) };
}

function begin(collection: Collection, chain: PageChain, first: FirstPage): Walk | undefined {
  const snapshot = snapshotOf(collection, chain, first.asOfBlock);
  if (snapshot === undefined) return undefined;
  const { number: block, hash } = snapshot;
  const { ledger } = collection;
  const { holders, limit, hex, part } = first;
  const count = first.withTotal || part !== undefined ? countEntries(ledger, block, holders) : undefined;
  const total = first.withTotal ? count : undefined;
  const common = { block, hash, page: 0, limit, hex, holders, total };
  if (part === undefined || count === undefined) return { ...common, position: START, left: undefined };
  const from = Math.floor((part.range * count) / part.totalRanges);
  const to = Math.floor(((part.range + 1) * count) / part.totalRanges);
  const position = to > from ? positionAfter(ledger, block, holders, from) : undefined;
  return { ...common, position, left: to - from };
}

function resume(cursor: Cursor, chain: PageChain): Walk {
  const { block, hash } = cursor;
  if (hash !== "" && !chain.isCanonical({ number: block, hash })) {
    throw new ApiError(410, "cursor_reorged", "cursor: its block left the canonical chain; start again without it", {
      details: { block, hash },
    });
  }
  return cursor;
}

/** The page's body and what it is true of. @throws ApiError */
export function readPage(
  collection: Collection,
  chain: PageChain,
  from: { readonly cursor: Cursor } | { readonly first: FirstPage },
  options: PageOptions,
): Page {
  const limit = "first" in from ? from.first.limit : from.cursor.limit;
  const walk = "cursor" in from ? resume(from.cursor, chain) : begin(collection, chain, from.first);
  const status = collection.status === "syncing" ? "SYNCING" : "SYNCED";
  const number = (value: number) => (options.native ? String(value) : `"${value}"`);
  const envelope = (fields: { total: string; page: number; cursor: string; result: string }) =>
    `{"status":"${status}","total":${fields.total},"page":${number(fields.page)},"page_size":${number(limit)},"cursor":${fields.cursor},"result":${fields.result}}`;
  if (walk === undefined) {
    const total = "first" in from && from.first.withTotal ? number(0) : "null";
    const body = envelope({ total, page: 0, cursor: "null", result: "[]" });
    return { body, block: undefined, hash: "", finalized: false };
  }
  const { block, holders, position } = walk;
  const wanted = walk.left === undefined ? walk.limit : Math.min(walk.limit, walk.left);
  const slice =
    position === undefined
      ? { entries: [], next: undefined }
      : readSlice(collection.ledger, { block, holders, from: position, limit: wanted });
  const left = walk.left === undefined ? undefined : walk.left - slice.entries.length;
  const more = slice.next !== undefined && left !== 0;
  const { chainId, address } = options;
  const cursor = more
    ? `"${signCursor({ ...walk, chainId, address, position: slice.next, page: walk.page + 1, left }, options.cursorSecret)}"`
    : "null";
  const { normalizeMetadata, mediaItems, native } = options;
  const style = { hex: walk.hex, normalizeMetadata, mediaItems, native };
  const result = encodeRecords(address, collection, slice.entries, style);
  const total = walk.total === undefined ? "null" : number(walk.total);
  const finalized = collection.status === "syncing" || block <= (chain.finalized()?.number ?? -1);
  return { body: envelope({ total, page: walk.page, cursor, result }), block, hash: walk.hash, finalized };
}
