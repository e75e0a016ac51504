/**
 * The 30-minute average of a quote's route: from the states the follower kept when they reach back far enough, else
 * from the pools' logs.
 */
import type { Address } from "../core/hex.ts";
import type { BlockTimes } from "./blocktime.ts";
import type { HotPool } from "./book.ts";
import type { PricesContext, Subject } from "./context.ts";
import { seriesBetween } from "./history.ts";
import type { Markets } from "./markets.ts";
import type { Observation } from "./pools.ts";
import { TWAP_WINDOW, timeWeighted } from "./quality.ts";
import type { Quote } from "./quote.ts";
import type { Rational } from "./rational.ts";

/** US dollars; undefined for a price without a route or a chain younger than its first state. */
export async function averageOf(
  context: PricesContext,
  markets: Markets,
  subject: Subject,
  quote: Quote,
  times: BlockTimes,
): Promise<Rational | undefined> {
  const { route, market } = quote;
  if (route === undefined) return undefined;
  const { block } = market;
  const start = block.timestamp - TWAP_WINDOW;
  const pools = route.legs.map((leg) => leg.pool);
  const kept = keptSeries(
    context,
    subject,
    pools.map((pool) => pool.address),
    start,
    block.number,
  );
  if (kept !== undefined) return timeWeighted(market, route, kept, block.timestamp);
  const from = await times.lastAt(start, { ...block, parentHash: block.hash }, context.view.finalized()?.number ?? -1);
  const first = from ?? (await context.reader.header(0));
  if (first === undefined) return undefined;
  const series = await seriesBetween(
    context.reader,
    pools,
    { ...first, logsBloom: "0x" },
    { ...block, parentHash: block.hash, logsBloom: "0x" },
    () => markets.readHead(subject, pools),
  );
  return timeWeighted(market, route, series, block.timestamp);
}

/** The followed states of pools when they reach back to `start` (Unix seconds) without a gap. */
function keptSeries(
  context: PricesContext,
  subject: Subject,
  addresses: readonly Address[],
  start: number,
  block: number,
): Map<Address, readonly Observation[]> | undefined {
  const series = new Map<Address, readonly Observation[]>();
  for (const address of addresses) {
    const hot: HotPool | undefined = subject.book.pools.get(address) ?? context.books.reference.pools.get(address);
    const reaches = hot?.base !== undefined && (hot.timeline[0]?.timestamp ?? Number.POSITIVE_INFINITY) <= start;
    if (hot === undefined || !reaches || hot.coveredFrom === undefined) return undefined;
    if (hot.coveredFrom > hot.base!.number + 1 || hot.appliedTo < block) return undefined;
    series.set(
      address,
      hot.timeline.filter((observation) => observation.block <= block),
    );
  }
  return series;
}
