/**
 * Times of blocks. Chains count seconds since 1970; some nodes and archives tell milli-, micro- or nanoseconds. The unit
 * follows from the size: each step is a factor of a thousand, and no block is older than 1970 or younger than 5138.
 */

/** Seconds below this: the year 5138. As milliseconds it is 1973, when there was no chain. */
const MAX_SECONDS = 10n ** 11n;
/** Nanoseconds below this. */
const MAX_TIME = MAX_SECONDS * 10n ** 9n;

/** Returns whole seconds of a time in any of the four units; undefined if it is a time in none of them. */
export function secondsIn(time: bigint | number): number | undefined {
  if (typeof time === "number" && !Number.isSafeInteger(time)) return undefined;
  let seconds = BigInt(time);
  if (seconds < 0n || seconds >= MAX_TIME) return undefined;
  while (seconds >= MAX_SECONDS) seconds /= 1_000n;
  return Number(seconds);
}

/** Reads the time of a header as a node sends it, in seconds. @throws TypeError if it is none */
export function parseBlockTime(value: unknown): number {
  const isQuantity = typeof value === "string" && /^0x[0-9a-fA-F]{1,32}$/.test(value);
  const seconds = isQuantity ? secondsIn(BigInt(value)) : undefined;
  if (seconds === undefined) throw new TypeError("not a block's time");
  return seconds;
}

/** The time of a block as ISO 8601; undefined if it is none, as only a damaged record can have. */
export function isoTime(seconds: number): string | undefined {
  const known = secondsIn(seconds);
  return known === undefined ? undefined : new Date(known * 1_000).toISOString();
}
