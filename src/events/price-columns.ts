/**
 * The bytes of `TokenPriced` and `HeadPriced`: fixed fields first, so that a fold reads a block without the rest, then the
 * states of pools.
 *
 * A price: u8 format (1) · u8 flags · u32 block · 32-byte hash · u32 rules · f64 US dollars · f64 confidence · native price ·
 * u8 count of legs · legs · the native pool, if it is its own.
 * A head: u8 format (1) · u8 flags · u32 block · 32-byte hash · f64 time · u32 version of the chain's stream · u32 rules ·
 * the coin's pool, if it changed.
 * A pool's state: u16 number of the pool in its stream · u8 and u8 decimals · u8 flags · its integers, an i32 tick among them. An integer: u8 length ·
 * bytes, highest first. Little endian besides.
 */
import { InvariantError } from "../core/errors.ts";
import { bytesToHex, type Hash } from "../core/hex.ts";

const FORMAT = 1;

/** The fields of a price before its legs. */
export const PRICE_FLAGS = {
  /** The route goes on over the coin's pool of the head. */
  endsInCoin: 1,
  /** The coin's pool of the head tells the price in the native coin. */
  nativeIsCoin: 2,
  /** A pool of its own tells the price in the native coin. */
  hasNative: 4,
} as const;

export const HEAD_FLAGS = {
  /** The reader read its whole set at this head. */
  isWhole: 1,
  /** The coin has a dollar price. */
  hasCoin: 2,
  /** The coin's state is that of the head before. */
  isSameCoin: 4,
} as const;

/** A pool's state at a head, in the tokens' smallest units. */
export interface StoredState {
  /** Number of the pool among those of its stream, from 0. */
  readonly pool: number;
  readonly decimals0: number;
  readonly decimals1: number;
  readonly state:
    | { readonly style: "v2"; readonly reserve0: bigint; readonly reserve1: bigint }
    | { readonly style: "v3"; readonly sqrtPriceX96: bigint; readonly liquidity: bigint; readonly tick: number };
  readonly balance0?: bigint | undefined;
  readonly balance1?: bigint | undefined;
  /** What the pool gives of each token while its price moves by 2 %. */
  readonly given?: readonly [bigint, bigint] | undefined;
  /** What trades through its hooks got of its price: numerator and denominator. */
  readonly parts?: readonly { readonly n: bigint; readonly d: bigint }[] | undefined;
}

export interface StoredPrice {
  readonly block: number;
  readonly hash: Hash;
  /** Hash of the rules by which it was priced. */
  readonly rules: number;
  /** US dollars, as answered. */
  readonly usd: number;
  /** From 0 to 1, rounded. */
  readonly confidence: number;
  /** In the coin's smallest unit; undefined if the coin has no price. */
  readonly native: bigint | undefined;
  /** `PRICE_FLAGS`. */
  readonly flags: number;
  /** From the token on. */
  readonly legs: readonly StoredState[];
  readonly nativePool: StoredState | undefined;
}

export interface StoredHead {
  readonly block: number;
  readonly hash: Hash;
  /** Unix seconds. */
  readonly timestamp: number;
  /** Version of the chain's stream at which the block was canonical. */
  readonly chainVersion: number;
  readonly rules: number;
  /** `HEAD_FLAGS`. */
  readonly flags: number;
  readonly coin: StoredState | undefined;
}

/** Where the fields are. */
const AT = { flags: 1, block: 2, hash: 6, rules: 38, usd: 42, confidence: 50, native: 58 } as const;
const HEAD_AT = { time: 38, chainVersion: 46, rules: 50, coin: 54 } as const;

const STATE = { isRoot: 1, balance0: 2, balance1: 4, given: 8, parts: 16 } as const;

class PriceWriter {
  readonly #bytes: number[] = [];

  u8(value: number): void {
    this.#bytes.push(value & 0xff);
  }

  u16(value: number): void {
    this.#bytes.push(value & 0xff, value >>> 8);
  }

  u32(value: number): void {
    this.#bytes.push(value & 0xff, (value >>> 8) & 0xff, (value >>> 16) & 0xff, value >>> 24);
  }

