/**
 * Histories of ERC-1155 balances. A transfer costs 8 bytes and writes two entries of 16: the sender's and the receiver's
 * balance after it. The zero address is a holder like any other, whose "balance" is what is in circulation: a mint
 * raises it, a burn lowers it, so supply needs no history of its own.
 */
import { type Amount, addAmounts, isLess, subtractAmounts } from "./amount.ts";
import { mix, roomI32, roomU32, upperBound } from "./grow.ts";
import { HashIndex, homeOf } from "./hash-index.ts";

/** In the high word: the balance is in the side table, at the index in the low word. */
const IN_TABLE = 0xffff_ffff;
const ZERO_OWNER = 0;

export class BalanceHistory {
  // One row a transfer.
  count = 0;
  #blocks = new Uint32Array(64);
  /** The token's transfer before, or -1. */
  #prevs = new Int32Array(64);

  // Two rows a transfer: 2t the sender's, 2t + 1 the receiver's.
  #entryHolding = new Uint32Array(64);
  #entryPrev = new Int32Array(64);
  #low = new Uint32Array(64);
  #high = new Uint32Array(64);
  #table: bigint[] = [];

  // One row a holding, in order of first appearance.
  holdings = 0;
  holdingSlot = new Uint32Array(64);
  holdingOwner = new Uint32Array(64);
  /** How many single-owner facts the collection had when the holding appeared: the order between both kinds. */
  holdingAfter = new Uint32Array(64);
  #holdingFirst = new Uint32Array(64);
  #holdingTail = new Int32Array(64);
  readonly #index = new HashIndex();

  /** Tokens in circulation, and holdings above zero, at the newest block. */
  liveTokens = 0;
  liveHoldings = 0;

  block(transfer: number): number {
    return this.#blocks[transfer] as number;
  }

  prev(transfer: number): number {
    return this.#prevs[transfer] as number;
  }

  trim(): void {}

  get bytes(): number {
    return (
      this.#blocks.byteLength * 2 +
      this.#low.byteLength * 4 +
      this.holdingSlot.byteLength * 5 +
      this.#table.length * 32 +
      this.#index.bytes
    );
  }

  readonly #hashOf = (holding: number): number =>
    mix(mix(1, this.holdingSlot[holding] as number), this.holdingOwner[holding] as number);

  /** The holding of (slot, owner), or -1. */
  find(slot: number, owner: number): number {
    const index = this.#index;
    const hash = mix(mix(1, slot), owner);
    for (let place = homeOf(hash, index.scale); ; place++) {
      place = index.seek(hash, place);
      if (place < 0) return -1;
      const holding = index.rowAt(place);
      if (this.holdingSlot[holding] === slot && this.holdingOwner[holding] === owner) return holding;
    }
  }

