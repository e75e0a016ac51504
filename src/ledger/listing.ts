/**
 * Reads pages of entries from a ledger as of a block. A position is a row number or, for holders, a place in the order
 * of pairs, so a deep page costs as much as the first. The entries are plain facts; `record.ts` writes them as JSON.
 */
import { TransferKind } from "../events/columns.ts";
import type { Amount } from "./balance-entries.ts";
import type { Ledger } from "./ledger.ts";
import type { TokenLinks } from "./owners.ts";
import { type IdRange, type Position, rangeOfCode } from "./rows.ts";
import { CHUNK_BITS, CHUNK_MASK, type Row, type Slot, type WordTable } from "./tables.ts";
import { PAUSED, STEPS_PER_SLICE } from "./trails.ts";

// Prefetches the history entries that a page needs. They are scattered over a long history. If the page read them one
// by one, each cache miss would delay the record being written; in a loop that does nothing else, the misses overlap.

/** Result of the last loop. Without a use of it the compiler would remove the reads. */
export let seen = 0;

/** Reads the newest entry of each of `count` slots from `slot` on. Skips tails that are not entries of this table. */
function prefetchTails(links: TokenLinks, entries: WordTable, slot: Slot, count: number): void {
  const { chunks: linkChunks } = links.table;
  const { chunks, width, count: known } = entries;
  let found = 0;
  for (let i = slot; i < slot + count; i++) {
    const tail = (linkChunks[i >>> CHUNK_BITS] as Int32Array)[(i & CHUNK_MASK) * 3 + 1] as number;
    if (tail >= 0 && tail < known)
      found ^= (chunks[tail >>> CHUNK_BITS] as Int32Array)[(tail & CHUNK_MASK) * width] as number;
  }
  seen = found;
}

/** One entry of a listing. Owner and minter are indexes of the address table. */
export interface Entry {
  readonly kind: TransferKind;
  /** A number if that is exact. */
  readonly id: Amount;
  /** -1: the token has several holders. */
  readonly owner: number;
  readonly amount: Amount;
  readonly block: number;
  readonly blockMinted: number;
  /** -1: ERC-1155 tokens have no single minter. */
  readonly minter: number;
}

export interface Slice {
  readonly entries: Entry[];
  /** The place of each entry: its row for tokens, its position for holders. */
  readonly starts: readonly (number | Position)[];
  /** Start of the next page; undefined at the end of the listing. */
  readonly next: Position | undefined;
}

const ZERO_OWNER = 0;
/** Steps per slice of a walk over pairs: 0.5 to 1 ms of the request thread. */
export const HOLDERS_AT_ONCE = 1_024;

/** Steps per slice of a scan of tokens: rows, and history entries walked for them. */
export const TOKENS_AT_ONCE = 16_384;

export type EntryVisitor = (position: Position, entry: () => Entry) => boolean;
/** Called at the start of an id range. Returns how many of its ids to skip. */
type Jump = (range: number) => number;

function singleEntry(ledger: Ledger, slot: Slot, at: number, block: number): Entry {
  const { tokens, owners, rows } = ledger;
  const range = at < -1 ? rows.ranges[rangeOfCode(at)] : undefined;
  const mint = ledger.mintOf(slot, block);
  const mintRange = mint < -1 ? rows.ranges[rangeOfCode(mint)] : undefined;
  return {
    kind: tokens.kind(slot),
    id: tokens.idAmount(slot),
    owner: range?.to ?? owners.to(at),
    amount: 1,
    block: range?.block ?? owners.block(at),
    blockMinted: mintRange?.block ?? owners.block(mint),
    minter: mintRange?.to ?? owners.to(mint),
  };
}

/** The slot of a range's id if it ever moved, or -1. */
function movedSlot({ tokens }: Ledger, id: bigint): Slot {
  return tokens.findId(TransferKind.erc721, id);
}

/**
 * A row of a scan, with all that an entry is made from. A scan reuses one object, because it visits thousands of rows.
 */
