/**
 * Computes a price from its provenance with whole numbers only. It shares no code with the service: two programs that
 * agree to the last digit check each other.
 */
import type { PoolState, TokenPrice } from "../../client/index.ts";

/** A fraction of two whole numbers. */
export interface Fraction {
  readonly over: bigint;
  readonly under: bigint;
}

/** A pool on the way from the token to the dollar. */
export interface PriceStep {
  readonly pool: PoolState;
  readonly from: string;
  readonly to: string;
  /** Whole tokens of `to` for one whole token of `from`. */
  readonly rate: Fraction;
}

/** sqrtPriceX96 is the square root of the price, times 2^96 (Uniswap v3 core, `slot0`). */
const TWO_192 = 1n << 192n;
/** Digits after which the nearest double can't change any more: more than the 767 that a double can need are never near. */
const SPARE_DIGITS = 60;

/** The steps of a route that begins at a token. @throws Error if a pool doesn't trade what the step before it gave */
export function stepsOf(token: string, route: readonly PoolState[]): PriceStep[] {
  let from = token.toLowerCase();
  return route.map((pool) => {
    const isFirst = pool.token0 === from;
    if (!isFirst && pool.token1 !== from) throw new Error(`pool ${pool.pool} does not trade ${from}`);
    const to = isFirst ? pool.token1 : pool.token0;
    const rate = isFirst ? rateOf(pool) : inverse(rateOf(pool));
    const step = { pool, from, to, rate };
    from = to;
    return step;
  });
}

/** Dollars for one whole token: the product of all steps, the last of which ends at a dollar. */
export const usdOf = ({ tokenAddress, provenance }: TokenPrice): Fraction =>
  stepsOf(tokenAddress, provenance?.route ?? []).reduce((price, { rate }) => times(price, rate), {
    over: 1n,
    under: 1n,
  });

/** Whole tokens of token1 for one whole token0. @throws Error for a pool whose price is not that of its reserves */
function rateOf(pool: PoolState): Fraction {
  const [unit0, unit1] = [10n ** BigInt(pool.decimals0), 10n ** BigInt(pool.decimals1)];
  const { reserve0, reserve1, sqrtPriceX96 } = pool;
  if (pool.stableCurve === true && reserve0 !== undefined && reserve1 !== undefined) {
    return stableRate(BigInt(reserve0), BigInt(reserve1), unit0, unit1);
  }
  if (sqrtPriceX96 !== undefined) return { over: BigInt(sqrtPriceX96) ** 2n * unit0, under: TWO_192 * unit1 };
  if (reserve0 === undefined || reserve1 === undefined) throw new Error(`pool ${pool.pool} has no state`);
  return { over: BigInt(reserve1) * unit0, under: BigInt(reserve0) * unit1 };
}

/**
 * The slope of x³y + y³x at the reserves, in whole tokens (Solidly's stable pair): dy/dx = (3x²y + y³) / (x³ + 3xy²).
 */
function stableRate(reserve0: bigint, reserve1: bigint, unit0: bigint, unit1: bigint): Fraction {
  // Both sides in parts of the same size.
  const [x, y] = [reserve0 * unit1, reserve1 * unit0];
  return { over: 3n * x * x * y + y ** 3n, under: x ** 3n + 3n * x * y * y };
}

/** Whole tokens on both sides of a pool. Of concentrated liquidity the virtual reserves L/√P and L·√P. */
export function reservesOf(pool: PoolState): [Fraction | undefined, Fraction | undefined] {
  const { reserve0, reserve1, sqrtPriceX96, liquidity } = pool;
  const [unit0, unit1] = [10n ** BigInt(pool.decimals0), 10n ** BigInt(pool.decimals1)];
  if (reserve0 !== undefined && reserve1 !== undefined) {
    return [
      { over: BigInt(reserve0), under: unit0 },
      { over: BigInt(reserve1), under: unit1 },
    ];
  }
  if (sqrtPriceX96 === undefined || liquidity === undefined) return [undefined, undefined];
  const [root, depth] = [BigInt(sqrtPriceX96), BigInt(liquidity)];
  return [
    { over: depth << 96n, under: root * unit0 },
    { over: depth * root, under: unit1 << 96n },
  ];
}

export const times = (a: Fraction, b: Fraction): Fraction => ({ over: a.over * b.over, under: a.under * b.under });
const inverse = ({ over, under }: Fraction): Fraction => ({ over: under, under: over });

/** The double nearest to a fraction: the language reads the digits exactly. */
export function nearest({ over, under }: Fraction): number {
  const places = SPARE_DIGITS + under.toString().length;
  return Number(`${(over * 10n ** BigInt(places)) / under}e-${places}`);
}

/** The first digits of a fraction, cut off. */
export function leadingDigits({ over, under }: Fraction, places: number): string {
  const scaled = (over * 10n ** BigInt(places)) / under;
  const text = scaled.toString().padStart(places + 1, "0");
  return `${text.slice(0, -places)}.${text.slice(-places)}`;
}
