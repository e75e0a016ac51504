/**
 * Transfers in columns: the payload of a `TransfersCommitted` event. A record holds thousands of transfers. Each column
 * is as wide as its largest value needs (0 bytes if all values equal the base), and addresses are stored once in a
 * dictionary. With fixed widths, decoding is one copy per column: no varint, no object per transfer.
 *
 * Layout, little endian: u8 format (1) · u32 count · dictionary · kind · block · logIndex · from · to · id · amount.
 * A column is u8 width (0, 1, 2, 4, 8, 32) · base (u64, only if width ≤ 8) · count × width bytes.
 * A 32-byte value is eight u32 words, lowest first.
 */
import { InvariantError } from "../core/errors.ts";

/**
 * The kind of a transfer. A `range` is ERC-2309: `amount` consecutive ids from `id` on, one token each. `contract` is the
 * collection itself, in columns of metadata; no transfer has it. Kinds have four bits, and the third is reserved: the
 * token tables mark large ids with it.
 */
export const TransferKind = {
  erc721: 0,
  erc1155: 1,
  cryptopunks: 2,
  range: 3,
  mooncats: 8,
  erc6909: 9,
  contract: 10,
} as const;
export type TransferKind = (typeof TransferKind)[keyof typeof TransferKind];

/** A token of a collection. Ids of different kinds differ: some contracts have both. */
export interface TokenRef {
  readonly kind: TransferKind;
  readonly id: bigint;
}

/** The type of contract that each kind of token has on the wire. */
export const CONTRACT_TYPES: { readonly [kind: number]: string } = {
  [TransferKind.erc721]: "ERC721",
  [TransferKind.erc1155]: "ERC1155",
  [TransferKind.erc6909]: "ERC6909",
  [TransferKind.cryptopunks]: "CRYPTOPUNKS",
  [TransferKind.mooncats]: "MOONCATS",
};

/** The kinds whose tokens have amounts and any number of holders. Every other token has one owner. */
export type AmountKind = typeof TransferKind.erc1155 | typeof TransferKind.erc6909;

/** True for the kinds whose tokens have amounts. */
export const hasAmounts = (kind: TransferKind): kind is AmountKind =>
  kind === TransferKind.erc1155 || kind === TransferKind.erc6909;

/** Unsigned integers of up to 256 bits, with `words` u32 words per value (1, 2 or 8), lowest first. */
export interface WordColumn {
  readonly words: 1 | 2 | 8;
  readonly values: Uint32Array;
}

export interface TransferColumns {
  readonly count: number;
  /** Number of addresses in the dictionary. */
  readonly addressCount: number;
  /** 20 bytes each. */
  readonly addresses: Uint8Array;
  readonly kinds: Uint8Array;
  readonly blocks: Uint32Array;
  readonly logIndexes: Uint32Array;
  /** Dictionary indexes. */
  readonly from: Uint32Array;
  readonly to: Uint32Array;
  readonly ids: WordColumn;
  readonly amounts: WordColumn;
}

const TRANSFERS_FORMAT = 1;
const WIDTHS = [0, 1, 2, 4] as const;

class ColumnWriter {
  #bytes = new Uint8Array(4096);
  #view = new DataView(this.#bytes.buffer);
  #length = 0;

