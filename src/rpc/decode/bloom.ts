/**
 * Bloom filters over the addresses and topics of logs: the sets in headers and receipts that prove what has no log.
 */
import type { LRUCache } from "lru-cache";
import { countedCache } from "../../core/counted-cache.ts";
import type { Address } from "../../core/hex.ts";
import { keccakOf } from "../../core/keccak.ts";
import type { BlockHeader, Watched } from "../port.ts";

/** The bits of an address or topic: three of the bloom's 2,048 (Ethereum Yellow Paper, section 4.3.1). */
type Bits = readonly [number, number, number];

/**
 * Two caches of bits: followed addresses, and all other addresses and topics. They are separate so that a pass over the
 * followed addresses is not evicted. About 200 bytes per entry: 50 MB for a quarter of a million followed addresses.
 */
const watchedBits = countedCache<string, Bits>(250_000);
const mentionedBits = countedCache<string, Bits>(20_000);

/** Returns the bits that an address or topic sets (hex with 0x, lower case). */
function bitsIn(cache: LRUCache<string, Bits>, hex: string): Bits {
  let bits = cache.get(hex);
  if (bits === undefined) {
    const digits = keccakOf(hex);
    const at = (pair: number) => Number.parseInt(digits.slice(2 + pair * 4, 6 + pair * 4), 16) & 2_047;
    bits = [at(0), at(1), at(2)];
    cache.set(hex, bits);
  }
  return bits;
}

/** False if nothing that sets these bits is in the bloom (0x and 512 lower-case hex digits); true if it may be. */
function bloomHas(bloom: string, bits: Bits): boolean {
  for (const bit of bits) {
    // Bit 0 is the lowest bit of the last digit.
    const code = bloom.charCodeAt(513 - (bit >> 2));
    const digit = code >= 97 ? code - 87 : code - 48;
    if ((digit & (1 << (bit & 3))) === 0) return false;
  }
  return true;
}

/** The part of a log that its block's bloom covers. */
export interface BloomedLog {
  readonly address: string;
  readonly topics: readonly string[];
}

/** Builds the bloom of logs, one log at a time: up to five hashes per log, about four microseconds per hash. */
export class Bloom {
  readonly #words = new Uint8Array(256);

  add({ address, topics }: BloomedLog): void {
    for (const hex of [address, ...topics]) {
      for (const bit of bitsIn(mentionedBits, hex.toLowerCase())) this.#words[255 - (bit >> 3)]! |= 1 << (bit & 7);
    }
  }

  /** The bloom as a number. */
  get value(): bigint {
    return BigInt(`0x${Buffer.from(this.#words).toString("hex")}`);
  }
}

/** Returns the watched contracts that the block may have logs of, by its bloom. */
export function addressesInBloom(
  { logsBloom }: Pick<BlockHeader, "logsBloom">,
  { addresses, topics }: Watched,
): Address[] {
  if (topics.length > 0 && !topics.some((topic) => bloomHas(logsBloom, bitsIn(mentionedBits, topic)))) return [];
  return addresses.filter((address) => bloomHas(logsBloom, bitsIn(watchedBits, address)));
}

/** True if the bloom has all that the log sets in it. */
export const mayHold = (bloom: string, { address, topics }: BloomedLog): boolean =>
  bloomHas(bloom, bitsIn(watchedBits, address)) &&
  topics.every((topic) => bloomHas(bloom, bitsIn(mentionedBits, topic)));

/** True if the bloom has the contract. */
export const mayName = (bloom: string, address: string): boolean => bloomHas(bloom, bitsIn(watchedBits, address));

/** True if the bloom has the topic. */
export const mayHoldTopic = (bloom: string, topic: string): boolean => bloomHas(bloom, bitsIn(mentionedBits, topic));
