/**
 * The walk of an export: which block it is true at, and its entries in batches. It is a walk like that of a cursor, so
 * each batch first checks that the block is still canonical, and a ledger that was evicted meanwhile is read again.
 */
import type { Collection } from "../collections/collection.ts";
import {
  currentBlock,
  currentCollection,
  type HotCollections,
  type ShownChain,
} from "../collections/hot-collections.ts";
import { yieldToEventLoop } from "../core/background.ts";
import { Refusal } from "../core/errors.ts";
import type { Address, Hash } from "../core/hex.ts";
import type { Entry } from "../ledger/entries.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { currentPlan, startPage } from "../listings/pages.ts";
import type { RecordFacts } from "../listings/record.ts";
import { resolveWalk, snapshotOf, type Walk } from "../listings/walk.ts";

/** Entries per batch: one to two milliseconds of the request thread, without their metadata. */
const BATCH = 500;

export interface ExportSource {
  readonly projections: HotCollections;
  readonly chain: ShownChain;
  readonly chainId: number;
  readonly address: Address;
}

/** The walk of an export before its first batch. */
export interface ExportStart {
  readonly walk: Walk & { readonly block: number };
  readonly hash: Hash | "";
  readonly finalized: boolean;
}

export interface ExportBatch {
  readonly ledger: Ledger;
  readonly entries: readonly Entry[];
  /** One per entry; empty if the export reads no metadata. */
  readonly facts: readonly RecordFacts[];
}

/** Returns the metadata of the first entries: of at least one, and of as many as memory allows. */
export type FactsOf = (entries: readonly Entry[]) => Promise<readonly RecordFacts[]>;

/**
 * Decides the block of an export.
 * @param asOfBlock by default the newest final block, or the newest shown one if the collection is younger
 * @param byPair true for an entry per (token, owner), false for an entry per token
 * @throws Refusal `invalid_parameter` above the head, `not_found` if the contract is no NFT or has no token yet, `not_indexed_yet` above what is indexed
 */
export async function startExport(
  source: ExportSource,
  { asOfBlock, byPair }: { readonly asOfBlock: number | undefined; readonly byPair: boolean },
): Promise<ExportStart> {
  const { chain } = source;
  const collection = await currentCollection(source, source, undefined);
  if (collection.status === "not_nft" || collection.status === "not_a_contract") {
    throw new Refusal("not_found", `address: ${source.address} is no NFT contract, so there is nothing to export`);
  }
  const final = chain.finalized()?.number;
  const current = currentBlock(collection, chain)?.number;
  // Without a followed chain, only a finished backfill tells which block is the newest final one.
  if (asOfBlock === undefined && (current === undefined || (final === undefined && collection.status !== "synced"))) {
    throw new Refusal("not_indexed_yet", "the collection is still being indexed; wait, or give as_of_block");
  }
  const block = asOfBlock ?? newestBlock(source, collection, { current, final });
  const snapshot = snapshotOf(collection, chain, block);
  const common = { limit: BATCH, hex: false, withTotal: false, part: undefined };
  const first = { ...common, holders: byPair, asOfBlock: block };
  const { walk, finalized } = startPage(source, collection, chain, { first }, snapshot);
  if (walk.block === undefined) throw new Refusal("not_indexed_yet", "nothing of the collection is indexed yet");
  return { walk: { ...walk, block: walk.block }, hash: walk.hash, finalized };
}

/**
 * The newest final block with tokens of the collection. On a young chain no final block has any, so the newest shown block
 * is taken. A file without rows would look like a collection without tokens.
 * @throws Refusal `not_found` if there is no token yet, `not_indexed_yet` while it may be found
 */
function newestBlock(
  { address }: ExportSource,
  { status, ledger }: Collection,
  { current, final }: { readonly current: number | undefined; readonly final: number | undefined },
): number | undefined {
  const isAhead = status === "synced" && current !== undefined && (final ?? current) > current;
  const found = [isAhead ? current : (final ?? current), current].find(
    (block) => block !== undefined && ledger.rowsAt(block) > 0,
  );
  if (found !== undefined) return found;
  if (status !== "synced") {
    throw new Refusal("not_indexed_yet", "the collection is still being indexed; wait, or give as_of_block");
  }
  const text = `address: ${address} has no token at block ${current}, the newest one; export it after its first mint, or give as_of_block for a file without rows`;
  throw new Refusal("not_found", text);
}

/**
 * Yields the entries of an export, a batch at a time. Reads nothing before it is asked for the next batch.
 * @param factsOf reads the metadata of entries; without it `facts` is empty
 * @throws Refusal `cursor_reorged` if the block left the canonical chain, or the collection was indexed anew
 */
export async function* batchesOf(
  source: ExportSource,
  start: ExportStart,
  factsOf?: FactsOf,
): AsyncGenerator<ExportBatch> {
  for (let walk: Walk = start.walk; walk.position !== undefined; ) {
    const collection = await currentCollection(source, source, start.walk);
    const plan = await currentPlan(source, collection, { cursor: walk });
    const facts = factsOf === undefined || plan.entries.length === 0 ? [] : await factsOf(plan.entries);
    const read = factsOf === undefined ? plan.entries.length : facts.length;
    const rest = plan.starts[read];
    const position = rest === undefined ? plan.next : typeof rest === "number" ? ([rest, 0, 0, 0] as const) : rest;
    const entries = rest === undefined ? plan.entries : plan.entries.slice(0, read);
    yield { ledger: plan.collection.ledger, entries, facts };
    walk = { ...walk, position: position as Walk["position"], page: walk.page + 1 };
    await yieldToEventLoop();
  }
  await assertKept(source, start);
}

/** Asserts that the export's block is still canonical. @throws Refusal `cursor_reorged` */
export async function assertKept(source: ExportSource, { walk }: ExportStart): Promise<void> {
  const collection = await currentCollection(source, source, walk);
  const snapshot = snapshotOf(collection, source.chain, undefined);
  resolveWalk(source, collection, source.chain, { cursor: walk }, snapshot);
}
