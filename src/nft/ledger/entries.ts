/**
 * Scans a ledger as of a block: the rows of a listing, or its (token, owner) pairs, in order of first appearance.
 * Pauses after a number of steps. The entries are plain facts; `nft/listings/record.ts` writes them as JSON.
 */
import { hasAmounts, TransferKind } from "../../events/columns.ts";
import type { Amount } from "./amounts.ts";
import type { Ledger } from "./ledger.ts";
import { type IdRange, type Position, rangeOfCode } from "./rows.ts";
import type { Row, Slot } from "./tables.ts";
import { PAUSED, STEPS_PER_SLICE } from "./trails.ts";

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
  /** -1: tokens with amounts have no single minter. */
  readonly minter: number;
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
  /** Supply of a token with amounts. */
  supply: Amount;
}

/** The entry of a row; undefined if a walk paused, and the caller must call again. */
export function entryOf(
  ledger: Ledger,
  { slot, at, range, offset, supply }: FoundRow,
  block: number,
): Entry | undefined {
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
  const kind = tokens.kind(slot);
  if (!hasAmounts(kind)) return singleEntry(ledger, slot, at, block);
  const last = balances.findTransfer(slot, links.tail(slot), block);
  if (last === PAUSED) return undefined;
  const owner = balances.soleHolder(slot, last, supply);
  if (owner === PAUSED) return undefined;
  return {
    kind,
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
    if (!hasAmounts(tokens.kind(slot))) {
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
  options: ScanOptions,
): Position | undefined {
  const scan = new HolderScan(ledger, block, from, visit, options);
  const { steps } = ledger;
  for (const end = steps.count + options.most; steps.count < end; steps.count++) {
    const outcome = scan.step();
    if (outcome === "end") return undefined;
    if (outcome === "paused") break;
  }
  return scan.position;
}

/** After `paused` the scan stands where the step began. */
type StepOutcome = "next" | "paused" | "end";

/** A scan of pairs, step by step. */
export class HolderScan {
  readonly #ledger: Ledger;
  readonly #block: number;
  readonly #visit: EntryVisitor;
  readonly #seen: ScanState;
  readonly #jump: Jump | undefined;
  /** Number of owner entries up to the block. */
  readonly #entries: number;
  #entry: number;
  #range: number;
  #offset: number;
  #holding: number;

  constructor(ledger: Ledger, block: number, from: Position, visit: EntryVisitor, { seen, jump }: ScanOptions) {
    this.#ledger = ledger;
    this.#block = block;
    this.#visit = visit;
    this.#seen = seen;
    this.#jump = jump;
    this.#entries = ledger.owners.countAt(block);
    [this.#entry, this.#range, this.#offset, this.#holding] = from;
  }

  get position(): Position {
    return [this.#entry, this.#range, this.#offset, this.#holding];
  }

  moveTo(position: Position): void {
    [this.#entry, this.#range, this.#offset, this.#holding] = position;
  }

  /**
   * Takes the member of the three lists that appeared first:
   * 1. a holding of a token with amounts, if no range is begun;
   * 2. an id of a range that is begun, or begins before the next owner entry;
   * 3. an owner entry.
   */
  step(): StepOutcome {
    const { balances, rows } = this.#ledger;
    this.#holding = balances.nextHolding(this.#holding);
    const isBegun = this.#offset > 0;
    const holdingIsNext =
      !isBegun && this.#holding < balances.count && balances.factsBefore(this.#holding) <= this.#entry + this.#range;
    if (holdingIsNext) return this.#stepHolding();
    const range = rows.ranges[this.#range];
    if (range !== undefined && range.block <= this.#block && (isBegun || range.entryAt <= this.#entry)) {
      return this.#stepRange(range);
    }
    return this.#entry < this.#entries ? this.#stepEntry() : "end";
  }

  #stepHolding(): StepOutcome {
    const { tokens, balances } = this.#ledger;
    const holding = this.#holding;
    if (balances.block(holding) > this.#block) return "end";
    const last = balances.findEntry(holding, this.#block);
    if (last === PAUSED) return "paused";
    this.#holding++;
    const amount = balances.heldAfter(last);
    if (amount === 0) return "next";
    const owner = balances.holdingOwner(holding);
    return this.#show([this.#entry, this.#range, 0, holding], () => {
      const slot = balances.holdingSlot(holding);
      const [kind, id] = [tokens.kind(slot), tokens.idAmount(slot)];
      const [minted, newest] = [balances.block(holding), balances.block(last >>> 1)];
      return { kind, id, owner, amount, block: newest, blockMinted: minted, minter: -1 };
    });
  }

  #stepRange(range: IdRange): StepOutcome {
    const { owners } = this.#ledger;
    if (this.#offset === 0 && this.#jump !== undefined) this.#offset = this.#jump(this.#range);
    if (this.#offset >= range.count) {
      this.#nextRange();
      return "next";
    }
    const id = range.id + BigInt(this.#offset);
    const here = this.position;
    const slot = movedSlot(this.#ledger, id);
    const at = slot < 0 ? -1 : this.#entryAt(slot);
    if (at === PAUSED) return "paused";
    this.#offset++;
    if (this.#offset === range.count) this.#nextRange();
    if (slot >= 0 && this.#ledger.ownerAt(at) !== range.to) return "next";
    const last = slot >= 0 && at >= 0 ? owners.block(at) : range.block;
    const { to: owner, block: blockMinted } = range;
    const kind = TransferKind.erc721;
    return this.#show(here, () => ({ kind, id, owner, amount: 1, block: last, blockMinted, minter: owner }));
  }

  #stepEntry(): StepOutcome {
    const { owners } = this.#ledger;
    const at = this.#entry;
    const slot = owners.slot(at);
    const to = owners.to(at);
    const current = to === ZERO_OWNER ? -1 : this.#entryAt(slot);
    if (current === PAUSED) return "paused";
    const isHeld = to !== ZERO_OWNER && this.#ledger.ownerAt(current) === to;
    const isFirst = isHeld && this.#isFirstOfPair(at);
    if (isFirst === undefined) return "paused";
    this.#entry++;
    if (!isFirst) return "next";
    return this.#show([at, this.#range, 0, this.#holding], () => ({
      ...singleEntry(this.#ledger, slot, current, this.#block),
      blockMinted: owners.block(at),
    }));
  }

  #show(here: Position, entry: () => Entry): StepOutcome {
    return this.#visit(here, entry) ? "next" : "end";
  }

  #nextRange(): void {
    this.#range++;
    this.#offset = 0;
  }

  /** The entry by which a token has its owner at the block, or `PAUSED`. */
  #entryAt(slot: Slot): number {
    const { links, owners } = this.#ledger;
    const tail = links.tail(slot);
    if (tail < 0 || owners.block(tail) <= this.#block) return tail;
    const known = this.#seen.walked.get(slot);
    if (known !== undefined) return known;
    const at = owners.find(tail, this.#block);
    // An entry at or before the block keeps the slot for its token. Without one, a reorg may reuse the slot.
    if (at >= 0) this.#seen.walked.set(slot, at);
    return at;
  }

  /** True if an entry is the first by which its receiver got its token; undefined if the walk paused. */
  #isFirstOfPair(entry: number): boolean | undefined {
    const { owners, steps } = this.#ledger;
    const seen = this.#seen;
    const to = owners.to(entry);
    let before = seen.unfinished?.entry === entry ? seen.unfinished.before : owners.prev(entry);
    for (let left = STEPS_PER_SLICE; before >= 0; before = owners.prev(before), steps.count++) {
      if (owners.to(before) === to) return false;
      if (left-- > 0) continue;
      seen.unfinished = { entry, before };
      return undefined;
    }
    return before === -1 || this.#ledger.ownerAt(before) !== to;
  }
}
