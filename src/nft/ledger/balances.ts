/**
 * Histories of balances of ERC-1155 and ERC-6909 tokens: the lists of `balance-entries.ts`, an index from each holding to its newest entry,
 * and the totals of the newest block. The zero address has a list per token for its supply: mints raise it, burns lower
 * it. So supply has a history like any balance.
 */
import { mix } from "../../core/seeded-hash.ts";
import { type Amount, addAmounts, isLess, subtractAmounts } from "./amounts.ts";
import { EntryLists, SUPPLY } from "./balance-entries.ts";
import { HashIndex } from "./hash-index.ts";
import { RowMarks } from "./row-marks.ts";
import type { StateCodec } from "./state-codec.ts";
import { type LogPlace, type Slot, WordTable } from "./tables.ts";
import type { TokenLinks } from "./token-links.ts";
import { PAUSED, type Steps } from "./trails.ts";

const ZERO_OWNER = 0;

const hashPair = (seed: number, slot: Slot, owner: number): number => {
  const hash = Math.imul(mix(mix(seed, slot), owner), 0x85ebca6b);
  return hash ^ (hash >>> 16);
};

export class BalanceHistory extends EntryLists {
  /** Marks the transfers that created a holding. */
  readonly #creations = new RowMarks();
  /** By (slot, owner): the newest entry of the holding's list. */
  readonly #index = new HashIndex();
  /** Numbers of single-owner facts that the collection had before transfers, as (first transfer with the number, number). */
  readonly #facts = new WordTable(2);
  /**
   * By slot: the address indexes of all holders of the token, combined by exclusive or. With one holder the word is its
   * index. With several it is meaningless, so `soleHolder` checks the balance of the address it names.
   */
  readonly #holders = new WordTable(1);
  /** Burns after which the sender has none of the token and others do, with the word of `#holders` then. See `soleHolder`. */
  readonly #emptied = new WordTable(2);
  readonly #links: TokenLinks;

  /** Tokens with a supply above zero, and holdings above zero, at the newest block. */
  liveTokens = 0;
  liveHoldings = 0;

  /**
   * @param links keeps the newest entry of each token's supply
   * @param steps counts the steps of walks
   */
  constructor(links: TokenLinks, steps: Steps) {
    super(steps);
    this.#links = links;
  }

  override get bytes(): number {
    const holders = this.#holders.bytes + this.#emptied.bytes;
    return super.bytes + this.#creations.bytes + this.#index.bytes + this.#facts.bytes + holders;
  }

  readonly #hashOf = (entry: number): number => {
    const holding = this.holdingOf(entry);
    return hashPair(this.#index.seed, this.holdingSlot(holding), this.holdingOwner(holding));
  };

