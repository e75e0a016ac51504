/** Entries that match, transfers, and the history of a token: readings along a walk, which are true at its block. */

import type { Address } from "../../core/hex.ts";
import type { TokenRef } from "../../events/columns.ts";
import { type Collection, collectionAt, ledgersOf } from "../collections/collection.ts";
import type { Entry } from "../ledger/entries.ts";
import { kindsOf, NEWEST, readHistory, type TokenTransfer } from "../ledger/history.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { readOwned } from "../ledger/owned.ts";
import type { Position } from "../ledger/rows.ts";
import { readTokenHolders } from "../ledger/token-holders.ts";
import { readTransfers, readTransfersUp, type Transfer } from "../ledger/transfers.ts";
import { positionOf } from "../walks/plan.ts";
import { currentCollection, ledgerOf, type WalkSource } from "../walks/snapshot.ts";
import { batchesOf, numberOfPlace, placeOfNumber, readKept, type StartedWalk } from "../walks/walk.ts";

interface FoundEntries {
  /** Holds the addresses of the entries. */
  readonly collection: Collection;
  readonly entries: readonly Entry[];
  /** The place of each entry, then that of the next match; none at the end of the listing. */
  readonly places: readonly Position[];
}

/**
 * Returns up to `limit` entries that match, from the walk's place on. Only collections with an index of traits are walked so,
 * which are small.
 * @throws Refusal `cursor_reorged` if the block is lost meanwhile
 */
export async function findEntries(
  source: WalkSource,
  start: StartedWalk,
  limit: number,
  matches: (entry: Entry) => boolean,
): Promise<FoundEntries> {
  const entries: Entry[] = [];
  const places: Position[] = [];
  let collection = await currentCollection(source, start.walk);
  for await (const batch of batchesOf(source, start)) {
    ({ collection } = batch);
    for (const [i, entry] of batch.entries.entries()) {
      if (!matches(entry)) continue;
      places.push(positionOf(batch.starts[i] as number | Position));
      if (entries.length === limit) return { collection, entries, places };
      entries.push(entry);
    }
  }
  return { collection, entries, places };
}

/**
 * Like `findEntries` for the pairs of one owner, which it finds by the lists of what the owner received.
 * @param matches a further condition
 * @throws Refusal `cursor_reorged` if the block is lost
 */
export async function ownedEntries(
  source: WalkSource,
  start: StartedWalk,
  limit: number,
  { owner, matches }: { readonly owner: Address; readonly matches: (entry: Entry) => boolean },
): Promise<FoundEntries> {
  const { block, position } = start.walk;
  const found = await readKept(source, start, function* (current): Generator<void, FoundEntries> {
    const collection = collectionAt(current, block);
    const { ledger } = collection;
    const index = ledger.addresses.find(owner);
    // The zero address receives what is burned, and owns nothing.
    if (index <= 0 || position === undefined) return { collection, entries: [], places: [] };
    for (const parties of [ledger.ownerParties, ledger.balanceParties]) {
      if (!parties.isScanned) yield* parties.complete();
    }
    return { collection, ...(yield* readOwned(ledger, index, { block, from: position, limit, matches })) };
  });
  // The reading may have built lists.
  source.projections.updateSize(source.chainId, source.address);
  return found;
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

/** The transfers that a client asks for. */
export interface TransferQuery {
  readonly id?: bigint | undefined;
  readonly from?: Address | undefined;
  readonly to?: Address | undefined;
}

export type TransfersPage = PageOf<Transfer>;

/**
 * Returns the holders of a token from the walk's place on, those who came last first.
 * @throws Refusal `cursor_reorged` if the block is lost
 */
export function holdersPage(
  source: WalkSource,
  start: StartedWalk,
  id: bigint,
  { isFirst, limit }: { readonly isFirst: boolean; readonly limit: number },
): Promise<{
  readonly collection: Collection;
  readonly entries: readonly Entry[];
  readonly next: Position | undefined;
}> {
  const { block, position } = start.walk;
  const from = isFirst || position === undefined ? undefined : ([position[0], position[1]] as const);
  return readKept(source, start, function* (current) {
    const collection = collectionAt(current, block);
    const { entries, next } = yield* readTokenHolders(collection.ledger, id, { block, from, limit });
    return { collection, entries, next: next && ([next[0], next[1], 0, 0] as const) };
  });
}

interface TransfersPageOptions {
  readonly isFirst: boolean;
  readonly limit: number;
  /** True for the oldest first. */
  readonly isRising?: boolean;
  /** The lowest block. Default: the first one. */
  readonly fromBlock?: number | undefined;
  /** As for `readTransfers`. */
  readonly takes?: (block: number) => boolean;
}

/**
 * Returns transfers of a collection, newest first unless `isRising`, from the walk's place on, through all contracts that
 * were at its address. The place's last number counts them, the present one last.
 * @throws Refusal `cursor_reorged` if the block is lost
 */
export async function transfersPage(
  source: WalkSource,
  start: StartedWalk,
  query: TransferQuery,
  { isFirst, limit, takes, fromBlock, isRising = false }: TransfersPageOptions,
): Promise<TransfersPage> {
  const { block, position } = start.walk;
  const page = await readKept(source, start, function* (collection): Generator<void, TransfersPage> {
    const ledgers = ledgersOf(collection);
    const transfers: TransfersPage["transfers"][number][] = [];
    const place = isFirst ? undefined : position;
    const last = ledgers.indexOf(ledgerOf(collection, start.walk));
    const step = isRising ? 1 : -1;
    for (let life = place?.[3] ?? (isRising ? 0 : last); life >= 0 && life <= last; life += step) {
      const ledger = ledgers[life] as Ledger;
      const from = place?.[3] === life ? ([place[0], place[1], place[2]] as const) : undefined;
      const reading = { block, from, limit: limit - transfers.length, fromBlock, takes };
      const slice = yield* transfersOf(ledger, query, reading, isRising);
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
  isRising: boolean,
): ReturnType<typeof readTransfers> {
  const indexOf = (party: Address | undefined) => (party === undefined ? undefined : ledger.addresses.find(party));
  const filter = { id, from: indexOf(from), to: indexOf(to) };
  if (filter.from === -1 || filter.to === -1) return { transfers: [], next: undefined };
  return yield* (isRising ? readTransfersUp : readTransfers)(ledger, filter, options);
}

/** Transfers with their parties as addresses. */
function named<T extends { readonly from: number; readonly to: number }>(ledger: Ledger, transfers: readonly T[]) {
  const name = (party: number) => ledger.addresses.hex(party);
  return transfers.map((one) => ({ ...one, from: name(one.from), to: name(one.to) }));
}
