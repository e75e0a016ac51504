/**
 * Reads the logs of a block from its receipts, and proves that they are complete. The receipts' blooms must cover the
 * header's bloom, and the logs of each relevant receipt must make its bloom. Receipts may hold more than the header's
 * bloom: on Polygon the bridge's state-sync transaction is in no header.
 */
import { otherWork } from "../core/own-thread.ts";
import { Bloom, bloomHas, type Watched, watchedBloomBits } from "./bloom.ts";
import { RpcError } from "./errors.ts";
import type { BlockHeader, ChainLog } from "./port.ts";
import { verifyLogs } from "./verify.ts";

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
  const logs = verifyLogs(wire, { ...everything, ...at }) as unknown as ChainLog[];
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
      if (++added % LOGS_AT_ONCE === 0) await otherWork();
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
