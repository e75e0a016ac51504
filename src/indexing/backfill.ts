/**
 * Reads a collection's history: several ranges of raw logs in flight, decoded off this thread, yielded in order.
 * Yielded ranges are verified and contiguous. The caller appends them; a slow caller slows the reading (back-pressure).
 * The operator chooses how strictly answers are checked (`VERIFY`).
 */
import { retry } from "../core/clock.ts";
import { InvariantError } from "../core/errors.ts";
import type { Hash } from "../core/hex.ts";
import type { BlockRef, TransfersCommitted } from "../events/types.ts";
import { decodeTransferLogs, NFT_TOPICS } from "../rpc/decode/transfers.ts";
import type { BlockHeader, ChainLog, DecodedRange, Endpoint } from "../rpc/port.ts";
import type { TransfersAnswer } from "../rpc/reading/reader.ts";
import { doubtIn, LogsInDoubtError, RpcError } from "../rpc/rpc-errors.ts";
import { type BackfillTask, compareWithSecond, ReadAhead, readChecked } from "./backfill-reads.ts";

/**
 * Ranges read ahead for one collection and kept until they are appended: some megabytes. The pool limits the requests
 * per endpoint.
 */
export const READ_AHEAD = 8;
/** Ranges ahead before the first answer: their density is unknown, and eight huge answers are half a gigabyte. */
export const FIRST_AHEAD = 3;
/** Share of ranges compared with a second endpoint by `VERIFY=sample`. */
const SAMPLE = 0.01;
/** Attempts for an answer in doubt, before the job fails and is retried with backoff. */
const ATTEMPTS = 4;
const RETRY_BASE_MS = 200;
const RETRY_MAX_MS = 5_000;
/** Distance below the final block within which a node on an orphaned branch may have other blocks. */
export const NEAR_FINAL = 512;
/** Blocks per range if the range is checked by headers: their headers are read as well. */
export const CHECKED_SPAN = 500;

/** A running backfill. */
interface RunningBackfill extends BackfillTask {
  /** Per endpoint, the check that it has the final block. */
  readonly finalBlockChecks: Map<Endpoint, Promise<void>>;
}

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
    if (decoded.malformed > 0) task.onMalformed(decoded.malformed);
    const { count, transfers } = decoded;
    return { type: "TransfersCommitted", fromBlock, toBlock, toHash, count, transfers };
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
    if (clock.random() >= SAMPLE) return { decoded, toBlock: end, toHash };
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
 * Asserts once per endpoint that it has the final block, before any other request. An endpoint that leaves an orphaned
 * branch during its answer would give the orphaned logs and hash, and then the right final block.
 */
async function assertHasFinalBlock(task: RunningBackfill, endpoint: Endpoint): Promise<void> {
  const { finalBlockChecks, final } = task;
  let showing = finalBlockChecks.get(endpoint);
  if (showing === undefined) {
    showing = hashOfRange(task, endpoint, final.number).then(() => undefined);
    finalBlockChecks.set(endpoint, showing);
    showing.catch(() => finalBlockChecks.delete(endpoint));
  }
  await showing;
}

/**
 * Returns the hash of a range's last block from the endpoint that gave the logs. It must have that block and the final
 * block: a node that is behind omits logs, and one on an orphaned branch gives other ones, both without an error.
 */
async function hashOfRange({ reader, final }: BackfillTask, endpoint: Endpoint, toBlock: number): Promise<Hash> {
  return hashIn(await reader.headersOf(endpoint, numbersToShow(final, toBlock)), final, toBlock);
}

/**
 * Returns the blocks that an endpoint must show so that its logs up to `toBlock` count: that block, and near the final
 * block also the final one. Further below no orphaned branch survives, and `assertHasFinalBlock` has checked the final
 * block.
 */
function numbersToShow(final: BlockRef, toBlock: number): number[] {
  const isNear = toBlock < final.number && toBlock > final.number - NEAR_FINAL;
  return isNear ? [final.number, toBlock] : [toBlock];
}

/** Returns the last header's hash. @throws RpcError `transient` if a header is missing or the final block is another */
function hashIn(headers: readonly (BlockHeader | undefined)[], final: BlockRef, toBlock: number): Hash {
  const [top, last] = [headers[0], headers.at(-1)];
  if (last === undefined || top === undefined) {
    throw new RpcError("transient", "the endpoint lacks a final block", { meta: { block: toBlock } });
  }
  if (top.number === final.number && top.hash !== final.hash) {
    throw new RpcError("transient", "the endpoint is on another branch", { meta: { block: final.number } });
  }
  return last.hash;
}

/** Reads a range and checks each block by its header, and by its receipts where the header leaves a doubt. */
function readVerified(task: BackfillTask, fromBlock: number, toBlock: number): Promise<TransfersCommitted> {
  const { clock, signal, reader, address, verify, final } = task;
  const filter = { addresses: [address], topics: NFT_TOPICS, fromBlock, toBlock };
  // Near the final block, the headers are read up to it. It proves their branch.
  const linkedTo = toBlock > final.number - NEAR_FINAL ? final : undefined;
  const read = async () => {
    signal.throwIfAborted();
    const { logs, toHash } = await readChecked(reader, filter, { strict: verify === "receipts", linkedTo });
    return eventOf(task, { fromBlock, toBlock }, logs, toHash);
  };
  return retry(read, { clock, attempts: ATTEMPTS, baseMs: RETRY_BASE_MS, maxMs: RETRY_MAX_MS, signal });
}

function eventOf(
  { forms, onMalformed }: BackfillTask,
  { fromBlock, toBlock }: { fromBlock: number; toBlock: number },
  logs: readonly ChainLog[],
  toHash: Hash,
): TransfersCommitted {
  const { transfers, count, malformed } = decodeTransferLogs(logs, forms);
  if (malformed > 0) onMalformed(malformed);
  return { type: "TransfersCommitted", fromBlock, toBlock, toHash, count, transfers };
}

/** Asserts that a range continues the stream without a gap. A wrong log is worse than a stopped job. */
export function assertContiguous(event: TransfersCommitted, next: number): void {
  if (event.fromBlock !== next) {
    throw new InvariantError("the backfill left a gap", { fromBlock: event.fromBlock, expected: next });
  }
}
