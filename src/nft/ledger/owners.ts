/**
 * Histories of single-owner tokens (ERC-721, CryptoPunks): 20 bytes a transfer. Each entry links to the previous one of
 * its token, so the owner at a block is found by walking back.
 */
import type { StateCodec } from "./state-codec.ts";
import { CHUNK_BITS, CHUNK_MASK, type LogPlace, type Slot, WordTable } from "./tables.ts";
import { STEPS_WITHOUT_MARKS, type Steps, Trails } from "./trails.ts";

/** Words of an entry: block, slot, receiver (an index of the address table), previous entry (see `prev`), log index. */
export const OWNER_ENTRY_WORDS = 5;

export class OwnerHistory extends WordTable {
  readonly #steps: Steps;
  readonly #trails: Trails;
  /** Senders that did not own the token, as (entry, sender). */
  readonly #strangers = new WordTable(2);

  /** @param steps counts the steps of walks */
  constructor(steps: Steps) {
    super(OWNER_ENTRY_WORDS);
    this.#steps = steps;
    this.#trails = new Trails({ block: (entry) => this.block(entry), before: (entry) => this.prev(entry) }, steps);
  }

  override get bytes(): number {
    return super.bytes + this.#trails.bytes + this.#strangers.bytes;
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

  logIndex(entry: number): number {
    return this.get(entry, 4) >>> 0;
  }

  addEntry({ block, logIndex }: LogPlace, slot: Slot, to: number, prev: number): number {
    const entry = this.add();
    const chunk = this.chunks[entry >>> CHUNK_BITS] as Int32Array;
    const at = (entry & CHUNK_MASK) * OWNER_ENTRY_WORDS;
    chunk[at] = block;
    chunk[at + 1] = slot;
    chunk[at + 2] = to;
    chunk[at + 3] = prev;
    chunk[at + 4] = logIndex;
    return entry;
  }

  /** Records that the log of the newest entry names a sender that did not own the token. */
  addStranger(sender: number): void {
    this.#strangers.push(this.count - 1, sender);
  }

  /** The sender in the entry's log, if it did not own the token. */
  stranger(entry: number): number | undefined {
    const strangers = this.#strangers;
    const row = strangers.count === 0 ? -1 : strangers.upperBound(0, entry) - 1;
    return row >= 0 && strangers.get(row, 0) === entry ? strangers.get(row, 1) : undefined;
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
    const strangers = this.#strangers;
    while (strangers.count > 0 && strangers.get(strangers.count - 1, 0) >= this.count) strangers.count--;
  }

  override code(codec: StateCodec): void {
    super.code(codec);
    this.#strangers.code(codec);
  }

  override trim(): void {
    super.trim();
    this.#strangers.trim();
  }

  /** Number of entries at or before `block`. */
  countAt(block: number): number {
    return this.upperBound(0, block);
  }
}
