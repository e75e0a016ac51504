import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { ZERO_ADDRESS } from "../../src/core/hex.ts";
import { depth, type Observation, priceOfToken0, type Reading } from "../../src/prices/market/pools.ts";
import {
  compare,
  divide,
  invert,
  multiply,
  ONE,
  powerOfTen,
  type Rational,
  rational,
  subtract,
} from "../../src/prices/market/rational.ts";
import knownPrices from "../fixtures/known-prices.json";

interface Known {
  readonly chain: string;
  readonly block: number;
  readonly label?: string;
  readonly pool: string;
  readonly decimals0: number;
  readonly decimals1: number;
  readonly price_token1_per_token0: string;
  readonly price_token0_per_token1?: string;
  readonly reserve0?: string;
  readonly reserve1?: string;
  readonly sqrtPriceX96?: string;
  readonly liquidity?: string;
  readonly tick?: number;
}

const plain = { stableCurve: false };

function readingOf(known: Known): Reading {
  return known.reserve0 === undefined
    ? {
        style: "v3",
        sqrtPriceX96: BigInt(known.sqrtPriceX96!),
        liquidity: BigInt(known.liquidity ?? 0),
        tick: known.tick ?? 0,
      }
    : { style: "v2", reserve0: BigInt(known.reserve0), reserve1: BigInt(known.reserve1!) };
}

/** Compares to as many places as the text has, cut off or rounded to nearest, as the fixture was made. */
function expectDigits(value: Rational, text: string): void {
  const places = text.split(".")[1]!.length;
  const scaled = multiply(value, powerOfTen(places));
  const expected = BigInt(text.replace(".", ""));
  const rounded = (scaled.n * 2n + scaled.d) / (scaled.d * 2n);
  expect([scaled.n / scaled.d, rounded]).toContain(expected);
}

describe("the recorded states of real pools", () => {
  const known = (knownPrices as readonly Known[]).filter((entry) => entry.reserve0 ?? entry.sqrtPriceX96);

  test("are used for both styles, except the one recorded without reserves", () => {
    expect([knownPrices.length, known.length]).toEqual([13, 12]);
    expect(new Set(known.map((entry) => readingOf(entry).style))).toEqual(new Set(["v2", "v3"]));
  });

  test.each(known)("give the recorded price to the last digit: $chain $block $label", (entry) => {
    const price = priceOfToken0(plain, readingOf(entry), entry)!;
    expectDigits(price, entry.price_token1_per_token0);
    if (entry.price_token0_per_token1 !== undefined) expectDigits(invert(price), entry.price_token0_per_token1);
  });
});

const amount = fc.bigInt({ min: 1n, max: 2n ** 112n - 1n });
const decimals = fc.record({ decimals0: fc.integer({ min: 0, max: 36 }), decimals1: fc.integer({ min: 0, max: 36 }) });
const sqrtPrice = fc.bigInt({ min: 4_295_128_739n, max: 2n ** 160n - 1n });
const reading: fc.Arbitrary<Reading> = fc.oneof(
  fc.record({ style: fc.constant("v2" as const), reserve0: amount, reserve1: amount }),
  fc.record({
    style: fc.constant("v3" as const),
    sqrtPriceX96: sqrtPrice,
    liquidity: amount,
    tick: fc.integer({ min: -887_272, max: 887_272 }),
  }),
);

const observation = (state: Reading, balances?: [bigint, bigint]): Observation => ({
  reading: state,
  ...(balances === undefined ? {} : { balance0: balances[0], balance1: balances[1] }),
  block: 1,
  blockHash: ZERO_ADDRESS as never,
  timestamp: 1,
});

