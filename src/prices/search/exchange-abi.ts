/**
 * The part of the ABI that prices need: selectors and event topics of v2 and v3 factories, pools and tokens, with
 * encoders and decoders over hex words. Decoders return undefined on data that is too short.
 */
import { id } from "ethers";
import { type Address, type Hash, toAddress } from "../../core/hex.ts";
import { selectorOf as selector } from "../../rpc/abi.ts";
import type { Call, CallResult } from "../../rpc/port.ts";

const topic = (signature: string): Hash => id(signature) as Hash;

export const SELECTOR = {
  name: selector("name()"),
  symbol: selector("symbol()"),
  decimals: selector("decimals()"),
  totalSupply: selector("totalSupply()"),
  balanceOf: selector("balanceOf(address)"),
  supportsInterface: selector("supportsInterface(bytes4)"),
  getPair: selector("getPair(address,address)"),
  getPool: selector("getPool(address,address,uint24)"),
  allPairsLength: selector("allPairsLength()"),
  feeAmountTickSpacing: selector("feeAmountTickSpacing(uint24)"),
  getReserves: selector("getReserves()"),
  slot0: selector("slot0()"),
  liquidity: selector("liquidity()"),
  token0: selector("token0()"),
  token1: selector("token1()"),
  stableSwap: selector("stableSwap()"),
  token0FeePercent: selector("token0FeePercent()"),
  token1FeePercent: selector("token1FeePercent()"),
} as const;

export const TOPIC = {
  sync: topic("Sync(uint112,uint112)"),
  initialize: topic("Initialize(uint160,int24)"),
  swap: topic("Swap(address,address,int256,int256,uint160,uint128,int24)"),
  /** PancakeSwap v3's `Swap`: the same words, followed by two protocol fees. */
  swapWithProtocolFees: topic("Swap(address,address,int256,int256,uint160,uint128,int24,uint128,uint128)"),
  mint: topic("Mint(address,address,int24,int24,uint128,uint256,uint256)"),
  burn: topic("Burn(address,int24,int24,uint128,uint256,uint256)"),
  collect: topic("Collect(address,address,int24,int24,uint128,uint128)"),
  collectProtocol: topic("CollectProtocol(address,address,uint128,uint128)"),
  flash: topic("Flash(address,address,uint256,uint256,uint256,uint256)"),
  pairCreated: topic("PairCreated(address,address,address,uint256)"),
  poolCreated: topic("PoolCreated(address,address,uint24,int24,address)"),
} as const;

/** Events that set a pool's price or its in-range liquidity. */
export const STATE_TOPICS: readonly Hash[] = [
  TOPIC.sync,
  TOPIC.initialize,
  TOPIC.swap,
  TOPIC.swapWithProtocolFees,
  TOPIC.mint,
  TOPIC.burn,
];

/** Events that change only a v3 pool's balances. */
export const BALANCE_TOPICS: readonly Hash[] = [TOPIC.collect, TOPIC.collectProtocol, TOPIC.flash];

/** Builds a call of `to`; each of `words` is 64 hex digits. */
export const call = (to: Address, method: keyof typeof SELECTOR, ...words: string[]): Call => ({
  to,
  data: SELECTOR[method] + words.join(""),
});

/** Returns word `index` of hex data with 0x, unsigned; undefined when the data ends before it. */
export function abiWord(data: string, index: number): bigint | undefined {
  const start = 2 + index * 64;
  if (data.length < start + 64) return undefined;
  return BigInt(`0x${data.slice(start, start + 64)}`);
}

/** Like `word`, but signed (two's complement). */
export function signedWord(data: string, index: number): bigint | undefined {
  const value = abiWord(data, index);
  return value === undefined ? undefined : BigInt.asIntN(256, value);
}

/** Returns the address in a word; undefined when the word is missing or its upper 12 bytes are not zero. */
export function addressAt(data: string, index: number): Address | undefined {
  const value = abiWord(data, index);
  if (value === undefined || value >> 160n !== 0n) return undefined;
  return toAddress(`0x${value.toString(16).padStart(40, "0")}`);
}

/** Returns word `index` of a successful call; undefined when the call failed or returned too little data. */
export function answer(result: CallResult | undefined, index = 0): bigint | undefined {
  return result?.ok ? abiWord(result.data, index) : undefined;
}

/** Decodes a returned string: ABI `string`, or zero-padded `bytes32` (MKR returns that); undefined for other data. */
export function textAnswer(result: CallResult | undefined): string | undefined {
  if (!result?.ok || result.data.length < 66) return undefined;
  const { data } = result;
  if (data.length === 66) return clean(Buffer.from(data.slice(2), "hex"));
  const offset = abiWord(data, 0);
  if (offset === undefined || offset % 32n !== 0n || offset > 1024n) return undefined;
  const at = Number(offset / 32n);
  const length = abiWord(data, at);
  if (length === undefined || length > 4096n) return undefined;
  const start = 2 + (at + 1) * 64;
  return clean(Buffer.from(data.slice(start, start + Number(length) * 2), "hex"));
}

/** Decodes UTF-8 up to the first zero byte, without control characters. */
function clean(bytes: Buffer): string {
  const end = bytes.indexOf(0);
  const text = (end === -1 ? bytes : bytes.subarray(0, end)).toString("utf8");
  return text.replace(/\p{Cc}/gu, "").trim();
}
