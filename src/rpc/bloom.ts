/**
 * Checks a header's `logsBloom` against the logs that an endpoint gave. If the bloom names a contract and the endpoint
 * gave no log of it, the block is in doubt. Each address and topic sets three of 2,048 bits (Ethereum Yellow Paper,
 * section 4.3.1).
 */
import { keccak256 } from "ethers";
import { LRUCache } from "lru-cache";
import type { BlockHeader, ChainLog } from "./port.ts";

type Bits = readonly [number, number, number];

/**
 * Two caches of bits: followed addresses, and all other addresses and topics. They are separate so that a pass over the
 * followed addresses is not evicted. About 200 bytes per entry: 50 MB for a quarter of a million followed addresses.
 */
const watchedBits = new LRUCache<string, Bits>({ max: 250_000 });
const mentionedBits = new LRUCache<string, Bits>({ max: 20_000 });

/** The bits that an address or topic sets (hex with 0x, lower case). */
const bloomBits = (hex: string): Bits => bitsIn(mentionedBits, hex);

/** Like `bloomBits`, for an address that is checked block after block. */
export const watchedBloomBits = (address: string): Bits => bitsIn(watchedBits, address);

function bitsIn(cache: LRUCache<string, Bits>, hex: string): Bits {
  let bits = cache.get(hex);
  if (bits === undefined) {
    const digits = keccak256(hex);
    const at = (pair: number) => Number.parseInt(digits.slice(2 + pair * 4, 6 + pair * 4), 16) & 2_047;
    bits = [at(0), at(1), at(2)];
    cache.set(hex, bits);
  }
  return bits;
}

/** False if nothing that sets these bits is in the bloom (0x and 512 lower-case hex digits); true if it may be. */
export function bloomHas(bloom: string, bits: Bits): boolean {
  for (const bit of bits) {
    // Bit 0 is the lowest bit of the last digit.
    const code = bloom.charCodeAt(513 - (bit >> 2));
    const digit = code >= 97 ? code - 87 : code - 48;
    if ((digit & (1 << (bit & 3))) === 0) return false;
  }
  return true;
}

type BloomedLog = Pick<ChainLog, "address" | "topics">;

/** Builds the bloom of logs, one log at a time: up to five hashes per log, about ten microseconds per hash. */
export class Bloom {
  readonly #words = new Uint8Array(256);

  add({ address, topics }: BloomedLog): void {
    for (const hex of [address, ...topics]) {
      for (const bit of bloomBits(hex)) this.#words[255 - (bit >> 3)]! |= 1 << (bit & 7);
    }
  }

  /** The bloom as a number. */
  get value(): bigint {
    return BigInt(`0x${Buffer.from(this.#words).toString("hex")}`);
  }
}

/** Returns the bloom of these logs as a number. */
export function bloomOf(logs: readonly BloomedLog[]): bigint {
  const bloom = new Bloom();
  for (const log of logs) bloom.add(log);
  return bloom.value;
}

/** Contracts and first topics of the requested logs, in lower case. */
export interface Watched {
  readonly addresses: readonly string[];
  readonly topics: readonly string[];
}

/** Returns the watched contracts that the block may have logs of, by its bloom. */
export function spokenOf({ logsBloom }: BlockHeader, { addresses, topics }: Watched): string[] {
  if (topics.length > 0 && !topics.some((topic) => bloomHas(logsBloom, bloomBits(topic)))) return [];
  return addresses.filter((address) => bloomHas(logsBloom, watchedBloomBits(address)));
}

/** Returns the blocks whose bloom names a watched contract of which there is no log. */
export function doubtfulBlocks(
  headers: readonly BlockHeader[],
  watched: Watched,
  logs: readonly ChainLog[],
): BlockHeader[] {
  const seen = new Set(logs.map((log) => `${log.blockNumber}${log.address}`));
  return headers.filter((header) =>
    spokenOf(header, watched).some((address) => !seen.has(`${header.number}${address}`)),
  );
}
