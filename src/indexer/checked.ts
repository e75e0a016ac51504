/**
 * What the backfill does when one endpoint's word is not enough: history read along with its headers and receipts, and
 * a second endpoint's answer to the same question. An answer in doubt is never returned; who gave it is benched.
 */
import type { Hash } from "../core/hex.ts";
import { decodeTransfers } from "../events/columns.ts";
import type { BlockRef } from "../events/types.ts";
import { decodeTransferLogs } from "../rpc/decode.ts";
import type { DecodedRange } from "../rpc/decode-answer.ts";
import type { Endpoint } from "../rpc/endpoint.ts";
import { RpcError } from "../rpc/errors.ts";
import type { BlockHeader, ChainLog, LogFilter } from "../rpc/port.ts";
import type { RpcChainReader, TransferFilter } from "../rpc/reader.ts";
import { NFT_TOPICS } from "../rpc/topics.ts";
import type { BackfillTask } from "./backfill-task.ts";
import { firstUnlinked } from "./branch.ts";
import { numbersBetween, presentHeaders } from "./present-headers.ts";

/**
 * Logs of final blocks, each block checked against its header.
 * @param linkedTo a later block that the headers must lead to, and are read up to
 * @throws RpcError when header and logs do not agree
 */
export async function readChecked(
  reader: RpcChainReader,
  filter: LogFilter,
  { strict, linkedTo }: { strict: boolean; linkedTo: BlockRef | undefined },
): Promise<{ logs: ChainLog[]; toHash: Hash }> {
  const { fromBlock, toBlock } = filter;
  const last = linkedTo?.number ?? toBlock;
  const all = await presentHeaders(reader, numbersBetween(fromBlock, last));
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
      throw new RpcError("transient", "a log lies in another block than the headers have", {
        meta: { block: blockNumber },
      });
    }
  }
  return { logs, toHash: (headers.at(-1) as BlockHeader).hash };
}

/**
 * A decoded answer, compared with what a second endpoint says to the same question. Where they differ, the receipts of
 * the blocks concerned decide; the one they speak against is benched.
 * @throws RpcError `transient` when neither is what the receipts say
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
  const logs = await reader.completeLogs(asked, await presentHeaders(reader, blocks), { strict: true });
  const { transfers } = decodeTransferLogs(logs, forms);
  const [right, wrong] = sameBytes(transfers, first.decoded.transfers) ? [first, second] : [second, first];
  reader.doubt(wrong.endpoint);
  if (!sameBytes(transfers, right.decoded.transfers)) {
    reader.doubt(right.endpoint);
    throw new RpcError("transient", "two endpoints disagree, and their receipts with both", {
      meta: { fromBlock, toBlock },
    });
  }
  return right.decoded;
}

/** A second endpoint's decoded answer; undefined when there is no second one, or it does not answer this. */
async function secondOpinion(
  task: BackfillTask,
  filter: TransferFilter,
  than: Endpoint,
  signal: AbortSignal,
): Promise<{ decoded: DecodedRange; endpoint: Endpoint } | undefined> {
  try {
    return await task.reader.secondTransfers(filter, than, signal);
  } catch (error) {
    // A sample that cannot be taken is no reason to stop: the second endpoint may refuse a range the first one takes.
    if (error instanceof RpcError) return undefined;
    throw error;
  }
}

function blocksThatDiffer(a: Uint8Array, b: Uint8Array): number[] {
  const [counts, others] = [countsByBlock(a), countsByBlock(b)];
  const blocks = new Set([...counts.keys(), ...others.keys()]);
  const differing = [...blocks].filter((block) => counts.get(block) !== others.get(block));
  // As many transfers in each block and yet not the same: any block may be it.
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
