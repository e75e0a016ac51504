/**
 * Figures of a price that need a past block: the block at a moment, the change over 24 hours, and the 30-minute
 * average. Work at past blocks goes through a bounded queue, because without archive state it searches logs for
 * minutes.
 */
import { LRUCache } from "lru-cache";
import type { Chain } from "../../chains/chains.ts";
import { Semaphore } from "../../core/background.ts";
import { ApiError, AppError } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import type { HeaderRef } from "../../events/types.ts";
import type { ChainReader } from "../../rpc/port.ts";
import { type PricesContext, pastSourceOf, type Subject } from "../context.ts";
import type { Market } from "../market/market.ts";
import type { Observation, Pool } from "../market/pools.ts";
import { repriced, TWAP_WINDOW, timeWeighted } from "../market/quality.ts";
import { type Quote, type QuoteOptions, quote } from "../market/quote.ts";
import { divide, multiply, type Rational, rational, subtract } from "../market/rational.ts";
import { isCurrent, reachesBack, statesUpTo } from "../memory/pool-truth.ts";
import { seriesBetween, undefinedIfTooManyLogs } from "./history.ts";
import type { Markets } from "./markets.ts";

// A bounded queue for work at past blocks. Without archive state such a request searches logs, which can last minutes
// and outlive its client. A few run at once, some more wait, further ones are refused. A waiting request is
// dropped when its turn comes if its client is gone.

/** Concurrent requests: a public node bears this many concurrent log searches. */
const AT_ONCE = 16;
/** Most waiting requests: at 1.5 s each, the last one starts before its client gets a timeout and must retry. */
const MAX_WAITING = 256;

const RETRY = { headers: { "retry-after": "5" } };

/** Runs work when a slot is free. */
export type RunInSlot = <T>(work: () => Promise<T>) => Promise<T>;

export class PastQueue {
  readonly #chain: Chain;
  readonly #slots = new Semaphore(AT_ONCE);
  /** Number of requests that run or wait. */
  #count = 0;

  constructor(chain: Chain) {
    this.#chain = chain;
  }

  /**
   * Runs `work` in a slot.
   * @param isWanted returns true if a client sent the request lately; called when a slot is free
   * @throws ApiError 429 when the queue is full, 503 when the request was dropped; and any error of `work`
   */
  async run<T>(isWanted: () => boolean, work: () => Promise<T>): Promise<T> {
    const { name } = this.#chain;
    if (this.#count >= AT_ONCE + MAX_WAITING) {
      const message = `too many requests about past blocks of ${name} are waiting; retry later`;
      throw new ApiError(429, "rate_limited", message, RETRY);
    }
    this.#count++;
    try {
      return await this.#slots.run(() => {
        if (isWanted()) return work();
        throw new ApiError(503, "chain_unavailable", `${name} did not answer in time; retry later`, RETRY);
      });
    } finally {
      this.#count--;
    }
  }
}

/** Headers kept: enough for a day of requests one minute apart. */
const MAX_KNOWN = 2_048;
/** With this few blocks left, one round asks for all of them. */
const LAST_ROUND = 6;

export class BlockTimes {
  readonly #reader: ChainReader;
  readonly #blockSeconds: number;
  readonly #known = new LRUCache<number, HeaderRef>({ max: MAX_KNOWN });
  readonly #answers = new LRUCache<number, HeaderRef>({ max: MAX_KNOWN });

  constructor(reader: ChainReader, blockSeconds: number) {
    this.#reader = reader;
    this.#blockSeconds = blockSeconds;
  }

  /**
   * Returns the last block with a time at or before `timestamp` (Unix seconds), searching back from `from`.
   * Returns undefined when the chain began later. Blocks up to number `finalized` are final.
   * @throws AppError `chain_unavailable` when no endpoint returns the headers that decide it
   */
  async lastAt(timestamp: number, from: HeaderRef, finalized: number): Promise<HeaderRef | undefined> {
    if (from.timestamp <= timestamp) return from;
    const kept = this.#answers.get(timestamp);
    if (kept !== undefined) return kept;
    const found = await this.#search(timestamp, from, finalized);
    // The next block must be final as well. Otherwise a reorg could replace it by one that is in time.
    if (found !== undefined && found.number < finalized) this.#answers.set(timestamp, found);
    return found;
  }

