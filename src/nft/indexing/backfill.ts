/**
 * Reads a collection's history: several ranges of raw logs in flight, decoded off this thread, yielded in order.
 * Yielded ranges are verified and contiguous. The caller appends them; a slow caller slows the reading (back-pressure).
 * The operator chooses how strictly answers are checked (`VERIFY`).
 */
import { retry } from "../../core/clock.ts";
import { InvariantError } from "../../core/errors.ts";
import type { Hash } from "../../core/hex.ts";
import type { BlockRange, TransfersCommitted } from "../../events/types.ts";
import { decodeTransferLogs, NFT_TOPICS } from "../../rpc/decode/transfers.ts";
import type { ArchivedRange, DecodedRange } from "../../rpc/port.ts";
import type { TransfersAnswer } from "../../rpc/reading/reader.ts";
import { doubtIn, LogsInDoubtError, RpcError } from "../../rpc/rpc-errors.ts";
import {
  ATTEMPTS,
  assertHasFinalBlock,
  type BackfillTask,
  CHECKED_SPAN,
  compareWithSecond,
  hashIn,
  hashOfRange,
  NEAR_FINAL,
  numbersToShow,
  RETRY_BASE_MS,
  RETRY_MAX_MS,
  type RunningBackfill,
  readChecked,
  SAMPLE,
} from "./checked-reads.ts";
import { FIRST_AHEAD, READ_AHEAD, ReadAhead } from "./read-ahead.ts";

/** Yields the history up to `final` as lists of events, in order, without a gap. @throws RpcError, AppError */
export async function* backfill(task: BackfillTask): AsyncGenerator<TransfersCommitted[]> {
  // Cancels all requests together when one fails for good or the consumer stops.
  const abandon = new AbortController();
  const signal = AbortSignal.any([task.signal, abandon.signal]);
  const { shownBy, reader, verify, fromBlock, final } = task;
  const sure = new Map(shownBy === undefined ? [] : [[shownBy, Promise.resolve()]]);
  const reading: RunningBackfill = { ...task, signal, finalBlockChecks: sure };
  const isSampled = verify === "sample";
  const options = {
    fromBlock,
    toBlock: final.number,
    span: () => (isSampled ? reader.nextBulkSpan() : CHECKED_SPAN),
    read: (from: number, to: number) => (isSampled ? readEvent : readVerified)(reading, from, to),
  };
  if (!isSampled) await reader.assertHistory({ fromBlock, toBlock: Math.min(final.number, fromBlock + CHECKED_SPAN) });
  const history = new ReadAhead(options, FIRST_AHEAD);
  try {
    while (!history.isOver) {
      yield await history.take();
      history.places = READ_AHEAD;
    }
  } finally {
    abandon.abort(new DOMException("the backfill stopped", "AbortError"));
  }
}

/**
 * Reads the first blocks of a range as an event. A single block that is refused is read in parts. A range with a block
 * in doubt ends before it, and the block's receipts decide. @throws LogsInDoubtError if they are faulty, too
 */
async function readEvent(task: RunningBackfill, fromBlock: number, rangeEnd: number): Promise<TransfersCommitted> {
  try {
    const { decoded, toBlock, toHash } = await readPart(task, fromBlock, rangeEnd);
    return transfersEvent(task, { fromBlock, toBlock }, { ...decoded, toHash });
  } catch (error) {
    if (error instanceof LogsInDoubtError && error.doubt.block > fromBlock) {
      return readEvent(task, fromBlock, error.doubt.block - 1);
    }
    const isRefused = error instanceof RpcError && error.kind === "range";
    if (!isRefused && !(error instanceof LogsInDoubtError)) throw error;
    return readVerified(task, fromBlock, fromBlock);
  }
}

