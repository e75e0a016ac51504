/**
 * All logs of a block out of its receipts, which is what a bloom filter cannot be argued with: the receipts' own blooms
 * must cover the header's, and the logs of each receipt that matters must cover its bloom. Receipts may hold more than
 * the header's bloom: on Polygon the bridge's state-sync transaction is in no header.
 */
import { bloomHas, bloomOf, type Watched, watchedBloomBits } from "./bloom.ts";
import { RpcError } from "./errors.ts";
import type { BlockHeader, ChainLog } from "./port.ts";
import { verifyLogs } from "./verify.ts";

interface WireReceipt {
  readonly logs?: unknown;
  readonly logsBloom?: unknown;
}

const BLOOM = /^0x[0-9a-f]{512}$/;
const MAX_ASKED = 100;

/** The watched logs in an `eth_getBlockReceipts` answer, in order. @throws RpcError `lie` when they do not add up */
export function logsOfReceipts(result: unknown, header: BlockHeader, watched: Watched): ChainLog[] {
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
  let covered = 0n;
  for (const receipt of result as WireReceipt[]) covered |= checkedBloom(receipt, header, watched);
  const claimed = BigInt(header.logsBloom);
  if ((claimed & covered) !== claimed) throw lie(header, "they do not add up to the block's bloom");
  const [addresses, topics] = [new Set(watched.addresses), new Set(watched.topics)];
  return logs.filter((log) => addresses.has(log.address) && (topics.size === 0 || topics.has(log.topics[0] ?? "")));
}

/** A receipt's bloom, recomputed where it speaks of a watched contract or is missing. */
function checkedBloom(receipt: WireReceipt, header: BlockHeader, watched: Watched): bigint {
  if (typeof receipt !== "object" || receipt === null) throw lie(header, "one of them is none");
  const own = typeof receipt.logsBloom === "string" ? receipt.logsBloom.toLowerCase() : "";
  // Beyond so many, to make the blooms anew is less work than to ask each for all that are followed.
  const matters =
    !BLOOM.test(own) ||
    watched.addresses.length > MAX_ASKED ||
    watched.addresses.some((address) => bloomHas(own, watchedBloomBits(address)));
  if (!matters) return BigInt(own);
  const logs = (Array.isArray(receipt.logs) ? receipt.logs : []) as { address: string; topics: string[] }[];
  const lower = logs.map(({ address, topics }) => ({
    address: address.toLowerCase() as ChainLog["address"],
    topics: topics.map((topic) => topic.toLowerCase() as ChainLog["topics"][number]),
  }));
  const computed = bloomOf(lower);
  if (BLOOM.test(own) && computed !== BigInt(own)) throw lie(header, "a receipt's logs do not make its bloom");
  return computed;
}

function lie(header: BlockHeader, reason: string): RpcError {
  return new RpcError("lie", `the endpoint's receipts are wrong: ${reason}`, { meta: { block: header.number } });
}
