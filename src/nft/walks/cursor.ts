/**
 * A walk through a collection: the block that all its pages are valid for, and the place of the next page. Each page begins
 * with a walk: a new one for a first page, else the one in the client's cursor. A cursor is a walk as text, signed with HMAC,
 * so that a client can't change it.
 */
import { timingSafeEqual } from "node:crypto";
import { Refusal } from "../../core/errors.ts";
import type { Address, Hash } from "../../core/hex.ts";
import type { BlockRef } from "../../events/types.ts";
import { type Collection, collectionAt, endedLife } from "../collections/collection.ts";
import { countEntries, positionAfter } from "../ledger/listing.ts";
import { type Position, START } from "../ledger/rows.ts";
import { hasLeft, isBehind, type PageChain, type Snapshot } from "./snapshot.ts";

/** Everything that stays the same over the pages of a walk, and the place of the next page. */
export interface Walk {
  readonly chainId: number;
  readonly address: Address;
  /** The collection's `base`. It changes when the collection is indexed anew, and the walk ends. */
  readonly base: number;
  /** Block of the snapshot; undefined if there is nothing to list, now or ever. */
  readonly block: number | undefined;
  /** Hash of the snapshot's block; "" if its header was not known: the block was final, or the follower left it out. */
  readonly hash: Hash | "";
  /** The lowest known block above the snapshot's. Set if the hash of the snapshot's block is unknown and a reorg may take it. */
  readonly above: BlockRef | undefined;
  /** Time of the snapshot's block in Unix seconds, if an earlier page of the walk knew it. */
  readonly time: number | undefined;
  /** Version of the chain's stream at the snapshot. A replica that continues the walk must know at least that much. */
  readonly chainVersion: number;
  /** Checksum of the chain's event with that version. In a log that went back, another event may have the version. */
  readonly chainChecksum: number | undefined;
  /** True if the collection followed the chain at the snapshot. False if it had read final blocks only, and in old cursors. */
  readonly isFollowed: boolean;
  /** Start of the next page; undefined if the page is empty. */
  readonly position: Position | undefined;
  /** Number of the next page; the first page is 0. */
  readonly page: number;
  readonly limit: number;
  readonly hex: boolean;
  readonly holders: boolean;
  /** Total that each page repeats, or undefined if the client did not ask for it. */
  readonly total: number | undefined;
  /** Entries left in the range, or undefined if the walk covers the whole listing. */
  readonly left: number | undefined;
}

/** The parameters of a request for a first page. */
export interface FirstPage extends Pick<Walk, "limit" | "hex" | "holders"> {
  readonly withTotal: boolean;
  readonly asOfBlock: number | undefined;
  /** One of several ranges of about equal size, which clients can read at the same time. */
  readonly part: { readonly range: number; readonly totalRanges: number } | undefined;
}

/** The request for a page: with a cursor, or with the parameters of a first page. */
export type PageFrom = { readonly cursor: Walk } | { readonly first: FirstPage };

/**
 * Returns the walk that a page is read by.
 * @param snapshot the block of a new walk; not used with a cursor
 * @throws Refusal `cursor_reorged` if the cursor's block left the canonical chain, `not_indexed_yet` if the collection has not reached it
 */
export function resolveWalk(
  { chainId, address }: Pick<Walk, "chainId" | "address">,
  collection: Collection,
  chain: PageChain,
  from: PageFrom,
  snapshot: Snapshot,
): Walk {
  if ("cursor" in from) return resume(from.cursor, collection, chain);
  return { chainId, address, ...begin(collection, snapshot, from.first) };
}

/** Returns how many of the `count` entries lie before a range. */
export const beginningOf = ({ range, totalRanges }: NonNullable<FirstPage["part"]>, count: number): number =>
  Math.floor((range * count) / totalRanges);

/** Begins a walk at the snapshot's block. */
function begin(collection: Collection, { block: at, chainVersion, chainChecksum }: Snapshot, first: FirstPage) {
  const { holders, limit, hex, part, withTotal } = first;
  const { base } = collection;
  const isFollowed = collection.status === "synced" || collection.chainVersion > 0;
  const seen = { time: undefined, chainVersion, chainChecksum, isFollowed };
  const common = { base, hash: at?.hash ?? ("" as const), above: at?.above, ...seen, page: 0, limit, hex, holders };
  if (at === undefined) {
    const nothing = { block: undefined, position: undefined, left: undefined };
    return { ...common, ...nothing, total: withTotal ? 0 : undefined };
  }
  const block = at.number;
  const { ledger } = collectionAt(collection, block);
  const count = withTotal || part !== undefined ? countEntries(ledger, block, holders) : undefined;
  const total = withTotal ? count : undefined;
  if (part === undefined || count === undefined) return { ...common, block, total, position: START, left: undefined };
  const from = beginningOf(part, count);
  const to = beginningOf({ ...part, range: part.range + 1 }, count);
  const position = to > from ? positionAfter(ledger, block, holders, from) : undefined;
  return { ...common, block, total, position, left: to - from };
}

