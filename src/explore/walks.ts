/** Entries that match, and the history of a token: readings along a walk, which are true at its block. */
import type { Collection } from "../collections/collection.ts";
import { yieldToEventLoop } from "../core/background.ts";
import type { Entry } from "../ledger/entries.ts";
import {
  kindsOf,
  NEWEST,
  readHistory,
  type TokenHistory,
  type TokenName,
  type TokenTransfer,
} from "../ledger/history.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Position } from "../ledger/rows.ts";
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
export function tokenOfId(ledger: Ledger, id: bigint): TokenName | undefined {
  const [kind] = kindsOf(ledger, id);
  return kind === undefined ? undefined : { kind, id };
}

export interface HistoryPage {
  readonly transfers: readonly (Omit<TokenTransfer, "from" | "to"> & { readonly from: string; readonly to: string })[];
  readonly next: Position | undefined;
}

/** Returns transfers of a token, newest first, from the walk's place on. @throws Refusal `cursor_reorged` if the block is lost */
export async function historyPage(
  source: WalkSource,
  start: StartedWalk,
  token: TokenName,
  { isFirst, limit }: { readonly isFirst: boolean; readonly limit: number },
): Promise<HistoryPage> {
  const { block, position } = start.walk;
  const from = isFirst ? NEWEST : (numberOfPlace(position) ?? NEWEST);
  for (;;) {
    await assertKept(source, start);
    const collection = await currentCollection(source, start.walk);
    const { rewrittenAt } = collection;
    const ledger = ledgerOf(collection, start.walk);
    const reading = readHistory(ledger, token, { block, from, limit });
    // A fork above the block, or an eviction, moves the newer entries that the reading passes over.
    for (let isSame = true; isSame; ) {
      const { done, value } = reading.next();
      if (done === true) return namedPage(ledger, value);
      await yieldToEventLoop();
      const now = await currentCollection(source, start.walk);
      isSame = now === collection && now.rewrittenAt === rewrittenAt;
    }
  }
}

function namedPage(ledger: Ledger, { transfers, next }: TokenHistory): HistoryPage {
  const name = (owner: number) => ledger.addresses.hex(owner);
  return {
    transfers: transfers.map((one) => ({ ...one, from: name(one.from), to: name(one.to) })),
    next: next === undefined ? undefined : placeOfNumber(next),
  };
}
