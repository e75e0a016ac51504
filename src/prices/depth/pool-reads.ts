/**
 * Reads pools at one block for trades with them: their state and fees, the words of the tick bitmap around the price, and
 * the ticks that these name. Three round trips for all pools of a route; one for pairs, or two where a pair tells its fee only by
 * what it gives.
 */
import type { Call, CallResult } from "../../rpc/port.ts";
import type { Decimals, Pool, Reading } from "../market/pools.ts";
import { answer, type CallPlan, together } from "../styles/abi.ts";
import type { ExactTrades, TickedRead } from "../styles/style.ts";
import { STYLES } from "../styles/styles.ts";
import { MAX_TICK } from "../styles/ticks.ts";
import { type Tradable, UnknownTrade } from "../styles/trade.ts";
import { pairAt } from "./pairs.ts";
import { rangesAt } from "./ranges.ts";

/** How far pools are read: near the price first, and all of it for a size that runs beyond. */
interface Reach {
  /** Ticks on each side of the price up to which the bitmap is read at least. */
  readonly ticks: number;
  /** Most words of the bitmap read on each side. */
  readonly words: number;
  /** Most initialised ticks read on each side. */
  readonly initialised: number;
}

/** A factor of 1.6. At a spacing of 1 so many initialised ticks move the price by 2.5 %. */
const NEAR: Reach = { ticks: 5_000, words: 20, initialised: 256 };
/** The whole bitmap: at a spacing of 1 some 7,000 words in 14 calls of 2 million gas, at 10 a tenth of that. */
const FAR: Reach = { ticks: MAX_TICK, words: 3_500, initialised: 1_024 };

/** The largest tick spacing of a pool (v4-core, TickMath). Larger ones are no numbers to count with. */
const MAX_SPACING = 32_767;

type Concentrated = Reading & { readonly style: "v3" };
type Pair = Reading & { readonly style: "v2" };
type PairExact = ExactTrades & { readonly kind: "reserves" };
type ReadCalls = (calls: readonly Call[]) => Promise<readonly CallResult[]>;

/** How trades with a pool are computed. @throws UnknownTrade for a pool whose trades are not computed */
export function exactTradesOf(pool: Pool): ExactTrades {
  const { exact } = STYLES[pool.style];
  if (exact === undefined) throw new UnknownTrade(`the depth of ${pool.style} pools is not computed`);
  const refusal = exact.refusal?.(pool);
  if (refusal !== undefined) throw new UnknownTrade(refusal);
  return exact;
}

/** The places of the bits that are set in a word. */
function bitsIn(word: bigint): number[] {
  const places: number[] = [];
  for (let rest = word; rest !== 0n; rest &= rest - 1n) places.push((rest & -rest).toString(2).length - 1);
  return places;
}

export const NO_ANSWER = "a pool of the route did not answer";

export const isSpacing = (spacing: number): boolean => spacing > 0 && spacing <= MAX_SPACING;

/** Plans the words of a pool's bitmap around its price. The decoder plans the ticks that they name. */
function planRanges(
  { key }: Pool,
  reading: Concentrated,
  source: TickedRead["ticks"],
  reach: Reach,
): CallPlan<CallPlan<Tradable>> {
  const { spacing, fees } = source;
  if (!isSpacing(spacing)) throw new UnknownTrade(NO_ANSWER);
  const wordOf = (tick: number): number => Math.floor(tick / spacing) >> 8;
  const middle = wordOf(reading.tick);
  const side = Math.min(reach.words, Math.floor(reach.ticks / (256 * spacing)) + 1);
  const first = Math.max(middle - side, wordOf(-MAX_TICK));
  const last = Math.min(middle + side, wordOf(MAX_TICK));
  const words = Array.from({ length: last - first + 1 }, (_, at) => first + at);
  return {
    calls: words.map((index) => source.word(index)),
    read(results) {
      const bitmap = new Map(
        words.flatMap((word, at) => {
          const bits = answer(results[at]);
          return bits === undefined ? [] : [[word, bits] as const];
        }),
      );
      const all = [...bitmap].flatMap(([word, bits]) => bitsIn(bits).map((place) => (word * 256 + place) * spacing));
      const ticks = [
        ...all.filter((tick) => tick <= reading.tick).slice(-reach.initialised),
        ...all.filter((tick) => tick > reading.tick).slice(0, reach.initialised),
      ];
      return {
        calls: ticks.map((tick) => source.tick(tick)),
        read(told) {
          const nets = new Map(
            ticks.flatMap((tick, at) => {
              const net = source.netIn(told[at]);
              return net === undefined ? [] : [[tick, net] as const];
            }),
          );
          return rangesAt({ reading, spacing, fees, bitmap, nets, isKeyed: key !== undefined });
        },
      };
    },
  };
}

