/**
 * Walks that read more than a page: which block they are true at, and their entries in batches. Each batch first checks
 * that the block is still canonical, and a ledger that was evicted meanwhile is read again.
 */

import { Budget } from "../../core/budget.ts";
import { Refusal } from "../../core/errors.ts";
import { assertWanted, yieldToEventLoop } from "../../core/turns.ts";
import { type Collection, collectionAt } from "../collections/collection.ts";
import type { Entry } from "../ledger/entries.ts";
import type { Slice } from "../ledger/listing.ts";
import type { Position } from "../ledger/rows.ts";
import { resolveWalk, type Walk } from "./cursor.ts";
import { cutPlan, startPage } from "./plan.ts";
import { currentPlan } from "./sliced-plan.ts";
import { currentBlock, currentCollection, snapshotOf, type WalkSource } from "./snapshot.ts";

/** A walk before its next batch. */
export interface StartedWalk {
  readonly walk: Walk & { readonly block: number };
  readonly finalized: boolean;
}

interface WalkRequest {
  /** The walk of a cursor; undefined for a new one. */
  readonly cursor?: StartedWalk["walk"] | undefined;
  /** Block of a new walk; the newest one by default, or the newest final one. */
  readonly asOfBlock: number | undefined;
  readonly prefersFinal?: boolean;
  /** True for an entry per (token, owner), false for an entry per token. */
  readonly byPair: boolean;
}

/** Entries per batch: one to two milliseconds of the request thread, without their metadata. */
const BATCH = 500;

/**
 * Begins a walk, or goes on with that of a cursor.
 * @throws Refusal `invalid_parameter` above the head, `not_found` if the contract is no NFT or has no token yet,
 *   `not_indexed_yet` above what is indexed, `cursor_reorged` if the cursor's block is lost
 */
export async function startWalk(
  source: WalkSource,
  { cursor, asOfBlock, prefersFinal = false, byPair }: WalkRequest,
): Promise<StartedWalk> {
  const { chain } = source;
  const collection = await currentCollection(source, cursor);
  if (cursor !== undefined) {
    const { finalized } = startPage(source, collection, chain, { cursor });
    return { walk: cursor, finalized };
  }
  if (collection.status === "not_nft" || collection.status === "not_a_contract") {
    throw new Refusal("not_found", `address: ${source.address} is no NFT contract, so it has no tokens`);
  }
  const newest = currentBlock(collection, chain)?.number;
  const block = asOfBlock ?? (prefersFinal || newest === undefined ? newestFinalBlock(source, collection) : newest);
  const snapshot = snapshotOf(collection, chain, block);
  const common = { limit: BATCH, hex: false, withTotal: false, part: undefined };
  const first = { ...common, holders: byPair, asOfBlock: block };
  const { walk, finalized } = startPage(source, collection, chain, { first }, snapshot);
  if (walk.block === undefined) throw new Refusal("not_indexed_yet", "nothing of the collection is indexed yet");
  return { walk: { ...walk, block: walk.block }, finalized };
}

/** Names the listing of a walk: the same name for the same tokens and owners, whatever was transferred since. */
export function listingName({ version, base, rewrittenAt, end }: Collection, { walk, finalized }: StartedWalk): string {
  const { block, hash, above, chainVersion } = walk;
  if (block >= (end?.number ?? 0)) return `version ${version}`;
  return `${base}/${rewrittenAt}/${block}/${hash || above?.hash || (finalized ? "final" : chainVersion)}`;
}

/**
 * The newest final block with tokens of the collection. On a young chain no final block has any, so the newest shown block
 * is taken. A file without rows would look like a collection without tokens.
 * @throws Refusal `not_found` if there is no token yet, `not_indexed_yet` while it may be found
 */
