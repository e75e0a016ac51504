/**
 * Repeatable randomness for histories and simulations on a local chain: the same seed gives the same sequence on every
 * machine. Not for anything that has to be unpredictable.
 */

export interface Random {
  /** A whole number from 0 to `bound` - 1. */
  below(bound: number): number;
  /** One of the items, which may not be empty. */
  pick<T>(items: readonly T[]): T;
}

/** A generator with 32 bits of state: a Weyl sequence, each step stirred by the finaliser of MurmurHash3. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    return (mixed ^ (mixed >>> 16)) >>> 0;
  };
  const below = (bound: number) => Math.floor((next() / 2 ** 32) * bound);
  return { below, pick: (items) => items[below(items.length)]! };
}
