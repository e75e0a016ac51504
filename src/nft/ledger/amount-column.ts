/**
 * A column of amounts that grows and shrinks at its end. An amount costs 4 bytes, or 8 in a chunk from the first one on
 * that exceeds 32 bits. Amounts beyond 64 bits are bigints in a side table.
 */
import type { Amount } from "./amounts.ts";
import { codeList, type StateCodec, VALUES_PER_SLICE } from "./state-codec.ts";
import { CHUNK_BITS, CHUNK_MASK, CHUNK_ROWS, WordTable } from "./tables.ts";

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
