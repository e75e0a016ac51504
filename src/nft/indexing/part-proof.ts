/**
 * What a part of an archive's history must prove before it is stored: its last block's hash, and the receipts of some of its
 * blocks, by the operator's node. Blocks that the node has pruned can't be proven, and are counted as such.
 */
import type { Chain } from "../../chains/chains.ts";
import { bytesToHex, type Hash } from "../../core/hex.ts";
import { decodeTransfers } from "../../events/columns.ts";
import type { BlockRange, BlockRef, HistoryProven } from "../../events/types.ts";
import { ArchiveDisprovedError, type Archives, assertTold } from "../../rpc/archive/archives.ts";
import { ArchiveError, type HistorySource, type TransfersPart } from "../../rpc/archive/port.ts";
import { decodeTransferLogs, NFT_TOPICS } from "../../rpc/decode/transfers.ts";
import type { BlockHeader, BloomedBlocks, ChainLog, TouchedBlocks, Watched } from "../../rpc/port.ts";
import type { ProvenLogs, ToldBlock } from "../../rpc/reading/block-logs.ts";
import { namedIn } from "../../rpc/reading/bloomed-blocks.ts";
import { isHistoryPruned, RpcError } from "../../rpc/rpc-errors.ts";
import { type BackfillTask, CHECKED_SPAN, linkedHeaders } from "./checked-reads.ts";
import { linesByBlock } from "./omissions.ts";

/** Blocks of one part that are read because their header's fields don't make its hash, while other headers' do. */
const MAX_DOUBTED = 1_000;
const RECEIPTS_AT_ONCE = 10;

/** What an archive's part has shown, in the words of `HistoryProven`. */
export type PartProof = Pick<HistoryProven, "touched" | "hashed" | "sampled" | "byRoot" | "absent" | "provableFrom"> & {
  readonly blocks: number;
};

/** What may still be asked of the node to prove a history, and what it can prove. */
export interface ProofBudget {
  /** Receipts that may still be read as samples, counted down. */
  samples: number;
  /** The first block that the node has not pruned, as far as that is known. Nothing below can be proven. */
  provableFrom: number;
}

export interface HistoryTask extends BackfillTask {
  readonly chain: Chain;
  readonly archives: Archives;
  /** Labels of archives that were wrong about this collection before. */
  readonly distrusted: readonly string[];
  /** Ranges that only the node may tell, in rising order. */
  readonly nodeRanges: readonly BlockRange[];
  /** Receipts that may still be read as samples for this history. */
  readonly samplesLeft: number;
  /** The first block that the node can prove, as an earlier attempt found it; 0 otherwise. */
  readonly provableFrom: number;
}

const hasNamed = (blocks: BloomedBlocks, watched: Watched): boolean => namedIn(blocks, watched).length > 0;

const hashAt = (columns: Uint8Array, at: number): Hash => bytesToHex(columns.subarray(at * 32, at * 32 + 32)) as Hash;

/** A part of an archive's history, and the last block of the range that the archive is asked for. */
interface ToldPart {
  readonly part: TransfersPart;
  readonly last: number;
}

/** Proves a part, without the blocks that the node turns out to have pruned. @throws ArchiveDisprovedError */
export async function provePart(
  task: HistoryTask,
  source: HistorySource,
  told: ToldPart,
  budget: ProofBudget,
): Promise<PartProof> {
  try {
    return await proveProvable(task, source, told, budget);
  } catch (error) {
    if (!isHistoryPruned(error)) throw error;
    const provableFrom = await task.reader.receiptsStart(task.final.number);
    if (provableFrom <= budget.provableFrom) throw error;
    budget.provableFrom = provableFrom;
    return proveProvable(task, source, told, budget);
  }
}

/**
 * Compares an archive's part with the node: the last block's hash, the receipts of drawn blocks and of blocks in doubt.
 * `VERIFY=headers` compares the header of each block of the range, and the receipts of each whose bloom names the contract
 * without a log. `VERIFY=receipts` also reads the receipts of each block with a log.
 * @throws ArchiveDisprovedError; RpcError `state_unavailable` for a block that the node has pruned
 */
