/** The last trade in a pool by its recent logs: two requests at most. */
import type { Hash } from "../../core/hex.ts";
import type { ChainLog, ChainReader } from "../../rpc/port.ts";
import type { Side } from "../market/market.ts";
import type { Decimals } from "../market/pools.ts";
import { multiply, powerOfTen, type Rational, rational } from "../market/rational.ts";
import { undefinedIfUnreadable } from "../search/past-source.ts";
import type { ExactTrades } from "../styles/style.ts";
import { logsOf, STYLES } from "../styles/styles.ts";

export interface LastTrade {
  readonly block: number;
  readonly transactionHash: Hash;
  /** Whole quote tokens for one whole base token, fees included. */
  readonly price: Rational;
}

/** Blocks before the price's that each request searches. */
const WINDOWS = [100, 1_000] as const;
const MAX_LOGS = 10_000;
/** Smallest units of each token. With fewer, rounding is more than a hundredth of the price. */
const LEAST_UNITS = 100n;

function tradeIn(
  log: ChainLog,
  { pool, base }: Side,
  { decimals0, decimals1 }: Decimals,
  swaps: ExactTrades["swaps"],
): LastTrade | undefined {
  const [amount0, amount1] = swaps[log.topics[0]!]?.(log) ?? [0n, 0n];
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
  const { swaps } = STYLES[pool.style].exact ?? {};
  if (swaps === undefined) return null;
  const requests = { left: WINDOWS.length };
  let toBlock = block;
  for (const window of WINDOWS) {
    const fromBlock = Math.max(0, block - window + 1);
    const filter = { ...logsOf(pool, Object.keys(swaps) as Hash[]), fromBlock, toBlock, maxLogs: MAX_LOGS, requests };
    const logs = await undefinedIfUnreadable(reader.logs(filter));
    if (logs === undefined) return null;
    const trades = logs.toReversed().map((log) => tradeIn(log, side, decimals, swaps));
    const last = trades.find((trade) => trade !== undefined);
    if (last !== undefined) return last;
    toBlock = fromBlock - 1;
    if (toBlock < 0) break;
  }
  return null;
}