export interface FoundRow {
  row: Row;
  /** -1: a token of an id range that never moved. */
  slot: Slot;
  /** The token's owner entry, or the code of its id range. */
  at: number;
  range: number;
  offset: number;
  /** Supply of an ERC-1155 token. */
  supply: Amount;
}

/** The entry of a row; undefined if a walk paused, and the caller must call again. */
function entryOf(ledger: Ledger, { slot, at, range, offset, supply }: FoundRow, block: number): Entry | undefined {
  const { tokens, links, balances, rows } = ledger;
  if (slot < 0) {
    const minted = rows.ranges[range] as IdRange;
    return {
      kind: TransferKind.erc721,
      id: minted.id + BigInt(offset),
      owner: minted.to,
      amount: 1,
      block: minted.block,
      blockMinted: minted.block,
      minter: minted.to,
    };
  }
  if (tokens.kind(slot) !== TransferKind.erc1155) return singleEntry(ledger, slot, at, block);
  const last = balances.find(slot, links.tail(slot), block);
  if (last === PAUSED) return undefined;
  const owner = balances.soleHolder(slot, last, supply);
  if (owner === PAUSED) return undefined;
  return {
    kind: TransferKind.erc1155,
    id: tokens.idAmount(slot),
    owner,
    amount: supply,
    block: balances.block(last),
    blockMinted: balances.block(ledger.mintOf(slot, block)),
    minter: -1,
  };
}

/**
 * Visits rows in order of first appearance, without burned tokens. Returns the row at which to resume after one slice
 * of steps; undefined at the end, or if `visit` returned false.
 * @param visit returns undefined to pause: the next scan visits the same row again
 */
export function scanTokens(
  ledger: Ledger,
  block: number,
  from: number,
  visit: (found: FoundRow) => boolean | undefined,
): number | undefined {
  const { tokens, links, owners, balances, rows, gaps, steps } = ledger;
  const found: FoundRow = { row: 0 as Row, slot: 0 as Slot, at: 0, range: 0, offset: 0, supply: 0 };
  const most = steps.count + TOKENS_AT_ONCE;
  let paused: number | undefined;
  const pause = (row: Row): false => {
    paused = row;
    return false;
  };
  const show = (row: Row): boolean => visit(found) ?? pause(row);
  const visitRow = (row: Row, rowSlot: Slot, rangeIndex: number, offset: number): boolean => {
    if (++steps.count > most) return pause(row);
    let slot = rowSlot;
    found.row = row;
    found.range = rangeIndex;
    found.offset = offset;
    const range = rangeIndex >= 0 ? rows.ranges[rangeIndex] : undefined;
    if (range !== undefined) {
      // Ranges and slots are in chain order: once one is above the block, all later ones are.
      if (range.block > block) return false;
      const id = range.id + BigInt(offset);
      slot = movedSlot(ledger, id);
      if (slot < 0) {
        found.slot = -1 as Slot;
        return show(row);
      }
    }
    found.slot = slot;
    const first = links.first(slot);
    if (tokens.kind(slot) !== TransferKind.erc1155) {
      if (first >= 0 && owners.block(first) > block) return false;
      const at = owners.find(links.tail(slot), block);
      if (at === PAUSED) return pause(row);
      if (ledger.ownerAt(at) === ZERO_OWNER) return true;
      found.at = at;
      return show(row);
    }
    if (balances.block(first) > block) return false;
    const supply = balances.findSupply(slot, block);
    if (supply === PAUSED) return pause(row);
    if (supply === 0) return true;
    found.supply = supply;
    return show(row);
  };
  rows.scan(from, visitRow, (row) => gaps.passFull(row, block));
  return paused;
}

/** Remembers the owner entry of each token at a block, because a scan meets a token at each of its entries. */
export class OwnerEntryCache {
  /** By slot: entry + 1 from 0 on, entry - 1 below 0, and 0 for an unknown slot. */
  readonly #entries: Int32Array;

  /** @param count of slots now; later slots are not remembered */
  constructor(count: number) {
    this.#entries = new Int32Array(count);
  }

