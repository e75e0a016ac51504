/**
 * Histories of single-owner tokens (ERC-721, CryptoPunks): 20 bytes a transfer. Each entry links to the previous one of
 * its token, so the owner at a block is found by walking back. Also each token's current state, and late first mints.
 */
import { hasAmounts, type TransferColumns, TransferKind } from "../../events/columns.ts";
import { homeIn } from "./hash-index.ts";
import { STEPS_WITHOUT_MARKS, type Steps, Trails } from "./shortcuts.ts";
import {
  CHUNK_BITS,
  CHUNK_MASK,
  type LogPlace,
  type Slot,
  type StateCodec,
  VALUES_PER_SLICE,
  WordTable,
} from "./tables.ts";
import { hashId, type Run, type TokenTable } from "./token-slots.ts";

// The current state of each token, 12 bytes a slot: first and last entry of its history, and its owner. First and tail
// are the index of an entry (or transfer of an amount), -1 for none, or -(2 + r) for "as id range r minted it". The owner
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

  /** The newest supply entry of a token with amounts, or -1; it takes the owner's word. */
  supplyTail(slot: Slot): number {
    return this.owner(slot);
  }

  setSupplyTail(slot: Slot, entry: number): void {
    this.setOwner(slot, entry);
  }
}

/** Words of an entry: block, slot, receiver (an index of the address table), previous entry (see `prev`), log index. */
const WIDTH = 5;

export class OwnerHistory extends WordTable {
  readonly #steps: Steps;
  readonly #trails: Trails;
  /** Senders that did not own the token, as (entry, sender). */
  readonly #strangers = new WordTable(2);

