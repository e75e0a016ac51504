/**
 * A header's `logsBloom` against the logs that came: a block that speaks of a contract although none of its logs is
 * there is in doubt. Three bits of 2,048 for each address and topic (Ethereum Yellow Paper, section 4.3.1).
 */
import { keccak256 } from "ethers";
import { LRUCache } from "lru-cache";
import type { BlockHeader, ChainLog } from "./port.ts";

type Bits = readonly [number, number, number];

/**
 * Addresses that are followed, and apart from them what blocks mention: one pass over the former must not be in vain.
 * Some 200 bytes each: 50 MB where a quarter of a million are followed.
 */
const watchedBits = new LRUCache<string, Bits>({ max: 250_000 });
const mentionedBits = new LRUCache<string, Bits>({ max: 20_000 });

/** The bits an address or topic (hex with 0x, lower case) sets. */
const bloomBits = (hex: string): Bits => bitsIn(mentionedBits, hex);

/** As `bloomBits`, of an address that is asked about block after block. */
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

/** Whether the bloom (0x and 512 hex digits, lower case) may hold what sets these bits; false is certain. */
export function bloomHas(bloom: string, bits: Bits): boolean {
  for (const bit of bits) {
    // Bit 0 is the lowest of the last digit.
    const code = bloom.charCodeAt(513 - (bit >> 2));
    const digit = code >= 97 ? code - 87 : code - 48;
    if ((digit & (1 << (bit & 3))) === 0) return false;
  }
  return true;
}

type BloomedLog = Pick<ChainLog, "address" | "topics">;

/** The bloom of logs, one after the other: up to five hashes each, some ten microseconds a hash. */
export class Bloom {
  readonly #words = new Uint8Array(256);

  add({ address, topics }: BloomedLog): void {
    for (const hex of [address, ...topics]) {
      for (const bit of bloomBits(hex)) this.#words[255 - (bit >> 3)]! |= 1 << (bit & 7);
    }
  }

  /** As a number. */
  get value(): bigint {
    return BigInt(`0x${Buffer.from(this.#words).toString("hex")}`);
  }
}

/** The bloom of these logs, as a number. */
export function bloomOf(logs: readonly BloomedLog[]): bigint {
  const bloom = new Bloom();
  for (const log of logs) bloom.add(log);
  return bloom.value;
}

/** Contracts and first topics whose logs are wanted; lower case. */
export interface Watched {
  readonly addresses: readonly string[];
  readonly topics: readonly string[];
}

/** Those of the watched contracts that the block may have logs of. */
export function spokenOf({ logsBloom }: BlockHeader, { addresses, topics }: Watched): string[] {
  if (topics.length > 0 && !topics.some((topic) => bloomHas(logsBloom, bloomBits(topic)))) return [];
  return addresses.filter((address) => bloomHas(logsBloom, watchedBloomBits(address)));
}

/** Blocks that may have logs of a watched contract of which none came. */
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