/** Reads and decodes as many blocks as the endpoint takes. Compares a sample of the ranges with a second endpoint. */
async function readPart(
  task: RunningBackfill,
  fromBlock: number,
  toBlock: number,
): Promise<{ decoded: DecodedRange; toBlock: number; toHash: Hash }> {
  const { reader, clock, signal, address, forms } = task;
  const filter = { address, forms, fromBlock, toBlock };
  const use = async (answer: TransfersAnswer) => {
    // A node that has dropped old logs without a word would give the history a later beginning.
    if (fromBlock === task.fromBlock) {
      await reader.assertHasLogs(answer.endpoint, { fromBlock, toBlock: answer.toBlock });
    }
    const { decoded, toHash } = await (answer.askInParts === undefined ? readApart : readTogether)(task, answer);
    if (decoded.lastBlock === answer.toBlock && decoded.lastHash !== toHash) {
      throw new RpcError("lie", "the endpoint's logs are of another block", { meta: { block: answer.toBlock } });
    }
    reader.recordHistory(answer, answer.toBlock - fromBlock + 1, decoded.logs);
    return { decoded, toHash, endpoint: answer.endpoint };
  };
  const read = async () => {
    const { value, toBlock: end } = await reader.transfers(filter, use, signal).catch((failure: unknown) => {
      // Another try gives the same: all endpoints have been asked.
      const doubt = doubtIn(failure);
      throw doubt === undefined ? failure : new LogsInDoubtError(doubt);
    });
    const { decoded, toHash } = value;
    // The first range always: an endpoint may lack some kind of log altogether.
    const isCompared = fromBlock === task.fromBlock || clock.random() < SAMPLE;
    if (!isCompared) return { decoded, toBlock: end, toHash };
    return { decoded: await compareWithSecond(task, { ...filter, toBlock: end }, value), toBlock: end, toHash };
  };
  return retry(read, { clock, attempts: ATTEMPTS, baseMs: RETRY_BASE_MS, maxMs: RETRY_MAX_MS, signal });
}

interface CheckedRange {
  readonly decoded: DecodedRange;
  readonly toHash: Hash;
}

/** Reads logs and headers in parallel requests. */
async function readApart(task: RunningBackfill, answer: TransfersAnswer): Promise<CheckedRange> {
  await assertHasFinalBlock(task, answer.endpoint);
  const [decoded, toHash] = await Promise.all([answer.ask(), hashOfRange(task, answer.endpoint, answer.toBlock)]);
  return { decoded, toHash };
}

/** Reads logs and headers in one request, so that one node answers both. */
async function readTogether({ final }: RunningBackfill, answer: TransfersAnswer): Promise<CheckedRange> {
  const numbers = numbersToShow(final, answer.toBlock);
  const { decoded, headers } = await (answer.askInParts as NonNullable<typeof answer.askInParts>)(numbers);
  return { decoded, toHash: hashIn(headers, final, answer.toBlock) };
}

/**
 * Reads a range and checks each block by its header, and by its receipts where the header leaves a doubt. A range with a
 * block that stays in doubt ends before it. @throws LogsInDoubtError if that is the first one
 */
async function readVerified(task: BackfillTask, fromBlock: number, toBlock: number): Promise<TransfersCommitted> {
  const { clock, signal, reader, address, verify, final } = task;
  const filter = { addresses: [address], topics: NFT_TOPICS, fromBlock, toBlock };
  // Near the final block, the headers are read up to it. It proves their branch.
  const linkedTo = toBlock > final.number - NEAR_FINAL ? final : undefined;
  const read = async () => {
    signal.throwIfAborted();
    const { logs, toHash } = await readChecked(reader, filter, { verify, linkedTo });
    return transfersEvent(task, { fromBlock, toBlock }, { ...decodeTransferLogs(logs, task.forms), toHash });
  };
  try {
    return await retry(read, { clock, attempts: ATTEMPTS, baseMs: RETRY_BASE_MS, maxMs: RETRY_MAX_MS, signal });
  } catch (error) {
    if (!(error instanceof LogsInDoubtError && error.doubt.block > fromBlock)) throw error;
    return readVerified(task, fromBlock, error.doubt.block - 1);
  }
}

/** Returns the event of a range, and reports what could not be decoded of it. */
export function transfersEvent(
  { onMalformed }: BackfillTask,
  { fromBlock, toBlock }: BlockRange,
  { transfers, count, malformed, toHash }: Pick<ArchivedRange, "transfers" | "count" | "malformed" | "toHash">,
): TransfersCommitted {
  if (malformed > 0) onMalformed(malformed);
  return { type: "TransfersCommitted", fromBlock, toBlock, toHash, count, transfers };
}

/** Asserts that a range continues the stream without a gap. A wrong log is worse than a stopped job. */
export function assertContiguous(event: TransfersCommitted, next: number): void {
  if (event.fromBlock !== next) {
    throw new InvariantError("the backfill left a gap", { fromBlock: event.fromBlock, expected: next });
  }
}
