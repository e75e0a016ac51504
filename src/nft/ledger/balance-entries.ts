/**
 * The rows behind ERC-1155 balances: 32 bytes a transfer with an amount that fits 32 bits. A transfer is an entry in
 * two lists, its sender's and its receiver's. A list read back from an entry gives the balance after that entry.
 */
import { AmountColumn } from "./amount-column.ts";
import { type Amount, addAmounts, subtractAmounts } from "./amounts.ts";
import type { StateCodec } from "./state-codec.ts";
import { type LogPlace, type Slot, WordTable } from "./tables.ts";
import { STEPS_WITHOUT_MARKS, type Steps, Trails } from "./trails.ts";

/** In place of a holding: the zero address. Its lists are the supply of tokens. */
export const SUPPLY = -1;
/** Most entries walked to compute a balance. */
const MAX_WALK = 8;

/** Words of a transfer. */
const BLOCK = 0;
/** The token's previous transfer, or -1. */
const PREV = 1;
/** The sender's holding, or `SUPPLY`. */
const FROM = 2;
/** Link to the previous entry of the sender's list: an entry, -1, or -(2 + k) for row k of the stored balances. */
const FROM_PREV = 3;
/** The receiver's holding, `SUPPLY`, or ~owner if the transfer creates the holding. */
const TO = 4;
/** Link to the previous entry of the receiver's list. If the transfer creates the holding: the slot. */
const TO_PREV = 5;
/** Index of the log, or `NO_LOG`. */
const LOG = 6;
const WIDTH = 7;

/** In place of a log index: the ledger added the transfer, because the log misses one. */
export const NO_LOG = 0xffff_ffff;

export abstract class EntryLists {
  readonly #table = new WordTable(WIDTH);
  readonly #amounts = new AmountColumn();
  /** Balances that entries store. `#keptPrev` has the previous entry of each. */
  readonly #kept = new AmountColumn();
  readonly #keptPrev = new WordTable(1);
  /** Number of entries that the last `heldAfter` call walked. */
  #walked = 0;
  readonly #steps: Steps;
  /** Through the transfers of tokens, by slot. */
  readonly #tokenTrails: Trails;
  /** Through lists of entries, by holding, or by ~slot for a token's supply. */
  readonly #trails: Trails;

