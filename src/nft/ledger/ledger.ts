/**
 * Ownership over time: folds a collection's transfers into columns and reverts them block by block. In: decoded
 * columns, in chain order. Out: the state at any block up to the newest. The ledger folds every transfer that the log
 * has. It counts impossible ones as anomalies: the sender is not the owner, or sends more than it holds.
 */
import { InvariantError } from "../../core/errors.ts";
import { type AmountKind, hasAmounts, sliceColumns, type TransferColumns, TransferKind } from "../../events/columns.ts";
import type { BlockRange } from "../../events/types.ts";
import { AddressTable } from "./address-table.ts";
import { type Amount, amountAt, isLess, subtractAmounts } from "./amounts.ts";
import { NO_LOG } from "./balance-entries.ts";
import { BalanceHistory } from "./balances.ts";
import { slotsOf } from "./batch-slots.ts";
import { LateMints } from "./late-mints.ts";
import { OwnerHistory } from "./owners.ts";
import { PairIndexes } from "./pair-indexes.ts";
import { PartyIndex } from "./parties.ts";
import { type Batch, foldPlain } from "./plain-transfers.ts";
import { RangeBudget } from "./range-budget.ts";
import { RowGaps } from "./row-gaps.ts";
import { type IdRange, RowOrder, rangeCode, rangeOfCode } from "./rows.ts";
import type { StateCodec } from "./state-codec.ts";
import type { LogPlace, Row, Slot } from "./tables.ts";
import { TokenLinks } from "./token-links.ts";
import { bigIntToId, idToBigInt, loadId, TokenTable } from "./token-slots.ts";
import type { Steps } from "./trails.ts";

const ZERO_OWNER = 0;
/** Longest id range that is expanded when it overlaps known ids. The rest of a longer one is an anomaly. */
const MAX_EXPANDED_RANGE = 100_000;
/** Ids expanded from such ranges per collection: 50 MB. */
const MAX_EXPANDED = 1_000_000;
/** Tokens compared with such ranges per collection: seconds. */
const MAX_LOOKED_THROUGH = 200_000_000;
/** Row numbers stay exact integers: 2^53 is the bound of a double. */
const MAX_ROWS = 2 ** 52;
/** Ids of a range looked up or transferred per slice: half a millisecond. */
const RANGE_SLICE = 4_096;

export class Ledger {
  readonly addresses = new AddressTable();
  readonly tokens = new TokenTable();
  readonly links = new TokenLinks();
  /** Steps that readers walked through histories. */
  readonly steps: Steps = { count: 0 };
  readonly owners = new OwnerHistory(this.steps);
  readonly balances = new BalanceHistory(this.links, this.steps);
  /** Readers build these. */
  readonly ownerParties = new PartyIndex(
    { table: this.owners, sender: (entry) => this.senderOf(entry), receiver: (entry) => this.owners.to(entry) },
    this.steps,
  );
  readonly balanceParties = new PartyIndex(
    {
      table: this.balances,
      sender: (transfer) => this.balances.partyOf(2 * transfer),
      receiver: (transfer) => this.balances.partyOf(2 * transfer + 1),
    },
    this.steps,
  );
  readonly rows = new RowOrder();
  readonly gaps = new RowGaps();
  /** Readers add indexes; the ledger drops the ones that a change makes stale. */
  readonly pairIndexes = new PairIndexes();
  /** Single-owner tokens that are not burned, at the newest block. */
  liveSingles = 0;
  /** Transfers that the contract should not have been able to make. */
  anomalies = 0;
  /**
   * The blocks between which a transfer is missing, according to the newest anomaly that a missing transfer explains.
   */
  missingTransferRange: BlockRange | undefined;
  readonly #lateMints = new LateMints();
  readonly #expansions = new RangeBudget(MAX_EXPANDED);
  readonly #searches = new RangeBudget(MAX_LOOKED_THROUGH);
  readonly #id = new Uint32Array(8);
  #newestBlock = -1;
  #changes = 0;

