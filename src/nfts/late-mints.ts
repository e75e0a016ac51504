/**
 * First mints of the tokens whose first transfer was none: such contracts exist, and a token is minted by its mint. What
 * the first transfer of a token says needs no place here, so this is empty for nearly all collections.
 */
import { KEPT_AT_ONCE, type Keeper } from "./keep.ts";
import { CHUNK_BITS, WordTable } from "./word-table.ts";

const NO_MINT_YET = -1;
/** Of an entry of a map, in JavaScriptCore. */
const ENTRY_BYTES = 48;

export class LateMints {
  /**
   * Slot → an entry (or ERC-1155 transfer) of its history, or that there was no mint yet: a map for as many slots as a
   * table's chunk has rows, since one that grows is made anew as a whole.
   */
  readonly #chunks: (Map<number, number> | undefined)[] = [];
  #count = 0;

  get bytes(): number {
    return this.#count * ENTRY_BYTES;
  }

  /** Hands on all of them, or takes them over. */
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
    // Without holes: an array that has many is one no longer.
    while (this.#chunks.length <= number) this.#chunks.push(undefined);
    const chunk = this.#chunks[number] ?? new Map<number, number>();
    this.#chunks[number] = chunk;
    if (!chunk.has(slot)) this.#count++;
    chunk.set(slot, entry);
  }

  /** A transfer of a token, in chain order. */
  note(slot: number, entry: number, { isFirst, isMint }: { isFirst: boolean; isMint: boolean }): void {
    if (isFirst) {
      if (!isMint) this.#set(slot, NO_MINT_YET);
    } else if (isMint && this.#get(slot) === NO_MINT_YET) this.#set(slot, entry);
  }

  /** The entry of the token's first mint, when that was not its first transfer. */
  of(slot: number): number | undefined {
    const entry = this.#get(slot);
    return entry === NO_MINT_YET ? undefined : entry;
  }

  /** A reorg took a transfer. */
  retract(slot: number, entry: number): void {
    if (this.#get(slot) === entry) this.#set(slot, NO_MINT_YET);
  }

  /** A reorg took the token. */
  forget(slot: number): void {
    if (this.#chunks[slot >>> CHUNK_BITS]?.delete(slot) === true) this.#count--;
  }
}