/** The plan of what is known without a read. */
const known = <T>(value: T): CallPlan<T> => ({ calls: [], read: () => value });

/** The largest fee that is looked for, in hundredths of a per cent, of which each is 100 hundredths of a basis point. */
const MAX_FEE = 1_000;
const FEE_STEP = 100;
/** Parts of the reserves that a pair is asked about. The first one tells fees apart, all of them prove the fee. */
const QUOTED_PARTS = [10n, 997n, 100_003n] as const;

/** Plans questions to a pair that its fee must answer to the last digit. The decoder finds the fee. */
function planQuoted(
  { pool, reading, decimals }: { readonly pool: Pool; readonly reading: Pair; readonly decimals: Decimals },
  sale: PairExact["sale"],
  quote: NonNullable<PairExact["quote"]>,
): CallPlan<CallPlan<Tradable>> {
  const asked = [true, false].flatMap((isToken0) =>
    QUOTED_PARTS.map((part) => ({ isToken0, paid: (isToken0 ? reading.reserve0 : reading.reserve1) / part })),
  );
  return {
    calls: asked.map(({ paid, isToken0 }) => quote(pool, paid, isToken0)),
    read(results) {
      const pairWith = (fee: number) => pairAt({ ...pool, fee }, reading, decimals, sale);
      const [first] = asked;
      const told = answer(results[0]);
      if (told === undefined) throw new UnknownTrade(NO_ANSWER);
      // A larger fee gives less.
      let [low, high] = [1, MAX_FEE];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (pairWith(middle * FEE_STEP).sell(first!.paid, first!.isToken0) > told) low = middle + 1;
        else high = middle;
      }
      const found = pairWith(low * FEE_STEP);
      const isProven = asked.every(({ paid, isToken0 }, at) => found.sell(paid, isToken0) === answer(results[at]));
      if (!isProven) throw new UnknownTrade(`no fee explains what the ${pool.style} pair says that it gives`);
      return known(found);
    },
  };
}

/** Plans a pool's state. The decoder plans the words of its bitmap, if it has one. @throws UnknownTrade */
function planTradable(pool: Pool, decimals: Decimals, reach: Reach): CallPlan<CallPlan<CallPlan<Tradable>>> {
  const exact = exactTradesOf(pool);
  if (exact.kind === "reserves") {
    const state = STYLES[pool.style].state(pool);
    return {
      calls: state.calls,
      read(results) {
        const seen = state.read(results);
        if (seen.reading?.style !== "v2") throw new UnknownTrade(NO_ANSWER);
        const pair = { ...seen, reading: seen.reading, decimals };
        return exact.quote === undefined
          ? known(known(pairAt(pair.pool, pair.reading, decimals, exact.sale)))
          : planQuoted(pair, exact.sale, exact.quote);
      },
    };
  }
  const state = exact.read(pool);
  return {
    calls: state.calls,
    read(results) {
      const { reading, ticks } = state.read(results);
      if (reading?.style !== "v3") throw new UnknownTrade(NO_ANSWER);
      return planRanges(pool, reading, ticks, reach);
    },
  };
}

/**
 * Reads pools for trades with them, in their order.
 * @param read reads at the block of the price
 * @param isFar true for all of their ticks, as far as a few calls reach; by default those near the price
 * @throws UnknownTrade if trades with one of them can't be computed
 */
export async function tradablesOf(
  pools: readonly (readonly [Pool, Decimals])[],
  read: ReadCalls,
  isFar = false,
): Promise<readonly Tradable[]> {
  const states = together(pools.map((one) => planTradable(...one, isFar ? FAR : NEAR)));
  const words = together(states.read(await read(states.calls)));
  // Pairs alone have no ticks to read.
  const ticks = together(words.read(words.calls.length === 0 ? [] : await read(words.calls)));
  return ticks.read(ticks.calls.length === 0 ? [] : await read(ticks.calls));
}
