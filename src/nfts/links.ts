/**
 * The current state of each token, 12 bytes a slot: first and last entry of its history, and its owner. First and tail
 * are the index of an entry (or ERC-1155 transfer), -1 for none, or -(2 + r) for "as id range r minted it". The owner
 * repeats the tail's, because the fold checks each transfer against it: reading the tail would be one more cache miss.
 */
import type { Keeper } from "./keep.ts";
import { WordTable } from "./word-table.ts";

export class TokenLinks {
  /** Words: first, tail, owner (an index of the address table). */
  readonly table = new WordTable(3);

  get bytes(): number {
    return this.table.bytes;
  }

  first(slot: number): number {
    return this.table.get(slot, 0);
  }

  tail(slot: number): number {
    return this.table.get(slot, 1);
  }

  setFirst(slot: number, first: number): void {
    this.table.set(slot, 0, first);
  }

  setTail(slot: number, tail: number): void {
    this.table.set(slot, 1, tail);
  }

  owner(slot: number): number {
    return this.table.get(slot, 2);
  }

  setOwner(slot: number, owner: number): void {
    this.table.set(slot, 2, owner);
  }

  /** Adds the links of the next slot, which the token table has added. */
  add(link: number, owner: number): void {
    const slot = this.table.add();
    this.setFirst(slot, link);
    this.setTail(slot, link);
    this.setOwner(slot, owner);
  }

  /** The newest supply entry of an ERC-1155 token, or -1; it takes the owner's word. */
  supplyTail(slot: number): number {
    return this.owner(slot);
  }

  setSupplyTail(slot: number, entry: number): void {
    this.setOwner(slot, entry);
  }

  truncate(count: number): void {
    this.table.count = count;
  }

  /** Saves all rows through the keeper, or restores them. */
  keep(keeper: Keeper): void {
    this.table.keep(keeper);
  }

  trim(): void {
    this.table.trim();
  }
}