async function proveProvable(
  task: HistoryTask,
  { label }: HistorySource,
  told: ToldPart,
  { samples, provableFrom }: ProofBudget,
): Promise<PartProof> {
  const { verify, final } = task;
  const { fromBlock, toBlock, decoded, touched } = told.part;
  const { numbers, isHashed } = touched;
  const { toHash } = decoded;
  if (toBlock === final.number && toHash !== final.hash) throw new ArchiveDisprovedError(label, toBlock, false);
  const isEndShown = toBlock === final.number || toBlock < provableFrom;
  const ends = isEndShown ? [] : await assertHashes(task, label, [{ number: toBlock, hash: toHash }]);
  const from = Math.max(fromBlock, provableFrom);
  // In proportion to the blocks that are left.
  const share = toBlock < from ? 0 : Math.ceil((samples * (toBlock - from + 1)) / (told.last - from + 1));
  const chosen = await chooseBlocks(task, touched, { from, share });
  const places = new Map([...numbers].map((number, at) => [number, at]));
  // The bloom of a header that was read anyway proves that a block has no log, or leaves it in doubt.
  const { absent, suspects } =
    verify === "sample"
      ? await compareBlooms(task, ends, places)
      : await compareHeaders(task, label, { touched, places, range: { fromBlock: from, toBlock } });
  const isChosen = new Set(chosen.map(({ number }) => number));
  const others = suspects.filter(({ number }) => !isChosen.has(number));
  const proven = await compareReceipts(task, label, decoded.transfers, [...chosen, ...others]);
  const sampled = proven.filter(({ number }) => isChosen.has(number));
  if (verify === "receipts" && sampled.length < numbers.length) {
    throw new ArchiveError("give up", "VERIFY=receipts needs eth_getBlockReceipts from the node", {
      meta: { archive: label, fromBlock, toBlock },
    });
  }
  return {
    touched: numbers.length,
    hashed: isHashed.reduce((sum, one) => sum + one, 0),
    sampled: sampled.length,
    byRoot: sampled.filter(({ by }) => by === "root").length,
    absent: absent + proven.filter(({ number }) => !places.has(number)).length,
    blocks: toBlock - fromBlock + 1,
    ...(provableFrom > 0 ? { provableFrom } : {}),
  };
}

/**
 * Chooses the blocks with a log whose receipts are read, from block `from` on: `share` drawn ones and those in doubt, or all
 * under `VERIFY=receipts`.
 */
async function chooseBlocks(
  task: HistoryTask,
  { numbers, hashes, isHashed, receiptsRoots }: TouchedBlocks,
  { from, share }: { readonly from: number; readonly share: number },
): Promise<ToldBlock[]> {
  const { verify, clock } = task;
  const provable = [...numbers.keys()].filter((at) => (numbers[at] as number) >= from);
  const drawn = new Set(verify === "receipts" ? provable : draw(provable, share, () => clock.random()));
  // If no header is of this form, the chain's headers have other fields. If most are, or the chain's older ones are, the
  // rest are in doubt.
  const hasHashed = isHashed.includes(1);
  const changedAt = (isHashed.includes(0) ? await headersChangedAt(task) : undefined) ?? Number.POSITIVE_INFINITY;
  const isInDoubt = (at: number) => isHashed[at] === 0 && (hasHashed || (numbers[at] as number) >= changedAt);
  const doubted = provable.filter((at) => isInDoubt(at) && !drawn.has(at));
  return [...drawn, ...doubted.slice(0, MAX_DOUBTED)].map((at) => ({
    number: numbers[at] as number,
    hash: hashAt(hashes, at),
    receiptsRoot: isHashed[at] === 1 ? hashAt(receiptsRoots, at) : undefined,
  }));
}

interface ComparedBlock {
  readonly number: number;
  readonly by: ProvenLogs["by"];
}

/** Compares the told transfers of blocks with the node's receipts. Leaves out blocks that no endpoint has receipts of. */
async function compareReceipts(
  { reader, address, forms, signal }: HistoryTask,
  label: string,
  transfers: Uint8Array,
  blocks: readonly ToldBlock[],
): Promise<ComparedBlock[]> {
  const filter = { addresses: [address], topics: NFT_TOPICS };
  const told = linesByBlock(decodeTransfers(transfers), new Set(blocks.map(({ number }) => number)));
  const compare = async (block: ToldBlock): Promise<ComparedBlock[]> => {
    signal.throwIfAborted();
    const { number } = block;
    const linesOf = (logs: readonly ChainLog[]) =>
      linesByBlock(decodeTransfers(decodeTransferLogs(logs, forms).transfers)).get(number);
    const isTold = (logs: readonly ChainLog[]) => linesOf(logs)?.join() === told.get(number)?.join();
    const proven = await assertTold({ reader, label }, block, filter, isTold);
    if (proven === "pruned") throw prunedReceipts(number);
    return proven === undefined ? [] : [{ number, by: proven.by }];
  };
  const proven: ComparedBlock[] = [];
  for (let at = 0; at < blocks.length; at += RECEIPTS_AT_ONCE) {
    proven.push(...(await Promise.all(blocks.slice(at, at + RECEIPTS_AT_ONCE).map(compare))).flat());
  }
  return proven;
}

