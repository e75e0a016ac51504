/** What prices need of past blocks: the last block at a moment, and the 30-minute average. */

import type { ChainView } from "../chain/consumer.ts";
import { countedCache } from "../core/counted-cache.ts";
import { AppError } from "../core/errors.ts";
import { runInSlices } from "../core/turns.ts";
import type { ChainReader } from "../rpc/port.ts";
import { averagedPools, TWAP_WINDOW, timeWeighted } from "./market/average.ts";
import type { PricedBlock } from "./market/market.ts";
import type { Quote, QuoteOptions } from "./market/quote.ts";
import type { Rational } from "./market/rational.ts";
import type { RunInSlot } from "./past-queue.ts";
import type { Markets } from "./search/markets.ts";
import { undefinedIfUnreadable } from "./search/past-source.ts";
import { seriesBetween } from "./search/state-series.ts";

/** Headers kept: enough for a day of requests one minute apart. */
const MAX_KNOWN = 2_048;
/** With this few blocks left, one round asks for all of them. */
const LAST_ROUND = 6;

export class BlockTimes {
  readonly #reader: ChainReader;
  readonly #blockSeconds: number;
  readonly #known = countedCache<number, PricedBlock>(MAX_KNOWN);
  readonly #answers = countedCache<number, PricedBlock>(MAX_KNOWN);

  constructor(reader: ChainReader, blockSeconds: number) {
    this.#reader = reader;
    this.#blockSeconds = blockSeconds;
  }

  /**
   * Returns the last block with a time at or before `timestamp` (Unix seconds), searching back from `from`.
   * Returns undefined when the chain began later. Blocks up to number `finalized` are final.
   * @throws AppError `chain_unavailable` when no endpoint returns the headers that decide it
   */
  async lastAt(timestamp: number, from: PricedBlock, finalized: number): Promise<PricedBlock | undefined> {
    if (from.timestamp <= timestamp) return from;
    const kept = this.#answers.get(timestamp);
    if (kept !== undefined) return kept;
    const found = await this.#search(timestamp, from, finalized);
    // The next block must be final as well. Otherwise a reorg could replace it by one that is in time.
    if (found !== undefined && found.number < finalized) this.#answers.set(timestamp, found);
    return found;
  }

  async #search(timestamp: number, from: PricedBlock, finalized: number): Promise<PricedBlock | undefined> {
    let { low, high } = this.#bracket(timestamp, from);
    // The endpoints have pruned the blocks before this one.
    let pruned: { readonly first: number; readonly error: unknown } | undefined;
    for (let back = Math.max(1, (high.timestamp - timestamp) / this.#blockSeconds); low === undefined; back *= 2) {
      const number = Math.max(pruned?.first ?? 0, high.number - Math.ceil(back));
      let header: PricedBlock;
      try {
        [header] = await this.#headers([number], finalized);
      } catch (error) {
        const first = firstUnpruned(error);
        if (first === undefined || pruned !== undefined || first >= high.number) throw error;
        pruned = { first, error };
        continue;
      }
      if (header.timestamp <= timestamp) low = header;
      else if (number === 0) return undefined;
      else if (number === pruned?.first) throw pruned.error;
      else high = header;
    }
    while (high.number - low.number > 1) {
      for (const header of await this.#headers(guesses(timestamp, low, high), finalized)) {
        if (header.timestamp <= timestamp) {
          if (header.number > low.number) low = header;
        } else if (header.number < high.number) high = header;
      }
    }
    return low;
  }

  /** Returns the nearest cached headers on either side. */
  #bracket(timestamp: number, from: PricedBlock): { low: PricedBlock | undefined; high: PricedBlock } {
    let low: PricedBlock | undefined;
    let high = from;
    for (const header of this.#known.values()) {
      if (header.timestamp <= timestamp) {
        if (low === undefined || header.number > low.number) low = header;
      } else if (header.number < high.number) high = header;
    }
    return { low, high };
  }

  /** Returns those of the headers that an endpoint has, at least one. @throws AppError `chain_unavailable` */
  async #headers(numbers: readonly number[], finalized: number): Promise<readonly [PricedBlock, ...PricedBlock[]]> {
    let given = await this.#reader.headers(numbers);
    // A request for many headers uses only one endpoint. A request for a single header tries every endpoint.
    if (given.every((header) => header === undefined)) {
      given = await Promise.all(numbers.map((number) => this.#reader.header(number)));
    }
    const [first, ...rest] = given.filter((header) => header !== undefined);
    // All these blocks are below an existing block. An endpoint without any of them is behind, or prunes old blocks.
    if (first === undefined) {
      throw new AppError("no endpoint returned the headers of these older blocks", {
        code: "chain_unavailable",
        retryable: true,
        meta: { fromBlock: numbers[0]!, toBlock: numbers.at(-1)! },
      });
    }
    for (const { number, hash, timestamp } of [first, ...rest]) {
      if (number <= finalized) this.#known.set(number, { number, hash, timestamp });
    }
    return [first, ...rest];
  }
}

