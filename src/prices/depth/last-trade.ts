/** The last trade in a pool by its recent logs: two requests at most. */
import type { PoolStyle } from "../../chains/exchanges.ts";
import type { Hash } from "../../core/hex.ts";
import type { ChainLog, ChainReader } from "../../rpc/port.ts";
import type { Side } from "../market/market.ts";
import { type Decimals, multiply, powerOfTen, type Rational, rational } from "../market/pools.ts";
import { undefinedIfTooManyLogs } from "../search/history.ts";
import { abiWords, topicOf } from "../styles/abi.ts";
import { emitterOf } from "../styles/styles.ts";

export interface LastTrade {
  readonly block: number;
  readonly transactionHash: Hash;
  /** Whole quote tokens for one whole base token, fees included. */
  readonly price: Rational;
}

const pairSwap = [
  topicOf("Swap(address,uint256,uint256,uint256,uint256,address)"),
  topicOf("Swap(address,address,uint256,uint256,uint256,uint256)"),
];
const rangeSwap = [
  topicOf("Swap(address,address,int256,int256,uint160,uint128,int24)"),
  topicOf("Swap(address,address,int256,int256,uint160,uint128,int24,uint128,uint128)"),
];

const TOPICS: Partial<Record<PoolStyle, readonly Hash[]>> = {
  ...{ v2: pairSwap, "solidly-v2": pairSwap, v3: rangeSwap, slipstream: rangeSwap },
  v4: [topicOf("Swap(bytes32,address,int128,int128,uint160,uint128,int24,uint24)")],
};

/** Blocks before the price's that each request searches. */
const WINDOWS = [100, 1_000] as const;
const MAX_LOGS = 10_000;
/** Smallest units of each token. With fewer, rounding is more than a hundredth of the price. */
const LEAST_UNITS = 100n;

const magnitude = (value: bigint): bigint => (value < 0n ? -value : value);

/** The amounts of both tokens that a trade moved. */
function amountsIn({ data, topics }: ChainLog): readonly [bigint, bigint] | undefined {
  const isPair = pairSwap.includes(topics[0]!);
  const [first, second, third = 0n, fourth = 0n] = abiWords(data, isPair ? 4 : 2) ?? [];
  if (first === undefined || second === undefined) return undefined;
  // A pair tells what came in and what went out. Other pools tell signed amounts.
  if (isPair) return [magnitude(first - third), magnitude(second - fourth)];
  return [magnitude(BigInt.asIntN(256, first)), magnitude(BigInt.asIntN(256, second))];
}

function tradeIn(log: ChainLog, { pool, base }: Side, { decimals0, decimals1 }: Decimals): LastTrade | undefined {
  const [amount0, amount1] = amountsIn(log) ?? [0n, 0n];
  if (amount0 < LEAST_UNITS || amount1 < LEAST_UNITS) return undefined;
  const [ratio, places] =
    pool.token0 === base
      ? [rational(amount1, amount0), decimals0 - decimals1]
      : [rational(amount0, amount1), decimals1 - decimals0];
  const { blockNumber: block, transactionHash } = log;
  return { block, transactionHash, price: multiply(ratio, powerOfTen(places)) };
}

/**
 * Returns the last trade at or before a block; null if the last 1,000 blocks show none, or can't be read by two requests.
 * @throws AppError `chain_unavailable` when no endpoint answers
 */
export async function lastTrade(
  reader: Pick<ChainReader, "logs">,
  side: Side,
  decimals: Decimals,
  block: number,
): Promise<LastTrade | null> {
  const { pool } = side;
  const topics = TOPICS[pool.style];
  if (topics === undefined) return null;
  const requests = { left: WINDOWS.length };
  let toBlock = block;
  for (const window of WINDOWS) {
    const fromBlock = Math.max(0, block - window + 1);
    const of = { addresses: [emitterOf(pool)], topics };
    const keyed = pool.key === undefined ? {} : { moreTopics: [[pool.id as Hash]] };
    const filter = { ...of, ...keyed, fromBlock, toBlock, maxLogs: MAX_LOGS, requests };
    const logs = await undefinedIfTooManyLogs(reader.logs(filter));
    if (logs === undefined) return null;
    const trades = logs.toReversed().map((log) => tradeIn(log, side, decimals));
    const last = trades.find((trade) => trade !== undefined);
    if (last !== undefined) return last;
    toBlock = fromBlock - 1;
    if (toBlock < 0) break;
  }
  return null;
}