  /** Increases before every change. */
  get changes(): number {
    return this.#changes;
  }

  get bytes(): number {
    return (
      this.addresses.bytes +
      this.tokens.bytes +
      this.links.bytes +
      this.owners.bytes +
      this.balances.bytes +
      this.ownerParties.bytes +
      this.balanceParties.bytes +
      this.rows.bytes +
      this.gaps.bytes +
      this.#lateMints.bytes +
      this.pairIndexes.bytes +
      this.#expansions.bytes +
      this.#searches.bytes
    );
  }

  /** Folds decoded transfers. No block may be below the newest folded one. */
  apply(columns: TransferColumns): void {
    for (const _ of this.applySlices(columns, columns.count));
  }

  /**
   * Like `apply`, in slices of `most` transfers. At each yield, states of blocks below the columns' first block are
   * readable. They stay readable if the caller abandons the fold, but then the ledger can't fold anything more.
   */
  *applySlices(columns: TransferColumns, most: number): Generator<void> {
    const { count, blocks } = columns;
    if (count === 0) return;
    this.#changes++;
    this.pairIndexes.drop((blocks[0] as number) - 1);
    this.#advance(blocks, count);
    const { addressCount } = columns;
    const addresses = new Int32Array(addressCount);
    for (let from = 0; from < addressCount; from += most) {
      const some = columns.addresses.subarray(from * 20, Math.min(addressCount, from + most) * 20);
      addresses.set(this.addresses.intern(some), from);
      if (addressCount > most) yield;
    }
    for (let from = 0; from < count; ) {
      if (from > 0) yield;
      if (columns.kinds[from] === TransferKind.range) {
        yield* this.#foldRange(columns, addresses, from);
        from++;
        continue;
      }
      const to = endOfSlice(columns, from, most);
      this.#fold(to - from === count ? columns : sliceColumns(columns, from, to), addresses);
      from = to;
    }
  }

  #fold(columns: TransferColumns, addresses: Int32Array): void {
    const { count, kinds, blocks, logIndexes, from, to, ids, amounts } = columns;
    const slots = ids.words === 8 ? undefined : slotsOf(columns, this.tokens, this.links);
    // One object for all: the fold of amounts allocates nothing else per transfer.
    const place = { block: 0, logIndex: 0 };
    for (let i = 0; i < count; i++) {
      if (slots !== undefined) i = this.#foldPlain({ columns, addresses, slots }, i);
      if (i === count) return;
      place.block = blocks[i] as number;
      place.logIndex = logIndexes[i] as number;
      const sender = addresses[from[i] as number] as number;
      const receiver = addresses[to[i] as number] as number;
      const kind = kinds[i] as TransferKind;
      loadId(ids, i, this.#id);
      if (hasAmounts(kind)) {
        const slot = (slots?.[i] ?? -1) as Slot;
        this.#transferAmount(kind, slot, place, sender, receiver, amountAt(amounts.values, amounts.words, i));
      } else this.#transferSingle(kind, place, sender, receiver);
    }
  }

