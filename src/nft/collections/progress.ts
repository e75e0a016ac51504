/** How far the indexing of a collection is, how fast it moves, and how long it will take. Pure. */
import { type IndexState, nextBlock } from "./headline.ts";

interface IndexingProgress {
  /** From 0 to 100; 100 only when complete. Null while the history's length is not known. */
  readonly percent: number | null;
  /** Average since the start of the current attempt's backfill; null while no backfill runs. */
  readonly transfersPerSecond: number | null;
  /** Estimate from the blocks left and the pace so far; null without a pace. */
  readonly secondsLeft: number | null;
}

const isComplete = ({ status }: IndexState): boolean => status === "following" || status === "not_nft";

export function progressOf(state: IndexState): IndexingProgress {
  const { target, startBlock, status, searched, runAt, runBlock, runTransfers, transfers, movedAt } = state;
  if (isComplete(state)) return { percent: 100, transfersPerSecond: null, secondsLeft: null };
  const isSearched = status === "requested" && searched !== null;
  const unknown = { percent: status === "requested" ? 0 : null, transfersPerSecond: null, secondsLeft: null };
  const isUnread = (status === "requested" && !isSearched) || status === "not_a_contract" || status === "removed";
  if (target === null || isUnread) return unknown;
  const [next, blocks] = [isSearched ? searched + 1 : nextBlock(state), Math.max(1, target - startBlock + 1)];
  const left = Math.max(0, target - next + 1);
  const percent = Math.max(0, Math.min(99, Math.floor(((blocks - left) * 100) / blocks)));
  if (runAt === null || runBlock === null || movedAt === null || movedAt <= runAt || next <= runBlock) {
    return { ...unknown, percent };
  }
  const seconds = (movedAt - runAt) / 1_000;
  const isCounted = transfers !== null && runTransfers !== null;
  return {
    percent,
    transfersPerSecond: isCounted ? Math.round((transfers - runTransfers) / seconds) : null,
    secondsLeft: Math.ceil((left * seconds) / (next - runBlock)),
  };
}