/** The first block that the endpoints have, if they have pruned older ones for which they were asked. */
function firstUnpruned(error: unknown): number | undefined {
  const block = error instanceof AppError && error.code === "history_pruned" ? error.meta["block"] : undefined;
  return typeof block === "number" ? block : undefined;
}

/** Block numbers strictly between the two ends: around the linear guess, and the middle. */
function guesses(timestamp: number, low: PricedBlock, high: PricedBlock): number[] {
  const span = high.number - low.number;
  if (span <= LAST_ROUND) return Array.from({ length: span - 1 }, (_, index) => low.number + 1 + index);
  const share = (timestamp - low.timestamp) / (high.timestamp - low.timestamp);
  const guess = low.number + Math.floor(share * span);
  const margin = Math.max(2, Math.floor(span / 64));
  const wanted = [guess - margin, guess, guess + 1, guess + margin, low.number + Math.floor(span / 2)];
  const inside = wanted.map((number) => Math.min(high.number - 1, Math.max(low.number + 1, number)));
  return [...new Set(inside)].sort((a, b) => a - b);
}

export const DAY_SECONDS = 86_400;

/** A figure that needs past blocks. */
export interface PastFigure {
  /** US dollars. */
  readonly usd: Rational;
  /** True if an archive alone says that the pools had no other trades. */
  readonly isArchivesAlone: boolean;
}

interface FiguresOptions {
  readonly reader: ChainReader;
  readonly view: ChainView;
  readonly markets: Markets;
  readonly blockSeconds: number;
}

export class PastFigures {
  readonly #options: FiguresOptions;
  readonly #times: BlockTimes;

  constructor(options: FiguresOptions) {
    this.#options = options;
    this.#times = new BlockTimes(options.reader, options.blockSeconds);
  }

  /**
   * Returns the last block at or before 24 hours before another. Undefined if the chain is younger, or if the search for
   * it exceeds the log limit or the budget.
   * @param finalized blocks up to this number are final
   */
  dayBefore(block: PricedBlock, finalized: number): Promise<PricedBlock | undefined> {
    return undefinedIfUnreadable(this.#times.lastAt(block.timestamp - DAY_SECONDS, block, finalized));
  }

  /**
   * Returns the last block at or before a time (Unix seconds), searching back from `from`; undefined if the chain began later.
   * @throws AppError `chain_unavailable`
   */
  blockAt(timestamp: number, from: PricedBlock, finalized: number): Promise<PricedBlock | undefined> {
    return this.#times.lastAt(timestamp, from, finalized);
  }

  /**
   * Returns the 30-minute average of a quote in US dollars, from the pools' logs. Undefined for a price without a route,
   * for a token without a price in the window, or if the read exceeds the log limit.
   * @param turn runs the read of past blocks when a slot is free
   */
  async average(priced: Quote, options: QuoteOptions, turn: RunInSlot): Promise<PastFigure | undefined> {
    const { token, route, market } = priced;
    if (route === undefined) return undefined;
    const { markets, reader, view } = this.#options;
    const { block } = market;
    const averaged = averagedPools(priced, options);
    const pools = [...averaged.own, ...averaged.onward];
    const read = async () => {
      const start = block.timestamp - TWAP_WINDOW;
      const from = await this.#times.lastAt(start, block, view.finalized()?.number ?? -1);
      const first = from ?? (await reader.header(0));
      return first && seriesBetween(markets.pastSource(), { token, pools }, first, block);
    };
    const series = await undefinedIfUnreadable(turn(read));
    if (series === undefined) return undefined;
    const { states, isArchivesAlone } = series;
    const usd = await runInSlices(timeWeighted(priced, options, averaged, states, block.timestamp));
    return usd && { usd, isArchivesAlone };
  }
}
