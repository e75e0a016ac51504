/**
 * The rows behind ERC-1155 balances: 32 bytes a transfer with an amount that fits 32 bits. A transfer is an entry in
 * two lists, its sender's and its receiver's. Also amounts, which are numbers up to 2^53 and bigints above.
 */
import { STEPS_WITHOUT_MARKS, type Steps, Trails } from "./shortcuts.ts";
import {
  CHUNK_BITS,
  CHUNK_MASK,
  CHUNK_ROWS,
  codeList,
  type LogPlace,
  type Slot,
  type StateCodec,
  VALUES_PER_SLICE,
  WordTable,
} from "./tables.ts";

// Amounts of ERC-1155 tokens: a number while that is exact (below 2^53), a bigint above. So the fold and its columns
// handle nearly all amounts without allocating a bigint.

export type Amount = number | bigint;

const shrink = (value: bigint): Amount => (value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value);

export function addAmounts(a: Amount, b: Amount): Amount {
  if (typeof a === "number" && typeof b === "number") {
    const sum = a + b;
    if (sum <= Number.MAX_SAFE_INTEGER) return sum;
  }
  return shrink(BigInt(a) + BigInt(b));
}

/** `a - b`; b must not be above a. */
export function subtractAmounts(a: Amount, b: Amount): Amount {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return shrink(BigInt(a) - BigInt(b));
}

export const isLess = (a: Amount, b: Amount): boolean => a < b;

/** The amount at `index` of a column with `words` little-endian u32 words per value. */
export function amountAt(values: Uint32Array, words: 1 | 2 | 8, index: number): Amount {
  const at = index * words;
  const low = values[at] as number;
  if (words === 1) return low;
  const high = values[at + 1] as number;
  let large = 0;
  for (let w = 2; w < words; w++) large |= values[at + w] as number;
  if (large === 0 && high < 0x20_0000) return high * 2 ** 32 + low;
  let value = 0n;
  for (let w = words - 1; w >= 0; w--) value = (value << 32n) | BigInt(values[at + w] as number);
  return shrink(value);
}

// A column of amounts that grows and shrinks at its end. An amount costs 4 bytes, or 8 in a chunk from the first one on
// that exceeds 32 bits. Amounts beyond 64 bits are bigints in a side table.

/** Words of a saved bigint: the sum of up to 2^32 amounts of 256 bits fits 288 bits. */
const WORDS = 9;

/** High word of a row with a bigint; the low word is its index in the side table. */
const IN_TABLE = 0xffff_ffff;

export class AmountColumn {
  readonly #low = new WordTable(1);
  /** High words, only for chunks that need them, and only up to the last row that does. */
  readonly #high: (Int32Array<ArrayBuffer> | undefined)[] = [];
  readonly #table: bigint[] = [];
  #highBytes = 0;

  get bytes(): number {
    return this.#low.bytes + this.#highBytes + this.#table.length * 48;
  }

  get count(): number {
    return this.#low.count;
  }

  get(row: number): Amount {
    const low = this.#low.get(row, 0) >>> 0;
    const high = (this.#high[row >>> CHUNK_BITS]?.[row & CHUNK_MASK] ?? 0) >>> 0;
    if (high === 0) return low;
    if (high === IN_TABLE) return this.#table[low] as bigint;
    return high < 0x20_0000 ? high * 2 ** 32 + low : (BigInt(high) << 32n) | BigInt(low);
  }

  push(amount: Amount): number {
    const row = this.#low.add();
    if (typeof amount === "number") this.#write(row, amount, amount >= 2 ** 32 ? Math.floor(amount / 2 ** 32) : 0);
    else if (amount < BigInt(IN_TABLE) << 32n) this.#write(row, Number(amount & 0xffff_ffffn), Number(amount >> 32n));
    else this.#write(row, this.#table.push(amount) - 1, IN_TABLE);
    return row;
  }

  /** Writes both words of a row. Only the lowest 32 bits of `low` count. */
  #write(row: number, low: number, high: number): void {
    this.#low.set(row, 0, low);
    const at = row & CHUNK_MASK;
    const chunk = this.#high[row >>> CHUNK_BITS];
    // Write a 0 where a high word exists: a removed row may have left its own there.
    if (high === 0 && (chunk === undefined || at >= chunk.length)) return;
    const wide = chunk !== undefined && at < chunk.length ? chunk : this.#widen(row >>> CHUNK_BITS, at + 1);
    wide[at] = high;
  }

