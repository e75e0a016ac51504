/**
 * Pools, and pool maths in rationals: the marginal price of a pool and the depth of its two sides, from reserves (v2) or
 * from sqrtPriceX96 and in-range liquidity (v3).
 */
import type { PoolStyle } from "../../chains/exchanges.ts";
import type { Address, Hash } from "../../core/hex.ts";
import type { BlockRange } from "../../events/types.ts";
import { bitLength, divide, minimum, multiply, powerOfTen, type Rational, rational, ZERO } from "./rational.ts";

/** A pool's address, or its hash inside a contract that holds many. */
export type PoolId = Address | Hash;

/** What identifies a Uniswap v4 pool besides its second token. */
export interface PoolKey {
  /** Zero for the chain's coin itself. */
  readonly currency0: Address;
  /** As the id has it: 0x800000 for one that hooks set. */
  readonly fee: number;
  /** The tick spacing. */
  readonly spacing: number;
  readonly hooks: Address;
}

export interface Pool {
  readonly id: PoolId;
  /** For a pool inside another contract, which is its factory. */
  readonly key?: PoolKey;
  readonly factory: Address;
  readonly style: PoolStyle;
  /** Hundredths of a basis point. */
  readonly fee: number;
  readonly token0: Address;
  readonly token1: Address;
  /** Display name of the exchange; the factory's address when it is unlisted. */
  readonly exchange: string;
  /** Position of the exchange in the API's list; unlisted ones come last. */
  readonly rank: number;
  /** True for a stable-curve pair. Its price is not its reserve ratio. */
  readonly stableCurve: boolean;
}

export type Reading =
  | { readonly style: "v2"; readonly reserve0: bigint; readonly reserve1: bigint }
  | { readonly style: "v3"; readonly sqrtPriceX96: bigint; readonly liquidity: bigint; readonly tick: number };

/** What simulated trades with a pool gave, whose hooks may give other amounts than its curve. */
export type HookTrade =
  /** For each direction in which the pool gave something: the part of its price that the trade got, the fee aside. */
  { readonly kind: "made"; readonly parts: readonly Rational[] } | { readonly kind: "refused" | "unknown" };

/** A pool's state at the end of a block: read from the node there, or set by the named event. */
export interface Observation {
  readonly reading: Reading;
  /** The pool's real token balances, where known. */
  readonly balance0?: bigint;
  readonly balance1?: bigint;
  /** What a concentrated pool gives of token0 while its price rises by 2 %, and of token1 while it falls; where measured. */
  readonly given?: readonly [bigint, bigint];
  /** Set where the state alone tells no price. */
  readonly traded?: HookTrade;
  readonly block: number;
  readonly blockHash: Hash;
  /** Unix seconds. */
  readonly timestamp: number;
  readonly transactionHash?: Hash;
  readonly logIndex?: number;
  /** Set if an archive told the state, in place of the node. */
  readonly archive?: ArchiveWord;
}

/** An archive's word for the state of a pool. */
export interface ArchiveWord {
  /** The archive, as logs and errors name it. */
  readonly label: string;
  /** Blocks of which the archive alone says that nothing else happened there. Absent if that is confirmed. */
  readonly alone?: BlockRange;
}

export interface Decimals {
  readonly decimals0: number;
  readonly decimals1: number;
}

/** 2^192: the square of 2^96, the fixed point of sqrtPriceX96. */
const Q192 = 1n << 192n;
const Q96 = 1n << 96n;

/**
 * Price of one whole token0 in whole tokens of token1; undefined for an empty pool.
 * v2: reserve1 / reserve0. v3: sqrtPriceX96² / 2^192. Stable curve: the invariant's slope.
 */
export function priceOfToken0(
  { stableCurve }: Pick<Pool, "stableCurve">,
  reading: Reading,
  decimals: Decimals,
): Rational | undefined {
  const scale = powerOfTen(decimals.decimals0 - decimals.decimals1);
  if (reading.style === "v3") {
    if (reading.sqrtPriceX96 === 0n) return undefined;
    return multiply(rational(reading.sqrtPriceX96 ** 2n, Q192), scale);
  }
  const { reserve0, reserve1 } = reading;
  if (reserve0 === 0n || reserve1 === 0n) return undefined;
  if (stableCurve) return stableCurvePrice(reading, decimals);
  return multiply(rational(reserve1, reserve0), scale);
}

/**
 * With x and y the reserves in whole tokens, f = x³y + y³x stays constant over a trade, so
 * dy/dx = (3x²y + y³) / (x³ + 3xy²): the amount of token1 per unit of token0 for a tiny trade, before the fee.
 */
function stableCurvePrice(reading: { reserve0: bigint; reserve1: bigint }, decimals: Decimals): Rational {
  // Scales both reserves to one common denominator, which cancels.
  const x = reading.reserve0 * 10n ** BigInt(decimals.decimals1);
  const y = reading.reserve1 * 10n ** BigInt(decimals.decimals0);
  return rational(3n * x * x * y + y ** 3n, x ** 3n + 3n * x * y * y);
}

/** Prices are moved by this much to measure how much a pool gives on the way. */
export const MOVED = { n: 102n, d: 100n };

