/** Reads the logs that change the states of pools, and those in which factories announce pools. */
import type { Hash } from "../../core/hex.ts";
import type { BlockRange } from "../../events/types.ts";
import { addressWord } from "../../rpc/calls.ts";
import type { ChainLog, LogFilter } from "../../rpc/port.ts";
import type { Pool, PoolId } from "../market/pools.ts";
import { CREATION_TOPICS, emitterOf, logsOf, poolIdOf, STATE_TOPICS, STYLES } from "../styles/styles.ts";
import { MAX_LOGS, type PastReader } from "./past-source.ts";

/** Which logs change a pool's state. */
export const stateLogsOf = (pool: Pool) =>
  logsOf(pool, pool.key === undefined ? STATE_TOPICS.ofContracts : STATE_TOPICS.ofKeyed);

/** Reads the logs that change pools' states. No request if the range is empty. @throws AppError `too_many_logs` */
export async function stateLogs(
  reader: PastReader,
  pools: readonly Pool[],
  { maxLogs = MAX_LOGS, ...given }: BlockRange & Pick<LogFilter, "maxLogs" | "onArchived">,
): Promise<ChainLog[]> {
  if (given.fromBlock > given.toBlock) return [];
  const range = { ...given, maxLogs };
  const own = pools.filter(({ key }) => key === undefined).map(emitterOf);
  const inside = Map.groupBy(
    pools.filter(({ key }) => key !== undefined),
    emitterOf,
  );
  const reads = [...inside].map(([emitter, some]) =>
    reader.logs({
      ...{ ...range, addresses: [emitter], topics: STATE_TOPICS.ofKeyed },
      moreTopics: [some.map(({ id }) => id as Hash)],
    }),
  );
  if (own.length > 0) reads.push(reader.logs({ ...range, addresses: own, topics: STATE_TOPICS.ofContracts }));
  return (await Promise.all(reads)).flat();
}

/** Reads the logs in which factories announce these pools. Pools whose own logs tell their beginning need none. */
export async function creationLogs(
  reader: PastReader,
  pools: readonly Pool[],
  fromBlock: number,
  toBlock: number,
): Promise<ChainLog[]> {
  const silent = pools.filter(
    ({ style }) => STYLES[style].begins === undefined && STYLES[style].created.tokensAt === 1,
  );
  if (silent.length === 0 || fromBlock > toBlock) return [];
  const words = (token: "token0" | "token1") =>
    [...new Set(silent.map((pool) => pool[token]))].map((address) => `0x${addressWord(address)}` as Hash);
  return reader.logs({
    ...{ fromBlock, toBlock, maxLogs: MAX_LOGS, topics: CREATION_TOPICS },
    addresses: [...new Set(silent.map(({ factory }) => factory))],
    moreTopics: [words("token0"), words("token1")],
  });
}

/** Groups logs by pool, each group in chain order. */
export const byPool = (logs: readonly ChainLog[]): Map<PoolId, ChainLog[]> => Map.groupBy(logs, poolIdOf);