  get(slot: Slot): number | undefined {
    const kept = this.#entries[slot] ?? 0;
    if (kept === 0) return undefined;
    return kept > 0 ? kept - 1 : kept + 1;
  }

  set(slot: Slot, entry: number): void {
    this.#entries[slot] = entry >= 0 ? entry + 1 : entry - 1;
  }
}

/** Results of earlier scans of pairs at the same block. */
interface ScanState {
  readonly walked: Pick<Map<number, number>, "get"> & { set(slot: Slot, entry: number): unknown };
  /** The walk of `isFirstOfPair` for `entry` that paused at `before`. */
  unfinished: { readonly entry: number; readonly before: number } | undefined;
}

export const initialScanState = (walked: ScanState["walked"] = new Map<number, number>()): ScanState => ({
  walked,
  unfinished: undefined,
});

/** State of the earlier scans, and the length of this one. */
interface ScanOptions {
  readonly seen: ScanState;
  readonly jump?: Jump;
  /** Approximate number of steps. */
  readonly most: number;
}

/**
 * Visits (token, owner) pairs in order of first appearance. A position is (owner entry, range, offset in it, holding):
 * three lists, merged by when their members appeared. Returns the position at which to resume after `most` steps;
 * undefined at the end, or if `visit` returned false.
 */
export function scanHolders(
  ledger: Ledger,
  block: number,
  from: Position,
  visit: EntryVisitor,
  { seen, jump, most }: ScanOptions,
): Position | undefined {
  const { tokens, links, owners, balances, rows, steps } = ledger;
  const entries = owners.countAt(block);
  let [i, r, offset, h] = from;
  const end = steps.count + most;
  const entryAt = (slot: Slot): number => {
    const tail = links.tail(slot);
    if (tail < 0 || owners.block(tail) <= block) return tail;
    const known = seen.walked.get(slot);
    if (known !== undefined) return known;
    const at = owners.find(tail, block);
    // An entry at or before the block keeps the slot for its token. Without one, a reorg may reuse the slot.
    if (at >= 0) seen.walked.set(slot, at);
    return at;
  };
  /** True if an entry is the first by which its receiver got its token; undefined if the walk paused. */
  const isFirstOfPair = (entry: number): boolean | undefined => {
    const to = owners.to(entry);
    let before = seen.unfinished?.entry === entry ? seen.unfinished.before : owners.prev(entry);
    for (let left = STEPS_PER_SLICE; before >= 0; before = owners.prev(before), steps.count++) {
      if (owners.to(before) === to) return false;
      if (left-- > 0) continue;
      seen.unfinished = { entry, before };
      return undefined;
    }
    return before === -1 || ledger.ownerAt(before) !== to;
  };
  for (; ; steps.count++) {
    if (steps.count >= end) return [i, r, offset, h];
    const range = rows.ranges[r];
    const rangeIsNext = range !== undefined && range.block <= block && (offset > 0 || range.entryAt <= i);
    h = balances.nextHolding(h);
    if (offset === 0 && h < balances.count && balances.holdingAfter(h) <= i + r) {
      if (balances.block(h) > block) return undefined;
      const holding = h++;
      const owner = balances.holdingOwner(holding);
      const last = balances.findEntry(holding, block);
      if (last === PAUSED) return [i, r, 0, holding];
      const amount = balances.heldAfter(last);
      if (amount === 0) continue;
      const entry = () => {
        const id = tokens.idAmount(balances.holdingSlot(holding));
        const [minted, newest] = [balances.block(holding), balances.block(last >>> 1)];
        return { kind: TransferKind.erc1155, id, owner, amount, block: newest, blockMinted: minted, minter: -1 };
      };
      if (!visit([i, r, 0, holding], entry)) return undefined;
    } else if (rangeIsNext) {
      if (offset === 0 && jump !== undefined) offset = jump(r);
      if (offset >= range.count) {
        r++;
        offset = 0;
        continue;
      }
      const id = range.id + BigInt(offset);
      const here: Position = [i, r, offset, h];
      const slot = movedSlot(ledger, id);
      const at = slot < 0 ? -1 : entryAt(slot);
      if (at === PAUSED) return here;
      offset++;
      if (offset === range.count) {
        r++;
        offset = 0;
      }
      if (slot >= 0 && ledger.ownerAt(at) !== range.to) continue;
      const last = slot >= 0 && at >= 0 ? owners.block(at) : range.block;
      const entry = () => ({
        kind: TransferKind.erc721,
        id,
        owner: range.to,
        amount: 1,
        block: last,
        blockMinted: range.block,
        minter: range.to,
      });
      if (!visit(here, entry)) return undefined;
    } else if (i < entries) {
      const at = i++;
      const slot = owners.slot(at);
      const to = owners.to(at);
      if (to === ZERO_OWNER) continue;
      const current = entryAt(slot);
      if (current === PAUSED) return [at, r, 0, h];
      if (ledger.ownerAt(current) !== to) continue;
      const isFirst = isFirstOfPair(at);
      if (isFirst === undefined) return [at, r, 0, h];
      if (!isFirst) continue;
      const entry = () => ({
        ...singleEntry(ledger, slot, current, block),
        blockMinted: owners.block(at),
      });
      if (!visit([at, r, 0, h], entry)) return undefined;
    } else return undefined;
  }
}

