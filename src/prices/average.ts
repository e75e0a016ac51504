/**
 * The 30-minute average of a quote's route: from the states the follower kept when they reach back far enough, else
 * from the pools' logs.
 */
import type { Address } from "../core/hex.ts";
import type { HeaderRef } from "../events/types.ts";
import type { BlockTimes } from "./blocktime.ts";
import { isCurrent, reachesBack, statesUpTo } from "./book.ts";
import { type PricesContext, pastOf, type Subject } from "./context.ts";
import { seriesBetween, unlessTooMuch } from "./history.ts";
import type { Markets } from "./markets.ts";
import type { Turn } from "./past-work.ts";
import type { Observation, Pool } from "./pools.ts";
import { TWAP_WINDOW, timeWeighted } from "./quality.ts";
import type { Quote } from "./quote.ts";
import type { Rational } from "./rational.ts";

export interface AverageQuestion {
  readonly context: PricesContext;
  readonly markets: Markets;
  readonly times: BlockTimes;
  readonly subject: Subject;
  readonly now: Quote;
  /** When the past is read. */
  readonly turn: Turn;
}

/** US dollars; undefined for a price without a route, a chain younger than its first state, or more logs than are read. */
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
  const series = await unlessTooMuch(turn(() => readSeries(question, pools, start)));
  return series === undefined ? undefined : timeWeighted(market, route, series, block.timestamp);
}

/** The pools' states since `start` (Unix seconds) by their logs; undefined when the chain has no block then. */
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
    pastOf(context),
    pools,
    { ...first, logsBloom: "0x" },
    { ...block, parentHash: block.hash, logsBloom: "0x" },
    () => markets.readHead(subject, pools),
  );
}

/** The followed states of pools when they reach back to `start` (Unix seconds) without a gap. */
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
