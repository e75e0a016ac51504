/**
 * Plans a page for a route: at once if no long walk is needed, else in slices that count the pairs of its block and
 * read its entries. The snapshot is decided before the first await and stays valid as long as its block does. If the
 * block changes meanwhile, the planning starts again.
 */
import { yieldToEventLoop } from "../../core/turns.ts";
import { type Collection, collectionAt } from "../collections/collection.ts";
import type { Ledger } from "../ledger/ledger.ts";
import {
  areHoldersReady,
  buildPairIndexInSlices,
  countEntries,
  findRowInSlices,
  readInSlices,
  type Slice,
} from "../ledger/listing.ts";
import { beginningOf, type FirstPage, type PageFrom } from "./cursor.ts";
import { EMPTY_SLICE, type PagePlan, type PageStart, planPage, sliceOf, startPage } from "./plan.ts";
import { currentCollection, isStillTrue, type ShownChain, snapshotOf, type WalkSource } from "./snapshot.ts";

/** Starts in slices. After that the page is read in one go, so that a request ends even if reorgs keep coming. */
const MAX_BEGINNINGS = 4;

/**
 * Plans a page of the collection that `currentCollection` just returned.
 * @throws Refusal, directly or by the promise
 */
export function currentPlan(source: WalkSource, collection: Collection, from: PageFrom): PagePlan | Promise<PagePlan> {
  const { holders } = "cursor" in from ? from.cursor : from.first;
  // The first slice of the way to a range is gone here, and leaves its marks.
  const isFar = !holders && findingRange(source.chain, collection, from)?.next().done === false;
  if (holders || isFar) return planInSlices(source, collection, from);
  const start = startPage(source, collection, source.chain, from);
  const work = readingPage(start);
  const { done, value } = work.next();
  return done === true ? { ...start, ...value } : planInSlices(source, collection, from, { start, work });
}

/** A page that is being read in slices. */
interface BegunPage {
  readonly start: PageStart;
  readonly work: Generator<void, Slice>;
}

async function planInSlices(
  source: WalkSource,
  before: Collection,
  from: PageFrom,
  underWay?: BegunPage,
): Promise<PagePlan> {
  const { projections, chain, chainId, address } = source;
  let collection = before;
  for (let beginning = 1; beginning <= MAX_BEGINNINGS; beginning++) {
    const begun = beginning === 1 && underWay !== undefined ? underWay : await beginPage(source, collection, from);
    const read = begun && (await readOn(begun, chain));
    // Nothing is awaited between the last check and the page.
    if (begun !== undefined && read !== undefined) {
      projections.updateSize(chainId, address);
      return { ...begun.start, ...read };
    }
    collection = await currentCollection(source, undefined);
  }
  return planPage(source, collection, chain, from);
}

async function beginPage(source: WalkSource, collection: Collection, from: PageFrom): Promise<BegunPage | undefined> {
  const start = await startInSlices(source, collection, from);
  return start && { start, work: readingPage(start) };
}

/**
 * Walks to the start of a range of tokens as of a block. The walk leaves marks by which `positionAfter` finds the row
 * fast. Undefined at the newest block, which needs no walk.
 */
function findingRange(chain: ShownChain, collection: Collection, from: PageFrom): Generator<void, unknown> | undefined {
  if ("cursor" in from) return undefined;
  const { part, asOfBlock } = from.first;
  if (part === undefined || asOfBlock === undefined) return undefined;
  const block = snapshotOf(collection, chain, asOfBlock).block?.number;
  if (block === undefined) return undefined;
  const { ledger } = collectionAt(collection, block);
  return findRowInSlices(ledger, block, beginningOf(part, countEntries(ledger, block, false)));
}

/** The snapshot and the start of the page in it; undefined if the block changed meanwhile. */
async function startInSlices(
  source: WalkSource,
  collection: Collection,
  from: PageFrom,
): Promise<PageStart | undefined> {
  const { chain } = source;
  if ("cursor" in from) return startPage(source, collection, chain, from);
  const { first } = from;
  const snapshot = snapshotOf(collection, chain, first.asOfBlock);
  if (!first.holders) {
    const work = findingRange(chain, collection, from);
    while (work?.next().done === false) {
      await yieldToEventLoop();
      if (!isStillTrue(snapshot, collection, chain)) return undefined;
    }
    return startPage(source, collection, chain, from, snapshot);
  }
  const block = snapshot.block?.number;
  const { ledger } = collectionAt(collection, block);
  if (block !== undefined && !isStartedAtOnce(ledger, block, first)) {
    const isMade = await buildPairIndexInSlices(ledger, block);
    if (!isMade || !isStillTrue(snapshot, collection, chain) || !isStartedAtOnce(ledger, block, first))
      return undefined;
  }
  return startPage(source, collection, chain, from, snapshot);
}

function isStartedAtOnce(ledger: Ledger, block: number, { withTotal, part }: FirstPage): boolean {
  return (!withTotal && part === undefined) || areHoldersReady(ledger, block, part !== undefined);
}

function* readingPage(start: PageStart): Generator<void, Slice> {
  const options = sliceOf(start.walk);
  if (options === undefined) return EMPTY_SLICE;
  return yield* readInSlices(start.collection.ledger, { ...options, holders: start.walk.holders });
}

/** Reads the page's entries in slices; undefined if the block changed meanwhile. */
async function readOn({ start, work }: BegunPage, chain: ShownChain): Promise<Slice | undefined> {
  const { collection, walk, snapshot } = start;
  const { status, chainVersion } = snapshot;
  const { hash, above } = walk;
  const block = walk.block === undefined ? undefined : { number: walk.block, hash, above };
  for (;;) {
    if (!isStillTrue({ block, status, chainVersion }, collection, chain)) return undefined;
    const { done, value } = work.next();
    if (done === true) return value;
    await yieldToEventLoop();
  }
}
