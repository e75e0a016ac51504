/**
 * The ABI of v2 and v3 exchanges: selectors, topics, encoders and decoders over hex words; and the fold of pool events
 * into pool states, which gives a past state from logs alone. Decoders return undefined for malformed data.
 */
import { id } from "ethers";
import { type Address, type Hash, toAddress } from "../../core/hex.ts";
import { selectorOf as selector } from "../../rpc/calls.ts";
import type { Call, CallResult, ChainLog } from "../../rpc/port.ts";
import type { Observation, Reading } from "../market/pools.ts";

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

/** Events by which a factory announces a pool. Their first two arguments are its tokens. */
export const CREATION_TOPICS: readonly Hash[] = [TOPIC.pairCreated, TOPIC.poolCreated];

/** Builds a call of `to`; each of `words` is 64 hex digits. */
export const call = (to: Address, method: keyof typeof SELECTOR, ...words: string[]): Call => ({
  to,
  data: SELECTOR[method] + words.join(""),
});

/** Returns word `index` of hex data with 0x, unsigned; undefined when the data ends before it. */
function abiWord(data: string, index: number): bigint | undefined {
  const start = 2 + index * 64;
  if (data.length < start + 64) return undefined;
  return BigInt(`0x${data.slice(start, start + 64)}`);
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

/** Returns the address that a successful call returned; undefined when the call failed or returned other data. */
export const addressAnswer = (result: CallResult | undefined): Address | undefined =>
  result?.ok ? addressAt(result.data, 0) : undefined;

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

/** The change of a pool's price or depth by one log. */
type PoolChange =
  | { readonly kind: "state"; readonly reading: Reading }
  | { readonly kind: "liquidity"; readonly delta: bigint; readonly tickLower: number; readonly tickUpper: number };

const tickOf = (word: bigint): number => Number(BigInt.asIntN(24, word));

/** Returns the first `count` words of hex data, unsigned; undefined when there are fewer. */
function words(data: string, count: number): bigint[] | undefined {
  if (data.length < 2 + count * 64) return undefined;
  return Array.from({ length: count }, (_, index) => abiWord(data, index) ?? 0n);
}

function liquidityOf(log: ChainLog, sign: 1n | -1n, amountAt: number): PoolChange | undefined {
  const [, , lower, upper] = log.topics;
  const amount = words(log.data, amountAt + 3)?.[amountAt];
  if (amount === undefined || lower === undefined || upper === undefined) return undefined;
  const [tickLower, tickUpper] = [tickOf(BigInt(lower)), tickOf(BigInt(upper))];
  return { kind: "liquidity", delta: sign * amount, tickLower, tickUpper };
}

/** Decodes one log of a pool; undefined for other events and malformed data. */
function decodeLog(log: ChainLog): PoolChange | undefined {
  switch (log.topics[0]) {
    case TOPIC.sync: {
      const [reserve0, reserve1] = words(log.data, 2) ?? [];
      if (reserve0 === undefined || reserve1 === undefined) return undefined;
      return { kind: "state", reading: { style: "v2", reserve0, reserve1 } };
    }
    case TOPIC.initialize: {
      const [sqrtPriceX96, tick] = words(log.data, 2) ?? [];
      if (sqrtPriceX96 === undefined || tick === undefined) return undefined;
      // No liquidity is in range before the first mint.
      return { kind: "state", reading: { style: "v3", sqrtPriceX96, liquidity: 0n, tick: tickOf(tick) } };
    }
    case TOPIC.swap:
    case TOPIC.swapWithProtocolFees: {
      const [, , sqrtPriceX96, liquidity, tick] = words(log.data, 5) ?? [];
      if (sqrtPriceX96 === undefined || liquidity === undefined || tick === undefined) return undefined;
      return { kind: "state", reading: { style: "v3", sqrtPriceX96, liquidity, tick: tickOf(tick) } };
    }
    case TOPIC.mint:
      return liquidityOf(log, 1n, 1);
    case TOPIC.burn:
      return liquidityOf(log, -1n, 0);
    default:
      return undefined;
  }
}

/** True if the log alone sets the pool's price, independent of earlier logs. */
export const setsPrice = (log: ChainLog): boolean => decodeLog(log)?.kind === "state";

/**
 * Returns the state after a log, without balances, which no log contains. Returns `before` when the log changes nothing,
 * or only values that are not known yet. `timestamp`: the time of the log's block, in Unix seconds.
 */
export function applyLog(before: Observation | undefined, log: ChainLog, timestamp: number): Observation | undefined {
  const change = decodeLog(log);
  if (change === undefined) return before;
  const { blockNumber: block, blockHash, transactionHash, logIndex } = log;
  const at = { block, blockHash, timestamp, transactionHash, logIndex };
  if (change.kind === "state") return { ...at, reading: change.reading };
  if (before?.reading.style !== "v3") return before;
  const { reading } = before;
  const isInRange = change.tickLower <= reading.tick && reading.tick < change.tickUpper;
  return isInRange ? { ...at, reading: { ...reading, liquidity: reading.liquidity + change.delta } } : before;
}
