import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  compare,
  divide,
  format,
  formatDouble,
  multiply,
  parseDecimal,
  powerOfTen,
  rational,
  shorten,
  toDouble,
  truncate,
} from "../../src/prices/market/rational.ts";

/** The exact value of a double as a fraction. */
function exact(value: number): { n: bigint; d: bigint } {
  let d = 1n;
  let scaled = value;
  while (!Number.isInteger(scaled)) {
    scaled *= 2;
    d *= 2n;
  }
  return { n: BigInt(scaled), d };
}

const numerator = fc.bigInt({ min: -(2n ** 400n), max: 2n ** 400n });
const denominator = fc.bigInt({ min: 1n, max: 2n ** 400n });

describe("toDouble", () => {
  test("returns every double unchanged", () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
        const { n, d } = exact(value);
        expect(toDouble({ n, d })).toBe(value === 0 ? 0 : value);
      }),
      { numRuns: 500 },
    );
  });

  test("is at least as near to the fraction as the neighbouring doubles", () => {
    const view = new DataView(new ArrayBuffer(8));
    const neighbours = (value: number): number[] => {
      view.setFloat64(0, value);
      const bits = view.getBigUint64(0);
      return [bits - 1n, bits + 1n].map((other) => {
        view.setBigUint64(0, other);
        return view.getFloat64(0);
      });
    };
    const distance = (fraction: { n: bigint; d: bigint }, value: number) => {
      const other = exact(value);
      const gap = fraction.n * other.d - other.n * fraction.d;
      return rational(gap < 0n ? -gap : gap, fraction.d * other.d);
    };
    fc.assert(
      fc.property(denominator, denominator, (n, d) => {
        const value = toDouble({ n, d });
        const own = distance({ n, d }, value);
        for (const other of neighbours(value)) expect(compare(own, distance({ n, d }, other))).toBeLessThanOrEqual(0);
      }),
      { numRuns: 300 },
    );
  });

  test("equals the language's division if both operands are exact, down to the smallest double", () => {
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 1 }), (a, b) => {
        expect(toDouble(rational(BigInt(a), BigInt(b)))).toBe(a / b === 0 ? 0 : a / b);
      }),
    );
    expect(toDouble(powerOfTen(-400))).toBe(0);
    expect(toDouble(powerOfTen(-320))).toBe(1e-320);
    expect(toDouble(rational(1n, 1n << 1074n))).toBe(Number.MIN_VALUE);
    expect(toDouble(rational(1n, 1n << 1075n))).toBe(0);
    expect(toDouble(rational(3n, 1n << 1075n))).toBe(2 * Number.MIN_VALUE);
    expect(toDouble(powerOfTen(308))).toBe(1e308);
    expect(toDouble(powerOfTen(309))).toBe(Number.POSITIVE_INFINITY);
  });
});

describe("formatDouble", () => {
  test("parses back to the same double and has no exponent", () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
        const text = formatDouble(value);
        expect(text).toMatch(/^-?\d+(\.\d+)?$/);
        expect(Number(text)).toBe(value === 0 ? 0 : value);
      }),
    );
    expect(formatDouble(1e-7)).toBe("0.0000001");
    expect(formatDouble(1.5e-10)).toBe("0.00000000015");
    expect(formatDouble(1.5e21)).toBe("1500000000000000000000");
    expect(formatDouble(123456789012345680000)).toBe("123456789012345680000");
    expect(format(rational(-1n, 8n))).toBe("-0.125");
  });
});

describe("arithmetic", () => {
  test("multiplies and divides as inverse operations", () => {
    fc.assert(
      fc.property(numerator, denominator, denominator, denominator, (a, b, c, d) => {
        expect(compare(divide(multiply({ n: a, d: b }, { n: c, d }), { n: c, d }), { n: a, d: b })).toBe(0);
      }),
    );
  });

  test("truncates toward zero", () => {
    expect([rational(7n, 2n), rational(-7n, 2n), rational(7n, -2n)].map(truncate)).toEqual([3n, -3n, -3n]);
  });

  test("shortens a fraction within the requested precision in bits", () => {
    fc.assert(
      fc.property(denominator, denominator, (n, d) => {
        const short = shorten({ n, d }, 100);
        const error = divide(rational(n * short.d - short.n * d, d * short.d), { n, d });
        expect(compare(error, rational(1n, 1n << 98n))).toBeLessThan(0);
        expect(compare(error, rational(-1n, 1n << 98n))).toBeGreaterThan(0);
      }),
    );
  });

  test("parses decimals exactly, and nothing else", () => {
    expect(parseDecimal("500.25")).toEqual({ n: 50_025n, d: 100n });
    expect(parseDecimal("0")).toEqual({ n: 0n, d: 1n });
    for (const text of ["", "-1", "+1", "1e3", ".5", "5.", "0x10", "１", "1,5", "NaN", " 1", "1\n"]) {
      expect(parseDecimal(text)).toBeUndefined();
    }
  });
});
