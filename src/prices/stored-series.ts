/**
 * The stored prices of a token over a range of blocks: the last one of each part of the range, and the stretches in which
 * nobody read any. Asks no node.
 */
import { isoTime } from "../core/block-time.ts";
import type { Address } from "../core/hex.ts";
import { toDouble } from "./market/rational.ts";
import type { PriceGap, SeriesPoint } from "./models.ts";
import type { PriceHistory } from "./stored/price-history.ts";
import type { StandingPrice, StoredPrices } from "./stored/stored-prices.ts";

/** Most gaps that are told. */
const MAX_GAPS = 200;

interface BlockSpan {
  readonly from: number;
  readonly to: number;
}

interface PricedRange extends BlockSpan {
  /** False for a block that was read alone. */
  readonly isRun: boolean;
}

export interface StoredSeries {
  /** By block, the oldest first. */
  readonly points: readonly SeriesPoint[];
  readonly fromBlock: number;
  readonly toBlock: number;
  readonly gaps: readonly PriceGap[];
}

/**
 * @param from first block; `to`: last one
 * @param points most points: the range is parted evenly
 */
export async function storedSeries(
  stored: StoredPrices,
  token: Address,
  { from, to, points }: { readonly from: number; readonly to: number; readonly points: number },
): Promise<StoredSeries> {
  await stored.ready();
  const history = await stored.history(token);
  const stretches = stretchesOf(stored, token, history, { from, to });
  const found: SeriesPoint[] = [];
  const count = Math.min(points, to - from + 1);
  for (let part = 0; part < count; part++) {
    const first = part === 0 ? from : partEnd(from, to, part - 1, count) + 1;
    const standing = lastIn(stored, token, history, stretches, { from: first, to: partEnd(from, to, part, count) });
    const quote = standing && stored.quoteOf(token, standing);
    const time = standing && isoTime(standing.head.timestamp);
    if (standing === undefined || quote === undefined || time === undefined) continue;
    const pool = quote.route?.legs[0]?.pool.id ?? null;
    found.push({ block: standing.head.block, time, usdPrice: toDouble(quote.usd), pool, origin: "stored" });
  }
  return { points: found, fromBlock: from, toBlock: to, gaps: gapsBetween(stretches, { from, to }).slice(0, MAX_GAPS) };
}

const partEnd = (from: number, to: number, part: number, count: number): number =>
  count === 1 ? to : from + Math.round((part * (to - from)) / (count - 1));

/** The last price that stands in a part of a range. */
function lastIn(
  stored: StoredPrices,
  token: Address,
  history: PriceHistory,
  stretches: readonly PricedRange[],
  { from, to }: BlockSpan,
): StandingPrice | undefined {
  const stretch = stretches.findLast((one) => one.from <= to);
  if (stretch === undefined || stretch.to < from) return undefined;
  const least = Math.max(from, stretch.from);
  const block = stretch.isRun ? stored.book.lastWholeAt(Math.min(to, stretch.to), least)?.block : stretch.to;
  return block === undefined ? undefined : stored.standing(token, history, stored.headAt(block));
}

/** The stretches of blocks in which a token was read at each head, or once, within a range. */
function stretchesOf(
  { book }: StoredPrices,
  token: Address,
  history: PriceHistory,
  { from, to }: BlockSpan,
): readonly PricedRange[] {
  const runs = book.runsOf(token).flatMap((run): PricedRange[] => {
    const last = book.lastWholeAt(Math.min(run.to, to), Math.max(run.from.block, from))?.block;
    return last === undefined ? [] : [{ from: Math.max(run.from.block, from), to: last, isRun: true }];
  });
  // Only between the runs: within them a token that trades has a row in nearly each block.
  const alone = gapsBetween(runs, { from, to }).flatMap((gap) => [
    ...history.blocksBetween(gap.fromBlock, gap.toBlock),
  ]);
  const once = alone.map((block) => ({ from: block, to: block, isRun: false }));
  return [...runs, ...once].sort((a, b) => a.from - b.from);
}

function gapsBetween(stretches: readonly BlockSpan[], { from, to }: BlockSpan): readonly PriceGap[] {
  const gaps: PriceGap[] = [];
  let next = from;
  for (const stretch of [...stretches, { from: to + 1, to }]) {
    if (stretch.from > next) gaps.push({ fromBlock: next, toBlock: stretch.from - 1 });
    next = Math.max(next, stretch.to + 1);
  }
  return gaps;
}
