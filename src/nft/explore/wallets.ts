/**
 * What a wallet holds over many collections, at one block of their chain. In: the collections that may have tokens of it.
 * Out: its pairs of token and owner, collection by collection, from a place on.
 */
import { AppError, Refusal } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import type { Collection } from "../collections/collection.ts";
import type { HotCollections } from "../collections/hot-collections.ts";
import type { Entry } from "../ledger/entries.ts";
import { type Position, START } from "../ledger/rows.ts";
import type { Walk } from "../walks/cursor.ts";
import type { ShownChain, WalkSource } from "../walks/snapshot.ts";
import { assertKept, type StartedWalk, startWalk } from "../walks/walk.ts";
import { ownedEntries } from "./walks.ts";

interface WalletChain {
  readonly projections: HotCollections;
  readonly chain: ShownChain;
  readonly chainId: number;
}

interface WalletReading {
  readonly owner: Address;
  /** The collections to look into, in the order of the answer. */
  readonly addresses: readonly Address[];
  /** The walk of a cursor: its collection, its block and the place there. */
  readonly cursor: StartedWalk["walk"] | undefined;
  readonly asOfBlock: number | undefined;
  readonly limit: number;
  /** Which collections count. */
  readonly accepts: (address: Address, collection: Collection) => Promise<boolean>;
  /** True for one entry of each collection. */
  readonly isOneEach: boolean;
}

/** What a wallet holds of one collection. */
export interface WalletPart {
  readonly source: WalkSource;
  readonly start: StartedWalk;
  readonly collection: Collection;
  readonly entries: readonly Entry[];
  /** The place of each entry. */
  readonly places: readonly Position[];
}

export interface WalletPage {
  readonly parts: readonly WalletPart[];
  /** A walk at the block of the page; undefined if there is no collection to look into. */
  readonly block: StartedWalk["walk"] | undefined;
  /** The walk of the next page, at its place; undefined at the end. */
  readonly next: Walk | undefined;
  /** Collections that can't be read at the block now. */
  readonly skipped: number;
}

/** Collections that are read into memory ahead of the reading. */
const AHEAD = 8;
/** Readings of a page, each begun anew because its block was lost. */
const MAX_READINGS = 3;

/**
 * Reads a page of a wallet. All collections are read at one block, and a page whose block is lost meanwhile is read again.
 * @throws Refusal `cursor_reorged` if the block of the cursor is lost
 */
export async function walletPage(of: WalletChain, reading: WalletReading): Promise<WalletPage> {
  for (let left = MAX_READINGS; ; left--) {
    try {
      return await readWallet(of, reading);
    } catch (error) {
      const isLost = error instanceof Refusal && error.code === "cursor_reorged";
      if (!isLost || reading.cursor !== undefined) throw error;
      if (left === 1) {
        throw new AppError("the chain is being reorganised", { code: "chain_moved", retryable: true, cause: error });
      }
    }
  }
}

async function readWallet(of: WalletChain, reading: WalletReading): Promise<WalletPage> {
  const { owner, cursor, limit, accepts, isOneEach } = reading;
  const addresses = cursor === undefined ? reading.addresses : reading.addresses.filter((one) => one >= cursor.address);
  const block = cursor?.block ?? reading.asOfBlock ?? of.chain.head()?.number;
  const parts: WalletPart[] = [];
  let first: CollectionWalk | undefined;
  let next: Walk | undefined;
  let [taken, skipped] = [0, 0];
  for (const [at, address] of addresses.entries()) {
    readAhead(of, addresses[at + AHEAD]);
    const here = cursor?.address === address ? cursor : undefined;
    const started = await startIn({ ...of, address }, here, block);
    if (started === undefined) {
      skipped++;
      continue;
    }
    const { source, start } = started;
    first ??= started;
    if (start.walk.hash !== first.start.walk.hash) throw lost();
    const most = isOneEach ? Math.min(1, limit - taken) : limit - taken;
    const found = await ownedEntries(source, start, most, { owner, matches: () => true });
    if (found.entries.length > 0 && !(await accepts(address, found.collection))) continue;
    if (found.entries.length > 0) parts.push({ source, start, ...found });
    taken += found.entries.length;
    const after = found.places[found.entries.length];
    if (after === undefined || (isOneEach && found.entries.length > 0)) continue;
    next = { ...start.walk, position: after };
    break;
  }
  // Each collection was read at this block while it was canonical.
  if (first !== undefined) await assertKept(first.source, first.start);
  return { parts, block: first?.start.walk, next, skipped };
}

interface CollectionWalk {
  readonly source: WalkSource;
  readonly start: StartedWalk;
}

/** Begins in a collection; undefined if it can't be read at the block: it is read again, or turned out to be none. */
async function startIn(
  source: WalkSource,
  cursor: StartedWalk["walk"] | undefined,
  asOfBlock: number | undefined,
): Promise<CollectionWalk | undefined> {
  try {
    return {
      source,
      start: await startWalk(source, { cursor, asOfBlock: cursor === undefined ? asOfBlock : undefined, byPair: true }),
    };
  } catch (error) {
    const isUnread = error instanceof Refusal && (error.code === "not_indexed_yet" || error.code === "not_found");
    if (!isUnread || cursor !== undefined) throw error;
    return undefined;
  }
}

/** The number of tokens that a wallet holds of a collection. */
export async function countOwned({ source, start }: CollectionWalk, owner: Address): Promise<number> {
  let count = 0;
  const matches = () => {
    count++;
    return false;
  };
  for (let position: Position | undefined = START; position !== undefined; ) {
    const walk: StartedWalk["walk"] = { ...start.walk, position };
    const { places } = await ownedEntries(source, { ...start, walk }, 1, { owner, matches });
    [position] = places;
  }
  return count;
}

const lost = (): Refusal =>
  new Refusal("cursor_reorged", "cursor: its block left the canonical chain; start again without it");

/** Has a collection in memory by the time it is read. A failure is that of the reading. */
function readAhead({ projections, chainId }: WalletChain, address: Address | undefined): void {
  if (address !== undefined) projections.get(chainId, address).catch(() => undefined);
}
