/**
 * First mints of tokens that had another transfer before; such contracts exist. A token with a mint as its first
 * transfer needs no record here, so this table is empty for nearly all collections.
 */
import { KEPT_AT_ONCE, type Keeper } from "./keep.ts";
import { CHUNK_BITS, WordTable } from "./word-table.ts";

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

  /** Saves all mints through the keeper, or restores them. */
  *keeping(keeper: Keeper): Generator<void> {
    const table = new WordTable(2);
    for (const chunk of keeper.isReading ? [] : this.#chunks) {
      for (const [slot, entry] of chunk ?? []) {
        const row = table.add();
        table.set(row, 0, slot);
        table.set(row, 1, entry);
        if (row % KEPT_AT_ONCE === 0) yield;
      }
    }
    table.keep(keeper);
    for (let row = 0; keeper.isReading && row < table.count; row++) {
      this.#set(table.get(row, 0), table.get(row, 1));
      if (row % KEPT_AT_ONCE === 0) yield;
    }
  }

  #get(slot: number): number | undefined {
    return this.#chunks[slot >>> CHUNK_BITS]?.get(slot);
  }

  #set(slot: number, entry: number): void {
    const number = slot >>> CHUNK_BITS;
    // Fill the gap: an array with many holes becomes a slow sparse one.
    while (this.#chunks.length <= number) this.#chunks.push(undefined);
    const chunk = this.#chunks[number] ?? new Map<number, number>();
    this.#chunks[number] = chunk;
    if (!chunk.has(slot)) this.#count++;
    chunk.set(slot, entry);
  }

  /** Records a transfer of a token. Call in chain order. */
  note(slot: number, entry: number, { isFirst, isMint }: { isFirst: boolean; isMint: boolean }): void {
    if (isFirst) {
      if (!isMint) this.#set(slot, NO_MINT_YET);
    } else if (isMint && this.#get(slot) === NO_MINT_YET) this.#set(slot, entry);
  }

  /** The entry of the token's first mint, if that was not its first transfer. */
  of(slot: number): number | undefined {
    const entry = this.#get(slot);
    return entry === NO_MINT_YET ? undefined : entry;
  }

  /** Undoes a transfer of the token, in a reorg. */
  retract(slot: number, entry: number): void {
    if (this.#get(slot) === entry) this.#set(slot, NO_MINT_YET);
  }

  /** Removes the token, in a reorg. */
  forget(slot: number): void {
    if (this.#chunks[slot >>> CHUNK_BITS]?.delete(slot) === true) this.#count--;
  }
}
