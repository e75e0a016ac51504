/**
 * A walk through a collection: the block that all its pages are valid for, and the place of the next page. Resolved once
 * per page, from a cursor or from the parameters of a first page. A cursor is a walk, signed with HMAC.
 */
import { timingSafeEqual } from "node:crypto";
import { Refusal } from "../../core/errors.ts";
import type { Address, Hash } from "../../core/hex.ts";
import type { BlockRef } from "../../events/types.ts";
import { type Collection, collectionAt, endedLife } from "../collections/collection.ts";
import { countEntries, positionAfter } from "../ledger/listing.ts";
import { type Position, START } from "../ledger/rows.ts";
import { hasLeft, isBehind, type PageChain, type Snapshot } from "./snapshot.ts";

/** Everything that a walk fixes, and the place of its next page. A cursor is a walk that was signed. */
export interface Walk {
  readonly chainId: number;
  readonly address: Address;
  /** `base` of the collection: a walk ends when the collection is indexed anew. */
  readonly base: number;
  /** Block of the snapshot; undefined if there is nothing to list, now or ever. */
  readonly block: number | undefined;
  /** Hash of the snapshot's block; "" if its header was not known: the block was final, or the follower left it out. */
  readonly hash: Hash | "";
  /** The lowest known block above it, if its own hash is not known and it may be reverted. */
  readonly above: BlockRef | undefined;
  /** Time of the snapshot's block, in seconds since the epoch, if an earlier page of the walk knew it. */
  readonly time: number | undefined;
  /** Version of the chain's stream at the snapshot. A replica that continues the walk must know at least that much. */
  readonly chainVersion: number;
  /** Checksum of that event: a log that went back may have another one of this version. */
  readonly chainChecksum: number | undefined;
  /** True if the collection followed the chain at the snapshot, and had not only read final blocks. Not told by old cursors. */
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

/** A first page, as the request's parameters ask for it. */
export interface FirstPage extends Pick<Walk, "limit" | "hex" | "holders"> {
  readonly withTotal: boolean;
  readonly asOfBlock: number | undefined;
  readonly part: { readonly range: number; readonly totalRanges: number } | undefined;
}

/** The origin of a page: the walk of a cursor, or the parameters of a first page. */
export type PageFrom = { readonly cursor: Walk } | { readonly first: FirstPage };

/**
 * Resolves the walk of a page.
 * @param snapshot of a first page
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

/** Number of entries before a range, of `count` in all. */
export const beginningOf = ({ range, totalRanges }: NonNullable<FirstPage["part"]>, count: number): number =>
  Math.floor((range * count) / totalRanges);

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
    // A backfill reads blocks that its node calls final. The walk may have seen another branch, at whose head the chain stands.
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

/** The fields of a cursor. Behind those of all releases come numbers that may be absent, and the hash of a block. */
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
    // Cursors of older releases have none of these.
    base: base ?? 0,
    time: time ?? undefined,
    chainChecksum: chainChecksum ?? undefined,
    above: above == null ? undefined : { number: above, hash: `0x${more[6]}` as Hash },
  };
}
