/**
 * Reads pools at one block for trades with them: their state and fees, the words of the tick bitmap around the price, and
 * the ticks that these name. Three round trips for all pools of a route; one for pairs.
 */
import { isAmongTwelve, type PoolStyle } from "../../chains/exchanges.ts";
import type { Call, CallResult } from "../../rpc/port.ts";
import type { Decimals, Pool, Reading } from "../market/pools.ts";
import { answer, both, call, type Plan, signedWord, together } from "../styles/abi.ts";
import { type PoolRead, poolContract } from "../styles/style.ts";
import { STYLES } from "../styles/styles.ts";
import { actsBeforeSwap, protocolFeeIn, slotAt } from "../styles/v4.ts";
import { pairAt } from "./pairs.ts";
import { rangesAt } from "./ranges.ts";
import { MILLION, type Tradable, UnknownTrade } from "./trade.ts";

/** Ticks on each side of the price up to which the bitmap is read at least: a factor of 1.6. */
const REACH = 5_000;
/** Most ticks read on each side. At a spacing of 1 they move the price by 2.5 %. */
const MAX_TICKS = 256;
/** The largest tick spacing of a pool (v4-core, TickMath). Larger ones are no numbers to count with. */
const MAX_SPACING = 32_767;

type Concentrated = Reading & { readonly style: "v3" };
type ReadCalls = (calls: readonly Call[]) => Promise<readonly CallResult[]>;

/** How the ticks of a concentrated pool are read. */
interface TickSource {
  readonly spacing: number;
  readonly fees: readonly [bigint, bigint];
  readonly word: (index: number) => Call;
  readonly tick: (tick: number) => Call;
  readonly netIn: (result: CallResult | undefined) => bigint | undefined;
}

interface Seen extends PoolRead {
  readonly ticks?: TickSource | undefined;
}

function planContract(pool: Pool): Plan<Seen> {
  const spacing = { calls: [call(poolContract(pool), "tickSpacing()")], read: ([said]: readonly CallResult[]) => said };
  const plan = both(STYLES[pool.style].state(pool), spacing);
  return {
    calls: plan.calls,
    read(results) {
      const [seen, said] = plan.read(results);
      const fee = BigInt(seen.pool.fee);
      const ticks = {
        ...{ spacing: Number(answer(said) ?? 0n), fees: [fee, fee] as const },
        word: (index: number) => call(poolContract(pool), "tickBitmap(int16)", signedWord(BigInt(index))),
        tick: (tick: number) => call(poolContract(pool), "ticks(int24)", signedWord(BigInt(tick))),
        netIn(result: CallResult | undefined) {
          const net = answer(result, 1);
          return net === undefined ? undefined : BigInt.asIntN(128, net);
        },
      };
      return { ...seen, ticks };
    },
  };
}

function planKeyed(pool: Pool): Plan<Seen> {
  const slot0 = { calls: [slotAt(pool, "slot0")], read: ([said]: readonly CallResult[]) => answer(said) };
  const plan = both(STYLES.v4.state(pool), slot0);
  return {
    calls: plan.calls,
    read(results) {
      const [seen, said] = plan.read(results);
      const ticks = {
        ...{ spacing: pool.key!.spacing, fees: swapFees(protocolFeeIn(said ?? 0n), BigInt(seen.pool.fee)) },
        word: (index: number) => slotAt(pool, "bitmap", index),
        tick: (tick: number) => slotAt(pool, "ticks", tick),
        netIn(result: CallResult | undefined) {
          const info = answer(result);
          return info === undefined ? undefined : BigInt.asIntN(128, info >> 128n);
        },
      };
      return { ...seen, ticks };
    },
  };
}

/**
 * What a swap of token0 and one of token1 cost, in hundredths of a basis point: the protocol's fee comes first, that of
 * the positions of the rest (v4-core, ProtocolFeeLibrary).
 */
