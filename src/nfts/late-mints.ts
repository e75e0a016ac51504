/**
 * First mints of the tokens whose first transfer was none: such contracts exist, and a token is minted by its mint. What
 * the first transfer of a token says needs no place here, so this is empty for nearly all collections.
 */
import type { Keeper } from "./keep.ts";

const NO_MINT_YET = -1;
/** Of an entry of a map, in JavaScriptCore. */
const ENTRY_BYTES = 48;

export class LateMints {
  /** Slot → an entry (or ERC-1155 transfer) of its history, or that there was no mint yet. */
  #entries = new Map<number, number>();

  get bytes(): number {
    return this.#entries.size * ENTRY_BYTES;
  }

  /** Hands on all of them, or takes them over. */
  keep(keeper: Keeper): void {
    this.#entries = new Map(keeper.facts([...this.#entries]));
  }

  /** A transfer of a token, in chain order. */
  note(slot: number, entry: number, { isFirst, isMint }: { isFirst: boolean; isMint: boolean }): void {
    if (isFirst) {
      if (!isMint) this.#entries.set(slot, NO_MINT_YET);
    } else if (isMint && this.#entries.get(slot) === NO_MINT_YET) this.#entries.set(slot, entry);
  }

  /** The entry of the token's first mint, when that was not its first transfer. */
  of(slot: number): number | undefined {
    const entry = this.#entries.get(slot);
    return entry === NO_MINT_YET ? undefined : entry;
  }

  /** A reorg took a transfer. */
  retract(slot: number, entry: number): void {
    if (this.#entries.get(slot) === entry) this.#entries.set(slot, NO_MINT_YET);
  }

  /** A reorg took the token. */
  forget(slot: number): void {
    this.#entries.delete(slot);
  }
}
