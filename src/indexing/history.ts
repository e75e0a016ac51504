/**
 * Reads a collection's history from archives that are not trusted, and from the operator's node. An archive gives the
 * bulk; the node gives the last stretch, the ranges in which an archive was wrong, and the proof: the hash of each part's
 * last block, and the receipts of blocks drawn at random. A part is yielded only once it has passed.
 */
import type { Chain } from "../chains/chains.ts";
import { envSuffix } from "../chains/trouble.ts";
import { AppError } from "../core/errors.ts";
import { bytesToHex, type Hash } from "../core/hex.ts";
import { decodeTransfers } from "../events/columns.ts";
import type { BlockRange, BlockRef, HistoryProven, TransfersCommitted } from "../events/types.ts";
import { ArchiveDisprovedError, type Archives, assertTold } from "../rpc/archive/archives.ts";
import { ArchiveError, type HistorySource, type TransfersPart } from "../rpc/archive/port.ts";
import { decodeTransferLogs, NFT_TOPICS } from "../rpc/decode/transfers.ts";
import type { BlockHeader, BloomedBlocks, ChainLog, TouchedBlocks, Watched } from "../rpc/port.ts";
import type { ToldBlock } from "../rpc/reading/block-logs.ts";
import { namedIn } from "../rpc/reading/bloomed-blocks.ts";
import { isHistoryPruned } from "../rpc/rpc-errors.ts";
import { type BackfillTask, backfill, transfersEvent } from "./backfill.ts";
import { linesByBlock } from "./omissions.ts";

/** Blocks with a log of which the receipts are read for one history. */
export const SAMPLED_BLOCKS = 100;
/** Blocks of one part that are read because their header's fields don't make its hash, while other headers' do. */
const MAX_DOUBTED = 1_000;
const RECEIPTS_AT_ONCE = 10;

/** Time in ms for which a history that only an archive has waits for it without progress. */
const PATIENCE_MS = 120_000;

/** What an archive's part has shown, in the words of `HistoryProven`. */
type PartProof = Pick<HistoryProven, "touched" | "hashed" | "sampled" | "byRoot" | "absent">;

/** A step of a history: contiguous events of one source. */
export interface HistoryStep {
  readonly events: readonly TransfersCommitted[];
  /** The archive that told it, and what was proven; undefined for the node. */
  readonly archive?: { readonly label: string; readonly proof: PartProof };
}

/** The node has dropped the blocks that a history needs, and no archive has them. */
class HistoryPrunedError extends AppError {
  /** @param from the first block of which the node has logs */
  constructor(chain: Chain, from: number, cause: unknown) {
    const suffix = envSuffix(chain.name);
    const text =
      `the node has no logs before block ${from}, and the history begins earlier: give an endpoint that keeps all logs in ` +
      `RPC_URL_${suffix}, or an archive in ARCHIVE_URL_${suffix}`;
    super(text, { code: "history_pruned", meta: { chain: chain.name, from }, cause });
  }
}

interface HistoryTask extends BackfillTask {
  readonly chain: Chain;
  readonly archives: Archives;
  /** Labels of archives that were wrong about this collection before. */
  readonly distrusted: readonly string[];
  /** Ranges that only the node may tell, in rising order. */
  readonly nodeRanges: readonly BlockRange[];
  /** Receipts that may still be read as samples for this history. */
  readonly samplesLeft: number;
}

/**
 * Yields the history up to `final`, in order, without a gap.
 * @throws ArchiveDisprovedError if an archive was wrong; RpcError, AppError if the node does not answer
 */
