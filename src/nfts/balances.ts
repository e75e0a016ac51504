/**
 * Histories of ERC-1155 balances: the lists of `entry-lists.ts`, an index entry a holding that leads to its newest
 * entry, and what is alive now. The zero address has a list for each token: of what is in circulation, raised by mints
 * and lowered by burns, so that supply has its history like any balance.
 */

import { mix } from "../core/mix.ts";
import { type Amount, addAmounts, isLess, subtractAmounts } from "./amount.ts";
import { EntryLists, NOBODY } from "./entry-lists.ts";
import { HashIndex } from "./hash-index.ts";
import type { Keeper } from "./keep.ts";
import type { TokenLinks } from "./links.ts";
import { Marks } from "./marks.ts";
import { WordTable } from "./word-table.ts";

const ZERO_OWNER = 0;

const hashPair = (slot: number, owner: number): number => {
  const hash = Math.imul(mix(mix(1, slot), owner), 0x85ebca6b);
  return hash ^ (hash >>> 16);
};

export class BalanceHistory {
  readonly #lists = new EntryLists();
  /** Transfers that brought a holding. */
  readonly #bringers = new Marks();
  /** By (slot, owner): the newest entry of the list. */
  readonly #index = new HashIndex();
  /** How many single-owner facts there were: from which transfer on, and the number. */
  readonly #after = new WordTable(2);
  readonly #links: TokenLinks;

  /** Tokens in circulation, and holdings above zero, at the newest block. */
  liveTokens = 0;
  liveHoldings = 0;

  /** @param links where each token keeps the newest entry of its circulation */
  constructor(links: TokenLinks) {
    this.#links = links;
  }

  get count(): number {
    return this.#lists.count;
  }

  get bytes(): number {
    return this.#lists.bytes + this.#bringers.bytes + this.#index.bytes + this.#after.bytes;
  }

  block(transfer: number): number {
    return this.#lists.block(transfer);
  }

  /** The token's transfer before, or -1. */
  prev(transfer: number): number {
    return this.#lists.prev(transfer);
  }

  holdingOwner(holding: number): number {
    return this.#lists.holdingOwner(holding);
  }

  holdingSlot(holding: number): number {
    return this.#lists.holdingSlot(holding);
  }

  readonly #hashOf = (entry: number): number => {
    const holding = this.#lists.holdingOf(entry);
    return hashPair(this.#lists.holdingSlot(holding), this.#lists.holdingOwner(holding));
  };

