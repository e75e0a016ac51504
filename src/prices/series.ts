/**
 * The prices of a token at evenly spaced blocks. Each one is what a request for that block answers. The questions share
 * their reads of logs, and a point that the bound on requests doesn't reach has no price.
 */
import type { ChainView } from "../chain/consumer.ts";
import type { Chain } from "../chains/chains.ts";
import { isoTime } from "../core/block-time.ts";
import type { Clock } from "../core/clock.ts";
import { invalidParameter, Refusal } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import { Semaphore } from "../core/semaphore.ts";
import { yieldToEventLoop } from "../core/turns.ts";
import type { Requester } from "../core/work.ts";
import type { ChainReader } from "../rpc/port.ts";
import type { PricedBlock } from "./market/market.ts";
import type { SeriesPoint } from "./models.ts";
import { BlockTimes, DAY_SECONDS } from "./past-figures.ts";
import { archiveLimitIn, type PriceAnswer } from "./price-computer.ts";
import { blockUnavailable, MAX_LOG_REQUESTS, type PastReader } from "./search/past-source.ts";
import { SharedLogs } from "./search/shared-logs.ts";

/** A block, or a moment in Unix seconds: then the last block at or before it. */
export type Moment = { readonly block: number } | { readonly time: number };

export interface SeriesRange {
  /** Default: 24 hours before the end. */
  readonly from: Moment | undefined;
  /** Default: the newest block. */
  readonly to: Moment | undefined;
  readonly points: number;
}

const AT_ONCE = 8;
/** Time in which points are begun, in ms. The rest is for those that were begun, before the client gets a timeout. */
const BEGIN_MS = 15_000;
/** Refusals of a single block. Others hold for all blocks. */
const WITHOUT_PRICE = ["no_pool", "low_liquidity", "no_price_at_block"];

interface SeriesOptions {
  readonly chain: Chain;
  readonly reader: ChainReader;
  readonly view: ChainView;
  readonly clock: Clock;
  /** Returns the price at a block. @throws Refusal without one */
  readonly priceAt: (address: Address, block: number, past: PastReader, requester: Requester) => Promise<PriceAnswer>;
}

export class PriceSeries {
  readonly #options: SeriesOptions;
  readonly #times: BlockTimes;

  constructor(options: SeriesOptions) {
    this.#options = options;
    this.#times = new BlockTimes(options.reader, options.chain.blockSeconds);
  }

  /** @throws Refusal `invalid_parameter` for a range that is none or ends above the head, or if the address is no token with a price */
  async read(
    address: Address,
    { from, to, points }: SeriesRange,
    requester: Requester,
  ): Promise<readonly SeriesPoint[]> {
    const { reader, view, clock } = this.#options;
    const head = view.head() ?? (await reader.head());
    const finalized = view.finalized()?.number ?? -1;
    const last = to === undefined ? head.number : await this.#blockOf(to, "to", head, finalized);
    const end = last === head.number ? head : await this.#header(last);
    const start = from ?? { time: end.timestamp - DAY_SECONDS };
    const first = await this.#blockOf(start, "from", end, finalized);
    if (first > last) throw invalidParameter("from", "must not be after to");
    const blocks = spread(first, last, points);
    const stretch = { fromBlock: first, toBlock: last };
    const past = new SharedLogs({ reader, stretch, finalized, requests: MAX_LOG_REQUESTS });
    const begun = clock.monotonic();
    // Alone: an address that is no token is refused by it, before anything is read for the other points.
    const newest = await this.#priceAt(address, last, past, requester);
    const headers = await past.headers(blocks);
    const slots = new Semaphore(AT_ONCE);
    let started = 0;
    // The newest first: they need the fewest requests.
    const read = blocks
      .slice(0, -1)
      .toReversed()
      .map((block) =>
        slots.run(async () => {
          // Points whose logs were read for others are computed without a wait.
          if (++started % AT_ONCE === 0) await yieldToEventLoop();
          return clock.monotonic() - begun > BEGIN_MS ? undefined : this.#priceAt(address, block, past, requester);
        }),
      );
    const answers = [...(await Promise.all(read)).toReversed(), newest];
    return blocks.flatMap((block, at) => {
      const header = headers[at];
      const time = header && isoTime(header.timestamp);
      if (time === undefined) return [];
      const { record, pool, source, archiveLimit, origin } = answers[at] ?? {};
      return [
        {
          ...{ block, time, usdPrice: record?.usdPrice ?? null, pool: pool ?? null },
          ...(origin === undefined ? {} : { origin }),
          ...(source === undefined ? {} : { source }),
          ...(archiveLimit === undefined ? {} : { limitedBy: archiveLimit }),
        },
      ];
    });
  }

  async #blockOf(moment: Moment, name: string, newest: PricedBlock, finalized: number): Promise<number> {
    if ("time" in moment) return (await this.#times.lastAt(moment.time, newest, finalized))?.number ?? 0;
    if (moment.block <= newest.number) return moment.block;
    throw invalidParameter(name, `at most ${newest.number}, ${name === "to" ? "the chain's head" : "the block of to"}`);
  }

  /** @param block not above the head. @throws AppError `chain_unavailable` */
  async #header(block: number): Promise<PricedBlock> {
    const { chain, reader } = this.#options;
    const header = await reader.header(block);
    if (header === undefined) throw blockUnavailable(chain, block);
    return header;
  }

  async #priceAt(...asked: Parameters<SeriesOptions["priceAt"]>): Promise<Partial<PriceAnswer> | undefined> {
    try {
      return await this.#options.priceAt(...asked);
    } catch (error) {
      if (!(error instanceof Refusal && WITHOUT_PRICE.includes(error.code))) throw error;
      const archiveLimit = archiveLimitIn(error);
      return archiveLimit === undefined ? undefined : { source: "archive", archiveLimit };
    }
  }
}

/** Block numbers from the first to the last, evenly spaced, each once. */
function spread(first: number, last: number, points: number): number[] {
  const count = Math.min(points, last - first + 1);
  if (count === 1) return [last];
  return Array.from({ length: count }, (_, at) => first + Math.round((at * (last - first)) / (count - 1)));
}
