/**
 * Finds followed blocks in which an endpoint omitted logs of a contract. A bloom only says that a block has logs of the
 * contract. A transfer from an account that does not hold the token shows that an earlier transfer is missing. Reads
 * the receipts of the blocks in between, and compares them with the stream.
 */
import { numbersBetween } from "../chain/branch.ts";
import type { BlocksInDoubt } from "../collections/hot-collections.ts";
import type { Address } from "../core/hex.ts";
import { decodeTransfers, type TransferColumns } from "../events/columns.ts";
import {
  type BlockRef,
  type NftEvent,
  nftStream,
  type Recorded,
  type StreamName,
  type TransferForm,
} from "../events/types.ts";
import type { EventLog } from "../log/event-log.ts";
import { addressesInBloom } from "../rpc/block-logs.ts";
import { NFT_TOPICS } from "../rpc/decode/topics.ts";
import { decodeTransferLogs } from "../rpc/decode/transfers.ts";
import type { ChainReader } from "../rpc/port.ts";

/** Most blocks to check, the newest ones: an hour and a half of Ethereum. */
const MAX_BLOCKS = 512;
/** Events per page, read backwards. */
const PAGE = 64;

interface MissingOptions {
  readonly reader: ChainReader;
  readonly log: EventLog;
  readonly chainId: number;
  readonly address: Address;
  readonly forms: readonly TransferForm[];
}

/**
 * Returns the block before the first one that is stored other than in the receipts. Undefined if all are equal.
 * @throws AppError if the chain does not answer, or has no receipts
 */
export async function lastCompleteBlock(
  { reader, log, chainId, address, forms }: MissingOptions,
  { fromBlock, toBlock }: BlocksInDoubt,
): Promise<BlockRef | undefined> {
  const first = Math.max(fromBlock, toBlock - MAX_BLOCKS + 1, 1);
  const [before, ...headers] = await reader.presentHeaders(numbersBetween(first - 1, toBlock));
  const filter = { addresses: [address], topics: NFT_TOPICS };
  const spoken = headers.filter((header) => addressesInBloom(header, filter).length > 0);
  if (before === undefined || spoken.length === 0) return undefined;
  const range = { fromBlock: spoken[0]?.number ?? first, toBlock: spoken.at(-1)?.number ?? toBlock };
  const logs = await reader.completeLogs({ ...filter, ...range }, spoken, { strict: true });
  const there = linesByBlock(decodeTransfers(decodeTransferLogs(logs, forms).transfers));
  const held = new Map<number, string>();
  for (const columns of await columnsSince(log, nftStream(chainId, address), first)) {
    for (const [block, lines] of linesByBlock(columns)) held.set(block, (held.get(block) ?? "") + lines);
  }
  const wrong = spoken.find(({ number }) => there.get(number) !== held.get(number));
  if (wrong === undefined) return undefined;
  const last = wrong.number === first ? before : headers[wrong.number - first - 1];
  return last && { number: last.number, hash: last.hash };
}

/** Returns the transfers of the stream's newest ranges back to a block, in order, without reverted ones. */
async function columnsSince(log: EventLog, stream: StreamName, block: number): Promise<TransferColumns[]> {
  const found: TransferColumns[] = [];
  let end = Number.POSITIVE_INFINITY;
  for (let before: number | undefined; ; ) {
    const page = await log.readBackwards(stream, { limit: PAGE, ...(before === undefined ? {} : { before }) });
    for (const { event } of page as Recorded<NftEvent>[]) {
      if (event.type === "BlocksReverted") end = Math.min(end, event.ancestor.number);
      if (event.type !== "TransfersCommitted" || event.fromBlock > end) continue;
      if (event.toBlock < block) return found.reverse();
      if (event.count > 0) found.push(decodeTransfers(event.transfers));
    }
    before = page.at(-1)?.version;
    if (before === undefined || before === 1) return found.reverse();
  }
}

/** Returns each block's transfers as text, for comparison. */
function linesByBlock(columns: TransferColumns): Map<number, string> {
  const { count, blocks, logIndexes, kinds, from, to, ids, amounts, addresses } = columns;
  const hex = Buffer.from(addresses).toString("hex");
  const addressAt = (index: number) => hex.slice(index * 40, index * 40 + 40);
  const words = ({ values, words: width }: TransferColumns["ids"], at: number) =>
    [...values.subarray(at * width, (at + 1) * width)].join().replace(/(?:,0)+$/, "");
  const lines = new Map<number, string>();
  for (let i = 0; i < count; i++) {
    const parts = [logIndexes[i], kinds[i], addressAt(from[i]!), addressAt(to[i]!), words(ids, i), words(amounts, i)];
    lines.set(blocks[i]!, `${lines.get(blocks[i]!) ?? ""}${parts.join(" ")};`);
  }
  return lines;
}
