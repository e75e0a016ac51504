/** Entries that match, transfers, and the history of a token: readings along a walk, which are true at its block. */

import { type Collection, ledgersOf } from "../collections/collection.ts";
import { yieldToEventLoop } from "../core/background.ts";
import type { Address } from "../core/hex.ts";
import type { TokenRef } from "../events/columns.ts";
import type { Entry } from "../ledger/entries.ts";
import { kindsOf, NEWEST, readHistory, type TokenTransfer } from "../ledger/history.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Position } from "../ledger/rows.ts";
import { readTransfers, type Transfer } from "../ledger/transfers.ts";
import { positionOf } from "../walks/plan.ts";
import { currentCollection, ledgerOf, type WalkSource } from "../walks/snapshot.ts";
import { assertKept, batchesOf, numberOfPlace, placeOfNumber, type StartedWalk } from "../walks/walk.ts";

/** Entries that one request reads: about a second. The page then ends early, and its cursor goes on. */
const MAX_WALKED = 1_000_000;
/** Entries read between two checks that the block is still canonical: two to four milliseconds. */
const BATCH = 2_000;

interface Found {
  /** Holds the addresses of the entries. */
  readonly collection: Collection;
  readonly entries: readonly Entry[];
  /** The place of each entry, then that of the next match; none at the end of the listing. */
  readonly places: readonly Position[];
}

/**
 * Returns up to `limit` entries that match, from the walk's place on. Fewer if the walk to them is long: a contract can
 * have minted a range of 2^40 ids.
 * @param matches made for each ledger, because an evicted one is read again
 * @throws Refusal `cursor_reorged` if the block is lost meanwhile
 */
export async function findEntries(
  source: WalkSource,
  start: StartedWalk,
  limit: number,
  matches: (ledger: Ledger) => (entry: Entry) => boolean,
): Promise<Found> {
  const entries: Entry[] = [];
  const places: Position[] = [];
  let collection = await currentCollection(source, start.walk);
  let walked = 0;
  for await (const batch of batchesOf(source, start, { limit: BATCH })) {
    ({ collection } = batch);
    const isMatch = matches(collection.ledger);
    for (const [i, entry] of batch.entries.entries()) {
      if (!isMatch(entry)) continue;
      places.push(positionOf(batch.starts[i] as number | Position));
      if (entries.length === limit) return { collection, entries, places };
      entries.push(entry);
    }
    walked += batch.entries.length;
    if (walked >= MAX_WALKED && batch.next !== undefined) {
      places.push(batch.next);
      break;
    }
  }
  return { collection, entries, places };
}

/** The token of an id; the single-owner one if the contract has two of that id. Undefined if no log names it. */
export function tokenOfId(ledger: Ledger, id: bigint): TokenRef | undefined {
  const [kind] = kindsOf(ledger, id);
  return kind === undefined ? undefined : { kind, id };
}

/** A page of transfers, whose parties are addresses. */
interface PageOf<T> {
  readonly transfers: readonly (Omit<T, "from" | "to"> & { readonly from: string; readonly to: string })[];
  readonly next: Position | undefined;
}

/** Returns transfers of a token, newest first, from the walk's place on. @throws Refusal `cursor_reorged` if the block is lost */
export async function historyPage(
  source: WalkSource,
  start: StartedWalk,
  token: TokenRef,
  { isFirst, limit }: { readonly isFirst: boolean; readonly limit: number },
): Promise<PageOf<TokenTransfer>> {
  const { block, position } = start.walk;
  const from = isFirst ? NEWEST : (numberOfPlace(position) ?? NEWEST);
  return readKept(source, start, function* (collection) {
    const ledger = ledgerOf(collection, start.walk);
    const { transfers, next } = yield* readHistory(ledger, token, { block, from, limit });
    return { transfers: named(ledger, transfers), next: next === undefined ? undefined : placeOfNumber(next) };
  });
}

/** Runs a reading in slices, from its beginning whenever the collection changed below it. */
async function readKept<T>(
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
      const { done, value } = reading.next();
      if (done === true) return value;
      await yieldToEventLoop();
      const now = await currentCollection(source, start.walk);
      isSame = now === collection && now.rewrittenAt === rewrittenAt;
    }
  }
}

/** The transfers that a client asks for. */
export interface TransferQuery {
  readonly id?: bigint | undefined;
  readonly from?: Address | undefined;
  readonly to?: Address | undefined;
}

export type TransfersPage = PageOf<Transfer>;

/**
 * Returns transfers of a collection, newest first, from the walk's place on, through all contracts that were at its
 * address. Its last number counts them, the present one last.
 * @throws Refusal `cursor_reorged` if the block is lost
 */
export async function transfersPage(
  source: WalkSource,
  start: StartedWalk,
  query: TransferQuery,
  { isFirst, limit }: { readonly isFirst: boolean; readonly limit: number },
): Promise<TransfersPage> {
  const { block, position } = start.walk;
  const page = await readKept(source, start, function* (collection): Generator<void, TransfersPage> {
    const ledgers = ledgersOf(collection);
    const transfers: TransfersPage["transfers"][number][] = [];
    const place = isFirst ? undefined : position;
    for (let life = place?.[3] ?? ledgers.indexOf(ledgerOf(collection, start.walk)); life >= 0; life--) {
      const ledger = ledgers[life] as Ledger;
      const from = place?.[3] === life ? ([place[0], place[1], place[2]] as const) : undefined;
      const slice = yield* transfersOf(ledger, query, { block, from, limit: limit - transfers.length });
      transfers.push(...named(ledger, slice.transfers));
      if (slice.next !== undefined) return { transfers, next: [...slice.next, life] };
    }
    return { transfers, next: undefined };
  });
  // The reading may have built lists.
  source.projections.updateSize(source.chainId, source.address);
  return page;
}

function* transfersOf(
  ledger: Ledger,
  { id, from, to }: TransferQuery,
  options: Parameters<typeof readTransfers>[2],
): ReturnType<typeof readTransfers> {
  const indexOf = (party: Address | undefined) => (party === undefined ? undefined : ledger.addresses.find(party));
  const filter = { id, from: indexOf(from), to: indexOf(to) };
  if (filter.from === -1 || filter.to === -1) return { transfers: [], next: undefined };
  return yield* readTransfers(ledger, filter, options);
}

/** Transfers with their parties as addresses. */
function named<T extends { readonly from: number; readonly to: number }>(ledger: Ledger, transfers: readonly T[]) {
  const name = (party: number) => ledger.addresses.hex(party);
  return transfers.map((one) => ({ ...one, from: name(one.from), to: name(one.to) }));
}
