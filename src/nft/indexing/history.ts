/**
 * Reads a collection's history from archives that are not trusted, and from the operator's node. An archive gives the
 * bulk; the node gives the last stretch, the ranges in which an archive was wrong, and the proof: the hash of each part's
 * last block, and the receipts of blocks drawn at random. A part is yielded only once it has passed.
 */
import { envSuffix } from "../../chains/trouble.ts";
import { AppError } from "../../core/errors.ts";
import type { BlockRange, TransfersCommitted } from "../../events/types.ts";
import { ArchiveDisprovedError } from "../../rpc/archive/archives.ts";
import { ArchiveError, type HistorySource } from "../../rpc/archive/port.ts";
import { isHistoryPruned } from "../../rpc/rpc-errors.ts";
import { backfill, transfersEvent } from "./backfill.ts";
import { type HistoryTask, type PartProof, type ProofBudget, provePart } from "./part-proof.ts";

/**
 * Blocks with a log of which the receipts are read for one history. They find an archive that is wrong about one block in
 * twenty with 96 %: what is rarer is for the contract's owners and counts to find.
 */
export const SAMPLED_BLOCKS = 64;
/** Time in ms for which a history that only an archive has waits for it without progress. */
const PATIENCE_MS = 120_000;

/** A step of a history: contiguous events of one source. */
export interface HistoryStep {
  readonly events: readonly TransfersCommitted[];
  /** The archive that told it, and what was proven; undefined for the node. */
  readonly archive?: { readonly label: string; readonly proof: PartProof };
}

/** The node has dropped the blocks that a history needs, and no archive has them. */
class HistoryPrunedError extends AppError {
  /** @param from the first block of which the node has logs */
  constructor({ chain, verify }: Pick<HistoryTask, "chain" | "verify">, from: number, cause: unknown) {
    const suffix = envSuffix(chain.name);
    const text =
      `the node has no logs before block ${from}, and the history begins earlier: give an endpoint that keeps all logs in ` +
      `RPC_URL_${suffix}, or an archive in ARCHIVE_URL_${suffix}` +
      (verify === "receipts" ? " with another VERIFY than receipts, which needs the receipts of each block" : "");
    super(text, { code: "history_pruned", meta: { chain: chain.name, block: from }, cause });
  }
}

/**
 * Yields the history up to `final`, in order, without a gap.
 * @throws ArchiveDisprovedError if an archive was wrong; RpcError, AppError if the node does not answer
 */
export async function* historyFrom(task: HistoryTask): AsyncGenerator<HistoryStep> {
  const { archives, distrusted, final, signal, clock, reader } = task;
  const nodeRanges = [...task.nodeRanges];
  const budget: ProofBudget = { samples: task.samplesLeft, provableFrom: task.provableFrom };
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
      const steps = found === undefined ? fromNode(task, range) : fromArchive(task, found.source, range, budget);
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
        if (own !== undefined && own.fromBlock <= next && own.fromBlock < from && archives.isReady(distrusted)) {
          // The node can't tell these blocks any more. An archive has to, and the proof says what comes of it.
          nodeRanges.splice(nodeRanges.indexOf(own), 1, ...(own.toBlock < from ? [] : [{ ...own, fromBlock: from }]));
          continue;
        }
        // An archive that slept may have the blocks that the node dropped, and one that rests may have them again.
        const restMs = archives.restLeft(distrusted) ?? Number.POSITIVE_INFINITY;
        const isAsked = pruned?.at === next && restMs === 0;
        const patience = archives.isGiven ? PATIENCE_MS : 0;
        if (pruned?.at !== next) pruned = { at: next, until: clock.monotonic() + patience };
        if (isAsked || clock.monotonic() + restMs > pruned.until) throw new HistoryPrunedError(task, from, error);
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

/** Reads blocks from an archive, part by part. */
async function* fromArchive(
  task: HistoryTask,
  source: HistorySource,
  { fromBlock, toBlock }: BlockRange,
  budget: ProofBudget,
): AsyncGenerator<HistoryStep> {
  const { address, forms, signal } = task;
  const told = source.transfers({ address, forms, fromBlock, toBlock }, signal);
  for await (const part of task.archives.advancing(source, told, { fromBlock, toBlock })) {
    const proof = await provePart(task, source, { part, last: toBlock }, budget);
    budget.samples -= Math.min(budget.samples, proof.sampled);
    yield { events: [transfersEvent(task, part, part.decoded)], archive: { label: source.label, proof } };
  }
}
