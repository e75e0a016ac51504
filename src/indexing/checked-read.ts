/**
 * Stricter reads for the backfill: history checked against headers and receipts, and a range compared with a second
 * endpoint's answer. Never returns an answer in doubt, and benches its endpoint.
 */
import { firstUnlinked, numbersBetween } from "../chain/branch.ts";
import type { Clock } from "../core/clock.ts";
import type { Address, Hash } from "../core/hex.ts";
import { decodeTransfers } from "../events/columns.ts";
import type { BlockRef, TransferForm } from "../events/types.ts";
import { NFT_TOPICS } from "../rpc/decode/topics.ts";
import { decodeTransferLogs } from "../rpc/decode/transfers.ts";
import type { BlockHeader, ChainLog, DecodedRange, Endpoint, LogFilter, Verify } from "../rpc/port.ts";
import type { RpcChainReader, TransferFilter } from "../rpc/reader.ts";
import { RpcError } from "../rpc/rpc-errors.ts";

// Input of a backfill: the contract, the range of blocks, the reader, and how strictly answers are checked.

export interface BackfillTask {
  readonly reader: RpcChainReader;
  readonly clock: Clock;
  readonly verify: Verify;
  readonly address: Address;
  readonly forms: readonly TransferForm[];
  readonly fromBlock: number;
  /** The last block to read. It is final, so that no block of the history can be reverted. */
  readonly final: BlockRef;
  /** The endpoint that has already shown that block. */
  readonly shownBy?: Endpoint | undefined;
  readonly signal: AbortSignal;
  readonly onMalformed: (count: number) => void;
}

/**
 * Reads logs of final blocks and checks each block against its header.
 * @param linkedTo a later block; headers are read up to it and must link to it
 * @throws RpcError if headers and logs contradict each other
 */
export async function readChecked(
  reader: RpcChainReader,
  filter: LogFilter,
  { strict, linkedTo }: { strict: boolean; linkedTo: BlockRef | undefined },
): Promise<{ logs: ChainLog[]; toHash: Hash }> {
  const { fromBlock, toBlock } = filter;
  const last = linkedTo?.number ?? toBlock;
  const all = await reader.presentHeaders(numbersBetween(fromBlock, last));
  const headers = all.slice(0, toBlock - fromBlock + 1);
  if (linkedTo !== undefined && all.at(-1)?.hash !== linkedTo.hash) {
    throw new RpcError("transient", "the endpoint is on another branch", { meta: { block: linkedTo.number } });
  }
  const unlinked = firstUnlinked(all);
  if (unlinked !== undefined) {
    throw new RpcError("transient", "the endpoint's headers are not linked", { meta: { block: unlinked.number } });
  }
  const logs = await reader.completeLogs(filter, headers, { strict });
  for (const { blockNumber, blockHash } of logs) {
    if (headers[blockNumber - fromBlock]?.hash !== blockHash) {
      throw new RpcError("transient", "the block hash of a log differs from the header's", {
        meta: { block: blockNumber },
      });
    }
  }
  return { logs, toHash: (headers.at(-1) as BlockHeader).hash };
}

/**
 * Compares a decoded answer with a second endpoint's answer for the same range. If they differ, the receipts of the
 * affected blocks decide, and the endpoint that they contradict is benched.
 * @throws RpcError `transient` if the receipts contradict both
 */
export async function compareWithSecond(
  task: BackfillTask,
  filter: TransferFilter,
  first: { decoded: DecodedRange; endpoint: Endpoint },
): Promise<DecodedRange> {
  const { reader, forms, signal } = task;
  const { fromBlock, toBlock } = filter;
  const second = await secondOpinion(task, filter, first.endpoint, signal);
  if (second === undefined || sameBytes(first.decoded.transfers, second.decoded.transfers)) return first.decoded;
  const blocks = blocksThatDiffer(first.decoded.transfers, second.decoded.transfers);
  const asked = { addresses: [filter.address], topics: NFT_TOPICS, fromBlock, toBlock };
  const logs = await reader.completeLogs(asked, await reader.presentHeaders(blocks), { strict: true });
  const { transfers } = decodeTransferLogs(logs, forms);
  const [right, wrong] = sameBytes(transfers, first.decoded.transfers) ? [first, second] : [second, first];
  reader.benchLiar(wrong.endpoint);
  if (!sameBytes(transfers, right.decoded.transfers)) {
    reader.benchLiar(right.endpoint);
    throw new RpcError("transient", "two endpoints disagree, and the receipts contradict both", {
      meta: { fromBlock, toBlock },
    });
  }
  return right.decoded;
}

/** Returns a second endpoint's decoded answer. Undefined if there is no second endpoint, or it refuses. */
async function secondOpinion(
  task: BackfillTask,
  filter: TransferFilter,
  than: Endpoint,
  signal: AbortSignal,
): Promise<{ decoded: DecodedRange; endpoint: Endpoint } | undefined> {
  try {
    return await task.reader.secondTransfers(filter, than, signal);
  } catch (error) {
    // A missing sample must not stop the backfill: the second endpoint may refuse ranges that the first one takes.
    if (error instanceof RpcError) return undefined;
    throw error;
  }
}

function blocksThatDiffer(a: Uint8Array, b: Uint8Array): number[] {
  const [counts, others] = [countsByBlock(a), countsByBlock(b)];
  const blocks = new Set([...counts.keys(), ...others.keys()]);
  const differing = [...blocks].filter((block) => counts.get(block) !== others.get(block));
  // Equal counts in each block but different bytes: any block may be wrong.
  return (differing.length > 0 ? differing : [...blocks]).sort((x, y) => x - y);
}

function countsByBlock(transfers: Uint8Array): Map<number, number> {
  const { blocks, count } = decodeTransfers(transfers);
  const counts = new Map<number, number>();
  for (let i = 0; i < count; i++) counts.set(blocks[i]!, (counts.get(blocks[i]!) ?? 0) + 1);
  return counts;
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && Buffer.compare(a, b) === 0;
}