export async function* historyFrom(task: HistoryTask): AsyncGenerator<HistoryStep> {
  const { archives, distrusted, final, signal, clock, chain, reader } = task;
  const nodeRanges = [...task.nodeRanges];
  const samples = { left: task.samplesLeft };
  let next = task.fromBlock;
  let pruned: { readonly at: number; readonly until: number } | undefined;
  while (next <= final.number) {
    const own = nodeRanges.find(({ toBlock }) => toBlock >= next);
    // An archive that lags leaves the newest final blocks to the node, which reads on from the final one in any case.
    const last = Math.min(final.number, (own?.fromBlock ?? Number.POSITIVE_INFINITY) - 1);
    const found = await archives.find({ fromBlock: next, toBlock: last }, distrusted, signal);
    const toBlock = found?.toBlock ?? Math.min(final.number, own?.toBlock ?? Number.POSITIVE_INFINITY);
    const range = { fromBlock: next, toBlock };
    const again = clock.monotonic() + archives.lookAgainMs(distrusted);
    try {
      const steps = found === undefined ? fromNode(task, range) : fromArchive(task, found.source, range, samples);
      for await (const step of steps) {
        yield step;
        next = (step.events.at(-1)?.toBlock ?? next - 1) + 1;
        // An archive's rest may be over by now.
        if (found === undefined && clock.monotonic() > again && archives.isReady(distrusted)) break;
      }
    } catch (error) {
      if (found === undefined) {
        if (!isHistoryPruned(error)) throw error;
        const from = await reader.historyStart(final.number);
        // An archive that slept may have the blocks that the node dropped, and one that rests may have them again.
        const restMs = archives.restLeft(distrusted) ?? Number.POSITIVE_INFINITY;
        const isAsked = pruned?.at === next && restMs === 0;
        if (pruned?.at !== next) pruned = { at: next, until: clock.monotonic() + PATIENCE_MS };
        if (isAsked || clock.monotonic() + restMs > pruned.until) throw new HistoryPrunedError(chain, from, error);
        await clock.sleep(restMs, signal);
      } else if (signal.aborted || !(error instanceof ArchiveError || error instanceof ArchiveDisprovedError)) {
        throw error;
      } else if (error instanceof ArchiveError && error.action === "shift" && (error.from ?? 0) > next) {
        // The data set begins later: the node reads the blocks before.
        nodeRanges.unshift({ fromBlock: next, toBlock: (error.from as number) - 1 });
      } else {
        // Wrong logs of one contract are that collection's matter. Another branch is every collection's.
        if (!(error instanceof ArchiveDisprovedError && error.isOfLogs)) archives.rest(found.source, error);
        if (error instanceof ArchiveDisprovedError) throw error;
      }
    }
  }
}

/** Reads blocks from the node, which checks its own answers as `VERIFY` demands: nothing of them is to be proven. */
async function* fromNode(task: HistoryTask, { fromBlock, toBlock }: BlockRange): AsyncGenerator<HistoryStep> {
  const isWhole = toBlock >= task.final.number;
  const [end = task.final] = isWhole ? [] : await task.reader.presentHeaders([toBlock]);
  const final = { number: end.number, hash: end.hash };
  const shownBy = isWhole ? task.shownBy : undefined;
  for await (const events of backfill({ ...task, fromBlock, final, shownBy })) yield { events };
}

/** Reads blocks from an archive, part by part. @param samples receipts that may still be read, counted down */
async function* fromArchive(
  task: HistoryTask,
  source: HistorySource,
  { fromBlock, toBlock }: BlockRange,
  samples: { left: number },
): AsyncGenerator<HistoryStep> {
  const { address, forms, signal } = task;
  const told = source.transfers({ address, forms, fromBlock, toBlock }, signal);
  for await (const part of task.archives.advancing(source, told, { fromBlock, toBlock })) {
    // In proportion to the blocks that are left.
    const share = Math.ceil((samples.left * (part.toBlock - part.fromBlock + 1)) / (toBlock - part.fromBlock + 1));
    const proof = await provePart(task, source, part, share);
    samples.left -= Math.min(samples.left, proof.sampled);
    yield { events: [transfersEvent(task, part, part.decoded)], archive: { label: source.label, proof } };
  }
}

const hasNamed = (blocks: BloomedBlocks, watched: Watched): boolean => namedIn(blocks, watched).length > 0;

const hashAt = (columns: Uint8Array, at: number): Hash => bytesToHex(columns.subarray(at * 32, at * 32 + 32)) as Hash;

/**
 * Compares an archive's part with the node: the last block's hash, the receipts of drawn blocks and of blocks in doubt.
 * `VERIFY=headers` compares the hash of each block with a log, `VERIFY=receipts` reads the receipts of each.
 * @throws ArchiveDisprovedError
 */