describe("the price of a pool", () => {
  test("makes both sides worth the same", () => {
    fc.assert(
      fc.property(reading, decimals, (state, places) => {
        const price = priceOfToken0(plain, state, places)!;
        const sides = depth(plain, observation(state), places)!;
        expect(compare(multiply(sides.side0, price), sides.side1)).toBe(0);
      }),
    );
  });

  test("does not depend on the order of the tokens", () => {
    fc.assert(
      fc.property(amount, amount, decimals, fc.boolean(), (a, b, { decimals0, decimals1 }, stableCurve) => {
        const one = priceOfToken0(
          { stableCurve },
          { style: "v2", reserve0: a, reserve1: b },
          { decimals0, decimals1 },
        )!;
        const swapped = { decimals0: decimals1, decimals1: decimals0 };
        const other = priceOfToken0({ stableCurve }, { style: "v2", reserve0: b, reserve1: a }, swapped)!;
        expect(compare(multiply(one, other), ONE)).toBe(0);
      }),
    );
  });

  test("changes with decimals only by powers of ten", () => {
    fc.assert(
      fc.property(reading, decimals, (state, places) => {
        const raw = priceOfToken0(plain, state, { decimals0: 0, decimals1: 0 })!;
        const whole = priceOfToken0(plain, state, places)!;
        expect(compare(divide(whole, raw), powerOfTen(places.decimals0 - places.decimals1))).toBe(0);
      }),
    );
  });

  test("comes with a depth that is never more than the pool's balance", () => {
    fc.assert(
      fc.property(reading, amount, amount, (state, held0, held1) => {
        const none = { decimals0: 0, decimals1: 0 };
        const sides = depth(plain, observation(state, [held0, held1]), none)!;
        expect(compare(sides.side0, rational(held0))).toBeLessThanOrEqual(0);
        expect(compare(sides.side1, rational(held1))).toBeLessThanOrEqual(0);
      }),
    );
  });

  test("is undefined for an empty pool", () => {
    const none = { decimals0: 18, decimals1: 18 };
    expect(priceOfToken0(plain, { style: "v2", reserve0: 0n, reserve1: 5n }, none)).toBeUndefined();
    expect(priceOfToken0(plain, { style: "v3", sqrtPriceX96: 0n, liquidity: 5n, tick: 0 }, none)).toBeUndefined();
  });
});

describe("the price on the stable curve", () => {
  /** Output of token1 for `dx` of token0 while x³y + y³x is constant, to 30 digits, by bisection. */
  function swapped(x: bigint, y: bigint, dx: bigint): bigint {
    const invariantAt = (a: bigint, b: bigint): bigint => a ** 3n * b + b ** 3n * a;
    const target = invariantAt(x, y);
    let low = 0n;
    let high = y;
    while (high - low > 1n) {
      const middle = (low + high) / 2n;
      if (invariantAt(x + dx, y - middle) >= target) low = middle;
      else high = middle;
    }
    return low;
  }

  test("is one for equal reserves, whatever the decimals", () => {
    const price = priceOfToken0(
      { stableCurve: true },
      { style: "v2", reserve0: 5n * 10n ** 12n, reserve1: 5n * 10n ** 24n },
      { decimals0: 6, decimals1: 18 },
    )!;
    expect(compare(price, ONE)).toBe(0);
  });

  test("is the price of a small trade", () => {
    const scale = 10n ** 40n;
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1_000 }), fc.integer({ min: 1, max: 1_000 }), (a, b) => {
        const reading = { style: "v2", reserve0: BigInt(a), reserve1: BigInt(b) } as const;
        const price = priceOfToken0({ stableCurve: true }, reading, { decimals0: 0, decimals1: 0 })!;
        const dx = 10n ** 25n;
        const got = rational(swapped(BigInt(a) * scale, BigInt(b) * scale, dx), dx);
        const error = divide(subtract(got, price), price);
        expect(compare(error, rational(1n, 10n ** 11n))).toBeLessThan(0);
        expect(compare(error, rational(-1n, 10n ** 11n))).toBeGreaterThan(0);
      }),
      { numRuns: 50 },
    );
  });
});
