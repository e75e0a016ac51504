/**
 * Reads the logs of a block from its receipts, and proves that they are complete. The receipts' blooms must cover the
 * header's bloom, and the logs of each relevant receipt must make its bloom. Receipts may hold more than the header's
 * bloom: on Polygon the bridge's state-sync transaction is in no header.
 */
import { keccak256 } from "ethers";
import { LRUCache } from "lru-cache";
import { yieldToEventLoop } from "../core/background.ts";
import { verifyLogs } from "./decode/verify.ts";
import type { BlockHeader, ChainLog } from "./port.ts";
import { RpcError } from "./rpc-errors.ts";

// Checks a header's `logsBloom` against the logs that an endpoint gave. If the bloom names a contract and the endpoint
// gave no log of it, the block is in doubt. Each address and topic sets three of 2,048 bits (Ethereum Yellow Paper,
// section 4.3.1).

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
const watchedBloomBits = (address: string): Bits => bitsIn(watchedBits, address);

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
function bloomHas(bloom: string, bits: Bits): boolean {
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
class Bloom {
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
interface Watched {
  readonly addresses: readonly string[];
  readonly topics: readonly string[];
}

/** Returns the watched contracts that the block may have logs of, by its bloom. */
export function addressesInBloom({ logsBloom }: BlockHeader, { addresses, topics }: Watched): string[] {
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
    addressesInBloom(header, watched).some((address) => !seen.has(`${header.number}${address}`)),
  );
}

interface WireReceipt {
  readonly logs?: unknown;
  readonly logsBloom?: unknown;
}

const BLOOM = /^0x[0-9a-f]{512}$/;
const MAX_ASKED = 100;
/** Logs hashed in one slice: a millisecond. A hostile transaction can have ten thousand. */
const LOGS_AT_ONCE = 32;

/**
 * Returns the watched logs of an `eth_getBlockReceipts` answer, in order. Works in slices, with pauses for other work.
 * @throws RpcError `lie` if receipts and header contradict each other
 */
export async function logsOfReceipts(result: unknown, header: BlockHeader, watched: Watched): Promise<ChainLog[]> {
  if (!Array.isArray(result)) throw lie(header, "not a list");
  const wire = (result as WireReceipt[]).flatMap((receipt) => (Array.isArray(receipt?.logs) ? receipt.logs : []));
  const everything = { addresses: new Set<string>(), topics: new Set<string>() };
  const at = { fromBlock: header.number, toBlock: header.number };
  const logs = verifyLogs(wire, { ...everything, ...at });
  if (logs.some((log) => log.blockHash !== header.hash)) {
    throw new RpcError("transient", "the endpoint's receipts are of another block of that number", {
      meta: { block: header.number },
    });
  }
  let [covered, added] = [0n, 0];
  for (const receipt of result as WireReceipt[]) {
    const own = ownBloom(receipt, header);
    if (!matters(own, watched)) {
      covered |= BigInt(own);
      continue;
    }
    const bloom = new Bloom();
    for (const log of loweredLogs(receipt)) {
      bloom.add(log);
      if (++added % LOGS_AT_ONCE === 0) await yieldToEventLoop();
    }
    if (BLOOM.test(own) && bloom.value !== BigInt(own)) throw lie(header, "a receipt's logs do not make its bloom");
    covered |= bloom.value;
  }
  const claimed = BigInt(header.logsBloom);
  if ((claimed & covered) !== claimed) throw lie(header, "their logs do not cover the block's bloom");
  const [addresses, topics] = [new Set(watched.addresses), new Set(watched.topics)];
  return logs.filter((log) => addresses.has(log.address) && (topics.size === 0 || topics.has(log.topics[0] ?? "")));
}

/** Returns the receipt's own bloom in lower case; "" if it has none. */
function ownBloom(receipt: WireReceipt, header: BlockHeader): string {
  if (typeof receipt !== "object" || receipt === null) throw lie(header, "a receipt is not an object");
  return typeof receipt.logsBloom === "string" ? receipt.logsBloom.toLowerCase() : "";
}

/** True if a receipt's bloom must be recomputed: it names a watched contract, or is missing. */
function matters(own: string, { addresses }: Watched): boolean {
  // With more addresses than this, recomputing every bloom is less work than testing each address.
  if (!BLOOM.test(own) || addresses.length > MAX_ASKED) return true;
  return addresses.some((address) => bloomHas(own, watchedBloomBits(address)));
}

/** Yields a receipt's logs in lower case, as input for its bloom. */
function* loweredLogs({ logs }: WireReceipt): Generator<Pick<ChainLog, "address" | "topics">> {
  for (const { address, topics } of (Array.isArray(logs) ? logs : []) as { address: string; topics: string[] }[]) {
    yield {
      address: address.toLowerCase() as ChainLog["address"],
      topics: topics.map((topic) => topic.toLowerCase() as ChainLog["topics"][number]),
    };
  }
}

function lie(header: BlockHeader, reason: string): RpcError {
  return new RpcError("lie", `the endpoint's receipts are wrong: ${reason}`, { meta: { block: header.number } });
}
