/** Trades with pairs of reserves, by what their style says that a pair gives. Pure. */
import { type Decimals, type Pool, priceOfToken0, type Reading } from "../market/pools.ts";
import { compare, multiply, type Rational } from "../market/rational.ts";
import type { ExactTrades, PairSale } from "../styles/style.ts";
import { MILLION, TOO_MUCH, type Tradable, UnknownTrade } from "../styles/trade.ts";

type PairTrades = ExactTrades & { readonly kind: "reserves" };

/** More than any token's supply, so that searches end; 36 decimals of a trillion have 160 bits. */
const MAX_AMOUNT = 1n << 200n;

/** A pair whose style says what it gives. @throws UnknownTrade if its fee is not known */
export function pairAt(
  pool: Pool,
  reading: Reading & { readonly style: "v2" },
  decimals: Decimals,
  saleOf: PairTrades["sale"],
): Tradable {
  const fee = BigInt(pool.fee);
  if (fee <= 0n || fee >= MILLION) throw new UnknownTrade("the fee of the pair is not known");
  const [unit0, unit1] = [10n ** BigInt(decimals.decimals0), 10n ** BigInt(decimals.decimals1)];
  const { reserve0, reserve1 } = reading;

  function sale(paid: bigint, isToken0: boolean): PairSale {
    if (paid > MAX_AMOUNT) throw new UnknownTrade(TOO_MUCH);
    const reserves = isToken0 ? { own: reserve0, other: reserve1 } : { own: reserve1, other: reserve0 };
    const units = isToken0 ? { own: unit0, other: unit1 } : { own: unit1, other: unit0 };
    return saleOf(reserves, paid, fee, pool.stableCurve ? { units, isToken0 } : undefined);
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
