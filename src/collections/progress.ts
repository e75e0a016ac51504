/** How far the indexing of a collection is, how fast it moves, and how long it will take. Pure. */
import type { Chain } from "../chains/chains.ts";
import type { Address } from "../core/hex.ts";
import { type IndexState, nextBlock } from "./headline.ts";

export interface Progress {
  /** From 0 to 100; 100 only when complete. Null while the history's length is not known. */
  readonly percent: number | null;
  /** Average since the start of the current attempt's backfill; null while no backfill runs. */
  readonly transfersPerSecond: number | null;
  /** Estimate from the blocks left and the pace so far; null without a pace. */
  readonly secondsLeft: number | null;
}

/** `eth 0xaa… "Name"`, for log lines. The name is the contract's own word, so it is shortened and quoted. */
export function nameText(chain: Chain, address: Address, name: string | null): string {
  const shown = name === null || name === "" ? "" : ` ${JSON.stringify(name.slice(0, 64))}`;
  return `${chain.name} ${address}${shown}`;
}

const isComplete = ({ status }: IndexState): boolean => status === "following" || status === "not_nft";

export function progressOf(state: IndexState): Progress {
  const { target, startBlock, status, runAt, runBlock, runTransfers, transfers, movedAt } = state;
  if (isComplete(state)) return { percent: 100, transfersPerSecond: null, secondsLeft: null };
  const unknown = { percent: status === "requested" ? 0 : null, transfersPerSecond: null, secondsLeft: null };
  const isUnread = status === "requested" || status === "not_a_contract" || status === "removed";
  if (target === null || isUnread) return unknown;
  const [next, blocks] = [nextBlock(state), Math.max(1, target - startBlock + 1)];
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
