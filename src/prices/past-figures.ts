/**
 * Figures of a price that need a past block: the block at a moment, the price 24 hours before, and the 30-minute
 * average.
 */
import { LRUCache } from "lru-cache";
import type { ChainView } from "../chain/consumer.ts";
import { AppError, Refusal } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { ChainReader } from "../rpc/port.ts";
import type { RunInSlot } from "./answer-cache.ts";
import type { Market, PricedBlock } from "./market/market.ts";
import type { Rational } from "./market/pools.ts";
import {
  archiveLimitOf,
  type Quote,
  type QuoteOptions,
  quote,
  repriced,
  TWAP_WINDOW,
  timeWeighted,
} from "./market/quote.ts";
import { seriesBetween, undefinedIfUnreadable } from "./search/history.ts";
import type { Markets } from "./search/markets.ts";

/** Headers kept: enough for a day of requests one minute apart. */
const MAX_KNOWN = 2_048;
/** With this few blocks left, one round asks for all of them. */
const LAST_ROUND = 6;

export class BlockTimes {
  readonly #reader: ChainReader;
  readonly #blockSeconds: number;
  readonly #known = new LRUCache<number, PricedBlock>({ max: MAX_KNOWN });
  readonly #answers = new LRUCache<number, PricedBlock>({ max: MAX_KNOWN });

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

const DAY_SECONDS = 86_400;

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
   * Returns the price in US dollars of the last block at or before 24 hours before a quote: by the same route if it had a
   * price then, else by the route that ranks first at that block. Undefined without a price at that block, or if the
   * search for it exceeds the log limit or the budget.
   * @param unlisted the unlisted factory that the request names
   * @param optionsAt the request's options for another market
   * @param finalized blocks up to this number are final
   */
  async dayBefore(
    now: Quote,
    unlisted: Address | undefined,
    optionsAt: (market: Market) => QuoteOptions,
    finalized: number,
  ): Promise<PastFigure | undefined> {
    const { block } = now.market;
    const read = async () => {
      const then = await this.#times.lastAt(block.timestamp - DAY_SECONDS, block, finalized);
      return then && this.#usdAt(now, unlisted, then, optionsAt);
    };
    return undefinedIfUnreadable(read());
  }

  async #usdAt(
    { route, token }: Quote,
    unlisted: Address | undefined,
    block: PricedBlock,
    optionsAt: (market: Market) => QuoteOptions,
  ): Promise<PastFigure | undefined> {
    const { markets } = this.#options;
    if (route !== undefined) {
      const pools = route.legs.map((leg) => leg.pool);
      const then = await markets.past(token, block, pools);
      const usd = repriced(then, route, (pool) => then.states.get(pool.id));
      const isArchivesAlone = [...then.states.values()].some(({ archive }) => archive?.alone !== undefined);
      if (usd !== undefined) return { usd, isArchivesAlone };
    }
    try {
      const subject = await markets.subject(token, unlisted, block.number);
      const market = await markets.pastFor(subject, block, optionsAt);
      const then = quote(market, optionsAt(market));
      return { usd: then.usd, isArchivesAlone: archiveLimitOf(then) !== undefined };
    } catch (error) {
      if (error instanceof Refusal) return undefined;
      throw error;
    }
  }

  /**
   * Returns the 30-minute average of a quote's route in US dollars, from the pools' logs. Undefined for a price without a
   * route, for a route without a price in the window, or if the read exceeds the log limit.
   * @param turn runs the read of past blocks when a slot is free
   */
  async average({ token, route, market }: Quote, turn: RunInSlot): Promise<PastFigure | undefined> {
    if (route === undefined) return undefined;
    const { markets, reader, view } = this.#options;
    const { block } = market;
    const pools = route.legs.map((leg) => leg.pool);
    const read = async () => {
      const start = block.timestamp - TWAP_WINDOW;
      const from = await this.#times.lastAt(start, block, view.finalized()?.number ?? -1);
      const first = from ?? (await reader.header(0));
      return first && seriesBetween(markets.pastSource(), { token, pools }, first, block);
    };
    const series = await undefinedIfUnreadable(turn(read));
    if (series === undefined) return undefined;
    const { states, isArchivesAlone } = series;
    const usd = timeWeighted(market, route, states, block.timestamp);
    return usd && { usd, isArchivesAlone };
  }
}