  /** @param steps counts the steps of walks */
  constructor(steps: Steps) {
    this.#steps = steps;
    const block = (transfer: number): number => this.block(transfer);
    this.#tokenTrails = new Trails({ block, before: (transfer) => this.prev(transfer) }, steps);
    this.#trails = new Trails(
      { block: (entry) => this.block(entry >>> 1), before: (entry) => this.before(entry) },
      steps,
    );
  }

  get count(): number {
    return this.#table.count;
  }

  get bytes(): number {
    const trails = this.#tokenTrails.bytes + this.#trails.bytes;
    return this.#table.bytes + this.#amounts.bytes + this.#kept.bytes + this.#keptPrev.bytes + trails;
  }

  block(transfer: number): number {
    return this.#table.get(transfer, BLOCK) >>> 0;
  }

  /** Index of the transfer's log, or `NO_LOG`. */
  logIndex(transfer: number): number {
    return this.#table.get(transfer, LOG) >>> 0;
  }

  amount(transfer: number): Amount {
    return this.#amounts.get(transfer);
  }

  /** The token's previous transfer, or -1. */
  prev(transfer: number): number {
    return this.#table.get(transfer, PREV);
  }

  countAt(block: number): number {
    return this.#table.upperBound(BLOCK, block);
  }

  /** The holding that the entry belongs to, or `SUPPLY`. */
  holdingOf(entry: number): number {
    const transfer = entry >>> 1;
    if ((entry & 1) === 0) return this.#table.get(transfer, FROM);
    const to = this.#table.get(transfer, TO);
    return to < SUPPLY ? transfer : to;
  }

  holdingOwner(holding: number): number {
    return ~this.#table.get(holding, TO);
  }

  holdingSlot(holding: number): Slot {
    return this.#table.get(holding, TO_PREV) as Slot;
  }

  #linkOf(entry: number): number {
    return this.#table.get(entry >>> 1, (entry & 1) === 0 ? FROM_PREV : TO_PREV);
  }

  /** True if the entry's transfer created the holding. */
  protected isFirst(entry: number): boolean {
    return (entry & 1) === 1 && this.#table.get(entry >>> 1, TO) < SUPPLY;
  }

  /** The previous entry of the same list, or -1. */
  protected before(entry: number): number {
    if (this.isFirst(entry)) return -1;
    const link = this.#linkOf(entry);
    return link < -1 ? this.#keptPrev.get(-2 - link, 0) : link;
  }

  /** A token's newest transfer at or before `block`, by a walk from `tail`; -1 for none, or `PAUSED`. */
  findTransfer(slot: Slot, tail: number, block: number): number {
    let transfer = tail;
    let steps = 0;
    for (; transfer >= 0 && this.block(transfer) > block; steps++) {
      if (steps === STEPS_WITHOUT_MARKS) return this.#tokenTrails.find(slot, tail, block);
      transfer = this.prev(transfer);
    }
    if (steps > 0) this.#steps.count += steps;
    return transfer;
  }

  /**
   * The newest entry of a list at or before `block`, by a walk from its tail; -1 for none, or `PAUSED`.
   * @param list a holding, or ~slot for a token's supply
   */
  protected findInList(list: number, tail: number, block: number): number {
    let entry = tail;
    let steps = 0;
    for (; entry >= 0 && this.block(entry >>> 1) > block; steps++) {
      if (steps === STEPS_WITHOUT_MARKS) return this.#trails.find(list, tail, block);
      entry = this.before(entry);
    }
    if (steps > 0) this.#steps.count += steps;
    return entry;
  }

  /** Drops stale marks of the trails, after the last `pop` of a revert. */
  cut(): void {
    this.#tokenTrails.cut(this.count);
    this.#trails.cut(2 * this.count);
  }

  /** The balance or supply after an entry; 0 for -1. */
  heldAfter(entry: number): Amount {
    this.#walked = 0;
    let [plus, minus]: [Amount, Amount] = [0, 0];
    for (let at = entry; at >= 0; ) {
      this.#walked++;
      const isFirst = this.isFirst(at);
      const link = isFirst ? -1 : this.#linkOf(at);
      if (link < -1) {
        plus = addAmounts(plus, this.#kept.get(-2 - link));
        break;
      }
      // A receiver's entry adds and a sender's subtracts. For supply it is the reverse: the zero address sends a mint.
      const amount = this.#amounts.get(at >>> 1);
      if (isFirst || ((at & 1) === 1) !== (this.holdingOf(at) === SUPPLY)) plus = addAmounts(plus, amount);
      else minus = addAmounts(minus, amount);
      at = link;
    }
    return subtractAmounts(plus, minus);
  }

  /** The link to `before` for an entry with `balance`. The last `heldAfter` call must have been for `before`. */
  #linkTo(before: number, balance: Amount): number {
    if (before < 0 || this.#walked < MAX_WALK) return before;
    this.#keptPrev.push(before);
    return -2 - this.#kept.push(balance);
  }

  /** Adds a transfer. The caller must still put its entries into lists. */
  protected add({ block, logIndex }: LogPlace, prev: number, amount: Amount): number {
    const transfer = this.#table.add();
    this.#table.set(transfer, BLOCK, block);
    this.#table.set(transfer, PREV, prev);
    this.#table.set(transfer, LOG, logIndex);
    this.#amounts.push(amount);
    return transfer;
  }

  /** Records that the transfer creates its receiver's holding. */
  protected begin(transfer: number, slot: Slot, owner: number): void {
    this.#table.set(transfer, TO, ~owner);
    this.#table.set(transfer, TO_PREV, slot);
  }

  /**
   * Puts the newest entry into the list of a holding or of a token's supply, after `before`. The last `heldAfter` call
   * must have been for `before`.
   */
  protected append(
    entry: number,
    { before, holding, balance }: { before: number; holding: number; balance: Amount },
  ): void {
    const [word, linkWord] = (entry & 1) === 0 ? [FROM, FROM_PREV] : [TO, TO_PREV];
    this.#table.set(entry >>> 1, word, holding);
    this.#table.set(entry >>> 1, linkWord, this.#linkTo(before, balance));
  }

  /** Removes the balance that the newest entry stores, if any. */
  protected retract(entry: number): void {
    if (this.isFirst(entry) || this.#linkOf(entry) >= -1) return;
    this.#kept.pop();
    this.#keptPrev.count--;
  }

  /** Removes the newest transfer; its entries must be retracted. */
  protected popTransfer(): void {
    this.#amounts.pop();
    this.#table.count--;
  }

  /** Saves all entries through the codec, or restores them. */
  *coding(codec: StateCodec): Generator<void> {
    for (const table of [this.#table, this.#keptPrev]) table.code(codec);
    for (const column of [this.#amounts, this.#kept]) yield* column.coding(codec);
  }

  /** Releases unused capacity. */
  trim(): void {
    for (const part of [this.#table, this.#amounts, this.#kept, this.#keptPrev]) part.trim();
  }
}