const prunedReceipts = (block: number): RpcError =>
  new RpcError("state_unavailable", "the node has pruned a block's receipts", {
    meta: { method: "eth_getBlockReceipts", block },
  });

/** See `RpcChainReader.headersChangedAt`; undefined also where the node has pruned the headers that tell. */
async function headersChangedAt({ reader }: HistoryTask): Promise<number | undefined> {
  try {
    return await reader.headersChangedAt();
  } catch (error) {
    if (isHistoryPruned(error)) return undefined;
    throw error;
  }
}

interface BloomsCompared {
  /** Blocks without a told log whose bloom excludes one. */
  readonly absent: number;
  /** Blocks whose bloom and told logs disagree: their receipts decide. */
  readonly suspects: readonly ToldBlock[];
}

/** Compares what an archive told with the blooms of the node's headers. @param told places of the blocks with a told log */
async function compareBlooms(
  { reader, address }: HistoryTask,
  headers: readonly BlockHeader[],
  told: ReadonlyMap<number, number>,
): Promise<BloomsCompared> {
  const filter = { addresses: [address], topics: NFT_TOPICS };
  const bloomed = (await reader.bloomed(headers)).filter(({ logsBloom }) => logsBloom !== undefined);
  const own = new Set(headers);
  let absent = 0;
  const suspects: ToldBlock[] = [];
  for (const group of bloomed) {
    const isNamed = hasNamed(group, filter);
    const blocks = group.blocks.filter((header) => own.has(header));
    const isTold = blocks.map(({ number }) => told.has(number));
    if (!isNamed && !isTold.includes(true)) absent += blocks.length;
    // A bloom over several blocks doesn't tell which of them has the log.
    const isSuspect = (at: number) => (isNamed ? isTold[at] === false : isTold[at] === true);
    for (const [at, { number, hash }] of blocks.entries()) {
      if (isSuspect(at)) suspects.push({ number, hash, receiptsRoot: undefined });
    }
  }
  return { absent, suspects };
}

/**
 * Reads the headers of all blocks of a range, whose links prove them, and compares them with the told blocks and logs.
 * @throws ArchiveDisprovedError
 */
async function compareHeaders(
  task: HistoryTask,
  label: string,
  { touched, places, range }: { touched: TouchedBlocks; places: ReadonlyMap<number, number>; range: BlockRange },
): Promise<BloomsCompared> {
  const { reader, signal } = task;
  const suspects: ToldBlock[] = [];
  let absent = 0;
  let before: BlockHeader | undefined;
  for (let from = range.fromBlock; from <= range.toBlock; from += CHECKED_SPAN) {
    signal.throwIfAborted();
    const headers = await linkedHeaders(reader, from, Math.min(range.toBlock, from + CHECKED_SPAN - 1), before);
    before = headers.at(-1);
    const wrong = headers.find(({ number, hash }) => {
      const at = places.get(number);
      return at !== undefined && hashAt(touched.hashes, at) !== hash;
    });
    if (wrong !== undefined) throw new ArchiveDisprovedError(label, wrong.number, false);
    const compared = await compareBlooms(task, headers, places);
    absent += compared.absent;
    suspects.push(...compared.suspects);
  }
  return { absent, suspects };
}

/** Returns the node's headers. @throws ArchiveDisprovedError if the chain has another block in the place of one of these */
async function assertHashes(
  { reader }: HistoryTask,
  label: string,
  blocks: readonly BlockRef[],
): Promise<readonly BlockHeader[]> {
  const headers = await reader.presentHeaders(blocks.map(({ number }) => number));
  const wrong = blocks.find(({ hash }, at) => headers[at]?.hash !== hash);
  if (wrong === undefined) return headers;
  throw new ArchiveDisprovedError(label, wrong.number, false);
}

/** Draws `count` of the values, each at most once. */
function draw(values: readonly number[], count: number, random: () => number): number[] {
  const drawn = [...values];
  const most = Math.min(count, drawn.length);
  for (let at = 0; at < most; at++) {
    const other = at + Math.floor(random() * (drawn.length - at));
    [drawn[at], drawn[other]] = [drawn[other] as number, drawn[at] as number];
  }
  return drawn.slice(0, most);
}
