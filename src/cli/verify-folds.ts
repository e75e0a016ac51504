/**
 * Folds a stream as the service does, and hashes the listing that comes out. A violated invariant, a headline that
 * disagrees with its events, and a missing or changed blob are errors.
 */
import { evolveChain, initialChainState } from "../chain/view.ts";
import { type Collection, evolve, initialState } from "../collections/collection.ts";
import { fromHeadline, type IndexState } from "../collections/headline.ts";
import { bytesToHex, type Hash } from "../core/hex.ts";
import { decodeTokens, NO_HASH, TransferKind } from "../events/columns.ts";
import type { ChainEvent, MetadataEvent, NftEvent, PriceEvent, Recorded } from "../events/types.ts";
import type { Entry } from "../ledger/entries.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { readSlice } from "../ledger/listing.ts";
import { type Position, rangeOfCode, START } from "../ledger/rows.ts";
import type { Slot } from "../ledger/tables.ts";
import type { EventLog, StreamHead } from "../log/event-log.ts";
import { hashOf, MetadataBook, type OutcomeDocument } from "../metadata/book.ts";
import type { MediaDocument } from "../metadata/media/media.ts";
import { blobsOf } from "../metadata/page.ts";
import { evolvePrice, initialPriceState } from "../prices/search/price-streams.ts";

/** Entries per page of a listing. An id range that is longer is hashed as a range. */
const PAGE = 1_000;

export const sha256 = () => new Bun.CryptoHasher("sha256");

/** Folds a stream like the service does, and throws at a violated invariant. */
export interface Folding {
  fold(recorded: Recorded): unknown;
  /** A summary of the whole stream. */
  end(): string;
}

export function folding(log: EventLog, { stream, headline }: StreamHead, base: number): Folding {
  const kind = stream.slice(0, stream.indexOf("/"));
  if (kind === "nft") {
    const state = initialState(base);
    return {
      fold: ({ event, version, time }) => evolve(state, event as NftEvent, version, time),
      end: () => {
        if (headline !== undefined) assertHeadline(state, fromHeadline(headline));
        return ` ${state.status} end=${state.end?.number ?? "none"} listing=${listingHash(state)}`;
      },
    };
  }
  if (kind === "chain") {
    const state = initialChainState();
    return {
      fold: ({ event, version }) => evolveChain(state, event as ChainEvent, version),
      end: () => ` head=${state.head?.number ?? "none"} finalized=${state.finalized?.number ?? "none"}`,
    };
  }
  if (kind === "metadata") {
    const book = new MetadataBook();
    let blobs = 0;
    return {
      fold: async ({ event, version, time }) => {
        book.evolve(event as MetadataEvent, version, time);
        blobs += await verifyBlobs(log, event as MetadataEvent);
      },
      end: () => ` resolved=${book.resolved} failed=${book.failed} blobs=${blobs}`,
    };
  }
  if (kind === "keys" || kind === "usage") return { fold: () => undefined, end: () => "" };
  let state = initialPriceState;
  return {
    fold: ({ event }) => {
      state = evolvePrice(state, event as PriceEvent);
    },
    end: () => "",
  };
}

/** Asserts that a headline agrees with the events. A start relies on headlines. @throws Error naming the field */
function assertHeadline(
  { status, end, identified, possibleSpam, verifiedCollection }: Collection,
  said: IndexState,
): void {
  const expected: Partial<IndexState> = {
    end: end?.number ?? -1,
    endHash: end?.hash ?? "",
    startBlock: identified?.startBlock ?? 0,
    forms: identified?.forms ?? [],
    spam: possibleSpam,
    verified: verifiedCollection,
    // Headlines of older releases lack the name.
    ...(said.name === null || identified === undefined ? {} : { name: identified.name, symbol: identified.symbol }),
    ...(said.status === "following" ? { status: status === "synced" ? "following" : "joining" } : {}),
    // A repeated request leaves the result in the events until the new identification.
    ...((status === "not_nft" || status === "not_a_contract") && said.status !== "requested" ? { status } : {}),
  };
  for (const [name, value] of Object.entries(expected)) {
    const other = said[name as keyof IndexState];
    if (String(other) !== String(value)) throw new Error(`its headline says ${name}=${other}, its events ${value}`);
  }
}