  i32(value: number): void {
    this.u32(value >>> 0);
  }

  f64(value: number): void {
    this.#bytes.push(...new Uint8Array(new Float64Array([value]).buffer));
  }

  integer(value: bigint): void {
    const text = value === 0n ? "" : value.toString(16);
    const hex = text.length % 2 === 0 ? text : `0${text}`;
    this.u8(hex.length / 2);
    for (let at = 0; at < hex.length; at += 2) this.u8(Number.parseInt(hex.slice(at, at + 2), 16));
  }

  hash(value: Hash): void {
    this.#bytes.push(...Buffer.from(value.slice(2), "hex"));
  }

  state(entry: StoredState): void {
    const { state, balance0, balance1, given, parts } = entry;
    this.u16(entry.pool);
    this.u8(entry.decimals0);
    this.u8(entry.decimals1);
    const has = (flag: number, value: unknown) => (value === undefined ? 0 : flag);
    const known = has(STATE.balance0, balance0) | has(STATE.balance1, balance1) | has(STATE.given, given);
    this.u8((state.style === "v3" ? STATE.isRoot : 0) | known | has(STATE.parts, parts));
    this.integer(state.style === "v3" ? state.sqrtPriceX96 : state.reserve0);
    this.integer(state.style === "v3" ? state.liquidity : state.reserve1);
    if (state.style === "v3") this.i32(state.tick);
    for (const value of [balance0, balance1, ...(given ?? [])]) if (value !== undefined) this.integer(value);
    if (parts === undefined) return;
    this.u8(parts.length);
    for (const { n, d } of parts) {
      this.integer(n);
      this.integer(d);
    }
  }

  finish(): Uint8Array {
    return Uint8Array.from(this.#bytes);
  }
}

class ByteReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at: number;

