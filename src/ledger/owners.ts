/**
 * Histories of single-owner tokens (ERC-721, CryptoPunks): 16 bytes a transfer. Each entry links to the previous one of
 * its token, so the owner at a block is found by walking back. Also each token's current state, and late first mints.
 */
import { CHUNK_BITS, CHUNK_MASK, type Slot, type StateCodec, VALUES_PER_SLICE, WordTable } from "./tables.ts";
import { STEPS_WITHOUT_MARKS, type Steps, Trails } from "./trails.ts";

// The current state of each token, 12 bytes a slot: first and last entry of its history, and its owner. First and tail
// are the index of an entry (or ERC-1155 transfer), -1 for none, or -(2 + r) for "as id range r minted it". The owner
// repeats the tail's, because the fold checks each transfer against it: reading the tail would be one more cache miss.

/** Words of a row: first, tail, owner (an index of the address table). */
export class TokenLinks extends WordTable {
  constructor() {
    super(3);
  }

  first(slot: Slot): number {
    return this.get(slot, 0);
  }

  tail(slot: Slot): number {
    return this.get(slot, 1);
  }

  setFirst(slot: Slot, first: number): void {
    this.set(slot, 0, first);
  }

  setTail(slot: Slot, tail: number): void {
    this.set(slot, 1, tail);
  }

  owner(slot: Slot): number {
    return this.get(slot, 2);
  }

  setOwner(slot: Slot, owner: number): void {
    this.set(slot, 2, owner);
  }

  /** Adds the links of the next slot, which the token table has added. */
  addSlot(link: number, owner: number): void {
    const slot = this.add();
    this.setFirst(slot as Slot, link);
    this.setTail(slot as Slot, link);
    this.setOwner(slot as Slot, owner);
  }

  /** The newest supply entry of an ERC-1155 token, or -1; it takes the owner's word. */
  supplyTail(slot: Slot): number {
    return this.owner(slot);
  }

  setSupplyTail(slot: Slot, entry: number): void {
    this.setOwner(slot, entry);
  }
}

/** Words of an entry: block, slot, receiver (an index of the address table), previous entry (see `prev`). */
const WIDTH = 4;

export class OwnerHistory extends WordTable {
  readonly #steps: Steps;
  readonly #trails: Trails;

  /** @param steps counts the steps of walks */
  constructor(steps: Steps) {
    super(WIDTH);
    this.#steps = steps;
    this.#trails = new Trails({ block: (entry) => this.block(entry), before: (entry) => this.prev(entry) }, steps);
  }

  override get bytes(): number {
    return super.bytes + this.#trails.bytes;
  }

  block(entry: number): number {
    return this.get(entry, 0) >>> 0;
  }

  slot(entry: number): Slot {
    return this.get(entry, 1) as Slot;
  }

  to(entry: number): number {
    return this.get(entry, 2);
  }

  /** The token's previous entry: an index, -1, or -(2 + r) for id range r. */
  prev(entry: number): number {
    return this.get(entry, 3);
  }

  addEntry(block: number, slot: Slot, to: number, prev: number): number {
    const entry = this.add();
    const chunk = this.chunks[entry >>> CHUNK_BITS] as Int32Array;
    const at = (entry & CHUNK_MASK) * WIDTH;
    chunk[at] = block;
    chunk[at + 1] = slot;
    chunk[at + 2] = to;
    chunk[at + 3] = prev;
    return entry;
  }

  /** The token's newest entry at or before `block`, by a walk from `tail`; below 0 like `prev`, or `PAUSED`. */
  find(tail: number, block: number): number {
    let entry = tail;
    let steps = 0;
    for (; entry >= 0 && this.block(entry) > block; steps++) {
      if (steps === STEPS_WITHOUT_MARKS) return this.#trails.find(this.slot(tail), tail, block);
      entry = this.prev(entry);
    }
    if (steps > 0) this.#steps.count += steps;
    return entry;
  }

  /** Drops stale marks of the trails, after the last `pop` of a revert. */
  cut(): void {
    this.#trails.cut(this.count);
  }

  /** Number of entries at or before `block`. */
  countAt(block: number): number {
    return this.upperBound(0, block);
  }
}

// First mints of tokens that had another transfer before; such contracts exist. A token with a mint as its first
// transfer needs no record here, so this table is empty for nearly all collections.

const NO_MINT_YET = -1;
/** Memory of a map entry, in JavaScriptCore. */
const ENTRY_BYTES = 48;

export class LateMints {
  /**
   * Slot → an entry (or ERC-1155 transfer) of its history, or `NO_MINT_YET`. One map per chunk of `CHUNK_BITS` slots,
   * because a map rehashes all its entries when it grows.
   */
  readonly #chunks: (Map<number, number> | undefined)[] = [];
  #count = 0;

  get bytes(): number {
    return this.#count * ENTRY_BYTES;
  }

  /** Saves all mints through the codec, or restores them. */
  *coding(codec: StateCodec): Generator<void> {
    const table = new WordTable(2);
    for (const chunk of codec.isReading ? [] : this.#chunks) {
      for (const [slot, entry] of chunk ?? []) {
        table.push(slot, entry);
        if (table.count % VALUES_PER_SLICE === 0) yield;
      }
    }
    table.code(codec);
    for (let row = 0; codec.isReading && row < table.count; row++) {
      this.#set(table.get(row, 0) as Slot, table.get(row, 1));
      if (row % VALUES_PER_SLICE === 0) yield;
    }
  }

  #get(slot: Slot): number | undefined {
    return this.#chunks[slot >>> CHUNK_BITS]?.get(slot);
  }

  #set(slot: Slot, entry: number): void {
    const number = slot >>> CHUNK_BITS;
    // Fill the gap: an array with many holes becomes a slow sparse one.
    while (this.#chunks.length <= number) this.#chunks.push(undefined);
    const chunk = this.#chunks[number] ?? new Map<number, number>();
    this.#chunks[number] = chunk;
    if (!chunk.has(slot)) this.#count++;
    chunk.set(slot, entry);
  }

  /** Records a transfer of a token. Call in chain order. */
  note(slot: Slot, entry: number, { isFirst, isMint }: { isFirst: boolean; isMint: boolean }): void {
    if (isFirst) {
      if (!isMint) this.#set(slot, NO_MINT_YET);
    } else if (isMint && this.#get(slot) === NO_MINT_YET) this.#set(slot, entry);
  }

  /** The entry of the token's first mint, if that was not its first transfer. */
  of(slot: Slot): number | undefined {
    const entry = this.#get(slot);
    return entry === NO_MINT_YET ? undefined : entry;
  }

  /** Undoes a transfer of the token, in a reorg. */
  retract(slot: Slot, entry: number): void {
    if (this.#get(slot) === entry) this.#set(slot, NO_MINT_YET);
  }

  /** Removes the token, in a reorg. */
  forget(slot: Slot): void {
    if (this.#chunks[slot >>> CHUNK_BITS]?.delete(slot) === true) this.#count--;
  }
}
