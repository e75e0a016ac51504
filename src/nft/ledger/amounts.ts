/**
 * Amounts of ERC-1155 tokens: a number while that is exact (below 2^53), a bigint above. So the fold and its columns
 * handle nearly all amounts without allocating a bigint. Pure arithmetic.
 */

export type Amount = number | bigint;

const shrink = (value: bigint): Amount => (value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value);

export function addAmounts(a: Amount, b: Amount): Amount {
  if (typeof a === "number" && typeof b === "number") {
    const sum = a + b;
    if (sum <= Number.MAX_SAFE_INTEGER) return sum;
  }
  return shrink(BigInt(a) + BigInt(b));
}

/** `a - b`; b must not be above a. */
export function subtractAmounts(a: Amount, b: Amount): Amount {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return shrink(BigInt(a) - BigInt(b));
}

export const isLess = (a: Amount, b: Amount): boolean => a < b;

/** The amount at `index` of a column with `words` little-endian u32 words per value. */
export function amountAt(values: Uint32Array, words: 1 | 2 | 8, index: number): Amount {
  const at = index * words;
  const low = values[at] as number;
  if (words === 1) return low;
  const high = values[at + 1] as number;
  let large = 0;
  for (let w = 2; w < words; w++) large |= values[at + w] as number;
  if (large === 0 && high < 0x20_0000) return high * 2 ** 32 + low;
  let value = 0n;
  for (let w = words - 1; w >= 0; w--) value = (value << 32n) | BigInt(values[at + w] as number);
  return shrink(value);
}
