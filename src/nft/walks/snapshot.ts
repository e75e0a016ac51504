/**
 * The moment that a walk is true at: a block of a collection, at which the collection and the visible chain agree. Reads
 * memory only.
 */

import { invalidParameter, Refusal } from "../../core/errors.ts";
import type { Address, Hash } from "../../core/hex.ts";
import type { BlockRef } from "../../events/types.ts";
import { type Collection, collectionAt } from "../collections/collection.ts";
import type { HotCollections } from "../collections/hot-collections.ts";
import type { Ledger } from "../ledger/ledger.ts";

/** The visible chain, with a way to bring it forward. */
export interface ShownChain extends PageChain {
  /** Resolves once that version is visible, or the log has no more. */
  catchUp(version: number): Promise<void>;
  /** Checksum of the chain's event of a version; undefined if the log has none. */
  checksumOf(version: number): number | undefined | Promise<number | undefined>;
}

/** The collection that a walk goes through, and the chain that it lies on. */
export interface WalkSource {
  readonly projections: HotCollections;
  readonly chain: ShownChain;
  readonly chainId: number;
  readonly address: Address;
}

/** The snapshot of a walk in progress. */
interface WalkSnapshot {
  readonly base: number;
  readonly block: number;
  readonly chainVersion: number;
  readonly chainChecksum: number | undefined;
}

/**
 * Returns the collection. The caller must read it before its next await.
 * @param walk the snapshot of a walk. The replica that served its first page may know a later branch, or more final
 *   blocks, than this one
 * @throws Refusal 410 if the log has lost the walk's chain event
 */
export async function currentCollection(
  { projections, chain, chainId, address }: WalkSource,
  walk: WalkSnapshot | undefined,
): Promise<Collection> {
  if (walk !== undefined) await assertSameChain(chain, walk);
  const collection = await projections.get(chainId, address);
  const isStale = walk !== undefined && (collection.base < walk.base || isBehind(collection, walk.block));
  return isStale ? projections.newest(chainId, address) : collection;
}

/** The ledger that a walk reads in a collection. */
export const ledgerOf = (collection: Collection, { block }: Pick<WalkSnapshot, "block">): Ledger =>
  collectionAt(collection, block).ledger;

/** Brings the visible chain to the walk's chain event. @throws Refusal `cursor_reorged` if the log has none, or another one */
async function assertSameChain(chain: ShownChain, { block, chainVersion, chainChecksum }: WalkSnapshot): Promise<void> {
  if (chain.version < chainVersion) await chain.catchUp(chainVersion);
  // Cursors of older releases have no checksum.
  const isKnown = chainVersion === 0 || chainChecksum === undefined;
  const found = isKnown ? chainChecksum : await chain.checksumOf(chainVersion);
  if (chain.version >= chainVersion && found === chainChecksum) return;
  const text = "cursor: its block was recorded in a part of the event log that was lost; start again without it";
  throw new Refusal("cursor_reorged", text, { details: { block } });
}

/** The part of the followed chain that pages use. */
export interface PageChain {
  /** Version of the chain's stream that clients see, and the checksum of its event, if there is one. */
  readonly version: number;
  readonly checksum?: number | undefined;
  head(): BlockRef | undefined;
  finalized(): BlockRef | undefined;
  header(number: number): (BlockRef & { readonly timestamp?: number }) | undefined;
  /** @param since version of the chain's stream at which the block was canonical */
  isCanonical(block: BlockRef, since?: number): boolean;
}

/** The newest block the listing is valid for: the followed head if synced, else the block that is read so far. */
export function currentBlock(collection: Collection, chain: PageChain): BlockRef | undefined {
  const { status, end, completed, chainVersion } = collection;
  const head = chain.head();
  if (status === "synced") return head ?? end ?? completed;
  // A collection that joins in parts has followed blocks. Those above the head are orphaned, and its own revert follows.
  const isOrphaned = chainVersion > 0 && head !== undefined && end !== undefined && end.number > head.number;
  return isOrphaned ? head : end;
}

/** True if the collection has not reached the block: another process may be ahead, or a crash set this one back. */
export function isBehind({ status, end }: Collection, block: number): boolean {
  return status === "syncing" && (end?.number ?? -1) < block;
}

/** The block of a snapshot, as far as it is known. */
interface SnapshotBlock {
  readonly number: number;
  readonly hash: Hash | "";
  readonly above?: BlockRef | undefined;
}

/** The block of a walk, and the version of the chain's stream at which it was canonical. */
export interface ShownBlock extends SnapshotBlock {
  readonly chainVersion: number;
}

/** The block that a first page is valid for. Decided once, before the planning of the page awaits anything. */
export interface Snapshot {
  /** Undefined if there is nothing to list, now or ever. */
  readonly block: SnapshotBlock | undefined;
  readonly status: Collection["status"];
  readonly version: number;
  readonly chainVersion: number;
  readonly chainChecksum: number | undefined;
}

/** @throws Refusal `invalid_parameter` above the head, `not_indexed_yet` above what is indexed */
export function snapshotOf(collection: Collection, chain: PageChain, asOfBlock: number | undefined): Snapshot {
  const { status, version } = collection;
  const block = blockOf(collection, chain, asOfBlock);
  return { block, status, version, chainVersion: chain.version, chainChecksum: chain.checksum };
}

/** True if the same snapshot could be decided now: its block is on the visible chain, and the collection has indexed it. */
export function isStillTrue(
  { block, status, chainVersion }: Pick<Snapshot, "block" | "status" | "chainVersion">,
  collection: Collection,
  chain: PageChain,
): boolean {
  if (collection.status !== status) return false;
  return (
    block === undefined ||
    !(hasLeft(collection, chain, { ...block, chainVersion }) || isBehind(collection, block.number))
  );
}

function blockOf(collection: Collection, chain: PageChain, asOfBlock: number | undefined): SnapshotBlock | undefined {
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
    throw new Refusal("not_indexed_yet", `as_of_block: the collection is indexed up to ${at}; ask again later`);
  }
  // The followed headers lack the blocks of a backfill, which are final and may be ahead of the followed head.
  const known = end?.number === asOfBlock ? end : status === "synced" ? chain.header(asOfBlock) : undefined;
  if (known !== undefined) return { number: asOfBlock, hash: known.hash };
  // The end of a collection that joins the head in parts may be reverted, too.
  const joined = collection.chainVersion > 0 ? end : undefined;
  return { number: asOfBlock, hash: "", above: status === "synced" ? knownAbove(asOfBlock, chain) : joined };
}

/** Returns the lowest known block above one that may be reverted, but whose header the follower left out. */
function knownAbove(block: number, chain: PageChain): BlockRef | undefined {
  const head = chain.head();
  if (head === undefined || block <= (chain.finalized()?.number ?? -1)) return undefined;
  for (let number = block + 1; number < head.number; number++) {
    const known = chain.header(number);
    if (known !== undefined) return { number, hash: known.hash };
  }
  return { number: head.number, hash: head.hash };
}

/** True if the block of an earlier page left the canonical chain. */
export function hasLeft(
  { status }: Collection,
  chain: PageChain,
  { number: block, hash, above, chainVersion }: ShownBlock,
): boolean {
  const head = chain.head();
  // A block that an earlier page showed but is above the head now was reverted, however long ago.
  const isAbove = status === "synced" && head !== undefined && block > head.number;
  if (isAbove || (above !== undefined && !chain.isCanonical(above, chainVersion))) return true;
  return hash !== "" && !chain.isCanonical({ number: block, hash }, chainVersion);
}
