/**
 * Of this process's hashes: who chooses what is hashed, as a contract does with ids and addresses, must not know what
 * comes to lie in one place. Nothing but that place goes by it.
 */
export const SEED = crypto.getRandomValues(new Int32Array(1))[0] as number;

/** Mixes a word into a hash (murmur3's finaliser steps): cheap, and spreads sequential ids. */
export function mix(hash: number, word: number): number {
  let h = Math.imul(hash ^ word, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return h ^ (h >>> 16);
}
