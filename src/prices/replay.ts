/** A pool's states at the ends of blocks, from what is known of it and its logs. Pure. */
import type { ChainView, FollowBatch } from "../indexer/consumer.ts";
import type { ChainLog } from "../rpc/port.ts";
import { type HotPool, stateAt } from "./book.ts";
import { applyLog } from "./decode.ts";
import type { Observation } from "./pools.ts";

/**
 * The states that a batch's logs lead to. Up to the block before it, or to the pool's base when that is later, the
 * pool's own timeline is the truth; later entries in it are of this very stretch, seen by somebody else.
 * `timestamps`: Unix seconds by block; a state without one only leads to the next, the batch's last always has one.
 */
export function replay(
  hot: HotPool,
  { fromBlock }: FollowBatch,
  logs: readonly ChainLog[],
  timestamps: ReadonlyMap<number, number>,
  view: ChainView,
): Observation[] {
  const known = Math.max(fromBlock - 1, hot.base?.number ?? -1);
  const states: Observation[] = [];
  let last = stateAt(hot, known, view);
  for (const log of logs) {
    if (log.blockNumber <= known) continue;
    const timestamp = timestamps.get(log.blockNumber);
    const next = applyLog(last, log, timestamp ?? last?.timestamp ?? 0);
    if (next === undefined || next === last) continue;
    if (states.at(-1)?.block === next.block) states.pop();
    if (timestamp !== undefined) states.push(next);
    last = next;
  }
  return states;
}