/** Checks the blobs that an event names, and those that these name, and returns their number. */
async function verifyBlobs(log: EventLog, event: MetadataEvent): Promise<number> {
  if (!("tokens" in event)) return 0;
  const documents = namesOf(event.tokens);
  const named: Hash[] = [];
  await eachBlob(log, documents, (bytes) => {
    const { body, previews = [] } = JSON.parse(Buffer.from(bytes).toString()) as Partial<
      OutcomeDocument & MediaDocument
    >;
    named.push(...(body === undefined ? [] : [body]), ...previews.map(({ hash }) => hash));
  });
  await eachBlob(log, [...new Set(named)], () => undefined);
  return documents.length + named.length;
}

function namesOf(tokens: Uint8Array): Hash[] {
  const { count, hashes } = decodeTokens(tokens);
  const names = Array.from({ length: count }, (_, i) => bytesToHex(hashes.subarray(i * 32, i * 32 + 32)) as Hash);
  return [...new Set(names)].filter((name) => name !== NO_HASH);
}

async function eachBlob(log: EventLog, hashes: readonly Hash[], visit: (bytes: Uint8Array) => void): Promise<void> {
  for await (const [hash, bytes] of blobsOf(log, hashes)) {
    if (bytes === undefined) throw new Error(`blob ${hash} is missing`);
    if (hashOf(bytes) !== hash) throw new Error(`blob ${hash} is not what its name says`);
    visit(bytes);
  }
}

/** Hashes the listings of all lives at their ends. */
function listingHash({ earlier, ledger, end }: Collection): string {
  if (end === undefined) return "none";
  const hasher = sha256();
  for (const life of [...earlier, { ledger, until: end.number }]) hashListing(hasher, life.ledger, life.until);
  return hasher.digest("hex").slice(0, 16);
}

/**
 * Hashes every (id, owner) with its amount and blocks, in the listing's order. An id range longer than a page is hashed
 * as a range, with the ids that moved: one event may stand for more ids than a walk can visit.
 */
function hashListing(hasher: Bun.CryptoHasher, ledger: Ledger, at: number): void {
  for (const holders of [false, true]) {
    for (let from: Position | undefined = START; from !== undefined; ) {
      const slice: ReturnType<typeof readSlice> = readSlice(ledger, { block: at, holders, from, limit: PAGE });
      const ranges = slice.entries.map((entry) => longRangeOf(ledger, entry, holders));
      const inRange = ranges.findIndex((range) => range >= 0);
      for (const { kind, id, owner, amount, block, blockMinted } of slice.entries.slice(
        0,
        inRange < 0 ? PAGE : inRange,
      )) {
        const holder = owner < 0 ? "" : ledger.addresses.hex(owner);
        hasher.update(`${kind} ${id} ${holder} ${amount} ${block} ${blockMinted}\n`);
      }
      from = inRange < 0 ? slice.next : behind(ledger, ranges[inRange]!, slice.starts[inRange]!);
    }
  }
  for (const line of longRanges(ledger)) hasher.update(`${line}\n`);
}

const isLong = (range: { readonly count: number } | undefined): boolean => range !== undefined && range.count > PAGE;

/**
 * The long range that an entry belongs to, or -1. With holders, only the entry of the range's first owner belongs to
 * it.
 */
function longRangeOf({ rows }: Ledger, { kind, id, owner }: Entry, holders: boolean): number {
  const range = kind === TransferKind.erc721 ? rows.rangeOf(BigInt(id)) : -1;
  return isLong(rows.ranges[range]) && (!holders || rows.ranges[range]?.to === owner) ? range : -1;
}

/** The position after a range. */
function behind({ rows }: Ledger, range: number, at: number | Position): Position {
  if (typeof at !== "number") return [at[0], range + 1, 0, at[3]];
  const { firstRow, count } = rows.ranges[range]!;
  return [firstRow + count, 0, 0, 0];
}

function* longRanges({ rows, tokens, links, owners, addresses }: Ledger): Generator<string> {
  for (const { id, count, to, block } of rows.ranges.filter(isLong)) {
    yield `range ${id} ${count} ${addresses.hex(to)} ${block}`;
  }
  for (let slot = 0 as Slot; rows.ranges.length > 0 && slot < tokens.count; slot++) {
    const [first, tail] = [links.first(slot), links.tail(slot)];
    if (first >= -1 || !isLong(rows.ranges[rangeOfCode(first)])) continue;
    yield `moved ${tokens.id(slot)} ${addresses.hex(links.owner(slot))} ${owners.block(tail)}`;
  }
}