  /** @param steps counts the steps of walks */
  constructor(steps: Steps) {
    super(WIDTH);
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
    const at = (entry & CHUNK_MASK) * WIDTH;
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

// First mints of tokens that had another transfer before; such contracts exist. A token with a mint as its first
// transfer needs no record here, so this table is empty for nearly all collections.

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

// The fast path of a batch of transfers: finds the slots of all its tokens, then folds the plain transfers. Works in
// passes, because a look-up mostly waits for memory and independent reads overlap.

/** A token that is not looked up yet. */
const UNKNOWN = -2;

/** Written, never read: without a use of their values the compiler would remove the reads. */
const SINK = new Int32Array(1);

/** Kinds and ids of a batch; an id takes one or two signed words. */
interface Ids {
  readonly kinds: Uint8Array;
  readonly words: number;
  readonly values: Int32Array;
}

/** The slot of each transfer's token, -1 if it has none yet. Ids must take one or two words. */
export function slotsOf({ count, kinds, ids }: TransferColumns, tokens: TokenTable, links: WordTable): Int32Array {
  const values = new Int32Array(ids.values.buffer, ids.values.byteOffset, ids.values.length);
  const batch = { kinds, words: ids.words, values };
  const slots = new Int32Array(count);
  const { last } = tokens.runs;
  if (last === undefined) slots.fill(UNKNOWN);
  const unknown = last === undefined ? count : searchRun(batch, last, slots);
  if (unknown > 0) {
    if (tokens.runs.count > 1) searchRuns(batch, tokens, slots);
    searchIndex(batch, tokens, slots);
  }
  touch(links.chunks, slots);
  return slots;
}

/** Sets the slots of the ids in a run; returns the number of ids outside it. */
function searchRun({ kinds, words, values }: Ids, run: Run, slots: Int32Array): number {
  const { low, high, count, kind, firstSlot } = run;
  let unknown = 0;
  for (let i = 0; i < slots.length; i++) {
    const offset = ((values[i * words] as number) - low) | 0;
    const top = words === 1 ? 0 : (values[i * words + 1] as number);
    const isHere = offset >= 0 && offset < count && top === high && kinds[i] === kind;
    slots[i] = isHere ? firstSlot + offset : UNKNOWN;
    if (!isHere) unknown++;
  }
  return unknown;
}

function searchRuns({ kinds, words, values }: Ids, { runs }: TokenTable, slots: Int32Array): void {
  for (let i = 0; i < slots.length; i++) {
    if (slots[i] !== UNKNOWN) continue;
    const top = words === 1 ? 0 : (values[i * words + 1] as number);
    const slot = runs.find(kinds[i] as number, values[i * words] as number, top);
    if (slot >= 0) slots[i] = slot;
  }
}

function searchIndex({ kinds, words, values }: Ids, tokens: TokenTable, slots: Int32Array): void {
  const { shards, mask, bits, seed } = tokens.index;
  const hashes = new Int32Array(slots.length);
  for (let i = 0; i < slots.length; i++) {
    if (slots[i] !== UNKNOWN) continue;
    const top = words === 1 ? 0 : (values[i * words + 1] as number);
    hashes[i] = hashId(seed, kinds[i] as number, values[i * words] as number, top);
  }
  let touched = 0;
  for (let i = 0; i < slots.length; i++) {
    if (slots[i] !== UNKNOWN) continue;
    const hash = hashes[i] as number;
    const places = shards[(hash >>> 24) & mask] as Int32Array;
    touched |= places[homeIn(places, hash)] as number;
  }
  SINK[0] = touched;
  const rowMask = (1 << bits) - 1;
  for (let i = 0; i < slots.length; i++) {
    if (slots[i] !== UNKNOWN) continue;
    const hash = hashes[i] as number;
    const tag = hash << bits;
    const places = shards[(hash >>> 24) & mask] as Int32Array;
    let place = homeIn(places, hash);
    let stored = places[place] as number;
    while (stored !== 0 && (stored ^ tag) >>> bits !== 0) {
      if (++place === places.length) place = 0;
      stored = places[place] as number;
    }
    // A candidate: the first row with the same stored hash bits. `verify` compares its id.
    slots[i] = stored === 0 ? -1 : ~(stored & rowMask) - 1;
  }
  verify({ kinds, words, values }, tokens, slots);
}

/** Replaces candidates, stored as -2 - row - 1, by slots. */
function verify({ kinds, words, values }: Ids, tokens: TokenTable, slots: Int32Array): void {
  const { chunks } = tokens.ids;
  for (let i = 0; i < slots.length; i++) {
    if ((slots[i] as number) >= -1) continue;
    const slot = ~((slots[i] as number) + 1) - 1;
    const chunk = chunks[slot >>> CHUNK_BITS] as Int32Array;
    const at = (slot & CHUNK_MASK) * 2;
    const low = values[i * words] as number;
    const high = words === 1 ? 0 : (values[i * words + 1] as number);
    const isRight = chunk[at] === low && chunk[at + 1] === high && tokens.mark(slot as Slot) === kinds[i];
    slots[i] = isRight ? slot : tokens.findSmall(kinds[i] as TransferKind, low, high);
  }
}

/** Prefetches the owners that the fold reads next. */
function touch(links: readonly Int32Array[], slots: Int32Array): void {
  let touched = 0;
  for (let i = 0; i < slots.length; i++) {
    const slot = slots[i] as number;
    if (slot >= 0) touched |= (links[slot >>> CHUNK_BITS] as Int32Array)[(slot & CHUNK_MASK) * 3 + 2] as number;
  }
  SINK[0] = touched;
}

// The fast path of the fold: a mint of a new id, or a transfer of a single-owner token by its owner. Nearly all
// transfers are plain, and a replay of millions of transfers is this loop: it uses numbers and typed arrays only, and
// no call for a token whose id came in order. The ledger folds burns, anomalies and everything else.

interface PlainParts {
  readonly tokens: TokenTable;
  readonly links: TokenLinks;
  readonly owners: OwnerHistory;
}

/** A batch with the look-ups that were made before its fold. */
export interface Batch {
  readonly columns: TransferColumns;
  /** Index in the address table, by dictionary index. */
  readonly addresses: Int32Array;
  /** Slot of each transfer's token, -1 if it had none before the batch. */
  readonly slots: Int32Array;
}

/**
 * Folds plain transfers from `start` on; returns the index of the first one that is not plain. Ids must take one or two
 * words, and the collection must have no id ranges. The caller must still add rows for the new tokens.
 */
export function foldPlain({ columns, addresses, slots }: Batch, start: number, parts: PlainParts): number {
  const { count, kinds, blocks, logIndexes, from, to } = columns;
  const linkChunks = parts.links.chunks;
  const { owners } = parts;
  let entry = owners.count;
  let chunk = owners.room(entry);
  let at = (entry & CHUNK_MASK) * WIDTH;
  let i = start;
  for (; i < count; i++) {
    const kind = kinds[i] as TransferKind;
    const receiver = addresses[to[i] as number] as number;
    if (receiver === 0 || hasAmounts(kind) || kind === TransferKind.range) break;
    const sender = addresses[from[i] as number] as number;
    let slot = slots[i] as number;
    let tail = -1;
    if (slot >= 0) {
      const link = linkChunks[slot >>> CHUNK_BITS] as Int32Array;
      const here = (slot & CHUNK_MASK) * 3;
      if (link[here + 2] !== sender || sender === 0) break;
      tail = link[here + 1] as number;
      link[here + 1] = entry;
      link[here + 2] = receiver;
    } else {
      if (sender !== 0) break;
      slot = addToken(columns, i, entry, receiver, parts);
      // An earlier transfer of this batch minted the token already.
      if (slot < 0) break;
    }
    if (at >= chunk.length) {
      chunk = owners.room(entry);
      at = (entry & CHUNK_MASK) * WIDTH;
    }
    chunk[at] = blocks[i] as number;
    chunk[at + 1] = slot;
    chunk[at + 2] = receiver;
    chunk[at + 3] = tail;
    chunk[at + 4] = logIndexes[i] as number;
    at += WIDTH;
    entry++;
  }
  owners.count = entry;
  return i;
}

/** Adds a token and returns its slot, or -1 if the token exists. */
function addToken({ kinds, ids }: TransferColumns, i: number, entry: number, owner: number, parts: PlainParts): number {
  const { words, values } = ids;
  const low = (values[i * words] as number) | 0;
  const high = words === 1 ? 0 : (values[i * words + 1] as number) | 0;
  const kind = kinds[i] as TransferKind;
  if (parts.tokens.findSmall(kind, low, high) >= 0) return -1;
  parts.links.addSlot(entry, owner);
  return parts.tokens.addSmall(kind, low, high);
}
