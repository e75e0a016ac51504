/**
 * Hash function with a random seed per process. A contract chooses the ids and addresses that are hashed, and must not
 * be able to force collisions. Hashes only select places in tables, never results.
 */

export const SEED = crypto.getRandomValues(new Int32Array(1))[0] as number;

/** Mixes a word into a hash (steps of murmur3's finaliser). Cheap, and spreads sequential ids. */
export function mix(hash: number, word: number): number {
  let h = Math.imul(hash ^ word, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return h ^ (h >>> 16);
}
