/**
 * Pool maths in exact rationals: the marginal price of a pool and the depth on its two sides, from reserves (v2), from
 * sqrtPriceX96 and in-range liquidity (v3), and from the x³y + y³x invariant (stable pairs of v2-camelot). No
 * rounding here and no opinion on which pool is good.
 */
import type { PoolStyle } from "../../chains/exchanges.ts";
import type { Address, Hash } from "../../core/hex.ts";
import type { PoolState } from "../../events/types.ts";
import { divide, minimum, multiply, powerOfTen, type Rational, rational } from "./rational.ts";

export interface Pool {
  readonly address: Address;
  readonly factory: Address;
  readonly style: PoolStyle;
  /** Hundredths of a basis point. */
  readonly fee: number;
  readonly token0: Address;
  readonly token1: Address;
  /** Display name of the exchange; the factory's address when it is in no list. */
  readonly exchange: string;
  /** Place of the exchange in the contract's list; unlisted ones come last. */
  readonly rank: number;
  /** A stable-curve pair: its price is not its reserve ratio. */
  readonly stableCurve: boolean;
}

export type Reading =
  | { readonly style: "v2"; readonly reserve0: bigint; readonly reserve1: bigint }
  | { readonly style: "v3"; readonly sqrtPriceX96: bigint; readonly liquidity: bigint; readonly tick: number };

/** A pool's state at the end of a block: read from the node there, or set by the event named. */
export interface Observation {
  readonly reading: Reading;
  /** The pool's real token balances, where known. */
  readonly balance0?: bigint;
  readonly balance1?: bigint;
  readonly block: number;
  readonly blockHash: Hash;
  /** Unix seconds. */
  readonly timestamp: number;
  readonly transactionHash?: Hash;
  readonly logIndex?: number;
}

export interface Decimals {
  readonly decimals0: number;
  readonly decimals1: number;
}

/** 2^192: the square of the fixed point of sqrtPriceX96. */
const Q192 = 1n << 192n;
const Q96 = 1n << 96n;

/**
 * Price of one whole token0 in whole tokens of token1; undefined for an empty pool.
 * v2: reserve1 / reserve0. v3: sqrtPriceX96² / 2^192. Stable curve: the invariant's slope.
 */
export function priceOfToken0(
  pool: Pick<Pool, "stableCurve">,
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
  if (pool.stableCurve) return stableCurvePrice(reading, decimals);
  return multiply(rational(reserve1, reserve0), scale);
}

/**
 * With x and y the reserves in whole tokens, f = x³y + y³x stays constant over a trade, so
 * dy/dx = (3x²y + y³) / (x³ + 3xy²): what the next sliver of token0 brings in token1, before the fee.
 */
function stableCurvePrice(reading: { reserve0: bigint; reserve1: bigint }, decimals: Decimals): Rational {
  // Both reserves over one common denominator, which cancels.
  const x = reading.reserve0 * 10n ** BigInt(decimals.decimals1);
  const y = reading.reserve1 * 10n ** BigInt(decimals.decimals0);
  return rational(3n * x * x * y + y ** 3n, x ** 3n + 3n * x * y * y);
}

/** A pool's two sides in smallest units, before any cap. v2: the reserves. v3: L/√P and L·√P. */
function virtualReserves(reading: Reading): { readonly side0: Rational; readonly side1: Rational } | undefined {
  if (reading.style === "v2") return { side0: rational(reading.reserve0), side1: rational(reading.reserve1) };
  if (reading.sqrtPriceX96 === 0n) return undefined;
  return {
    side0: rational(reading.liquidity * Q96, reading.sqrtPriceX96),
    side1: rational(reading.liquidity * reading.sqrtPriceX96, Q96),
  };
}

/** As `virtualReserves`, in whole tokens, and never more than the pool really holds where its balances are known. */
export function depth(observation: Observation, decimals: Decimals): { side0: Rational; side1: Rational } | undefined {
  const sides = virtualReserves(observation.reading);
  if (sides === undefined) return undefined;
  const cap = (side: Rational, balance: bigint | undefined): Rational =>
    balance === undefined ? side : minimum(side, rational(balance));
  return {
    side0: divide(cap(sides.side0, observation.balance0), powerOfTen(decimals.decimals0)),
    side1: divide(cap(sides.side1, observation.balance1), powerOfTen(decimals.decimals1)),
  };
}

/** Whether depth is capped on both sides by what the pool really holds. */
export const isCapped = ({ balance0, balance1 }: Observation): boolean =>
  balance0 !== undefined && balance1 !== undefined;

/**
 * A v3 state of which nothing says what the pool holds, so that a sliver of liquidity in it may pose as any depth: what
 * events alone make of a pool whose balances were never read. One balance is as much as a token that does not tell the
 * other leaves to be known.
 */
export const isBlind = ({ reading, balance0, balance1 }: Observation): boolean =>
  reading.style === "v3" && balance0 === undefined && balance1 === undefined;

/** The reading as the event log keeps it. */
export function toPoolState(reading: Reading): PoolState {
  return reading.style === "v2"
    ? { style: "v2", reserve0: reading.reserve0.toString(), reserve1: reading.reserve1.toString() }
    : {
        style: "v3",
        sqrtPriceX96: reading.sqrtPriceX96.toString(),
        liquidity: reading.liquidity.toString(),
        tick: reading.tick,
      };
}

/** The inverse of `toPoolState`. */
export function fromPoolState(state: PoolState): Reading {
  return state.style === "v2"
    ? { style: "v2", reserve0: BigInt(state.reserve0), reserve1: BigInt(state.reserve1) }
    : {
        style: "v3",
        sqrtPriceX96: BigInt(state.sqrtPriceX96),
        liquidity: BigInt(state.liquidity),
        tick: state.tick,
      };
}

/** The other token of a pool. */
export const otherToken = (pool: Pool, token: Address): Address => (pool.token0 === token ? pool.token1 : pool.token0);

/** Sort order of equals: the exchange's place, then the lower fee, then the lower address. */
export function tieBreak(a: Pool, b: Pool): number {
  return a.rank - b.rank || a.fee - b.fee || (a.address < b.address ? -1 : a.address > b.address ? 1 : 0);
}