  reserve(extra: number): number {
    const at = this.#length;
    const need = at + extra;
    if (need > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(need, this.#bytes.length * 2));
      grown.set(this.#bytes.subarray(0, at));
      this.#bytes = grown;
      this.#view = new DataView(grown.buffer);
    }
    this.#length = need;
    return at;
  }

  u8(value: number): void {
    const at = this.reserve(1);
    this.#view.setUint8(at, value);
  }

  u32(value: number): void {
    const at = this.reserve(4);
    this.#view.setUint32(at, value, true);
  }

  /** Writes a base below 2^64, given as two words. */
  base(low: number, high: number): void {
    this.u32(low);
    this.u32(high);
  }

  raw(source: Uint8Array): void {
    const at = this.reserve(source.length);
    this.#bytes.set(source, at);
  }

  finish(): Uint8Array {
    return this.#bytes.slice(0, this.#length);
  }
}

const asBytes = (array: Uint8Array | Uint16Array | Uint32Array): Uint8Array =>
  new Uint8Array(array.buffer, array.byteOffset, array.byteLength);

/** Writes values below 2^32 relative to their minimum. */
function writeSmall(writer: ColumnWriter, values: Uint32Array, count: number): void {
  let least = count === 0 ? 0 : (values[0] as number);
  let most = least;
  for (let i = 1; i < count; i++) {
    const value = values[i] as number;
    if (value < least) least = value;
    else if (value > most) most = value;
  }
  const span = most - least;
  const width = span === 0 ? 0 : span < 0x100 ? 1 : span < 0x1_0000 ? 2 : 4;
  writer.u8(width);
  writer.base(least, 0);
  if (width === 0) return;
  const target = width === 1 ? new Uint8Array(count) : width === 2 ? new Uint16Array(count) : new Uint32Array(count);
  for (let i = 0; i < count; i++) target[i] = (values[i] as number) - least;
  writer.raw(asBytes(target));
}

/** Writes values of several words: like `writeSmall` if all fit 32 bits, else with 8 or 32 bytes each. */
function encodeWords(writer: ColumnWriter, column: WordColumn, count: number): void {
  const { words, values } = column;
  let used = 1;
  if (words > 1) {
    for (let i = 0; i < count && used < 3; i++) {
      const at = i * words;
      if (values[at + 1] !== 0 && used < 2) used = 2;
      for (let w = 2; w < words; w++) if (values[at + w] !== 0) used = 3;
    }
  }
  if (used === 1) {
    const low = words === 1 ? values : new Uint32Array(count);
    if (words > 1) for (let i = 0; i < count; i++) low[i] = values[i * words] as number;
    writeSmall(writer, low, count);
    return;
  }
  const kept = used === 2 ? 2 : 8;
  writer.u8(kept * 4);
  if (kept === 2) writer.base(0, 0);
  const target = new Uint32Array(count * kept);
  for (let i = 0; i < count; i++) {
    for (let w = 0; w < kept && w < words; w++) target[i * kept + w] = values[i * words + w] as number;
  }
  writer.raw(asBytes(target));
}

/** Encodes the columns; reads only the first `count` values of each. */
export function encodeTransfers(columns: TransferColumns): Uint8Array {
  const { count, addressCount } = columns;
  const writer = new ColumnWriter();
  writer.u8(TRANSFERS_FORMAT);
  writer.u32(count);
  writer.u32(addressCount);
  writer.raw(columns.addresses.subarray(0, addressCount * 20));
  const kinds = new Uint32Array(count);
  for (let i = 0; i < count; i++) kinds[i] = columns.kinds[i] as number;
  writeSmall(writer, kinds, count);
  writeSmall(writer, columns.blocks, count);
  writeSmall(writer, columns.logIndexes, count);
  writeSmall(writer, columns.from, count);
  writeSmall(writer, columns.to, count);
  encodeWords(writer, columns.ids, count);
  encodeWords(writer, columns.amounts, count);
  return writer.finish();
}

class Reader {
  #at = 0;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  u8(): number {
    return this.#view.getUint8(this.#take(1));
  }

  u32(): number {
    return this.#view.getUint32(this.#take(4), true);
  }

  /** A view, not a copy. */
  raw(length: number): Uint8Array {
    const at = this.#take(length);
    return this.#bytes.subarray(at, at + length);
  }

  /** An aligned copy, so that typed arrays of any width can lie on it. */
  copy(length: number): ArrayBuffer {
    const at = this.#take(length) + this.#bytes.byteOffset;
    return this.#bytes.buffer.slice(at, at + length) as ArrayBuffer;
  }

  end(): void {
    if (this.#at !== this.#bytes.length) throw new InvariantError("transfer columns have bytes past their end");
  }

  #take(length: number): number {
    const at = this.#at;
    if (at + length > this.#bytes.length) throw new InvariantError("transfer columns are cut off");
    this.#at = at + length;
    return at;
  }
}

function widen1(source: Uint8Array, base: number, values: Uint32Array): void {
  for (let i = 0; i < values.length; i++) values[i] = (source[i] as number) + base;
}

function widen2(source: Uint8Array, base: number, values: Uint32Array): void {
  for (let i = 0; i < values.length; i++) {
    values[i] = ((source[2 * i] as number) | ((source[2 * i + 1] as number) << 8)) + base;
  }
}

function widen4(source: Uint32Array, base: number, values: Uint32Array): void {
  for (let i = 0; i < values.length; i++) values[i] = (source[i] as number) + base;
}

/** Reads values of any width. A loop for each width: one over arrays of different types would be many times slower. */
function widen(width: number, base: number, count: number, reader: Reader): Uint32Array {
  if (width === 4 && base === 0) return new Uint32Array(reader.copy(count * 4));
  const values = new Uint32Array(count);
  if (width === 1) widen1(reader.raw(count), base, values);
  else if (width === 2) widen2(reader.raw(count * 2), base, values);
  else if (width === 4) widen4(new Uint32Array(reader.copy(count * 4)), base, values);
  else if (base !== 0) values.fill(base);
  return values;
}

function readSmall(reader: Reader, count: number): Uint32Array {
  const column = readWords(reader, count);
  if (column.words !== 1) throw new InvariantError("a transfer column is wider than its kind allows");
  return column.values;
}

function readWords(reader: Reader, count: number): WordColumn {
  const width = reader.u8();
  if (width === 32) return { words: 8, values: new Uint32Array(reader.copy(count * 32)) };
  const base = reader.u32();
  const high = reader.u32();
  if (high !== 0) throw new InvariantError("a transfer column's base is above 2^32");
  if (width === 8) return { words: 2, values: new Uint32Array(reader.copy(count * 8)) };
  if (!(WIDTHS as readonly number[]).includes(width)) throw new InvariantError(`transfer column of width ${width}`);
  return { words: 1, values: widen(width, base, count, reader) };
}

/** The addresses that encoded transfers name, 20 bytes each, without decoding the transfers. */
export function addressesIn(bytes: Uint8Array): Uint8Array {
  const reader = new Reader(bytes);
  const format = reader.u8();
  if (format !== TRANSFERS_FORMAT) throw new InvariantError(`transfer columns of unknown format ${format}`);
  reader.u32();
  const addressCount = reader.u32();
  if (addressCount * 20 > bytes.length) throw new InvariantError("transfer columns are cut off");
  return reader.raw(addressCount * 20);
}

/** Decodes columns. @throws InvariantError if they are cut off, too long or of an unknown format */
export function decodeTransfers(bytes: Uint8Array): TransferColumns {
  const reader = new Reader(bytes);
  const format = reader.u8();
  if (format !== TRANSFERS_FORMAT) throw new InvariantError(`transfer columns of unknown format ${format}`);
  const count = reader.u32();
  const addressCount = reader.u32();
  // Check the count against the length before allocating: a damaged count could ask for gigabytes.
  if (addressCount * 20 > bytes.length || count > 50_000_000) throw new InvariantError("transfer columns are cut off");
  const addresses = reader.raw(addressCount * 20);
  const kinds = Uint8Array.from(readSmall(reader, count));
  const blocks = readSmall(reader, count);
  const logIndexes = readSmall(reader, count);
  const from = readSmall(reader, count);
  const to = readSmall(reader, count);
  const ids = readWords(reader, count);
  const amounts = readWords(reader, count);
  reader.end();
  return { count, addressCount, addresses, kinds, blocks, logIndexes, from, to, ids, amounts };
}

/** The transfers from `from` (inclusive) to `to` (exclusive), sharing the memory and the whole dictionary. */
export function sliceColumns(columns: TransferColumns, from: number, to: number): TransferColumns {
  const { ids, amounts } = columns;
  const words = ({ words, values }: WordColumn): WordColumn => ({
    words,
    values: values.subarray(from * words, to * words),
  });
  return {
    count: to - from,
    addressCount: columns.addressCount,
    addresses: columns.addresses,
    kinds: columns.kinds.subarray(from, to),
    blocks: columns.blocks.subarray(from, to),
    logIndexes: columns.logIndexes.subarray(from, to),
    from: columns.from.subarray(from, to),
    to: columns.to.subarray(from, to),
    ids: words(ids),
    amounts: words(amounts),
  };
}

const MASK = 0xffff_ffffn;

/** The value at `index` as a bigint, for tests and rare paths. Folds are too hot for it. */
export function wordsToBigInt(column: WordColumn, index: number): bigint {
  let value = 0n;
  for (let w = column.words - 1; w >= 0; w--) {
    value = (value << 32n) | BigInt(column.values[index * column.words + w] as number);
  }
  return value;
}

/** Writes a bigint below 2^256 as eight words at `index`. */
export function bigIntToWords(value: bigint, target: Uint32Array, index: number): void {
  const end = index * 8 + 8;
  target.fill(0, index * 8, end);
  let rest = value;
  // The bound ends the loop for a negative number, too.
  for (let at = index * 8; at < end && rest !== 0n; at++) {
    target[at] = Number(rest & MASK);
    rest >>= 32n;
  }
}
