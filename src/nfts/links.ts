/**
 * What is known of a token now, 12 bytes a slot: where its history begins and ends, and who owns it. First and tail
 * point into the history of the slot's kind: an entry's (or ERC-1155 transfer's) index, -1 for none, or -(2 + r) for "as
 * id range r left it". The owner is the tail's, kept here since a transfer is checked against it: reaching for the tail
 * would be a miss of the processor's cache more.
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

  /** Those of the next slot, which was added to the tokens. */
  add(link: number, owner: number): void {
    const slot = this.table.add();
    this.setFirst(slot, link);
    this.setTail(slot, link);
    this.setOwner(slot, owner);
  }

  /** Of an ERC-1155 token, in the owner's place: the newest entry of what is in circulation, or -1. */
  supplyTail(slot: number): number {
    return this.owner(slot);
  }

  setSupplyTail(slot: number, entry: number): void {
    this.setOwner(slot, entry);
  }

  truncate(count: number): void {
    this.table.count = count;
  }

  /** Hands on all rows, or takes them over. */
  keep(keeper: Keeper): void {
    this.table.keep(keeper);
  }

  trim(): void {
    this.table.trim();
  }
}
