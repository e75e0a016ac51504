/**
 * The few ABI words prices need: selectors and event topics of v2 and v3 factories, pools and tokens, with encoders
 * and decoders over hex words. Decoders answer undefined on data that is too short instead of guessing.
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
  /** PancakeSwap v3's form: the same words, two protocol fees after them. */
  swapWithProtocolFees: topic("Swap(address,address,int256,int256,uint160,uint128,int24,uint128,uint128)"),
  mint: topic("Mint(address,address,int24,int24,uint128,uint256,uint256)"),
  burn: topic("Burn(address,int24,int24,uint128,uint256,uint256)"),
  collect: topic("Collect(address,address,int24,int24,uint128,uint128)"),
  collectProtocol: topic("CollectProtocol(address,address,uint128,uint128)"),
  flash: topic("Flash(address,address,uint256,uint256,uint256,uint256)"),
  pairCreated: topic("PairCreated(address,address,address,uint256)"),
  poolCreated: topic("PoolCreated(address,address,uint24,int24,address)"),
} as const;

/** What sets a pool's price or its in-range liquidity. */
export const STATE_TOPICS: readonly Hash[] = [
  TOPIC.sync,
  TOPIC.initialize,
  TOPIC.swap,
  TOPIC.swapWithProtocolFees,
  TOPIC.mint,
  TOPIC.burn,
];

/** What moves a v3 pool's balances and nothing else. */
export const BALANCE_TOPICS: readonly Hash[] = [TOPIC.collect, TOPIC.collectProtocol, TOPIC.flash];

/** A call of `to`; `words` are 64 hex digits each. */
export const call = (to: Address, method: keyof typeof SELECTOR, ...words: string[]): Call => ({
  to,
  data: SELECTOR[method] + words.join(""),
});

/** Word `index` of hex data with 0x, unsigned; undefined when the data ends before it. */
export function abiWord(data: string, index: number): bigint | undefined {
  const start = 2 + index * 64;
  if (data.length < start + 64) return undefined;
  return BigInt(`0x${data.slice(start, start + 64)}`);
}

/** As `word`, two's complement. */
export function signedWord(data: string, index: number): bigint | undefined {
  const value = abiWord(data, index);
  return value === undefined ? undefined : BigInt.asIntN(256, value);
}

/** The address in a word; undefined when there is none or the word has more than 20 bytes. */
export function addressAt(data: string, index: number): Address | undefined {
  const value = abiWord(data, index);
  if (value === undefined || value >> 160n !== 0n) return undefined;
  return toAddress(`0x${value.toString(16).padStart(40, "0")}`);
}

/** Word `index` of a successful call; undefined when it failed or returned too little. */
export function answer(result: CallResult | undefined, index = 0): bigint | undefined {
  return result?.ok ? abiWord(result.data, index) : undefined;
}

/** A returned string: ABI `string`, or `bytes32` padded with zeros (as MKR); undefined when it is neither. */
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

/** UTF-8 without control characters and the zeros that pad it. */
function clean(bytes: Buffer): string {
  const end = bytes.indexOf(0);
  const text = (end === -1 ? bytes : bytes.subarray(0, end)).toString("utf8");
  return text.replace(/\p{Cc}/gu, "").trim();
}