  constructor(bytes: Uint8Array, at: number) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#at = at;
  }

  /** @throws InvariantError past the end */
  #take(length: number): number {
    const at = this.#at;
    this.#at += length;
    if (this.#at > this.#bytes.length) throw new InvariantError("a stored price is cut off");
    return at;
  }

  u8(): number {
    return this.#bytes[this.#take(1)]!;
  }

  u16(): number {
    return this.#view.getUint16(this.#take(2), true);
  }

  i32(): number {
    return this.#view.getInt32(this.#take(4), true);
  }

  integer(): bigint {
    const length = this.u8();
    const at = this.#take(length);
    let value = 0n;
    for (let index = 0; index < length; index++) value = (value << 8n) | BigInt(this.#bytes[at + index]!);
    return value;
  }

  state(): StoredState {
    const [pool, decimals0, decimals1, flags] = [this.u16(), this.u8(), this.u8(), this.u8()];
    const [first, second] = [this.integer(), this.integer()];
    const state =
      flags & STATE.isRoot
        ? ({ style: "v3", sqrtPriceX96: first, liquidity: second, tick: this.i32() } as const)
        : ({ style: "v2", reserve0: first, reserve1: second } as const);
    const balance0 = flags & STATE.balance0 ? this.integer() : undefined;
    const balance1 = flags & STATE.balance1 ? this.integer() : undefined;
    const given = flags & STATE.given ? ([this.integer(), this.integer()] as const) : undefined;
    const parts =
      flags & STATE.parts
        ? Array.from({ length: this.u8() }, () => ({ n: this.integer(), d: this.integer() }))
        : undefined;
    return { pool, decimals0, decimals1, state, balance0, balance1, given, parts };
  }

  /** @throws InvariantError if bytes are left */
  end(): void {
    if (this.#at !== this.#bytes.length) throw new InvariantError("a stored price is too long");
  }
}

/** Returns a state as it is stored. Equal states have equal bytes. */
export function encodeState(state: StoredState): Uint8Array {
  const writer = new PriceWriter();
  writer.state(state);
  return writer.finish();
}

export function encodePrice(price: StoredPrice): Uint8Array {
  const writer = new PriceWriter();
  writer.u8(FORMAT);
  writer.u8(price.flags);
  writer.u32(price.block);
  writer.hash(price.hash);
  writer.u32(price.rules);
  writer.f64(price.usd);
  writer.f64(price.confidence);
  // A price of zero and none differ: none has a byte more than a bigint may have.
  if (price.native === undefined) writer.u8(NO_NATIVE);
  else writer.integer(price.native);
  writer.u8(price.legs.length);
  for (const leg of price.legs) writer.state(leg);
  if (price.nativePool !== undefined) writer.state(price.nativePool);
  return writer.finish();
}

const NO_NATIVE = 0xff;

const view = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** Returns the hash of a stored price's or head's block. */
export const storedHash = (bytes: Uint8Array): Hash => bytesToHex(bytes.subarray(AT.hash, AT.hash + 32)) as Hash;

function assertFormat(bytes: Uint8Array, least: number): void {
  if (bytes.length < least || bytes[0] !== FORMAT) throw new InvariantError("a stored price of unknown format");
}

/** Returns the block of a stored price or head. */
export function storedBlock(bytes: Uint8Array): number {
  assertFormat(bytes, AT.rules);
  return (bytes[2]! | (bytes[3]! << 8) | (bytes[4]! << 16) | (bytes[5]! << 24)) >>> 0;
}

/** True if a stored price or head is of the block with this hash. */
export const hasHash = (bytes: Uint8Array, hash: Hash): boolean => storedHash(bytes) === hash;

/** @throws InvariantError for bytes that are none */
export function decodePrice(bytes: Uint8Array): StoredPrice {
  assertFormat(bytes, AT.native + 2);
  const data = view(bytes);
  const hasNative = bytes[AT.native] !== NO_NATIVE;
  const reader = new ByteReader(bytes, hasNative ? AT.native : AT.native + 1);
  const native = hasNative ? reader.integer() : undefined;
  const flags = bytes[AT.flags]!;
  const legs = Array.from({ length: reader.u8() }, () => reader.state());
  const nativePool = flags & PRICE_FLAGS.hasNative ? reader.state() : undefined;
  reader.end();
  return {
    ...{ block: data.getUint32(AT.block, true), hash: storedHash(bytes), rules: data.getUint32(AT.rules, true) },
    ...{ usd: data.getFloat64(AT.usd, true), confidence: data.getFloat64(AT.confidence, true), native },
    ...{ flags, legs, nativePool },
  };
}

/** The part of a stored price that stays while no pool of its route changes: how it is joined, and the states. */
export function storedStates(bytes: Uint8Array): Uint8Array {
  const length = bytes[AT.native] === NO_NATIVE ? 0 : bytes[AT.native]!;
  const states = bytes.slice(AT.native + length);
  states[0] = bytes[AT.flags]!;
  return states;
}

export function encodeHead(head: StoredHead): Uint8Array {
  const writer = new PriceWriter();
  writer.u8(FORMAT);
  writer.u8(head.flags);
  writer.u32(head.block);
  writer.hash(head.hash);
  writer.f64(head.timestamp);
  writer.u32(head.chainVersion);
  writer.u32(head.rules);
  if (head.coin !== undefined) writer.state(head.coin);
  return writer.finish();
}

/** @throws InvariantError for bytes that are none */
export function decodeHead(bytes: Uint8Array): StoredHead {
  assertFormat(bytes, HEAD_AT.coin);
  const data = view(bytes);
  const flags = bytes[AT.flags]!;
  const hasOwnCoin = (flags & HEAD_FLAGS.hasCoin) !== 0 && (flags & HEAD_FLAGS.isSameCoin) === 0;
  const reader = new ByteReader(bytes, HEAD_AT.coin);
  const coin = hasOwnCoin ? reader.state() : undefined;
  reader.end();
  return {
    ...{
      block: data.getUint32(AT.block, true),
      hash: storedHash(bytes),
      timestamp: data.getFloat64(HEAD_AT.time, true),
    },
    ...{ chainVersion: data.getUint32(HEAD_AT.chainVersion, true), rules: data.getUint32(HEAD_AT.rules, true) },
    ...{ flags, coin },
  };
}
