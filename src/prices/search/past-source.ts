/** The source for reads of past blocks, the bounds of such reads, and the errors of those that take too much or failed. */
import type { Chain } from "../../chains/chains.ts";
import { OverBudget } from "../../core/budget.ts";
import { countedCache } from "../../core/counted-cache.ts";
import { AppError } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import type { BlockHeader, ChainReader } from "../../rpc/port.ts";
import { isHistoryPruned } from "../../rpc/rpc-errors.ts";
import type { Pool, PoolId } from "../market/pools.ts";
import type { MarketRead } from "./discovery.ts";

/** Pools remembered: an address and a number each. */
const MAX_POOLS = 20_000;

/**
 * Remembers up to which block a pool is known to have had no state. A pool found through its factory comes without the
 * block of its first event. A search that found nothing back to the chain's first block is not repeated.
 */
export class Origins {
  readonly #emptyThrough = countedCache<PoolId, number>(MAX_POOLS);

  /** Returns the first block in which the pool may have a state. */
  firstBlock(pool: PoolId): number {
    return (this.#emptyThrough.get(pool) ?? -1) + 1;
  }

  /** Records that the pool had no state up to `block`, which must be final. */
  emptyThrough(pool: PoolId, block: number): void {
    if (block >= this.firstBlock(pool)) this.#emptyThrough.set(pool, block);
  }
}

/** What a read of past blocks asks of a chain. */
export type PastReader = Pick<ChainReader, "calls" | "callsAtHead" | "head" | "header" | "headers" | "logs">;

/** The source for reads of past blocks, and the known limits of the search. */
export interface PastSource {
  readonly chain: Chain;
  readonly reader: PastReader;
  readonly origins: Origins;
  /** The newest final block known; -1 if there is none. */
  readonly finalized: number;
}

/** A token, and the pools that its price depends on. */
export interface Sought {
  readonly token: Address;
  readonly pools: readonly Pool[];
}

/** A read of a market, with the header that it was read at. */
export interface HeadRead extends MarketRead {
  readonly header: BlockHeader;
}

/**
 * Most logs of one read, and of one search back: some 80 MB, and more than the busiest pools have in the half hour of an average.
 * Any account can deploy an unlisted factory, and on many chains a log of it costs next to nothing.
 */
export const MAX_LOGS = 100_000;
/** Most requests for logs of one search, where no archive has them. */
export const MAX_LOG_REQUESTS = 64;

export const isTooManyLogs = (error: unknown): boolean =>
  error instanceof OverBudget || (error instanceof AppError && error.code === "too_many_logs");

/** A search back that its question can't pay for. `block` is the lowest one that it has searched. */
export class SearchTooLong extends AppError {
  readonly block: number;

  constructor(block: number, cause: unknown) {
    super("the search takes more requests for logs than the question may make", { code: "too_many_logs", cause });
    this.block = block;
  }
}

/** What bounds a read that takes too many logs, in words. */
export function boundOf(error: unknown): string {
  const cause = error instanceof SearchTooLong ? error.cause : error;
  if (cause instanceof OverBudget) return cause.message;
  return `a search for the last trade would take more than ${MAX_LOG_REQUESTS} requests for logs, or ${MAX_LOGS} logs`;
}

/** Resolves to undefined where `reading` takes too many logs, or the endpoints have pruned what it needs. */
export async function undefinedIfUnreadable<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (isTooManyLogs(error) || isHistoryPruned(error)) return undefined;
    throw error;
  }
}

/** The chain was reorganised during the read. A retry is right. */
export const chainMoved = (block: number): AppError =>
  new AppError(`block ${block} was replaced by a reorg while it was read`, {
    code: "chain_moved",
    retryable: true,
    meta: { block },
  });

/** No endpoint tells a block that the chain has. A retry is right: they may be behind. */
export const blockUnavailable = (chain: Chain, block: number): AppError =>
  new AppError(`no endpoint of ${chain.name} tells block ${block}, which the chain has`, {
    code: "chain_unavailable",
    retryable: true,
    meta: { chain: chain.name, block },
  });
