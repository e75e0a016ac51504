/**
 * The transfers of each sender and of each receiver, as lists from the newest to the oldest. Readers build the lists in
 * one pass over the table when a filter first needs them; later passes add the transfers since. 8 bytes a transfer and
 * 16 an address, which snapshots don't contain.
 */
import { CHUNK_BITS, CHUNK_MASK, WordTable } from "./tables.ts";
import { type Steps, Trails } from "./trails.ts";

/** One of the two parties of a transfer; also its word in the tables below. */
export const SENDER = 0;
export const RECEIVER = 1;
export type Role = typeof SENDER | typeof RECEIVER;

/** A table of transfers; parties are indexes of the address table. */
interface Transfers {
  readonly table: { readonly count: number };
  sender(transfer: number): number;
  receiver(transfer: number): number;
}

/** Words of an address: its newest transfer as sender and as receiver, or -1, and their numbers. */
const COUNTS = 2;
const HEAD_WORDS = 4;
/** Transfers that are gone through in a tenth of a millisecond, where making the lists would take some milliseconds. */
const MAX_SCANNED = 32_768;
/** Transfers that are added per slice: one to two milliseconds. */
const TRANSFERS_PER_SLICE = 8_192;

export class PartyIndex {
  readonly #transfers: Transfers;
  /** By transfer: the previous one of its sender and of its receiver, or -1. */
  readonly #links = new WordTable(2);
  readonly #heads = new WordTable(HEAD_WORDS);
  readonly #trails: readonly [Trails, Trails];

  /** @param steps counts the steps of walks */
  constructor(transfers: Transfers, steps: Steps) {
    this.#transfers = transfers;
    const trailsOf = (role: Role) =>
      new Trails({ block: (transfer) => transfer, before: (transfer) => this.before(role, transfer) }, steps);
    this.#trails = [trailsOf(SENDER), trailsOf(RECEIVER)];
  }

  get bytes(): number {
    return this.#links.bytes + this.#heads.bytes + this.#trails[SENDER].bytes + this.#trails[RECEIVER].bytes;
  }

  /** True for a small table without lists: going through it costs less than to make them. */
  get isScanned(): boolean {
    return this.#links.count === 0 && this.#transfers.table.count <= MAX_SCANNED;
  }

  /** The transfers to an address from `from` up to `to`, by going through all of them. */
  scan(address: number, from: number, to: number): Int32Array {
    const { receiver } = this.#transfers;
    const found: number[] = [];
    for (let transfer = from; transfer < to; transfer++) if (receiver(transfer) === address) found.push(transfer);
    return Int32Array.from(found);
  }

  /** Adds the transfers that the lists lack; yields between slices. */
  *complete(): Generator<void> {
    const { table } = this.#transfers;
    while (this.#links.count < table.count) {
      this.#addSome(Math.min(table.count, this.#links.count + TRANSFERS_PER_SLICE));
      yield;
    }
  }

  /** Adds the transfers below `end`. A function of its own, because the engine compiles the loops of a generator badly. */
  #addSome(end: number): void {
    const { sender, receiver } = this.#transfers;
    for (let transfer = this.#links.count; transfer < end; transfer++) {
      const from = sender(transfer);
      const to = receiver(transfer);
      while (this.#heads.count <= from || this.#heads.count <= to) this.#heads.push(-1, -1, 0, 0);
      this.#links.add();
      this.#append(from, SENDER, transfer);
      this.#append(to, RECEIVER, transfer);
    }
  }

  /** Adds a transfer to a list. Works on the words themselves, because a first filter does this for all transfers. */
  #append(address: number, role: Role, transfer: number): void {
    const chunk = this.#heads.chunks[address >>> CHUNK_BITS] as Int32Array;
    const at = (address & CHUNK_MASK) * HEAD_WORDS + role;
    this.#links.set(transfer, role, chunk[at] as number);
    chunk[at] = transfer;
    chunk[at + COUNTS] = (chunk[at + COUNTS] as number) + 1;
  }

  #move(address: number, role: Role, newest: number, by: 1 | -1): void {
    this.#heads.set(address, role, newest);
    this.#heads.set(address, COUNTS + role, this.count(role, address) + by);
  }

  /** Removes the transfers from `count` on. The table must still have them. */
  cut(count: number): void {
    const { sender, receiver } = this.#transfers;
    while (this.#links.count > count) {
      const transfer = this.#links.count - 1;
      this.#move(sender(transfer), SENDER, this.#links.get(transfer, SENDER), -1);
      this.#move(receiver(transfer), RECEIVER, this.#links.get(transfer, RECEIVER), -1);
      this.#links.count--;
    }
    for (const trails of this.#trails) trails.cut(count);
  }

  /** Number of transfers of an address in a role. */
  count(role: Role, address: number): number {
    return address < this.#heads.count ? this.#heads.get(address, COUNTS + role) : 0;
  }

  /** The previous transfer of the same party, or -1. */
  before(role: Role, transfer: number): number {
    return this.#links.get(transfer, role);
  }

  /** The newest transfer of an address below `bound`; -1 for none, or `PAUSED`. */
  find(role: Role, address: number, bound: number): number {
    const newest = address < this.#heads.count ? this.#heads.get(address, role) : -1;
    return newest < bound ? newest : this.#trails[role].find(address, newest, bound - 1);
  }
}
