/**
 * The change of a price over a day: against the last block at or before 24 h earlier, by the same route if it had a price
 * then, else by whatever ranks first there.
 */
import { ApiError } from "../core/errors.ts";
import type { BlockTimes } from "./blocktime.ts";
import type { Subject } from "./context.ts";
import { unlessTooMuch } from "./history.ts";
import type { Market } from "./market.ts";
import type { Markets } from "./markets.ts";
import { repriced } from "./quality.ts";
import { type Quote, type QuoteOptions, quote } from "./quote.ts";
import { divide, multiply, type Rational, rational, subtract } from "./rational.ts";

/** Seconds. */
const DAY = 86_400;

export interface ChangeQuestion {
  readonly markets: Markets;
  readonly times: BlockTimes;
  /** Blocks up to this number are final. */
  readonly finalized: number;
  readonly subject: Subject;
  readonly now: Quote;
  /** The request's options in another market. */
  readonly optionsAt: (market: Market) => QuoteOptions;
}

/** Per cent; undefined when there was no price then, or none that is found in as many logs as are read. */
export async function changeOf(question: ChangeQuestion): Promise<Rational | undefined> {
  const { now, times, finalized } = question;
  const { block } = now.market;
  const found = await times.lastAt(block.timestamp - DAY, { ...block, parentHash: block.hash }, finalized);
  if (found === undefined) return undefined;
  const header = { ...found, logsBloom: "0x" };
  const usd = await unlessTooMuch(usdAt(question, header));
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