  /** The place of the holding (slot, owner) in the index, or -1. */
  #find(slot: Slot, owner: number, hash: number): number {
    const index = this.#index;
    for (let place = index.home(hash); ; place++) {
      place = index.seek(hash, place);
      if (place < 0) return -1;
      const holding = this.holdingOf(index.rowAt(hash, place));
      if (this.holdingSlot(holding) === slot && this.holdingOwner(holding) === owner) return place;
    }
  }

  /** The newest entry of the owner's list, or -1. */
  #tailOf(slot: Slot, owner: number): number {
    if (owner === ZERO_OWNER) return this.#links.supplyTail(slot);
    const hash = hashPair(this.#index.seed, slot, owner);
    const place = this.#find(slot, owner, hash);
    return place < 0 ? -1 : this.#index.rowAt(hash, place);
  }

  /** The owner's balance at the newest block; for the zero address the token's supply. */
  balance(slot: Slot, owner: number): Amount {
    return this.heldAfter(this.#tailOf(slot, owner));
  }

  /**
   * Records a transfer of `amount` > 0 and returns its index. The sender must hold at least that much, unless it is the
   * zero address. Sender and receiver must not both be the zero address.
   * @param prev the token's transfer before it, or -1
   * @param facts number of single-owner facts that the collection has: it orders the two kinds
   */
  push(
    { place, slot, from, to }: { place: LogPlace; slot: Slot; from: number; to: number },
    amount: Amount,
    { prev, facts }: { prev: number; facts: number },
  ): number {
    this.#index.reserve(2 * this.count + 1, this.#hashOf);
    const transfer = this.add(place, prev, amount);
    if (this.#facts.count === 0 || this.#facts.get(this.#facts.count - 1, 1) !== facts) {
      this.#facts.push(transfer, facts);
    }
    if (from === ZERO_OWNER) this.#mint(transfer, slot, amount);
    else this.#send(transfer, slot, from, amount);
    const isCreation = to !== ZERO_OWNER && this.#receive(transfer, slot, to, amount);
    if (to === ZERO_OWNER) this.#burn(transfer, slot, amount);
    this.#creations.push(isCreation);
    return transfer;
  }

  #mint(transfer: number, slot: Slot, amount: Amount): void {
    const before = this.#links.supplyTail(slot);
    const supply = this.heldAfter(before);
    this.append(2 * transfer, { before, holding: SUPPLY, balance: addAmounts(supply, amount) });
    this.#links.setSupplyTail(slot, 2 * transfer);
    if (supply === 0) this.liveTokens++;
  }

  #burn(transfer: number, slot: Slot, amount: Amount): void {
    const before = this.#links.supplyTail(slot);
    const left = subtractAmounts(this.heldAfter(before), amount);
    this.append(2 * transfer + 1, { before, holding: SUPPLY, balance: left });
    this.#links.setSupplyTail(slot, 2 * transfer + 1);
    if (left === 0) this.liveTokens--;
    else if (this.heldAfter(2 * transfer) === 0) {
      this.#emptied.push(transfer, this.#holders.get(slot, 0));
    }
  }

  /** Adds the owner to the token's word of `#holders`, or removes it if the word has it. */
  #toggle(slot: Slot, owner: number): void {
    const holders = this.#holders;
    while (holders.count <= slot) holders.push(0);
    holders.set(slot, 0, holders.get(slot, 0) ^ owner);
  }

  #send(transfer: number, slot: Slot, from: number, amount: Amount): void {
    const hash = hashPair(this.#index.seed, slot, from);
    const place = this.#find(slot, from, hash);
    const before = this.#index.rowAt(hash, place);
    const left = subtractAmounts(this.heldAfter(before), amount);
    this.append(2 * transfer, { before, holding: this.holdingOf(before), balance: left });
    this.#index.replace(hash, place, 2 * transfer);
    if (left > 0) return;
    this.liveHoldings--;
    this.#toggle(slot, from);
  }

  /** Returns true if the transfer created the holding. */
  #receive(transfer: number, slot: Slot, to: number, amount: Amount): boolean {
    const hash = hashPair(this.#index.seed, slot, to);
    const place = this.#find(slot, to, hash);
    if (place < 0) {
      this.begin(transfer, slot, to);
      this.#index.add(hash, 2 * transfer + 1, this.#hashOf);
      this.liveHoldings++;
      this.#toggle(slot, to);
      return true;
    }
    const before = this.#index.rowAt(hash, place);
    const held = this.heldAfter(before);
    const holding = this.holdingOf(before);
    this.append(2 * transfer + 1, { before, holding, balance: addAmounts(held, amount) });
    this.#index.replace(hash, place, 2 * transfer + 1);
    if (held === 0) {
      this.liveHoldings++;
      this.#toggle(slot, to);
    }
    return false;
  }

  /** Undoes the newest transfer. Returns its slot, and the token's transfer before it. */
  pop(): { slot: Slot; prev: number } {
    const transfer = this.count - 1;
    const [sent, received] = [2 * transfer, 2 * transfer + 1];
    const receiver = this.holdingOf(received);
    const slot = this.slotOf(transfer);
    if (receiver === SUPPLY) {
      if (this.heldAfter(received) === 0) this.liveTokens++;
    } else if (this.heldAfter(this.before(received)) === 0) {
      this.liveHoldings--;
      this.#toggle(slot, this.holdingOwner(receiver));
    }
    this.#retract(received, slot);
    const sender = this.holdingOf(sent);
    if (sender === SUPPLY) {
      if (this.heldAfter(this.before(sent)) === 0) this.liveTokens--;
    } else if (this.heldAfter(sent) === 0) {
      this.liveHoldings++;
      this.#toggle(slot, this.holdingOwner(sender));
    }
    this.#retract(sent, slot);
    const prev = this.prev(transfer);
    this.popTransfer();
    this.#creations.pop();
    for (const table of [this.#facts, this.#emptied]) {
      if (table.count > 0 && table.get(table.count - 1, 0) === transfer) table.count--;
    }
    return { slot, prev };
  }

  /** Removes the newest entry from its list. */
  #retract(entry: number, slot: Slot): void {
    const holding = this.holdingOf(entry);
    const before = this.before(entry);
    if (holding === SUPPLY) this.#links.setSupplyTail(slot, before);
    else if (before < 0) this.#index.remove(entry, this.#hashOf);
    else {
      const hash = this.#hashOf(entry);
      this.#index.replace(hash, this.#find(slot, this.holdingOwner(holding), hash), before);
    }
    this.retract(entry);
  }

  /** The newest entry of a holding, or -1. */
  newestEntry(holding: number): number {
    return this.#tailOf(this.holdingSlot(holding), this.holdingOwner(holding));
  }

  /** The newest entry of a holding at or before `block`; -1 for none, or `PAUSED`. */
  findEntry(holding: number, block: number): number {
    return this.findInList(holding, this.newestEntry(holding), block);
  }

  /** Like `findEntry`, but finishes a long walk without a pause. */
  entryAt(holding: number, block: number): number {
    for (;;) {
      const entry = this.findEntry(holding, block);
      if (entry !== PAUSED) return entry;
    }
  }

  /** The holding of a transfer's receiver; `SUPPLY` for a burn. */
  receiverOf(transfer: number): number {
    return this.holdingOf(2 * transfer + 1);
  }

  /** The token of a transfer. */
  slotOf(transfer: number): Slot {
    const receiver = this.receiverOf(transfer);
    return this.holdingSlot(receiver === SUPPLY ? this.holdingOf(2 * transfer) : receiver);
  }

  /** The address index of the owner whose balance the entry changes; that of the zero address for supply. */
  partyOf(entry: number): number {
    const holding = this.holdingOf(entry);
    return holding === SUPPLY ? ZERO_OWNER : this.holdingOwner(holding);
  }

  /** The first holding from `holding` on, in order of appearance; `count` when there is none. */
  nextHolding(holding: number): number {
    return this.#creations.next(holding);
  }

  /** Number of single-owner facts that the collection had before a transfer. A holding is the transfer that created it. */
  factsBefore(transfer: number): number {
    return this.#facts.get(this.#facts.upperBound(0, transfer) - 1, 1);
  }

  /** The token's supply after `block`, or `PAUSED`. */
  findSupply(slot: Slot, block: number): Amount {
    const entry = this.findInList(~slot, this.#links.supplyTail(slot), block);
    return entry === PAUSED ? PAUSED : this.heldAfter(entry);
  }

  /**
   * The only holder of the whole `supply` after `last`, the token's last transfer up to a block, as an address index.
   * -1 if there are several; `PAUSED` if the walk to its balance is not finished.
   */
  soleHolder(slot: Slot, last: number, supply: Amount): number {
    // The receiver, or the sender of a burn. If it holds some of the token, it is the only holder or one of several.
    const party = this.receiverOf(last) === SUPPLY ? 2 * last : 2 * last + 1;
    const held = this.heldAfter(party);
    if (held !== 0) return isLess(held, supply) ? -1 : this.partyOf(party);
    // The sender has nothing left. With several holders the word may name any address, so check its balance.
    const owner = this.#emptied.get(this.#emptied.upperBound(0, last) - 1, 1);
    const tail = owner === ZERO_OWNER ? -1 : this.#tailOf(slot, owner);
    if (tail < 0) return -1;
    const entry = this.findInList(this.holdingOf(tail), tail, this.block(last));
    if (entry === PAUSED) return PAUSED;
    return entry < 0 || isLess(this.heldAfter(entry), supply) ? -1 : owner;
  }

  /** True if the transfer was a mint. */
  isMint(transfer: number): boolean {
    return this.holdingOf(2 * transfer) === SUPPLY;
  }

  /** Saves all balances through the codec, or restores them. */
  override *coding(codec: StateCodec): Generator<void> {
    yield* super.coding(codec);
    for (const part of [this.#creations, this.#index, this.#facts, this.#holders, this.#emptied]) part.code(codec);
    const { liveTokens, liveHoldings } = codec.facts({ liveTokens: this.liveTokens, liveHoldings: this.liveHoldings });
    this.liveTokens = liveTokens;
    this.liveHoldings = liveHoldings;
  }

  /** Releases unused capacity. */
  override trim(): void {
    super.trim();
    for (const part of [this.#creations, this.#facts, this.#holders, this.#emptied]) part.trim();
  }
}