/** Goes on with the walk of a cursor. Refuses it if the collection no longer has what the earlier pages showed. */
function resume(cursor: Walk, collection: Collection, chain: PageChain): Walk {
  const { block, hash, above, chainVersion } = cursor;
  if (block === undefined) return cursor;
  if (cursor.base !== collection.base) {
    const text = "cursor: the collection was indexed anew since; start again without it";
    throw new Refusal("cursor_reorged", text, { details: { block } });
  }
  if (hasLeft(collection, chain, { number: block, hash, above, chainVersion })) {
    throw new Refusal("cursor_reorged", "cursor: its block left the canonical chain; start again without it", {
      details: { block, hash },
    });
  }
  const isKnownFinal = block <= (chain.finalized()?.number ?? -1);
  if (cursor.isFollowed && !isKnownFinal && collection.status === "syncing" && collection.chainVersion === 0) {
    // The new backfill reads only blocks that its node calls final. The walk, and the shown chain, may be on another branch.
    const text = "cursor: the collection is read again since, from final blocks; start again without it";
    throw new Refusal("cursor_reorged", text, { details: { block } });
  }
  if (cursor.chainVersion < (endedLife(collection, block)?.chainVersion ?? 0)) {
    const text = "cursor: the contract turned out to be destroyed before its block; start again without it";
    throw new Refusal("cursor_reorged", text, { details: { block } });
  }
  if (isBehind(collection, block)) {
    const text =
      "cursor: the collection is being indexed again and has not reached the cursor's block; ask again later";
    throw new Refusal("not_indexed_yet", text);
  }
  return cursor;
}

const FORMAT = 2;
/** 128 bits of HMAC-SHA-256: far beyond guessing, and half the length. */
const TAG_BYTES = 16;

function tag(secret: string, payload: Uint8Array): Buffer {
  return new Bun.CryptoHasher("sha256", secret).update(payload).digest().subarray(0, TAG_BYTES);
}

/** Encodes a walk as text: base64url of tag and payload. */
export function signCursor(walk: Walk, secret: string): string {
  const { chainId, address, block, hash, time, chainVersion, position, page, limit, hex, holders, total, left } = walk;
  const fields = [
    FORMAT,
    chainId,
    address.slice(2),
    block,
    hash.slice(2),
    chainVersion,
    position,
    page,
    limit,
    (hex ? 1 : 0) + (holders ? 2 : 0) + (walk.isFollowed ? 4 : 0),
    total ?? null,
    left ?? null,
    time ?? null,
    walk.chainChecksum ?? null,
    walk.base,
    ...(walk.above === undefined ? [] : [walk.above.number, walk.above.hash.slice(2)]),
  ];
  const payload = Buffer.from(JSON.stringify(fields), "utf8");
  return Buffer.concat([tag(secret, payload), payload]).toString("base64url");
}

/** The fields of a cursor. Every release writes the first ten. Numbers and the hash of a block follow, and may be absent. */
type CursorFields = [number, number, string, number, string, number, Position, number, number, number, ...unknown[]];

/** Decodes the walk in `text`. Returns undefined unless this service signed exactly this text. */
export function openCursor(text: string, secret: string): (Walk & { readonly block: number }) | undefined {
  if (!/^[A-Za-z0-9_-]+$/.test(text)) return undefined;
  const bytes = Buffer.from(text, "base64url");
  // Several texts can decode to the same bytes. Accept only the canonical one.
  if (bytes.length <= TAG_BYTES || bytes.toString("base64url") !== text) return undefined;
  const payload = bytes.subarray(TAG_BYTES);
  if (!timingSafeEqual(bytes.subarray(0, TAG_BYTES), tag(secret, payload))) return undefined;
  const fields = JSON.parse(payload.toString("utf8")) as CursorFields;
  const [format, chainId, address, block, hash, chainVersion, position, page, limit, flags, ...more] = fields;
  const [total, left, time, chainChecksum, base, above] = more as (number | null | undefined)[];
  if (format !== FORMAT) return undefined;
  return {
    ...{ chainId, block, chainVersion, position, page, limit },
    address: `0x${address}` as Address,
    hash: hash === "" ? "" : (`0x${hash}` as Hash),
    hex: (flags & 1) !== 0,
    holders: (flags & 2) !== 0,
    isFollowed: (flags & 4) !== 0,
    total: total ?? undefined,
    left: left ?? undefined,
    // Cursors of older releases lack these fields.
    base: base ?? 0,
    time: time ?? undefined,
    chainChecksum: chainChecksum ?? undefined,
    above: above == null ? undefined : { number: above, hash: `0x${more[6]}` as Hash },
  };
}