  async #search(timestamp: number, from: HeaderRef, finalized: number): Promise<HeaderRef | undefined> {
    let { low, high } = this.#bracket(timestamp, from);
    for (let back = Math.max(1, (high.timestamp - timestamp) / this.#blockSeconds); low === undefined; back *= 2) {
      const number = Math.max(0, high.number - Math.ceil(back));
      const [header] = await this.#headers([number], finalized);
      if (header.timestamp <= timestamp) low = header;
      else if (number === 0) return undefined;
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
  #bracket(timestamp: number, from: HeaderRef): { low: HeaderRef | undefined; high: HeaderRef } {
    let low: HeaderRef | undefined;
    let high = from;
    for (const header of this.#known.values()) {
      if (header.timestamp <= timestamp) {
        if (low === undefined || header.number > low.number) low = header;
      } else if (header.number < high.number) high = header;
    }
    return { low, high };
  }

  /** Returns those of the headers that an endpoint has, at least one. @throws AppError `chain_unavailable` */
  async #headers(numbers: readonly number[], finalized: number): Promise<readonly [HeaderRef, ...HeaderRef[]]> {
    const given = (await this.#reader.headers(numbers)).filter((header) => header !== undefined);
    const headers = given.length > 0 ? given : await this.#singly(numbers);
    const [first, ...rest] = headers;
    // All these blocks are below an existing block. An endpoint without any of them is behind, or prunes old blocks.
    if (first === undefined) throw missing(numbers);
    for (const { number, hash, parentHash, timestamp } of headers) {
      if (number <= finalized) this.#known.set(number, { number, hash, parentHash, timestamp });
    }
    return [first, ...rest];
  }

  /** Fetches each header alone: a single header request tries every endpoint, a request for many uses only one. */
  async #singly(numbers: readonly number[]): Promise<HeaderRef[]> {
    const headers = await Promise.all(numbers.map((number) => this.#reader.header(number)));
    return headers.filter((header) => header !== undefined);
  }
}

const missing = (numbers: readonly number[]): AppError =>
  new AppError("no endpoint returned the headers of these older blocks", {
    code: "chain_unavailable",
    retryable: true,
    meta: { fromBlock: numbers[0]!, toBlock: numbers.at(-1)! },
  });

/** Block numbers strictly between the two ends: around the linear guess, and the middle. */
function guesses(timestamp: number, low: HeaderRef, high: HeaderRef): number[] {
  const span = high.number - low.number;
  if (span <= LAST_ROUND) return Array.from({ length: span - 1 }, (_, index) => low.number + 1 + index);
  const share = (timestamp - low.timestamp) / (high.timestamp - low.timestamp);
  const guess = low.number + Math.floor(share * span);
  const margin = Math.max(2, Math.floor(span / 64));
  const wanted = [guess - margin, guess, guess + 1, guess + margin, low.number + Math.floor(span / 2)];
  const inside = wanted.map((number) => Math.min(high.number - 1, Math.max(low.number + 1, number)));
  return [...new Set(inside)].sort((a, b) => a - b);
}

// The change of a price over 24 hours, in per cent. The earlier price is that of the last block at or before 24 h
// earlier: by the same route if it had a price then, else by the route that ranks first at that block.

/** Seconds. */
const DAY = 86_400;

interface ChangeQuestion {
  readonly markets: Markets;
  readonly times: BlockTimes;
  /** Blocks up to this number are final. */
  readonly finalized: number;
  readonly subject: Subject;
  readonly now: Quote;
  /** Returns the request's options for another market. */
  readonly optionsAt: (market: Market) => QuoteOptions;
}

/** Returns per cent; undefined without a price at that block, or if the search for it exceeds the log limit. */
export async function changeOf(question: ChangeQuestion): Promise<Rational | undefined> {
  const { now, times, finalized } = question;
  const { block } = now.market;
  const found = await times.lastAt(block.timestamp - DAY, { ...block, parentHash: block.hash }, finalized);
  if (found === undefined) return undefined;
  const header = { ...found, logsBloom: "0x" };
  const usd = await undefinedIfTooManyLogs(usdAt(question, header));
  return usd === undefined ? undefined : multiply(divide(subtract(now.usd, usd), usd), rational(100n));
}

type PastBlock = Parameters<Markets["past"]>[1];

const usdAt = async (question: ChangeQuestion, block: PastBlock): Promise<Rational | undefined> =>
  (await bySameRoute(question, block)) ?? rankedAnew(question, block);

async function bySameRoute({ markets, subject, now }: ChangeQuestion, block: PastBlock): Promise<Rational | undefined> {
  const { route } = now;
  if (route === undefined) return undefined;
  const pools = route.legs.map((leg) => leg.pool);
  const then = await markets.past(subject, block, pools);
  return repriced(then, route, (pool) => then.states.get(pool.address));
}

async function rankedAnew(
  { markets, subject, optionsAt }: ChangeQuestion,
  block: PastBlock,
): Promise<Rational | undefined> {
  const market = await markets.pastFor(subject, block, optionsAt);
  try {
    return quote(market, optionsAt(market)).usd;
  } catch (error) {
    if (error instanceof ApiError) return undefined;
    throw error;
  }
}

// The 30-minute average of a quote's route. Uses the states in memory if they reach back far enough, else the pools'
// logs.

interface AverageQuestion {
  readonly context: PricesContext;
  readonly markets: Markets;
  readonly times: BlockTimes;
  readonly subject: Subject;
  readonly now: Quote;
  /** Runs the read of past blocks when a slot is free. */
  readonly turn: RunInSlot;
}

/**
 * Returns US dollars. Undefined for a price without a route, for a route without a price in the window, or if the read
 * exceeds the log limit.
 */
export async function averageOf(question: AverageQuestion): Promise<Rational | undefined> {
  const { context, subject, turn } = question;
  const { route, market } = question.now;
  if (route === undefined) return undefined;
  const { block } = market;
  const start = block.timestamp - TWAP_WINDOW;
  const pools = route.legs.map((leg) => leg.pool);
  const kept = keptSeries(
    context,
    subject,
    pools.map((pool) => pool.address),
    start,
    { ...block, parentHash: block.hash },
  );
  if (kept !== undefined) return timeWeighted(market, route, kept, block.timestamp);
  const series = await undefinedIfTooManyLogs(turn(() => readSeries(question, pools, start)));
  return series === undefined ? undefined : timeWeighted(market, route, series, block.timestamp);
}

/** Reads the pools' states since `start` (Unix seconds) from their logs; undefined if block 0 can't be read. */
async function readSeries(
  { context, markets, times, subject, now }: AverageQuestion,
  pools: readonly Pool[],
  start: number,
): Promise<Map<Address, Observation[]> | undefined> {
  const { block } = now.market;
  const from = await times.lastAt(start, { ...block, parentHash: block.hash }, context.view.finalized()?.number ?? -1);
  const first = from ?? (await context.reader.header(0));
  if (first === undefined) return undefined;
  return seriesBetween(
    pastSourceOf(context),
    pools,
    { ...first, logsBloom: "0x" },
    { ...block, parentHash: block.hash, logsBloom: "0x" },
    () => markets.readHead(subject, pools),
  );
}

/** Returns the pools' states in memory if they reach back to `start` (Unix seconds) without a gap; else undefined. */
function keptSeries(
  { books, view }: PricesContext,
  subject: Subject,
  addresses: readonly Address[],
  start: number,
  block: HeaderRef,
): Map<Address, readonly Observation[]> | undefined {
  if (block.number > (view.head()?.number ?? -1)) return undefined;
  const series = new Map<Address, readonly Observation[]>();
  const held = [subject.book, books.reference];
  for (const address of addresses) {
    const hot = held.map((book) => book.pools.get(address)).find((entry) => entry !== undefined);
    if (hot === undefined || !isCurrent(hot, block, view) || !reachesBack(hot, start)) return undefined;
    series.set(address, statesUpTo(hot, block.number, view));
  }
  return series;
}