/** Reads the entries of a page's single-owner tokens ahead, so that they are in the processor's cache. */
function prefetchEntries({ rows, tokens, links, owners }: Ledger, row: Row, limit: number): void {
  const { slot, count } = rows.slotsAt(row);
  if (count === 0 || tokens.kind(slot) === TransferKind.erc1155) return;
  prefetchTails(links, owners.table, slot, Math.min(count, limit));
}

interface SliceOptions {
  readonly block: number;
  readonly from: Position;
  readonly limit: number;
}

/**
 * Reads up to `limit` (token, owner) pairs after `block`, from `from` on. Yields between slices, because the walk
 * passes any number of pairs that were given away. Between slices the ledger may change, except at or below that
 * block.
 */
export function* readHoldersInSlices(ledger: Ledger, { block, from, limit }: SliceOptions): Generator<void, Slice> {
  const entries: Entry[] = [];
  const starts: Position[] = [];
  const seen = initialScanState();
  let next: Position | undefined;
  const visit: EntryVisitor = (position, entry) => {
    if (entries.length === limit) {
      next = position;
      return false;
    }
    starts.push(position);
    entries.push(entry());
    return true;
  };
  for (let at: Position | undefined = from; ; ) {
    at = scanHolders(ledger, block, at, visit, { seen, most: HOLDERS_AT_ONCE });
    if (at === undefined) return { entries, starts, next };
    yield;
  }
}

/** Like `readHoldersInSlices`, with one entry per token. */
function* readTokensInSlices(ledger: Ledger, { block, from, limit }: SliceOptions): Generator<void, Slice> {
  const entries: Entry[] = [];
  const starts: number[] = [];
  let next: Position | undefined;
  const visit = (found: FoundRow): boolean | undefined => {
    if (entries.length === limit) {
      next = [found.row, 0, 0, 0];
      return false;
    }
    const entry = entryOf(ledger, found, block);
    if (entry === undefined) return undefined;
    starts.push(found.row);
    entries.push(entry);
    return true;
  };
  prefetchEntries(ledger, from[0] as Row, limit);
  for (let row: Row | undefined = from[0] as Row; ; ) {
    row = scanTokens(ledger, block, row, visit) as Row | undefined;
    if (row === undefined) return { entries, starts, next };
    yield;
  }
}

/** Reads the entries of a listing after `block`, in slices. */
export const readInSlices = (ledger: Ledger, { holders, ...options }: SliceOptions & { holders: boolean }) =>
  holders ? readHoldersInSlices(ledger, options) : readTokensInSlices(ledger, options);

/** Reads up to `limit` entries of the listing after `block`, from `from` on, in one go. */
export function readSlice(ledger: Ledger, options: SliceOptions & { holders: boolean }): Slice {
  for (const work = readInSlices(ledger, options); ; ) {
    const { done, value } = work.next();
    if (done === true) return value;
  }
}
