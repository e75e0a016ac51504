/**
 * Answers the operations that explore a collection. In: a request with its cursor. Out: the body at one block of the walk,
 * with headers of that block and the cursor of the next page.
 */
import type { Static } from "@sinclair/typebox";
import { isoTime } from "../../core/block-time.ts";
import { invalidParameter } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import { runInSlices } from "../../core/turns.ts";
import type { Requester } from "../../core/work.ts";
import type { TokenRef } from "../../events/columns.ts";
import { type Collection, collectionAt } from "../../nft/collections/collection.ts";
import type { Explorer } from "../../nft/explore/readings.ts";
import type { TraitIndexes } from "../../nft/explore/traits.ts";
import { type TransferQuery, type TransfersPage, transfersPage } from "../../nft/explore/walks.ts";
import type { Entry } from "../../nft/ledger/entries.ts";
import { entryOfToken } from "../../nft/ledger/history.ts";
import { countEntries } from "../../nft/ledger/listing.ts";
import { type Position, START } from "../../nft/ledger/rows.ts";
import { recordsOf } from "../../nft/listings/pages.ts";
import type { RecordFacts } from "../../nft/listings/record.ts";
import { signCursor, type Walk } from "../../nft/walks/cursor.ts";
import { currentCollection, ledgerOf, type WalkSource } from "../../nft/walks/snapshot.ts";
import { assertKept, listingName, type StartedWalk, startWalk } from "../../nft/walks/walk.ts";
import { asOfBlock, type LogFacts, type NftChain, responseHeaders } from "../wire/answered-block.ts";
import type { ParsedValues } from "../wire/parameters.ts";
import { type COLLECTION_PARTS, type CollectionDeps, requestedCollection } from "./collection-path.ts";
import type { PAGE_PARAMETERS } from "./explore-parameters.ts";
import { type ListingDeps, namesFor } from "./listing.ts";
import { walkOf } from "./listing-parameters.ts";
import type { NftRecord } from "./nft-models.ts";

export interface ExploreDeps extends CollectionDeps, Omit<ListingDeps, "preview" | "demand" | "maxPageSize"> {
  readonly explorer: Explorer;
}

/** A request for one collection, and where its page begins. */
interface AskedPage {
  readonly path: ParsedValues<typeof COLLECTION_PARTS>;
  readonly query: Partial<ParsedValues<typeof PAGE_PARAMETERS>>;
  readonly requester: Requester;
}

/** A request that is being answered: where it reads, and how its cursors are signed. */
export interface CollectionReading {
  readonly source: WalkSource;
  readonly runtime: NftChain;
  readonly requester: Requester;
  readonly limit: number;
  readonly cursor: (Walk & { readonly block: number }) | undefined;
  readonly asOf: number | undefined;
  /** The cursor of the page after `start` that begins at this place; null without a place. */
  readonly cursorAt: (start: StartedWalk, place: Position | undefined) => string | null;
}

/** @param filter everything that a cursor depends on, beside the collection. @throws Refusal 400, 404 */
export async function readingOf(
  { path, query, requester }: AskedPage,
  deps: ExploreDeps,
  filter: readonly (string | undefined)[],
): Promise<CollectionReading> {
  const { chain, address: contract, runtime } = await requestedCollection(path, deps);
  const { chainId } = chain;
  const secret = `${deps.cursorSecret}/${JSON.stringify(filter)}`;
  const { limit = 0, as_of_block: asOf, cursor: given } = query;
  const cursor = given === undefined ? undefined : walkOf(given, secret, { chainId, address: contract });
  if (cursor !== undefined && asOf !== undefined && asOf !== cursor.block) {
    throw invalidParameter("as_of_block", "must be left out, or be the block of the cursor");
  }
  const source = { projections: deps.projections, chain: runtime.view, chainId, address: contract };
  const cursorAt: CollectionReading["cursorAt"] = ({ walk }, position) =>
    position === undefined ? null : signCursor({ ...walk, position, page: walk.page + 1, limit }, secret);
  return { source, runtime, requester, limit, cursor, asOf, cursorAt };
}

