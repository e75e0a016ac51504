/** The states of pools over a range of blocks: from the state at its start, and the logs that change it. */
import type { ChainLog } from "../../rpc/port.ts";
import type { PricedBlock } from "../market/market.ts";
import type { Observation, PoolId } from "../market/pools.ts";
import { applyLog } from "../styles/styles.ts";
import { ArchiveWords, unlessDisproved } from "./archive-words.ts";
import { seenAt } from "./history.ts";
import { chainMoved, type PastReader, type PastSource, type Sought } from "./past-source.ts";
import { byPool, stateLogs, stateLogsOf } from "./state-logs.ts";

/** Most headers that are read for times. */
const MAX_DATED_BLOCKS = 12;

/** The states of pools in a range of blocks. */
export interface StateSeries {
  readonly states: ReadonlyMap<PoolId, readonly Observation[]>;
  /** True if an archive alone says that nothing else happened to a pool. */
  readonly isArchivesAlone: boolean;
}

/**
 * Returns the states of pools after each block that changed them, from the state at `start` up to and including `end`.
 * @throws AppError `chain_moved` (retryable), `too_many_logs`
 */
export const seriesBetween = (...asked: Parameters<typeof readSeries>): Promise<StateSeries> =>
  unlessDisproved(() => readSeries(...asked));

async function readSeries(
  source: PastSource,
  sought: Sought,
  start: PricedBlock,
  end: PricedBlock,
): Promise<StateSeries> {
  const { reader } = source;
  const words = new ArchiveWords();
  const range = { fromBlock: start.number + 1, toBlock: end.number };
  const [before, logs] = await Promise.all([
    seenAt(source, sought, start),
    stateLogs(reader, sought.pools, { ...range, onArchived: words.note }),
  ]);
  if ((await reader.header(end.number))?.hash !== end.hash) throw chainMoved(end.number);
  const timestampOf = await dated(reader, logs, start, end);
  const groups = byPool(logs);
  const claims = new Map(
    sought.pools.map((pool) => [pool.id, { ...stateLogsOf(pool), ...range, logs: groups.get(pool.id) ?? [] }]),
  );
  const word = [
    ...(await words.confirm(claims)).values(),
    ...[...before.states.values()].map(({ archive }) => archive),
  ];
  const states = new Map(
    sought.pools.map(({ id }) => {
      const first = before.states.get(id);
      const series = first === undefined ? [] : [{ ...first, block: start.number, timestamp: start.timestamp }];
      let last: Observation | undefined = first;
      for (const log of groups.get(id) ?? []) {
        const next = applyLog(last, log, timestampOf(log.blockNumber));
        if (next === undefined || next === last) continue;
        if (series.at(-1)?.block === next.block) series.pop();
        series.push(next);
        last = next;
      }
      return [id, series] as const;
    }),
  );
  return { states, isArchivesAlone: word.some((one) => one?.alone !== undefined) };
}

/** Returns the times of blocks with logs: some are read, those between are interpolated by number. */
async function dated(
  reader: PastReader,
  logs: readonly ChainLog[],
  start: PricedBlock,
  end: PricedBlock,
): Promise<(block: number) => number> {
  const numbers = [...new Set(logs.map((log) => log.blockNumber))];
  const step = Math.ceil(numbers.length / MAX_DATED_BLOCKS);
  const headers = await reader.headers(numbers.filter((_, at) => at % step === 0));
  const known = [start, ...headers.filter((header) => header !== undefined), end].sort((a, b) => a.number - b.number);
  return (block) => {
    const next = known.findIndex(({ number }) => number >= block);
    const after = known[next] ?? end;
    const before = known[next - 1] ?? start;
    if (after.number === block || after.number === before.number) return after.timestamp;
    const share = (block - before.number) / (after.number - before.number);
    return before.timestamp + Math.round((after.timestamp - before.timestamp) * share);
  };
}
