/**
 * Trades with pairs of reserves: Uniswap v2's (v2-periphery, UniswapV2Library), which keep the fee in the reserves, and
 * those of Velodrome's version of Solidly (contracts/Pool.sol of Aerodrome), which keep it outside. Pure.
 */
import { compare, type Decimals, multiply, type Pool, priceOfToken0, type Rational } from "../market/pools.ts";
import { MILLION, type Tradable, UnknownTrade } from "./trade.ts";

/** Reserves, or the units of decimals, of the token that is sold and of the other one. */
interface BothSides {
  readonly own: bigint;
  readonly other: bigint;
}

/** What a pair adds to its reserve, and what it gives. */
interface Sale {
  readonly kept: bigint;
  readonly given: bigint;
}

/** The largest reserve of a v2 pair. */
const MAX_RESERVE = (1n << 112n) - 1n;
/** More than any token's supply, so that searches end. */
const MAX_AMOUNT = 1n << 127n;
const MAX_WORD = (1n << 256n) - 1n;
const TOO_MUCH = "the pair can't hold so much of the token";

function v2Sale({ own, other }: BothSides, paid: bigint, fee: bigint): Sale {
  if (own + paid > MAX_RESERVE) throw new UnknownTrade(TOO_MUCH);
  const afterFee = paid * (MILLION - fee);
  return { kept: paid, given: (afterFee * other) / (own * MILLION + afterFee) };
}

const E18 = 10n ** 18n;

/** x³y + y³x with 18 places, rounded as the contract does. */
const curve = (x: bigint, y: bigint): bigint => (((x * y) / E18) * ((x * x) / E18 + (y * y) / E18)) / E18;
const slope = (x: bigint, y: bigint): bigint => (3n * x * ((y * y) / E18)) / E18 + (((x * x) / E18) * x) / E18;

const MOST_STEPS = 255;
const UNSOLVED = "the pair's own solver finds no amount";

/**
 * The y of the curve through `wanted` at x, by the contract's own steps from `y`. Where the contract compares the curve at
 * y + 1 it takes both amounts for unscaled ones.
 */
function solved(x: bigint, wanted: bigint, from: bigint, unscaled: (x: bigint, y: bigint) => bigint): bigint {
  let y = from;
  for (let step = 0; step < MOST_STEPS; step++) {
    const [now, rise] = [curve(x, y), slope(x, y)];
    if (rise === 0n) break;
    const isBelow = now < wanted;
    const by = ((isBelow ? wanted - now : now - wanted) * E18) / rise;
    if (by === 0n && isBelow && unscaled(x, y + 1n) > wanted) return y + 1n;
    if (by === 0n && !isBelow && (now === wanted || curve(x, y - 1n) < wanted)) return y;
    y += (by === 0n ? 1n : by) * (isBelow ? 1n : -1n);
    if (y < 0n) break;
  }
  throw new UnknownTrade(UNSOLVED);
}

/** @param isToken0 the contract's order of the tokens, which its rounding follows */
function stableSale({ own, other }: BothSides, kept: bigint, units: BothSides, isToken0: boolean): bigint {
  const scale = (amount: bigint, unit: bigint) => (amount * E18) / unit;
  const [x, y] = [scale(own, units.own), scale(other, units.other)];
  const [unit0, unit1] = isToken0 ? [units.own, units.other] : [units.other, units.own];
  const unscaled = (a: bigint, b: bigint) => curve(scale(a, unit0), scale(b, unit1));
  const after = scale(kept, units.own) + x;
  if (after ** 3n / E18 > MAX_WORD) throw new UnknownTrade(TOO_MUCH);
  const left = solved(after, curve(x, y), y, unscaled);
  if (left > y) throw new UnknownTrade(UNSOLVED);
  return ((y - left) * units.other) / E18;
}

/** The fee of Solidly's factories is in hundredths of a per cent. */
const SOLIDLY_STEP = 100n;
const SOLIDLY_WHOLE = 10_000n;

function solidlySale(reserves: BothSides, paid: bigint, fee: bigint, stable: StableSide | undefined): Sale {
  const kept = paid - (paid * (fee / SOLIDLY_STEP)) / SOLIDLY_WHOLE;
  if (stable !== undefined) return { kept, given: stableSale(reserves, kept, stable.units, stable.isToken0) };
  return { kept, given: (kept * reserves.other) / (reserves.own + kept) };
}

interface StableSide {
  readonly units: BothSides;
  readonly isToken0: boolean;
}

/** A v2 pair, or a pair of Solidly's version 2. @throws UnknownTrade if its fee is not known */
export function pairAt(
  pool: Pool,
  reading: { readonly reserve0: bigint; readonly reserve1: bigint },
  decimals: Decimals,
): Tradable {
  const fee = BigInt(pool.fee);
  if (fee <= 0n || fee >= MILLION) throw new UnknownTrade("the fee of the pair is not known");
  const [unit0, unit1] = [10n ** BigInt(decimals.decimals0), 10n ** BigInt(decimals.decimals1)];
  const { reserve0, reserve1 } = reading;

  function sale(paid: bigint, isToken0: boolean): Sale {
    if (paid > MAX_AMOUNT) throw new UnknownTrade(TOO_MUCH);
    const reserves = isToken0 ? { own: reserve0, other: reserve1 } : { own: reserve1, other: reserve0 };
    if (pool.style === "v2") return v2Sale(reserves, paid, fee);
    const units = isToken0 ? { own: unit0, other: unit1 } : { own: unit1, other: unit0 };
    return solidlySale(reserves, paid, fee, pool.stableCurve ? { units, isToken0 } : undefined);
  }

  const priceOf = (amount0: bigint, amount1: bigint): Rational =>
    priceOfToken0(pool, { style: "v2", reserve0: amount0, reserve1: amount1 }, decimals) ?? { n: 0n, d: 1n };

  const before = priceOf(reserve0, reserve1);

  /** True if the sale moves the price so far. */
  function reaches(paid: bigint, part: Rational, isToken0: boolean): boolean {
    const { kept, given } = sale(paid, isToken0);
    const after = isToken0 ? priceOf(reserve0 + kept, reserve1 - given) : priceOf(reserve0 - given, reserve1 + kept);
    return isToken0 ? compare(after, multiply(before, part)) <= 0 : compare(before, multiply(after, part)) <= 0;
  }

  return {
    sell(paid, isToken0) {
      const { given } = sale(paid, isToken0);
      if (given === 0n) throw new UnknownTrade("the pair gives nothing for so little");
      return given;
    },
    sellDownTo(part, isToken0) {
      let [low, high] = [0n, 1n];
      while (!reaches(high, part, isToken0)) [low, high] = [high, high * 2n];
      while (high - low > 1n) {
        const middle = (low + high) >> 1n;
        if (reaches(middle, part, isToken0)) high = middle;
        else low = middle;
      }
      return { paid: high, given: sale(high, isToken0).given };
    },
  };
}