/**
 * Reads memory from the start of the walk on, in the turn of the key. Then makes the response headers, which need the header of
 * the walk's block and may wait for a node.
 * @param byPair true for a walk over pairs of token and owner
 */
export async function respond<T>(
  { source, cursor, asOf: block, runtime, requester }: Omit<CollectionReading, "cursorAt" | "limit">,
  deps: Pick<ExploreDeps, "explorer" | "isStale">,
  byPair: boolean,
  read: (start: StartedWalk) => Promise<T>,
) {
  const { body, start } = await deps.explorer.memory.run(requester, async () => {
    const start = await startWalk(source, { cursor, asOfBlock: block, byPair });
    return { body: await read(start), start };
  });
  const asOf = await asOfBlock(start, runtime);
  const headers = responseHeaders(asOf, { trouble: runtime.trouble(), isStale: deps.isStale() });
  return { body, start, headers, asOf };
}

export type RecordModel = Static<typeof NftRecord>;

interface Records {
  readonly collection: Collection;
  readonly entries: readonly Entry[];
  readonly facts: readonly RecordFacts[];
}

/** The records of a page, as the listing has them. @param hex true for token ids in hex */
export async function recordsFor(
  { collection, entries, facts }: Records,
  { source, runtime }: Pick<CollectionReading, "source" | "runtime">,
  deps: Pick<ExploreDeps, "namesOf" | "wireTypes">,
  hex = false,
): Promise<RecordModel[]> {
  const { chainId, address: contract } = source;
  const names = await namesFor(deps, runtime, {
    chainId,
    address: contract,
    name: collection.identified?.name ?? null,
  });
  const style = { native: deps.wireTypes === "native", hex };
  const records = recordsOf({ address: contract, collection, names }, entries, facts, style);
  return (await runInSlices(records)) as RecordModel[];
}

/** The metadata of a page: all of it, as known now. */
export const pageFacts = () => ({ normalizeMetadata: true, mediaItems: true, asOf: undefined });

/** The traits of a collection's listing at the walk's block, by its metadata as it is now. */
export async function traitIndex(
  { source, runtime }: CollectionReading,
  start: StartedWalk,
  { explorer }: ExploreDeps,
): ReturnType<TraitIndexes["of"]> {
  const collection = await currentCollection(source, start.walk);
  const tokens = countEntries(ledgerOf(collection, start.walk), start.walk.block, false);
  const traitsOf = (entries: readonly Entry[]) => runtime.traitsOf(source.address, entries);
  // Has the metadata in memory, so that it has a version.
  await traitsOf([]);
  const metadataVersion = `${runtime.metadataVersion(source.address)}`;
  const whole = { ...start, walk: { ...start.walk, position: START, holders: false } };
  const parts = { source, start: whole, traitsOf, metadataVersion, listing: listingName(collection, start) };
  return explorer.traits.of(parts, tokens);
}

interface TokenReading {
  readonly start: StartedWalk;
  readonly token: TokenRef;
  /** Time in ms since the epoch; undefined for the newest metadata. */
  readonly knownAt: number | undefined;
}

/** Most attempts to fetch a token's metadata that are told. */
const MAX_OUTCOMES = 100;

/** The record of a token, if it exists at the block, and the attempts to fetch its metadata. */
export async function recordOfToken(
  reading: CollectionReading,
  deps: ExploreDeps,
  { start, token, knownAt }: TokenReading,
) {
  const { source, runtime } = reading;
  const collection = collectionAt(await currentCollection(source, start.walk), start.walk.block);
  const entry = entryOfToken(collection.ledger, token, start.walk.block);
  const entries = entry === undefined ? [] : [entry];
  const { facts } = await runtime.factsOf(source.address, entries, { ...pageFacts(), asOf: knownAt });
  const [record] = await recordsFor({ collection, entries, facts }, reading, deps);
  const outcomes = await runtime.outcomesOf(source.address, token, MAX_OUTCOMES);
  const metadata = outcomes.map(({ time: ms, reason = null, hash = null }) => {
    const outcome: "resolved" | "failed" = reason === null ? "resolved" : "failed";
    return { time: new Date(ms).toISOString(), outcome, reason, hash };
  });
  return { ...(record === undefined ? {} : { record }), metadata };
}

