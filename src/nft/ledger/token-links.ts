/**
 * The current state of each token, 12 bytes a slot: first and last entry of its history, and its owner. First and tail
 * are the index of an entry (or transfer of an amount), -1 for none, or -(2 + r) for "as id range r minted it". The owner
 * repeats the tail's, because the fold checks each transfer against it: reading the tail would be one more cache miss.
 */
import { type Slot, WordTable } from "./tables.ts";

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

  /** The newest supply entry of a token with amounts, or -1; it takes the owner's word. */
  supplyTail(slot: Slot): number {
    return this.owner(slot);
  }

  setSupplyTail(slot: Slot, entry: number): void {
    this.setOwner(slot, entry);
  }
}