export function swapFees(protocolFee: bigint, own: bigint): readonly [bigint, bigint] {
  const whole = (fee: bigint): bigint => fee + own - (fee * own) / MILLION;
  return [whole(BigInt.asUintN(12, protocolFee)), whole(protocolFee >> 12n)];
}

/** Styles whose trades are computed to the last digit. */
const COMPUTED: readonly PoolStyle[] = ["v2", "v3", "slipstream", "solidly-v2", "v4"];

/** @throws UnknownTrade for a pool whose trades are not computed */
export function assertComputed({ style, key, exchange, rank }: Pool): void {
  if (!COMPUTED.includes(style)) throw new UnknownTrade(`the depth of ${style} pools is not computed`);
  if (key !== undefined && actsBeforeSwap(key.hooks)) throw new UnknownTrade("hooks of a pool act on its swaps");
  // The fee of a v2 pair is a constant in its code. That of other exchanges' pairs is only what their interfaces say.
  if (style === "v2" && !isAmongTwelve({ rank }))
    throw new UnknownTrade(`the fee of pairs of ${exchange} is not verified`);
}

function planPool(pool: Pool): Plan<Seen> {
  assertComputed(pool);
  if (pool.key !== undefined) return planKeyed(pool);
  return pool.style === "v3" || pool.style === "slipstream" ? planContract(pool) : STYLES[pool.style].state(pool);
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
function planRanges(reading: Concentrated, source: TickSource): Plan<Plan<Tradable>> {
  const { spacing, fees } = source;
  if (!isSpacing(spacing)) throw new UnknownTrade(NO_ANSWER);
  const middle = Math.floor(reading.tick / spacing) >> 8;
  const side = Math.floor(REACH / (256 * spacing)) + 1;
  const words = Array.from({ length: 2 * side + 1 }, (_, at) => middle - side + at);
  return {
    calls: words.map(source.word),
    read(results) {
      const bitmap = new Map(
        words.flatMap((word, at) => {
          const bits = answer(results[at]);
          return bits === undefined ? [] : [[word, bits] as const];
        }),
      );
      const all = [...bitmap].flatMap(([word, bits]) => bitsIn(bits).map((place) => (word * 256 + place) * spacing));
      const ticks = [
        ...all.filter((tick) => tick <= reading.tick).slice(-MAX_TICKS),
        ...all.filter((tick) => tick > reading.tick).slice(0, MAX_TICKS),
      ];
      return {
        calls: ticks.map(source.tick),
        read(told) {
          const nets = new Map(
            ticks.flatMap((tick, at) => {
              const net = source.netIn(told[at]);
              return net === undefined ? [] : [[tick, net] as const];
            }),
          );
          return rangesAt({ reading, spacing, fees, bitmap, nets });
        },
      };
    },
  };
}

/** The plan of what is known without a read. */
const known = <T>(value: T): Plan<T> => ({ calls: [], read: () => value });

/**
 * Reads pools for trades with them, in their order.
 * @param read reads at the block of the price
 * @throws UnknownTrade if trades with one of them can't be computed
 */
export async function tradablesOf(
  pools: readonly (readonly [Pool, Decimals])[],
  read: ReadCalls,
): Promise<readonly Tradable[]> {
  const states = together(pools.map(([pool]) => planPool(pool)));
  const words = together(
    states.read(await read(states.calls)).map(({ pool, reading, ticks }, at): Plan<Plan<Tradable>> => {
      if (reading === undefined) throw new UnknownTrade(NO_ANSWER);
      if (reading.style === "v2") return known(known(pairAt(pool, reading, pools[at]![1])));
      if (ticks === undefined) throw new UnknownTrade(NO_ANSWER);
      return planRanges(reading, ticks);
    }),
  );
  // Pairs alone have no ticks to read.
  const ticks = together(words.read(words.calls.length === 0 ? [] : await read(words.calls)));
  return ticks.read(ticks.calls.length === 0 ? [] : await read(ticks.calls));
}