  #widen(number: number, rows: number): Int32Array<ArrayBuffer> {
    const old = this.#high[number];
    const wide = new Int32Array(Math.min(CHUNK_ROWS, Math.max(64, rows, (old?.length ?? 0) * 2)));
    if (old !== undefined) wide.set(old);
    this.#replace(number, wide);
    return wide;
  }

  #replace(number: number, chunk: Int32Array<ArrayBuffer>): void {
    this.#highBytes += chunk.byteLength - (this.#high[number]?.byteLength ?? 0);
    this.#high[number] = chunk;
  }

  /** Removes the newest amount. */
  pop(): void {
    const row = --this.#low.count;
    if ((this.#high[row >>> CHUNK_BITS]?.[row & CHUNK_MASK] ?? 0) >>> 0 === IN_TABLE) this.#table.pop();
  }

  /** Saves all amounts through the codec, or restores them. */
  *coding(codec: StateCodec): Generator<void> {
    this.#low.code(codec);
    const high = codeList(codec, this.#high);
    this.#high.splice(0, this.#high.length, ...high);
    this.#highBytes = high.reduce((sum, chunk) => sum + (chunk?.byteLength ?? 0), 0);
    const table = new WordTable(WORDS);
    if (!codec.isReading) {
      for (const amount of this.#table) {
        const row = table.add();
        for (let word = 0; word < WORDS; word++) {
          table.set(row, word, Number(BigInt.asIntN(32, amount >> BigInt(32 * word))));
        }
        if (row % VALUES_PER_SLICE === 0) yield;
      }
    }
    table.code(codec);
    for (let row = 0; codec.isReading && row < table.count; row++) {
      let amount = 0n;
      for (let word = WORDS - 1; word >= 0; word--) amount = (amount << 32n) | BigInt(table.get(row, word) >>> 0);
      this.#table.push(amount);
      if (row % VALUES_PER_SLICE === 0) yield;
    }
  }

  /** Releases unused capacity. */
  trim(): void {
    this.#low.trim();
    for (const [number, chunk] of this.#high.entries()) {
      const rows = Math.max(0, Math.min(CHUNK_ROWS, this.count - number * CHUNK_ROWS));
      if (chunk !== undefined && chunk.length > rows) this.#replace(number, chunk.slice(0, rows));
    }
  }
}

/** In place of a holding: the zero address. Its lists are the supply of tokens. */
export const SUPPLY = -1;
/** Most entries walked to compute a balance. */
const MAX_WALK = 8;

/** Words of a transfer. */
const BLOCK = 0;
/** The token's previous transfer, or -1. */
const PREV = 1;
/** The sender's holding, or `SUPPLY`. */
const FROM = 2;
/** Link to the previous entry of the sender's list: an entry, -1, or -(2 + k) for row k of the stored balances. */
const FROM_PREV = 3;
/** The receiver's holding, `SUPPLY`, or ~owner if the transfer creates the holding. */
const TO = 4;
/** Link to the previous entry of the receiver's list. If the transfer creates the holding: the slot. */
const TO_PREV = 5;
/** Index of the log, or `NO_LOG`. */
const LOG = 6;
const WIDTH = 7;

/** In place of a log index: the ledger added the transfer, because the log misses one. */
export const NO_LOG = 0xffff_ffff;

export abstract class EntryLists {
  readonly #table = new WordTable(WIDTH);
  readonly #amounts = new AmountColumn();
  /** Balances that entries store. `#keptPrev` has the previous entry of each. */
  readonly #kept = new AmountColumn();
  readonly #keptPrev = new WordTable(1);
  /** Number of entries that the last `heldAfter` call walked. */
  #walked = 0;
  readonly #steps: Steps;
  /** Through the transfers of tokens, by slot. */
  readonly #tokenTrails: Trails;
  /** Through lists of entries, by holding, or by ~slot for a token's supply. */
  readonly #trails: Trails;

  /** @param steps counts the steps of walks */
  constructor(steps: Steps) {
    this.#steps = steps;
    const block = (transfer: number): number => this.block(transfer);
    this.#tokenTrails = new Trails({ block, before: (transfer) => this.prev(transfer) }, steps);
    this.#trails = new Trails(
      { block: (entry) => this.block(entry >>> 1), before: (entry) => this.before(entry) },
      steps,
    );
  }

  get count(): number {
    return this.#table.count;
  }

  get bytes(): number {
    const trails = this.#tokenTrails.bytes + this.#trails.bytes;
    return this.#table.bytes + this.#amounts.bytes + this.#kept.bytes + this.#keptPrev.bytes + trails;
  }

  block(transfer: number): number {
    return this.#table.get(transfer, BLOCK) >>> 0;
  }

  /** Index of the transfer's log, or `NO_LOG`. */
  logIndex(transfer: number): number {
    return this.#table.get(transfer, LOG) >>> 0;
  }

  amount(transfer: number): Amount {
    return this.#amounts.get(transfer);
  }

  /** The token's previous transfer, or -1. */
  prev(transfer: number): number {
    return this.#table.get(transfer, PREV);
  }

  countAt(block: number): number {
    return this.#table.upperBound(BLOCK, block);
  }

  /** The holding that the entry belongs to, or `SUPPLY`. */
  holdingOf(entry: number): number {
    const transfer = entry >>> 1;
    if ((entry & 1) === 0) return this.#table.get(transfer, FROM);
    const to = this.#table.get(transfer, TO);
    return to < SUPPLY ? transfer : to;
  }

  holdingOwner(holding: number): number {
    return ~this.#table.get(holding, TO);
  }

  holdingSlot(holding: number): Slot {
    return this.#table.get(holding, TO_PREV) as Slot;
  }

  #linkOf(entry: number): number {
    return this.#table.get(entry >>> 1, (entry & 1) === 0 ? FROM_PREV : TO_PREV);
  }

  /** True if the entry's transfer created the holding. */
  protected isFirst(entry: number): boolean {
    return (entry & 1) === 1 && this.#table.get(entry >>> 1, TO) < SUPPLY;
  }

  /** The previous entry of the same list, or -1. */
  protected before(entry: number): number {
    if (this.isFirst(entry)) return -1;
    const link = this.#linkOf(entry);
    return link < -1 ? this.#keptPrev.get(-2 - link, 0) : link;
  }

  /** A token's newest transfer at or before `block`, by a walk from `tail`; -1 for none, or `PAUSED`. */
  findTransfer(slot: Slot, tail: number, block: number): number {
    let transfer = tail;
    let steps = 0;
    for (; transfer >= 0 && this.block(transfer) > block; steps++) {
      if (steps === STEPS_WITHOUT_MARKS) return this.#tokenTrails.find(slot, tail, block);
      transfer = this.prev(transfer);
    }
    if (steps > 0) this.#steps.count += steps;
    return transfer;
  }

  /**
   * The newest entry of a list at or before `block`, by a walk from its tail; -1 for none, or `PAUSED`.
   * @param list a holding, or ~slot for a token's supply
   */
  protected findInList(list: number, tail: number, block: number): number {
    let entry = tail;
    let steps = 0;
    for (; entry >= 0 && this.block(entry >>> 1) > block; steps++) {
      if (steps === STEPS_WITHOUT_MARKS) return this.#trails.find(list, tail, block);
      entry = this.before(entry);
    }
    if (steps > 0) this.#steps.count += steps;
    return entry;
  }

  /** Drops stale marks of the trails, after the last `pop` of a revert. */
  cut(): void {
    this.#tokenTrails.cut(this.count);
    this.#trails.cut(2 * this.count);
  }

  /** The balance or supply after an entry; 0 for -1. */
  heldAfter(entry: number): Amount {
    this.#walked = 0;
    let [plus, minus]: [Amount, Amount] = [0, 0];
    for (let at = entry; at >= 0; ) {
      this.#walked++;
      const isFirst = this.isFirst(at);
      const link = isFirst ? -1 : this.#linkOf(at);
      if (link < -1) {
        plus = addAmounts(plus, this.#kept.get(-2 - link));
        break;
      }
      // A receiver's entry adds and a sender's subtracts. For supply it is the reverse: the zero address sends a mint.
      const amount = this.#amounts.get(at >>> 1);
      if (isFirst || ((at & 1) === 1) !== (this.holdingOf(at) === SUPPLY)) plus = addAmounts(plus, amount);
      else minus = addAmounts(minus, amount);
      at = link;
    }
    return subtractAmounts(plus, minus);
  }

  /** The link to `before` for an entry with `balance`. The last `heldAfter` call must have been for `before`. */
  #linkTo(before: number, balance: Amount): number {
    if (before < 0 || this.#walked < MAX_WALK) return before;
    this.#keptPrev.push(before);
    return -2 - this.#kept.push(balance);
  }

  /** Adds a transfer. The caller must still put its entries into lists. */
  protected add({ block, logIndex }: LogPlace, prev: number, amount: Amount): number {
    const transfer = this.#table.add();
    this.#table.set(transfer, BLOCK, block);
    this.#table.set(transfer, PREV, prev);
    this.#table.set(transfer, LOG, logIndex);
    this.#amounts.push(amount);
    return transfer;
  }

  /** Records that the transfer creates its receiver's holding. */
  protected begin(transfer: number, slot: Slot, owner: number): void {
    this.#table.set(transfer, TO, ~owner);
    this.#table.set(transfer, TO_PREV, slot);
  }

  /**
   * Puts the newest entry into the list of a holding or of a token's supply, after `before`. The last `heldAfter` call
   * must have been for `before`.
   */
  protected append(
    entry: number,
    { before, holding, balance }: { before: number; holding: number; balance: Amount },
  ): void {
    const [word, linkWord] = (entry & 1) === 0 ? [FROM, FROM_PREV] : [TO, TO_PREV];
    this.#table.set(entry >>> 1, word, holding);
    this.#table.set(entry >>> 1, linkWord, this.#linkTo(before, balance));
  }

  /** Removes the balance that the newest entry stores, if any. */
  protected retract(entry: number): void {
    if (this.isFirst(entry) || this.#linkOf(entry) >= -1) return;
    this.#kept.pop();
    this.#keptPrev.count--;
  }

  /** Removes the newest transfer; its entries must be retracted. */
  protected popTransfer(): void {
    this.#amounts.pop();
    this.#table.count--;
  }

  /** Saves all entries through the codec, or restores them. */
  *coding(codec: StateCodec): Generator<void> {
    for (const table of [this.#table, this.#keptPrev]) table.code(codec);
    for (const column of [this.#amounts, this.#kept]) yield* column.coding(codec);
  }

  /** Releases unused capacity. */
  trim(): void {
    for (const part of [this.#table, this.#amounts, this.#kept, this.#keptPrev]) part.trim();
  }
}
