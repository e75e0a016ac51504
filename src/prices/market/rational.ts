/**
 * Exact rationals over bigint. Prices use them from end to end and are rounded once, for display: to the nearest
 * double, to an integer toward zero, or to the shortest decimal of a double. Denominators are positive. Fractions are
 * not reduced, since the chains of products here are short; `shorten` cuts long sums.
 */

export interface Rational {
  readonly n: bigint;
  readonly d: bigint;
}

export const ZERO: Rational = { n: 0n, d: 1n };
export const ONE: Rational = { n: 1n, d: 1n };

/** Returns `n / d` with the sign in the numerator. @throws RangeError when `d` is zero */
export function rational(n: bigint, d: bigint = 1n): Rational {
  if (d === 0n) throw new RangeError("the denominator of a rational must not be zero");
  return d < 0n ? { n: -n, d: -d } : { n, d };
}

export const add = (a: Rational, b: Rational): Rational => ({ n: a.n * b.d + b.n * a.d, d: a.d * b.d });
export const subtract = (a: Rational, b: Rational): Rational => ({ n: a.n * b.d - b.n * a.d, d: a.d * b.d });
export const multiply = (a: Rational, b: Rational): Rational => ({ n: a.n * b.n, d: a.d * b.d });
/** @throws RangeError when `b` is zero */
export const divide = (a: Rational, b: Rational): Rational => rational(a.n * b.d, a.d * b.n);
export const invert = (a: Rational): Rational => rational(a.d, a.n);
export const absolute = (a: Rational): Rational => (a.n < 0n ? { n: -a.n, d: a.d } : a);

/** Returns a negative number, zero or a positive number when `a` is less than, equal to or greater than `b`. */
export function compare(a: Rational, b: Rational): number {
  const difference = a.n * b.d - b.n * a.d;
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

export const minimum = (a: Rational, b: Rational): Rational => (compare(a, b) <= 0 ? a : b);
export const maximum = (a: Rational, b: Rational): Rational => (compare(a, b) >= 0 ? a : b);

/** Ten to the power of `exponent`, which may be negative. */
export function powerOfTen(exponent: number): Rational {
  const power = 10n ** BigInt(Math.abs(exponent));
  return exponent >= 0 ? { n: power, d: 1n } : { n: 1n, d: power };
}

/** Parses a decimal like `12`, `0.5` or `500.25`. Signs, exponents and non-ASCII digits give undefined. */
export function parseDecimal(text: string): Rational | undefined {
  const match = /^([0-9]{1,60})(?:\.([0-9]{1,60}))?$/.exec(text);
  if (match === null) return undefined;
  const fraction = match[2] ?? "";
  return { n: BigInt(`${match[1]}${fraction}`), d: 10n ** BigInt(fraction.length) };
}

/** Rounds toward zero. */
export const truncate = (a: Rational): bigint => a.n / a.d;

export const bitLength = (value: bigint): number => value.toString(2).length;

/** Bits kept before the last rounding. Far enough above 53 that the sticky bit is never the rounding bit. */
const WORK_BITS = 66;
/** Doubles below 2^-1022 are subnormal: multiples of 2^-1074. */
const NORMAL_BITS = 1022n;
const GRID_BITS = 1074n;

/** Returns the nearest double, ties to even; infinity above the range of doubles. */
export function toDouble(value: Rational): number {
  if (value.n === 0n) return 0;
  const magnitude = value.n < 0n ? -value.n : value.n;
  const sign = value.n < 0n ? -1 : 1;
  if (magnitude << NORMAL_BITS < value.d) {
    return sign * Number(roundHalfEven(magnitude << GRID_BITS, value.d)) * Number.MIN_VALUE;
  }
  const shift = WORK_BITS - (bitLength(magnitude) - bitLength(value.d));
  const numerator = shift >= 0 ? magnitude << BigInt(shift) : magnitude;
  const denominator = shift >= 0 ? value.d : value.d << BigInt(-shift);
  const quotient = numerator / denominator;
  const sticky = quotient * denominator === numerator ? quotient : quotient | 1n;
  // Number() of a bigint rounds to nearest, ties to even; scaling by powers of two is exact for normal results.
  const half = Math.trunc(-shift / 2);
  return sign * Number(sticky) * 2 ** half * 2 ** (-shift - half);
}

function roundHalfEven(numerator: bigint, denominator: bigint): bigint {
  const quotient = numerator / denominator;
  const twice = (numerator - quotient * denominator) * 2n;
  if (twice > denominator || (twice === denominator && (quotient & 1n) === 1n)) return quotient + 1n;
  return quotient;
}

/** Returns the shortest decimal that parses back to `value`, without an exponent. */
export function formatDouble(value: number): string {
  const text = String(value);
  const match = /^(-?)(\d+)(?:\.(\d+))?e([+-]\d+)$/.exec(text);
  if (match === null) return text;
  const [, sign = "", whole = "", fraction = "", power = "0"] = match;
  const digits = whole + fraction;
  const point = whole.length + Number(power);
  if (point <= 0) return `${sign}0.${"0".repeat(-point)}${digits}`;
  return `${sign}${digits.padEnd(point, "0")}`;
}

/** The nearest double of `value`, as its shortest decimal. */
export const format = (value: Rational): string => formatDouble(toDouble(value));

/** Cuts the value to `bits` significant bits, so that long sums stay small. Relative error below 2^(1 - bits). */
export function shorten(value: Rational, bits: number): Rational {
  const excess = Math.min(bitLength(value.n < 0n ? -value.n : value.n), bitLength(value.d)) - bits;
  if (excess <= 0) return value;
  return { n: value.n >> BigInt(excess), d: value.d >> BigInt(excess) };
}
