/**
 * Pools at a past block of which the node has no state, for trades with them: pairs by their reserves, concentrated pools
 * by the logs of all their positions. Exact where fees are constant or logged.
 */
import { AppError } from "../../core/errors.ts";
import type { Hash } from "../../core/hex.ts";
import type { ChainLog, ChainReader } from "../../rpc/port.ts";
import type { PricedBlock } from "../market/market.ts";
import type { Decimals, Pool, Reading } from "../market/pools.ts";
import { MAX_LOG_REQUESTS, MAX_LOGS } from "../search/past-source.ts";
import { answer, call } from "../styles/abi.ts";
import { type ExactTrades, poolContract } from "../styles/style.ts";
import { logsOf, positionChangeIn } from "../styles/styles.ts";
import { MAX_TICK } from "../styles/ticks.ts";
import { type Tradable, UnknownTrade } from "../styles/trade.ts";
import { pairAt } from "./pairs.ts";
import { exactTradesOf, isSpacing, NO_ANSWER } from "./pool-reads.ts";
import { type Ranges, rangesAt } from "./ranges.ts";

/** A pool of a route, its reading at the block, and the decimals of its tokens. */
interface PastPool {
  readonly pool: Pool;
  readonly reading: Reading;
  readonly decimals: Decimals;
}

/**
 * Returns pools at a past block, in their order.
 * @throws UnknownTrade if logs don't tell trades with one of them
 */
export async function tradablesFromLogs(
  reader: Pick<ChainReader, "logs" | "calls" | "header">,
  pools: readonly PastPool[],
  block: PricedBlock,
): Promise<readonly Tradable[]> {
  const exact = pools.map(({ pool }) => exactTradesOf(pool));
  const found = await Promise.all(pools.map((one, at) => tradableFromLogs(reader, one, exact[at]!, block)));
  const now = await reader.header(block.number);
  if (now?.hash !== block.hash) throw new UnknownTrade("the block was replaced while its logs were read");
  return found;
}

async function tradableFromLogs(
  reader: Pick<ChainReader, "logs" | "calls">,
  { pool, reading, decimals }: PastPool,
  exact: ExactTrades,
  { number }: PricedBlock,
): Promise<Tradable> {
  if (exact.kind === "reserves") {
    if (reading.style !== "v2") throw new UnknownTrade(NO_ANSWER);
    if (!exact.hasConstantFee) throw new UnknownTrade(`no log tells the fee of a ${pool.style} pair at the block`);
    return pairAt(pool, reading, decimals, exact.sale);
  }
  const { past } = exact;
  if (past?.fees(pool, []) === undefined) throw new UnknownTrade("no log tells the fee of the pool at the block");
  const { topics } = past;
  const [spacing, logs] = await Promise.all([spacingOf(reader, pool), positionLogs(reader, pool, topics, number)]);
  const fees = past.fees(pool, logs);
  if (reading.style !== "v3" || fees === undefined || !isSpacing(spacing)) throw new UnknownTrade(NO_ANSWER);
  return rangesAt({ reading, spacing, fees, ...ticksIn(logs, spacing), isKeyed: pool.key !== undefined });
}

/** The tick spacing, which is constant. */
async function spacingOf(reader: Pick<ChainReader, "calls">, pool: Pool): Promise<number> {
  if (pool.key !== undefined) return pool.key.spacing;
  const [said] = await reader.calls([call(poolContract(pool), "tickSpacing()")], "latest");
  return Number(answer(said) ?? 0n);
}

/** The logs of all changes of a pool's positions and fees up to a block. @throws UnknownTrade if they are too many */
async function positionLogs(
  reader: Pick<ChainReader, "logs">,
  pool: Pool,
  topics: readonly Hash[],
  toBlock: number,
): Promise<readonly ChainLog[]> {
  const filter = { ...logsOf(pool, topics), fromBlock: 0, toBlock, maxLogs: MAX_LOGS };
  const read = reader.logs({ ...filter, requests: { left: MAX_LOG_REQUESTS } });
  // A budget that is spent tells nothing about the pool.
  const logs = await read.catch((error: unknown) => {
    if (error instanceof AppError && error.code === "too_many_logs") return undefined;
    throw error;
  });
  if (logs === undefined)
    throw new UnknownTrade("the node has no state of this block, and the pool's positions have too many logs");
  return logs;
}

/** The ticks at which positions begin or end, and the whole bitmap. */
function ticksIn(logs: readonly ChainLog[], spacing: number): Pick<Ranges, "bitmap" | "nets"> {
  const ticks = new Map<number, { gross: bigint; net: bigint }>();
  const add = (at: number, gross: bigint, net: bigint): void => {
    const before = ticks.get(at) ?? { gross: 0n, net: 0n };
    ticks.set(at, { gross: before.gross + gross, net: before.net + net });
  };
  for (const log of logs) {
    const change = positionChangeIn(log);
    if (change === undefined) continue;
    add(change.tickLower, change.delta, change.delta);
    add(change.tickUpper, change.delta, -change.delta);
  }
  const used = [...ticks].filter(([, { gross }]) => gross !== 0n);
  const edge = Math.ceil(MAX_TICK / spacing / 256) + 1;
  const bitmap = new Map<number, bigint>(Array.from({ length: 2 * edge + 1 }, (_, at) => [at - edge, 0n]));
  for (const [tick] of used) {
    const place = tick / spacing;
    bitmap.set(place >> 8, (bitmap.get(place >> 8) ?? 0n) | (1n << BigInt(place & 255)));
  }
  return { bitmap, nets: new Map(used.map(([tick, { net }]) => [tick, net])) };
}