interface TransfersWanted extends TransferQuery {
  readonly times: boolean;
  readonly transactions: boolean;
}

/**
 * Most calls for the blocks of one page, and requests for logs among them. A block costs a call for its header, and another one for
 * its logs if the client asks for transactions. The reader also asks for the walk's block before and after each fifty headers, and
 * repeats a failed call for one block in ten. All of that stays below the 100 calls of a question, and below its 64 requests for logs.
 */
const MAX_BLOCK_CALLS = 80;
const MAX_BLOCK_LOGS = 40;

/** Says which blocks a page has room for, in the order in which it is asked: those for which the node answers in bounds. */
export function roomForBlocks(
  { blockFacts }: Pick<NftChain, "blockFacts">,
  address: Address,
  wanted: { readonly times: boolean; readonly transactions: boolean },
): (block: number) => boolean {
  const taken = new Set<number>();
  let [calls, logs] = [0, 0];
  return (block) => {
    if (taken.has(block)) return true;
    const own = blockFacts.callsFor(address, block, wanted);
    if (calls + own.headers + own.logs > MAX_BLOCK_CALLS || logs + own.logs > MAX_BLOCK_LOGS) return false;
    taken.add(block);
    calls += own.headers + own.logs;
    logs += own.logs;
    return true;
  };
}

/** A page of transfers, with what the node is asked about it. */
export async function transfersAnswer(asked: AskedPage, deps: ExploreDeps, wanted: TransfersWanted) {
  const { id, from, to } = wanted;
  const reading = await readingOf(asked, deps, ["transfers", id?.toString(), from, to]);
  const { source, runtime, limit, cursor, cursorAt } = reading;
  const {
    body: page,
    start,
    headers,
  } = await respond(reading, deps, false, (start) =>
    transfersPage(source, start, wanted, {
      ...{ isFirst: cursor === undefined, limit },
      takes: roomForBlocks(runtime, source.address, wanted),
    }),
  );
  const facts = await factsOfTransfers(reading, deps, { start, page, wanted });
  const result = page.transfers.map(({ id, amount, kind: _, ...one }, i) => {
    const { time: seconds = runtime.blockFacts.timeOf(one.block), transaction = null } = facts?.[i] ?? {};
    const transfer = {
      ...one,
      time: seconds === undefined ? null : (isoTime(seconds) ?? null),
      tokenId: id.toString(),
      amount: amount.toString(),
    };
    return wanted.transactions ? { ...transfer, transaction } : transfer;
  });
  return { body: { result, cursor: cursorAt(start, page.next) }, headers };
}

interface FactsWanted {
  readonly start: StartedWalk;
  readonly page: Pick<TransfersPage, "transfers">;
  readonly wanted: Pick<TransfersWanted, "times" | "transactions">;
}

/**
 * Waits for the node, in the turn of the key; undefined if nothing is asked of it.
 * @throws Refusal `cursor_reorged`
 */
export async function factsOfTransfers(
  { source, runtime, requester }: Pick<CollectionReading, "source" | "runtime" | "requester">,
  { explorer }: Pick<ExploreDeps, "explorer">,
  { start, page: { transfers }, wanted }: FactsWanted,
): Promise<readonly LogFacts[] | undefined> {
  const { blockFacts } = runtime;
  const times = wanted.times && transfers.some(({ block }) => blockFacts.timeOf(block) === undefined);
  const transactions = wanted.transactions && transfers.length > 0;
  if (!times && !transactions) return undefined;
  const { block: number, hash, above } = start.walk;
  const at = hash === "" ? above : { number, hash };
  const facts = await explorer.node.run(requester, () =>
    blockFacts.read(source.address, transfers, { at, times, transactions }),
  );
  await assertKept(source, start);
  return facts;
}
