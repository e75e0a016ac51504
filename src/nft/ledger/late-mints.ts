/**
 * First mints of tokens that had another transfer before; such contracts exist. A token with a mint as its first
 * transfer needs no record here, so this table is empty for nearly all collections.
 */
import { type StateCodec, VALUES_PER_SLICE } from "./state-codec.ts";
import { CHUNK_BITS, type Slot, WordTable } from "./tables.ts";

const NO_MINT_YET = -1;
/** Memory of a map entry, in JavaScriptCore. */
const ENTRY_BYTES = 48;

export class LateMints {
  /**
   * Slot → an entry (or transfer of an amount) of its history, or `NO_MINT_YET`. One map per chunk of `CHUNK_BITS` slots,
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