async function provePart(
  task: HistoryTask,
  { label }: HistorySource,
  { fromBlock, toBlock, decoded, touched }: TransfersPart,
  samples: number,
): Promise<PartProof> {
  const { reader, verify, clock, address, forms, signal, final } = task;
  const { toHash, transfers } = decoded;
  const { numbers, isHashed } = touched;
  if (toBlock === final.number && toHash !== final.hash) throw new ArchiveDisprovedError(label, toBlock, false);
  const ends = toBlock === final.number ? [] : await assertHashes(task, label, [{ number: toBlock, hash: toHash }]);
  if (verify === "headers") await assertHashes(task, label, refsOf(touched));
  const hashed = isHashed.reduce((sum, one) => sum + one, 0);
  const chosen = verify === "receipts" ? [...numbers.keys()] : draw(numbers.length, samples, () => clock.random());
  const isDrawn = new Set(chosen);
  // If no header is of this form, the chain's headers have other fields. If most are, or the chain's older ones are, the
  // rest are in doubt.
  const isKnown = hashed === numbers.length;
  const changedAt = (isKnown ? undefined : await reader.headersChangedAt()) ?? Number.POSITIVE_INFINITY;
  const isInDoubt = (at: number) => isHashed[at] === 0 && (hashed > 0 || (numbers[at] as number) >= changedAt);
  const doubted = [...numbers.keys()].filter((at) => isInDoubt(at) && !isDrawn.has(at));
  const filter = { addresses: [address], topics: NFT_TOPICS };
  // The bloom of a header that was read anyway proves that a block has no log, or leaves it in doubt.
  const quiet = ends.filter(({ number }) => !numbers.includes(number));
  const bloomed = (await reader.bloomed(quiet)).filter(({ logsBloom }) => logsBloom !== undefined);
  const named = quiet.filter((header) => bloomed.some((one) => one.blocks.includes(header) && hasNamed(one, filter)));
  const isQuiet = new Set(quiet.map(({ number }) => number));
  const all = [...chosen, ...doubted.slice(0, MAX_DOUBTED)];
  const told = linesByBlock(decodeTransfers(transfers), new Set(all.map((at) => numbers[at] as number)));
  let [sampled, byRoot] = [0, 0];
  const toldAt = (at: number): ToldBlock => ({
    number: numbers[at] as number,
    hash: hashAt(touched.hashes, at),
    receiptsRoot: isHashed[at] === 1 ? hashAt(touched.receiptsRoots, at) : undefined,
  });
  const check = async (block: ToldBlock): Promise<void> => {
    signal.throwIfAborted();
    const { number } = block;
    const linesOf = (logs: readonly ChainLog[]) =>
      linesByBlock(decodeTransfers(decodeTransferLogs(logs, forms).transfers)).get(number);
    const isTold = (logs: readonly ChainLog[]) => linesOf(logs)?.join() === told.get(number)?.join();
    const proven = await assertTold({ reader, label }, block, filter, isTold);
    if (proven === undefined || isQuiet.has(number)) return;
    sampled++;
    if (proven.by === "root") byRoot++;
  };
  const blocks = [...all.map(toldAt), ...named.map(({ number, hash }) => ({ number, hash, receiptsRoot: undefined }))];
  for (let at = 0; at < blocks.length; at += RECEIPTS_AT_ONCE) {
    await Promise.all(blocks.slice(at, at + RECEIPTS_AT_ONCE).map(check));
  }
  if (verify === "receipts" && sampled < numbers.length) {
    throw new ArchiveError("give up", "VERIFY=receipts needs eth_getBlockReceipts from the node", {
      meta: { archive: label, fromBlock, toBlock },
    });
  }
  return { touched: numbers.length, hashed, sampled, byRoot, absent: bloomed.length };
}

const refsOf = ({ numbers, hashes }: TouchedBlocks): BlockRef[] =>
  [...numbers].map((number, at) => ({ number, hash: hashAt(hashes, at) }));

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

/** Draws `count` of the places below `length`, each at most once. */
function draw(length: number, count: number, random: () => number): number[] {
  const places = Array.from({ length }, (_, at) => at);
  const most = Math.min(count, length);
  for (let at = 0; at < most; at++) {
    const other = at + Math.floor(random() * (length - at));
    [places[at], places[other]] = [places[other] as number, places[at] as number];
  }
  return places.slice(0, most);
}