function newestFinalBlock({ address, chain }: WalkSource, collection: Collection): number | undefined {
  const { status } = collection;
  const final = chain.finalized()?.number;
  const current = currentBlock(collection, chain)?.number;
  const isSynced = status === "synced";
  // Without a followed chain, only a finished backfill tells which block is the newest final one.
  const isKnown = current !== undefined && (final !== undefined || isSynced);
  const isAhead = isSynced && current !== undefined && (final ?? current) > current;
  const found = [isAhead ? current : (final ?? current), current].find(
    (block) => block !== undefined && collectionAt(collection, block).ledger.rowsAt(block) > 0,
  );
  if (isKnown && found !== undefined) return found;
  if (!isKnown || !isSynced) {
    throw new Refusal("not_indexed_yet", "the collection is still being indexed; wait, or give as_of_block");
  }
  const text = `address: ${address} has no token at block ${current}, the newest one; export it after its first mint, or give as_of_block for a file without rows`;
  throw new Refusal("not_found", text);
}

export interface WalkBatch<Facts> {
  readonly collection: Collection;
  readonly entries: readonly Entry[];
  /** Where each entry is; `positionOf` makes a place of it. */
  readonly starts: Slice["starts"];
  /** One per entry; empty if the walk reads no facts. */
  readonly facts: readonly Facts[];
  /** The place behind the batch; undefined at the end of the listing. */
  readonly next: Position | undefined;
}

interface BatchOptions<Facts> {
  readonly limit?: number;
  /** Returns facts of the first entries: of at least one, and of as many as memory allows. */
  readonly factsOf?: ((entries: readonly Entry[]) => Promise<readonly Facts[]>) | undefined;
}

/**
 * Yields the entries of a walk from its place on, a batch at a time. Reads nothing before it is asked for the next batch.
 * @throws Refusal `cursor_reorged` if the block left the canonical chain, or the collection was indexed anew
 */
export async function* batchesOf<Facts = never>(
  source: WalkSource,
  start: StartedWalk,
  { limit = BATCH, factsOf }: BatchOptions<Facts> = {},
): AsyncGenerator<WalkBatch<Facts>> {
  for (let walk: Walk = { ...start.walk, limit }; walk.position !== undefined; ) {
    const collection = await currentCollection(source, start.walk);
    const whole = await currentPlan(source, collection, { cursor: walk });
    const facts = factsOf === undefined || whole.entries.length === 0 ? [] : await factsOf(whole.entries);
    const plan = factsOf === undefined ? whole : cutPlan(whole, facts.length);
    const { entries, next } = plan;
    yield { collection: plan.collection, entries, starts: plan.starts, facts, next };
    walk = { ...walk, position: next, page: walk.page + 1 };
    await yieldToEventLoop();
    assertWanted();
  }
  await assertKept(source, start);
}

/** Asserts that the walk's block is still canonical. @throws Refusal `cursor_reorged` */
export async function assertKept(source: WalkSource, { walk }: StartedWalk): Promise<void> {
  const collection = await currentCollection(source, walk);
  const snapshot = snapshotOf(collection, source.chain, undefined);
  resolveWalk(source, collection, source.chain, { cursor: walk }, snapshot);
}

/**
 * Runs a reading of the walk's block in slices, from its beginning whenever the collection changed below it. Between the end
 * of the reading and the return nothing is awaited, so its result is true at the block.
 * @throws Refusal `cursor_reorged` if the block is lost; the reason of the abort once the client is gone
 */
export async function readKept<T>(
  source: WalkSource,
  start: StartedWalk,
  read: (collection: Collection) => Generator<void, T>,
): Promise<T> {
  for (;;) {
    await assertKept(source, start);
    const collection = await currentCollection(source, start.walk);
    const { rewrittenAt } = collection;
    const reading = read(collection);
    // A fork above the block, or an eviction, moves the newer entries that the reading passes over.
    for (let isSame = true; isSame; ) {
      const { done, value } = Budget.timed(() => reading.next());
      if (done === true) return value;
      await yieldToEventLoop();
      assertWanted();
      const now = await currentCollection(source, start.walk);
      isSame = now === collection && now.rewrittenAt === rewrittenAt;
    }
  }
}

/** The number of a place that counts something else than rows: owners of a ranking, transfers of a history. */
export const numberOfPlace = (position: Position | undefined): number | undefined => position?.[0];
/** A place that counts something else than rows, as a cursor has it. */
export const placeOfNumber = (number: number): Position => [number, 0, 0, 0];