  /** Where the index has the holding of (slot, owner), or -1. */
  #find(slot: number, owner: number, hash: number): number {
    const index = this.#index;
    for (let place = index.home(hash); ; place++) {
      place = index.seek(hash, place);
      if (place < 0) return -1;
      const holding = this.#lists.holdingOf(index.rowAt(hash, place));
      if (this.holdingSlot(holding) === slot && this.holdingOwner(holding) === owner) return place;
    }
  }

  /** The newest entry of somebody's list, or -1. */
  #tailOf(slot: number, owner: number): number {
    if (owner === ZERO_OWNER) return this.#links.supplyTail(slot);
    const hash = hashPair(slot, owner);
    const place = this.#find(slot, owner, hash);
    return place < 0 ? -1 : this.#index.rowAt(hash, place);
  }

  /** What the holder holds at the newest block; of the zero address: what is in circulation. */
  balance(slot: number, owner: number): Amount {
    return this.#lists.balance(this.#tailOf(slot, owner));
  }

  /**
   * Records a transfer of `amount` > 0 and returns its index. The sender must hold that much (the zero address always
   * does) and sender and receiver must not both be the zero address.
   * @param after how many single-owner facts the collection has: the order between both kinds
   */
  push(
    { block, slot, from, to }: { block: number; slot: number; from: number; to: number },
    amount: Amount,
    { prev, after }: { prev: number; after: number },
  ): number {
    this.#index.reserve(2 * this.count + 1, this.#hashOf);
    const transfer = this.#lists.add(block, prev, amount);
    if (this.#after.count === 0 || this.#after.get(this.#after.count - 1, 1) !== after) {
      const row = this.#after.add();
      this.#after.set(row, 0, transfer);
      this.#after.set(row, 1, after);
    }
    if (from === ZERO_OWNER) this.#mint(transfer, slot, amount);
    else this.#send(transfer, slot, from, amount);
    const brings = to !== ZERO_OWNER && this.#receive(transfer, slot, to, amount);
    if (to === ZERO_OWNER) this.#burn(transfer, slot, amount);
    this.#bringers.push(brings);
    return transfer;
  }

  #mint(transfer: number, slot: number, amount: Amount): void {
    const before = this.#links.supplyTail(slot);
    const supply = this.#lists.balance(before);
    this.#lists.append(2 * transfer, { before, holding: NOBODY, balance: addAmounts(supply, amount) });
    this.#links.setSupplyTail(slot, 2 * transfer);
    if (supply === 0) this.liveTokens++;
  }

  #burn(transfer: number, slot: number, amount: Amount): void {
    const before = this.#links.supplyTail(slot);
    const left = subtractAmounts(this.#lists.balance(before), amount);
    this.#lists.append(2 * transfer + 1, { before, holding: NOBODY, balance: left });
    this.#links.setSupplyTail(slot, 2 * transfer + 1);
    if (left === 0) this.liveTokens--;
  }

  #send(transfer: number, slot: number, from: number, amount: Amount): void {
    const hash = hashPair(slot, from);
    const place = this.#find(slot, from, hash);
    const before = this.#index.rowAt(hash, place);
    const left = subtractAmounts(this.#lists.balance(before), amount);
    this.#lists.append(2 * transfer, { before, holding: this.#lists.holdingOf(before), balance: left });
    this.#index.replace(hash, place, 2 * transfer);
    if (left === 0) this.liveHoldings--;
  }

  /** Returns whether the transfer brought the holding. */
  #receive(transfer: number, slot: number, to: number, amount: Amount): boolean {
    const hash = hashPair(slot, to);
    const place = this.#find(slot, to, hash);
    if (place < 0) {
      this.#lists.begin(transfer, slot, to);
      this.#index.add(hash, 2 * transfer + 1, this.#hashOf);
      this.liveHoldings++;
      return true;
    }
    const before = this.#index.rowAt(hash, place);
    const held = this.#lists.balance(before);
    const holding = this.#lists.holdingOf(before);
    this.#lists.append(2 * transfer + 1, { before, holding, balance: addAmounts(held, amount) });
    this.#index.replace(hash, place, 2 * transfer + 1);
    if (held === 0) this.liveHoldings++;
    return false;
  }

  /** Undoes the newest transfer and returns its slot and what its token's tail was before. */
  pop(): { slot: number; prev: number } {
    const lists = this.#lists;
    const transfer = this.count - 1;
    const [sent, received] = [2 * transfer, 2 * transfer + 1];
    const receiver = lists.holdingOf(received);
    const slot = lists.holdingSlot(receiver === NOBODY ? lists.holdingOf(sent) : receiver);
    if (receiver === NOBODY) {
      if (lists.balance(received) === 0) this.liveTokens++;
    } else if (lists.balance(lists.before(received)) === 0) this.liveHoldings--;
    this.#retract(received, slot);
    if (lists.holdingOf(sent) === NOBODY) {
      if (lists.balance(lists.before(sent)) === 0) this.liveTokens--;
    } else if (lists.balance(sent) === 0) this.liveHoldings++;
    this.#retract(sent, slot);
    const prev = this.prev(transfer);
    lists.pop();
    this.#bringers.pop();
    if (this.#after.get(this.#after.count - 1, 0) === transfer) this.#after.count--;
    return { slot, prev };
  }

  /** Takes the newest entry off its list. */
  #retract(entry: number, slot: number): void {
    const holding = this.#lists.holdingOf(entry);
    const before = this.#lists.before(entry);
    if (holding === NOBODY) this.#links.setSupplyTail(slot, before);
    else if (before < 0) this.#index.remove(entry, this.#hashOf);
    else {
      const hash = this.#hashOf(entry);
      this.#index.replace(hash, this.#find(slot, this.holdingOwner(holding), hash), before);
    }
    this.#lists.retract(entry);
  }

  /** The token's newest transfer at or before `block`, walking from `tail`, or -1. */
  at(tail: number, block: number): number {
    let transfer = tail;
    while (transfer >= 0 && this.block(transfer) > block) transfer = this.prev(transfer);
    return transfer;
  }

  /** The newest entry of a holding, or -1. */
  newestEntry(holding: number): number {
    return this.#tailOf(this.holdingSlot(holding), this.holdingOwner(holding));
  }

  /** The newest entry of a holding at or before `block`, or -1. */
  entryAt(holding: number, block: number): number {
    return this.#lists.at(this.newestEntry(holding), block);
  }

  /** The entry before of the same holding, or -1. */
  entryBefore(entry: number): number {
    return this.#lists.before(entry);
  }

  /** What was held after an entry; 0 for none. */
  heldAfter(entry: number): Amount {
    return this.#lists.balance(entry);
  }

  /** The holding of a transfer's receiver; -1 for a burn. */
  receiverOf(transfer: number): number {
    return this.#lists.holdingOf(2 * transfer + 1);
  }

  /** The first holding from `holding` on, in order of appearance; `count` when there is none. */
  nextHolding(holding: number): number {
    return this.#bringers.next(holding);
  }

  /** How many single-owner facts the collection had when the holding appeared. */
  holdingAfter(holding: number): number {
    return this.#after.get(this.#after.upperBound(0, holding) - 1, 1);
  }

  /** What is in circulation of the token after `block`. */
  supplyAt(slot: number, block: number): Amount {
    return this.#lists.balance(this.#lists.at(this.#links.supplyTail(slot), block));
  }

  /**
   * The one holder of all that is in circulation (`supply`) after the token's transfer `from`, as an address index, or -1
   * when there are several. Walks back from that transfer: whoever is found to hold anything is the only holder exactly when it
   * holds everything; a transfer other than a burn ends the walk unless its receiver gave everything away since.
   */
  soleHolder(from: number, supply: Amount): number {
    // Holders met that hold nothing; back in time they did.
    let empty: Set<number> | undefined;
    for (let transfer = from; transfer >= 0; transfer = this.prev(transfer)) {
      for (const entry of [2 * transfer + 1, 2 * transfer]) {
        const holding = this.#lists.holdingOf(entry);
        if (holding === NOBODY || empty?.has(holding) === true) continue;
        // Met for the first time, so this is what the holder was left with.
        const held = this.#lists.balance(entry);
        if (held === 0) {
          empty ??= new Set();
          empty.add(holding);
          continue;
        }
        return isLess(held, supply) ? -1 : this.holdingOwner(holding);
      }
    }
    return -1;
  }

  /** Whether the transfer was a mint. */
  isMint(transfer: number): boolean {
    return this.#lists.holdingOf(2 * transfer) === NOBODY;
  }

  countAt(block: number): number {
    return this.#lists.countAt(block);
  }

  /** Hands on all balances, or takes them over. */
  keep(keeper: Keeper): void {
    for (const part of [this.#lists, this.#bringers, this.#index, this.#after]) part.keep(keeper);
    const { liveTokens, liveHoldings } = keeper.facts({ liveTokens: this.liveTokens, liveHoldings: this.liveHoldings });
    this.liveTokens = liveTokens;
    this.liveHoldings = liveHoldings;
  }

  /** Gives back what growth left over. */
  trim(): void {
    for (const part of [this.#lists, this.#bringers, this.#after]) part.trim();
  }
}