/** The square root, rounded down. */
export function squareRoot(value: bigint): bigint {
  if (value < 2n) return value;
  let root = 1n << BigInt((bitLength(value) + 1) >> 1);
  for (let next = (root + value / root) >> 1n; next < root; next = (root + value / root) >> 1n) root = next;
  return root;
}

/** The part of a reserve that a pool of constant product gives while its price moves by `MOVED`, times 2^96. */
const PART_OF_PRODUCT = Q96 - squareRoot((MOVED.d * Q192) / MOVED.n);

const OF_PRODUCT: Rational = { n: PART_OF_PRODUCT, d: Q96 };

/**
 * The sides of a pair on the stable curve, in the tokens' smallest units: the reserves of a pool of constant product that
 * gives as much while the price moves by 2 %, at most the pair's own reserves. Far from balance the curve is steep, and a
 * reserve says little. With t = y / x the price is (3t + t³) / (1 + 3t²), which rises with t, and x is the fourth root of
 * k / (t + t³).
 */
function stableCurveDepth(
  { reserve0, reserve1 }: { readonly reserve0: bigint; readonly reserve1: bigint },
  { decimals0, decimals1 }: Decimals,
): readonly [Rational, Rational] {
  if (reserve0 === 0n || reserve1 === 0n) return [ZERO, ZERO];
  const ratio = (reserve1 * 10n ** BigInt(decimals0) * Q96) / (reserve0 * 10n ** BigInt(decimals1));
  if (ratio === 0n) return [ZERO, ZERO];
  const product = (t: bigint) => t + t ** 3n / Q192;
  const price = (t: bigint) => ((3n * t + t ** 3n / Q192) * Q96) / (Q96 + (3n * t * t) / Q96);
  const now = price(ratio);
  const [up, down] = [
    ratioAt((now * MOVED.n) / MOVED.d, ratio, price),
    ratioAt((now * MOVED.d) / MOVED.n, ratio, price),
  ];
  /** The part of x that is left at another t, times 2^96. */
  const left = (t: bigint) => squareRoot(squareRoot((product(ratio) * Q192) / product(t)) << 96n);
  const side = (reserve: bigint, kept: bigint) =>
    minimum(rational(reserve), rational(reserve * (Q96 > kept ? Q96 - kept : 0n), PART_OF_PRODUCT));
  return [side(reserve0, left(up)), side(reserve1, (left(down) * down) / ratio)];
}

/** Finds the t with a price, by halving. @param from a t near it */
function ratioAt(wanted: bigint, from: bigint, price: (t: bigint) => bigint): bigint {
  let [low, high] = [from, from];
  while (low > 1n && price(low) > wanted) low >>= 1n;
  while (price(high) < wanted) high <<= 1n;
  while (high - low > 1n) {
    const middle = (low + high) >> 1n;
    if (price(middle) < wanted) low = middle;
    else high = middle;
  }
  return high;
}

/**
 * Returns a pool's two sides in whole tokens, capped by its real balances where they are known; undefined for a v3 pool
 * without a price. Pairs: the reserves, as far as the curve gives them. Concentrated: L/√P and L·√P.
 */
export function depth(
  { stableCurve }: Pick<Pool, "stableCurve">,
  { reading, balance0, balance1 }: Observation,
  decimals: Decimals,
) {
  const { decimals0, decimals1 } = decimals;
  if (reading.style === "v3" && reading.sqrtPriceX96 === 0n) return undefined;
  const [side0, side1] =
    reading.style === "v3"
      ? [
          rational(reading.liquidity * Q96, reading.sqrtPriceX96),
          rational(reading.liquidity * reading.sqrtPriceX96, Q96),
        ]
      : stableCurve
        ? stableCurveDepth(reading, decimals)
        : [rational(reading.reserve0), rational(reading.reserve1)];
  const capped = (side: Rational, balance: bigint | undefined, decimals: number): Rational =>
    divide(balance === undefined ? side : minimum(side, rational(balance)), powerOfTen(decimals));
  return { side0: capped(side0, balance0, decimals0), side1: capped(side1, balance1, decimals1) };
}

/**
 * Returns what a pool gives of each token, in whole ones, while its price moves by 2 %, the fee aside: as its ticks tell,
 * else as a pool of constant product with its `depth` would.
 */
export function givenByMove(
  { given }: Pick<Observation, "given">,
  { side0, side1 }: Record<"side0" | "side1", Rational>,
  { decimals0, decimals1 }: Decimals,
): readonly [Rational, Rational] {
  if (given === undefined) return [multiply(side0, OF_PRODUCT), multiply(side1, OF_PRODUCT)];
  return [divide(rational(given[0]), powerOfTen(decimals0)), divide(rational(given[1]), powerOfTen(decimals1))];
}

/** The depth at which a pool of constant product gives as much while its price moves by 2 %. */
export const depthByMove = (given: Rational): Rational => divide(given, OF_PRODUCT);

/** True if the depth of both sides is capped by known balances. */
export const isCapped = ({ balance0, balance1 }: Observation): boolean =>
  balance0 !== undefined && balance1 !== undefined;

export const otherToken = (pool: Pool, token: Address): Address => (pool.token0 === token ? pool.token1 : pool.token0);

/** Sorts pools of equal depth: by the exchange's rank, then the lower fee, then the lower id. */
export function tieBreak(a: Pool, b: Pool): number {
  return a.rank - b.rank || a.fee - b.fee || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}
