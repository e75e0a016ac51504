/**
 * Trades with concentrated liquidity, step by step as the contracts of Uniswap v3 and v4 do them (v3-core and v4-core:
 * SwapMath, SqrtPriceMath, TickBitmap; `UniswapV3Pool.swap`, `Pool.swap`). Pure.
 */
import type { Reading } from "../market/pools.ts";
import { squareRoot } from "../market/pools.ts";
import type { Rational } from "../market/rational.ts";
import type { SwapFees } from "../styles/style.ts";
import { MAX_TICK, sqrtPriceAt } from "../styles/ticks.ts";
import { BeyondRead, MILLION, type Tradable, type Trade, UnknownTrade } from "../styles/trade.ts";

/** What is known of a pool around its price. */
export interface Ranges {
  readonly reading: Reading & { readonly style: "v3" };
  readonly spacing: number;
  readonly fees: SwapFees;
  /** Words of the tick bitmap, by their index. */
  readonly bitmap: ReadonlyMap<number, bigint>;
  /** What crossing a tick upwards adds to the liquidity. */
  readonly nets: ReadonlyMap<number, bigint>;
  /** True for a pool inside a manager, which counts amounts with 128 bits and a sign. Other pools have 256 bits. */
  readonly isKeyed?: boolean;
}

const Q96 = 1n << 96n;
const MAX_WORD = (1n << 256n) - 1n;
/** `int128` and `int256`, the amounts of v4-core and v3-core. */
const [MAX_KEYED_AMOUNT, MAX_AMOUNT] = [(1n << 127n) - 1n, (1n << 255n) - 1n] as const;
/** More than any trade takes. */
const ENDLESS = 1n << 250n;

const BEYOND = "the size runs beyond the ticks that are read";
const ENDS = "the pool's liquidity ends before the size is traded";

const roundedUp = (n: bigint, d: bigint): bigint => (n + d - 1n) / d;

/** The token0 between two roots of a price. */
function amount0(a: bigint, b: bigint, liquidity: bigint, isUp: boolean): bigint {
  const [low, high] = a < b ? [a, b] : [b, a];
  const n = (liquidity << 96n) * (high - low);
  return isUp ? roundedUp(roundedUp(n, high), low) : n / high / low;
}

/** The token1 between two roots of a price. */
function amount1(a: bigint, b: bigint, liquidity: bigint, isUp: boolean): bigint {
  const n = liquidity * (a < b ? b - a : a - b);
  return isUp ? roundedUp(n, Q96) : n / Q96;
}

/** The root of the price after a payment within one range. */
function rootAfter(root: bigint, liquidity: bigint, paid: bigint, isToken0: boolean): bigint {
  if (!isToken0) return root + (paid << 96n) / liquidity;
  if (paid === 0n) return root;
  const n = liquidity << 96n;
  const d = n + paid * root;
  // The contracts round otherwise where a product has more than 256 bits.
  return paid * root <= MAX_WORD && d <= MAX_WORD ? roundedUp(n * root, d) : roundedUp(n, n / root + paid);
}

interface RangeStep extends Trade {
  readonly root: bigint;
}

/** A step within one range, towards `target`. */
function stepTo(
  root: bigint,
  target: bigint,
  { liquidity, left, fee }: Record<"liquidity" | "left" | "fee", bigint>,
): RangeStep {
  const isToken0 = root >= target;
  const [own, other] = isToken0 ? [amount0, amount1] : [amount1, amount0];
  const afterFee = (left * (MILLION - fee)) / MILLION;
  const needed = own(root, target, liquidity, true);
  const reached = afterFee >= needed ? target : rootAfter(root, liquidity, afterFee, isToken0);
  const given = other(root, reached, liquidity, false);
  if (reached !== target) return { root: reached, paid: left, given };
  return { root: reached, paid: needed + roundedUp(needed * fee, MILLION - fee), given };
}

const highestBit = (bits: bigint): number => bits.toString(2).length - 1;

/** The next tick at which a step ends: an initialised one, or the end of a word of the bitmap. */
function nextTick({ bitmap, spacing }: Ranges, tick: number, isDown: boolean) {
  const place = Math.floor(tick / spacing) + (isDown ? 0 : 1);
  const word = place >> 8;
  const bits = bitmap.get(word);
  if (bits === undefined) throw new BeyondRead(BEYOND);
  const bit = BigInt(place & 255);
  const ahead = isDown ? bits & ((2n << bit) - 1n) : (bits >> bit) << bit;
  const found = ahead === 0n ? (isDown ? 0 : 255) : highestBit(isDown ? ahead : ahead & -ahead);
  return { tick: (word * 256 + found) * spacing, isInitialized: ahead !== 0n };
}

/** Trades until all is paid or the root of the price is `limit`. */
function trade(ranges: Ranges, paid: bigint, isToken0: boolean, limit: bigint): Trade & { readonly isWhole: boolean } {
  const fee = ranges.fees[isToken0 ? 0 : 1];
  let { sqrtPriceX96: root, liquidity, tick } = ranges.reading;
  let [left, given] = [paid, 0n];
  while (left > 0n && root !== limit) {
    const next = nextTick(ranges, tick, isToken0);
    const end = sqrtPriceAt(Math.max(-MAX_TICK, Math.min(MAX_TICK, next.tick)));
    const step = stepTo(root, (isToken0 ? end < limit : end > limit) ? limit : end, { liquidity, left, fee });
    left -= step.paid;
    given += step.given;
    root = step.root;
    if (root !== end) break;
    if (next.isInitialized) {
      const net = ranges.nets.get(next.tick);
      if (net === undefined) throw new BeyondRead(BEYOND);
      liquidity += isToken0 ? -net : net;
      if (liquidity < 0n) throw new UnknownTrade("the pool's ticks contradict its liquidity");
    }
    tick = isToken0 ? next.tick - 1 : next.tick;
  }
  return { paid: paid - left, given, isWhole: left === 0n };
}

/** A pool with what is known of its ticks. @throws UnknownTrade if no fee makes sense of it */
export function rangesAt(ranges: Ranges): Tradable {
  if (ranges.fees.some((fee) => fee < 0n || fee >= MILLION))
    throw new UnknownTrade("the pool gives nothing for a sale");
  const { sqrtPriceX96: root } = ranges.reading;
  const most = ranges.isKeyed === true ? MAX_KEYED_AMOUNT : MAX_AMOUNT;
  function sell(paid: bigint, isToken0: boolean): bigint {
    if (paid > most) throw new UnknownTrade("the pool can't take so much of the token");
    const { given, isWhole } = trade(ranges, paid, isToken0, sqrtPriceAt(isToken0 ? -MAX_TICK : MAX_TICK));
    if (!isWhole) throw new UnknownTrade(ENDS);
    if (given > most) throw new UnknownTrade("the pool can't give so much of the token");
    return given;
  }
  return {
    sell,
    sellDownTo({ n, d }: Rational, isToken0) {
      // The first root at or beyond the wanted price.
      const limit = isToken0 ? squareRoot((root * root * n) / d) : squareRoot((root * root * d - 1n) / n) + 1n;
      const { paid } = trade(ranges, ENDLESS, isToken0, limit);
      return { paid, given: sell(paid, isToken0) };
    },
  };
}