  #holding(slot: number, owner: number, after: number): number {
    const found = this.find(slot, owner);
    if (found >= 0) return found;
    const holding = this.holdings++;
    this.holdingSlot = roomU32(this.holdingSlot, holding);
    this.holdingOwner = roomU32(this.holdingOwner, holding);
    this.holdingAfter = roomU32(this.holdingAfter, holding);
    this.#holdingFirst = roomU32(this.#holdingFirst, holding);
    this.#holdingTail = roomI32(this.#holdingTail, holding);
    this.holdingSlot[holding] = slot;
    this.holdingOwner[holding] = owner;
    this.holdingAfter[holding] = after;
    this.#holdingFirst[holding] = this.count;
    this.#holdingTail[holding] = -1;
    this.#index.add(mix(mix(1, slot), owner), holding, this.#hashOf);
    return holding;
  }

  #read(entry: number): Amount {
    if (entry < 0) return 0;
    const low = this.#low[entry] as number;
    const high = this.#high[entry] as number;
    if (high === IN_TABLE) return this.#table[low] as bigint;
    return high < 0x20_0000 ? high * 2 ** 32 + low : (BigInt(high) << 32n) | BigInt(low);
  }

  #write(entry: number, holding: number, balance: Amount): void {
    this.#entryHolding = roomU32(this.#entryHolding, entry);
    this.#entryPrev = roomI32(this.#entryPrev, entry);
    this.#low = roomU32(this.#low, entry);
    this.#high = roomU32(this.#high, entry);
    this.#entryHolding[entry] = holding;
    this.#entryPrev[entry] = this.#holdingTail[holding] as number;
    if (typeof balance === "number") {
      this.#low[entry] = balance % 2 ** 32;
      this.#high[entry] = Math.floor(balance / 2 ** 32);
    } else if (balance < BigInt(IN_TABLE) << 32n) {
      this.#low[entry] = Number(balance & 0xffff_ffffn);
      this.#high[entry] = Number(balance >> 32n);
    } else {
      this.#low[entry] = this.#table.push(balance) - 1;
      this.#high[entry] = IN_TABLE;
    }
    this.#holdingTail[holding] = entry;
  }

  /** What the holder holds at the newest block; of the zero address: what is in circulation. */
  balance(slot: number, owner: number): Amount {
    const holding = this.find(slot, owner);
    return holding < 0 ? 0 : this.#read(this.#holdingTail[holding] as number);
  }

  /**
   * Records a transfer of `amount` > 0 and returns its index. The sender must hold that much (the zero address always
   * does) and sender and receiver must not both be the zero address.
   */
  push(block: number, slot: number, from: number, to: number, amount: Amount, prev: number, after: number): number {
    const sender = this.#holding(slot, from, after);
    const receiver = this.#holding(slot, to, after);
    const transfer = this.count++;
    this.#blocks = roomU32(this.#blocks, transfer);
    this.#prevs = roomI32(this.#prevs, transfer);
    this.#blocks[transfer] = block;
    this.#prevs[transfer] = prev;

    const held = this.#read(this.#holdingTail[sender] as number);
    const minted = from === ZERO_OWNER;
    const left = minted ? addAmounts(held, amount) : subtractAmounts(held, amount);
    this.#write(2 * transfer, sender, left);
    // Read after the sender's entry: in a transfer to oneself both are the same holding.
    const before = this.#read(this.#holdingTail[receiver] as number);
    const burned = to === ZERO_OWNER;
    const now = burned ? subtractAmounts(before, amount) : addAmounts(before, amount);
    this.#write(2 * transfer + 1, receiver, now);

    if (minted && held === 0) this.liveTokens++;
    if (burned && now === 0) this.liveTokens--;
    if (!minted && left === 0) this.liveHoldings--;
    if (!burned && before === 0) this.liveHoldings++;
    return transfer;
  }

  /** Undoes the newest transfer and returns its slot and what its token's tail was before. */
  pop(): { slot: number; prev: number } {
    const transfer = --this.count;
    const receiver = this.#entryHolding[2 * transfer + 1] as number;
    const sender = this.#entryHolding[2 * transfer] as number;
    const slot = this.holdingSlot[receiver] as number;
    const minted = this.holdingOwner[sender] === ZERO_OWNER;
    const burned = this.holdingOwner[receiver] === ZERO_OWNER;
    const now = this.#read(2 * transfer + 1);
    const before = this.#read(this.#entryPrev[2 * transfer + 1] as number);
    const left = this.#read(2 * transfer);
    const held = this.#read(this.#entryPrev[2 * transfer] as number);
    if (minted && held === 0) this.liveTokens--;
    if (burned && now === 0) this.liveTokens++;
    if (!minted && left === 0) this.liveHoldings++;
    if (!burned && before === 0) this.liveHoldings--;
    for (const entry of [2 * transfer + 1, 2 * transfer]) {
      if (this.#high[entry] === IN_TABLE) this.#table.pop();
      this.#holdingTail[this.#entryHolding[entry] as number] = this.#entryPrev[entry] as number;
    }
    // Holdings appear in chain order, so those this transfer brought are the newest.
    while (this.holdings > 0 && this.#holdingTail[this.holdings - 1] === -1) {
      this.#index.remove(this.holdings - 1, this.#hashOf);
      this.holdings--;
    }
    return { slot, prev: this.#prevs[transfer] as number };
  }

  /** The token's newest transfer at or before `block`, walking from `tail`, or -1. */
  at(tail: number, block: number): number {
    let transfer = tail;
    while (transfer >= 0 && (this.#blocks[transfer] as number) > block) transfer = this.#prevs[transfer] as number;
    return transfer;
  }

  #entryAt(holding: number, block: number): number {
    let entry = this.#holdingTail[holding] as number;
    while (entry >= 0 && (this.#blocks[entry >> 1] as number) > block) entry = this.#entryPrev[entry] as number;
    return entry;
  }

  /** The holding's amount after `block`. */
  heldAt(holding: number, block: number): Amount {
    return this.#read(this.#entryAt(holding, block));
  }

  /** Blocks of the holding's first transfer and of its last at or before `block`. */
  blocksOf(holding: number, block: number): { first: number; last: number } {
    const first = this.#blocks[this.#holdingFirst[holding] as number] as number;
    const entry = this.#entryAt(holding, block);
    return { first, last: entry < 0 ? first : (this.#blocks[entry >> 1] as number) };
  }

  firstBlockOf(holding: number): number {
    return this.#blocks[this.#holdingFirst[holding] as number] as number;
  }

  /** What is in circulation of the token after `block`. */
  supplyAt(slot: number, block: number): Amount {
    const holding = this.find(slot, ZERO_OWNER);
    return holding < 0 ? 0 : this.heldAt(holding, block);
  }

  /**
   * The one holder of all that is in circulation (`supply`) after the token's transfer `from`, as an address index, or -1
   * when there are several. Walks back from that transfer: whoever is found to hold anything is the only holder exactly when it
   * holds everything; a transfer other than a burn ends the walk unless its receiver gave everything away since.
   */
  soleHolder(from: number, supply: Amount): number {
    // Holders met that hold nothing; back in time they did.
    let empty: Set<number> | undefined;
    for (let transfer = from; transfer >= 0; transfer = this.#prevs[transfer] as number) {
      for (const entry of [2 * transfer + 1, 2 * transfer]) {
        const holding = this.#entryHolding[entry] as number;
        const owner = this.holdingOwner[holding] as number;
        if (owner === ZERO_OWNER || empty?.has(holding) === true) continue;
        // Met for the first time, so this is what the holder was left with.
        const held = this.#read(entry);
        if (held === 0) {
          empty ??= new Set();
          empty.add(holding);
          continue;
        }
        return isLess(held, supply) ? -1 : owner;
      }
    }
    return -1;
  }

  /** Whether the transfer was a mint. */
  isMint(transfer: number): boolean {
    return this.holdingOwner[this.#entryHolding[2 * transfer] as number] === ZERO_OWNER;
  }

  countAt(block: number): number {
    return upperBound(this.#blocks, this.count, block);
  }
}