  /** @throws InvariantError if a block is below the one before */
  #advance(blocks: Uint32Array, count: number): void {
    let newest = this.#newestBlock;
    for (let i = 0; i < count; i++) {
      const block = blocks[i] as number;
      if (block < newest) throw new InvariantError("transfers are out of order", { block, before: newest });
      newest = block;
    }
    this.#newestBlock = newest;
  }

  /** Folds plain transfers from `start` on; returns the index of the first one that is not plain. */
  #foldPlain(batch: Batch, start: number): number {
    const { tokens, rows } = this;
    if (rows.ranges.length > 0) return start;
    const before = tokens.count;
    const end = foldPlain(batch, start, this);
    const minted = tokens.count - before;
    if (minted > 0) rows.addSlots(before as Slot, minted);
    this.liveSingles += minted;
    return end;
  }

  /** Transfers one token that has one owner; its id is in `#id`. */
  #transferSingle(kind: TransferKind, place: LogPlace, from: number, to: number): void {
    const { block } = place;
    const { tokens, links, owners, rows } = this;
    let slot = tokens.find(kind, this.#id);
    let owner = ZERO_OWNER;
    if (slot >= 0) {
      owner = links.owner(slot);
    } else {
      const range = kind === TransferKind.erc721 && rows.ranges.length > 0 ? rows.rangeOf(idToBigInt(this.#id)) : -1;
      slot = tokens.add(kind, this.#id);
      if (range >= 0) owner = this.ownerAt(rangeCode(range));
      links.addSlot(range >= 0 ? rangeCode(range) : -1, owner);
      if (range < 0) rows.addSlots(slot, 1);
    }
    if (owner !== from) this.#unexplained(slot, block);
    const entry = owners.addEntry(place, slot, to, links.tail(slot));
    if (owner !== from) owners.addStranger(from);
    links.setTail(slot, entry);
    links.setOwner(slot, to);
    const isFirst = links.first(slot) === -1;
    if (isFirst) links.setFirst(slot, entry);
    this.#lateMints.note(slot, entry, { isFirst, isMint: from === ZERO_OWNER });
    if (owner === ZERO_OWNER && to !== ZERO_OWNER) this.liveSingles++;
    else if (owner !== ZERO_OWNER && to === ZERO_OWNER) this.liveSingles--;
    // A token gets its row with its first entry. The row starts as a gap only if that first transfer is a burn.
    this.#changeGaps(slot, block, isFirst || owner !== ZERO_OWNER, to !== ZERO_OWNER);
  }

  /** Counts a transfer from an account that, by all earlier transfers, doesn't own the token. */
  #unexplained(slot: Slot, block: number): void {
    this.anomalies++;
    const tail = this.links.tail(slot);
    this.missingTransferRange = { fromBlock: tail < 0 ? 0 : this.#blockOf(slot, tail), toBlock: block };
  }

  /** Records a token that entered or left the listing; does nothing if `before` equals `after`. */
  #changeGaps(slot: Slot, block: number, before: boolean, after: boolean): void {
    if (before !== after) this.gaps.change(this.rowOf(slot), block, after ? -1 : 1);
  }

  /** The row of a token. */
  rowOf(slot: Slot): Row {
    const { tokens, links, rows } = this;
    const first = links.first(slot);
    if (first >= -1) return rows.rowOf(slot);
    const range = rows.ranges[rangeOfCode(first)] as IdRange;
    return (range.firstRow + Number(tokens.id(slot) - range.id)) as Row;
  }

  /** Number of rows after `block`, gaps included. */
  rowsAt(block: number): number {
    return this.rows.countAt(block, (slot) => this.#blockOf(slot, this.links.first(slot)));
  }

  /** Block of an entry (or transfer of an amount) of the slot's history. */
  #blockOf(slot: Slot, entry: number): number {
    const { tokens, owners, balances } = this;
    return hasAmounts(tokens.kind(slot)) ? balances.block(entry) : owners.block(entry);
  }

  /** The owner after an entry, or after the id range that the code stands for. */
  ownerAt(entry: number): number {
    if (entry >= 0) return this.owners.to(entry);
    return entry === -1 ? ZERO_OWNER : (this.rows.ranges[rangeOfCode(entry)]?.to ?? ZERO_OWNER);
  }

  /** The sender in the log of an entry: the owner before it, unless the log names another one. */
  senderOf(entry: number): number {
    return this.owners.stranger(entry) ?? this.ownerAt(this.owners.prev(entry));
  }

  /** Folds an ERC-2309 event of any number of ids. A mint of ids that are all new stays a range. */
  *#foldRange(columns: TransferColumns, addresses: Int32Array, at: number): Generator<void> {
    const { blocks, logIndexes, from, to, ids, amounts } = columns;
    const [block, logIndex] = [blocks[at] as number, logIndexes[at] as number];
    const [sender, receiver] = [addresses[from[at] as number] as number, addresses[to[at] as number] as number];
    const count = Number(amountAt(amounts.values, amounts.words, at));
    loadId(ids, at, this.#id);
    const first = idToBigInt(this.#id);
    const steps = Math.min(count, this.tokens.count);
    if (this.#searches.take(block, steps) < steps) {
      this.anomalies++;
      return;
    }
    const known = this.rows.overlaps(first, count) || (yield* this.#anyKnown(first, count));
    if (!known && sender === ZERO_OWNER && receiver !== ZERO_OWNER && this.rows.count + count <= MAX_ROWS) {
      this.rows.addRange({ id: first, count, block, logIndex, to: receiver, entryAt: this.owners.count });
      this.liveSingles += count;
      return;
    }
    const expanded = this.#expansions.take(block, Math.min(count, MAX_EXPANDED_RANGE));
    if (count > expanded) this.anomalies++;
    for (let i = 0; i < expanded; i++) {
      if (i % RANGE_SLICE === RANGE_SLICE - 1) yield;
      bigIntToId(first + BigInt(i), this.#id);
      this.#transferSingle(TransferKind.erc721, { block, logIndex }, sender, receiver);
    }
  }

  *#anyKnown(first: bigint, count: number): Generator<void, boolean> {
    const { tokens } = this;
    if (tokens.count < count) {
      const end = first + BigInt(count);
      for (let slot = 0 as Slot; slot < tokens.count; slot++) {
        if (slot % RANGE_SLICE === RANGE_SLICE - 1) yield;
        if (tokens.kind(slot) !== TransferKind.erc721) continue;
        const id = tokens.id(slot);
        if (id >= first && id < end) return true;
      }
      return false;
    }
    const words = new Uint32Array(8);
    for (let i = 0; i < count; i++) {
      if (i % RANGE_SLICE === RANGE_SLICE - 1) yield;
      bigIntToId(first + BigInt(i), words);
      if (tokens.find(TransferKind.erc721, words) >= 0) return true;
    }
    return false;
  }

  /**
   * Transfers an amount of a token. Its id is in `#id`; `known` is its slot, or -1 if that is not known.
   * A transfer of amount 0 is ignored.
   */
  #transferAmount(kind: AmountKind, known: Slot, place: LogPlace, from: number, to: number, amount: Amount): void {
    if (amount === 0) return;
    if (from === ZERO_OWNER && to === ZERO_OWNER) {
      this.anomalies++;
      return;
    }
    const { tokens, links, balances } = this;
    let slot = known >= 0 ? known : tokens.find(kind, this.#id);
    if (slot < 0) {
      slot = tokens.add(kind, this.#id);
      links.addSlot(-1, -1);
      this.rows.addSlots(slot, 1);
    }
    if (from !== ZERO_OWNER) {
      const held = balances.balance(slot, from);
      if (isLess(held, amount)) {
        // The log misses transfers to the sender. Count the missing amount as minted to it.
        this.#unexplained(slot, place.block);
        this.#pushAmount({ ...place, logIndex: NO_LOG }, slot, ZERO_OWNER, from, subtractAmounts(amount, held), false);
      }
    }
    this.#pushAmount(place, slot, from, to, amount, from === ZERO_OWNER);
  }

  #pushAmount(place: LogPlace, slot: Slot, from: number, to: number, amount: Amount, minted: boolean): void {
    const { links, balances } = this;
    const facts = this.owners.count + this.rows.ranges.length;
    const live = balances.liveTokens;
    const transfer = balances.push({ place, slot, from, to }, amount, { prev: links.tail(slot), facts });
    links.setTail(slot, transfer);
    const change = balances.liveTokens - live;
    const isFirst = links.first(slot) === -1;
    if (isFirst) links.setFirst(slot, transfer);
    else if (change !== 0) this.#changeGaps(slot, place.block, change < 0, change > 0);
    this.#lateMints.note(slot, transfer, { isFirst, isMint: minted });
  }

  /** Undoes everything above `block`. */
  revert(block: number): void {
    this.#changes++;
    this.pairIndexes.drop(block);
    const { tokens, links, owners, balances, rows } = this;
    // Before the transfers are gone: their parties tell which lists they leave.
    this.ownerParties.cut(owners.countAt(block));
    this.balanceParties.cut(balances.countAt(block));
    while (owners.count > 0 && owners.block(owners.count - 1) > block) {
      const entry = owners.count - 1;
      const slot = owners.slot(entry);
      const prev = owners.prev(entry);
      const owner = owners.to(entry);
      const before = this.ownerAt(prev);
      owners.count--;
      links.setTail(slot, prev);
      links.setOwner(slot, before);
      if (before === ZERO_OWNER && owner !== ZERO_OWNER) this.liveSingles--;
      else if (before !== ZERO_OWNER && owner === ZERO_OWNER) this.liveSingles++;
      this.#lateMints.retract(slot, entry);
    }
    while (balances.count > 0 && balances.block(balances.count - 1) > block) {
      const transfer = balances.count - 1;
      const { slot, prev } = balances.pop();
      links.setTail(slot, prev);
      this.#lateMints.retract(slot, transfer);
    }
    owners.cut();
    balances.cut();
    for (let last = rows.ranges.length - 1; last >= 0; last--) {
      const range = rows.ranges[last] as IdRange;
      if (range.block <= block) break;
      this.liveSingles -= range.count;
    }
    // Slots appear in chain order, so the slots without an entry are the newest. A token of a range that stays has
    // none.
    let slots = tokens.count;
    while (slots > 0 && links.tail((slots - 1) as Slot) < 0) {
      slots--;
      this.#lateMints.forget(slots as Slot);
    }
    this.gaps.revert(block);
    this.#expansions.revert(block);
    this.#searches.revert(block);
    rows.truncate(block, slots);
    tokens.truncate(slots);
    links.count = slots;
    this.#newestBlock = Math.min(this.#newestBlock, block);
  }

  /**
   * The token's first mint at or before `block`, as an entry (or transfer) of its history. If the log has no mint, its
   * first transfer.
   */
  mintOf(slot: Slot, block: number): number {
    const first = this.links.first(slot);
    const late = this.#lateMints.of(slot);
    return late !== undefined && this.#blockOf(slot, late) <= block ? late : first;
  }

  /**
   * Saves the ledger through a codec, or restores it from one, in slices. The ledger must not change between slices;
   * the caller compares `changes`.
   */
  *coding(codec: StateCodec): Generator<void> {
    const { addresses, tokens, links, owners, balances, rows, gaps } = this;
    for (const part of [addresses, tokens, links, owners, this.#expansions, this.#searches]) part.code(codec);
    for (const part of [balances, rows, gaps, this.#lateMints]) {
      yield;
      yield* part.coding(codec);
    }
    const { liveSingles, anomalies } = this;
    const facts = codec.facts({ liveSingles, anomalies, newestBlock: this.#newestBlock });
    this.liveSingles = facts.liveSingles;
    this.anomalies = facts.anomalies;
    this.#newestBlock = facts.newestBlock;
  }

  /** Releases unused capacity, at the end of a hydration. */
  trim(): void {
    for (const part of [this.addresses, this.tokens, this.links, this.owners, this.balances]) part.trim();
  }
}

/** End of a slice of up to `most` transfers from `from` on. It ends before an id range, which has slices of its own. */
function endOfSlice({ count, kinds }: TransferColumns, from: number, most: number): number {
  const end = Math.min(count, from + most);
  const range = kinds.subarray(from, end).indexOf(TransferKind.range);
  return range < 0 ? end : from + range;
}
