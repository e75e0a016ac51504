/**
 * Reads a collection's history: ranges of raw logs, several in flight, decoded off this thread, yielded in order, as many
 * together as are there. What is yielded is verified and contiguous; the caller appends it, and its slowness slows the
 * reading down. How hard the answers are checked is the operator's choice (`VERIFY`).
 */
import { InvariantError } from "../core/errors.ts";
import type { Hash } from "../core/hex.ts";
import { retry } from "../core/retry.ts";
import type { BlockRef, TransfersCommitted } from "../events/types.ts";
import { decodeTransferLogs } from "../rpc/decode.ts";
import type { DecodedRange } from "../rpc/decode-answer.ts";
import type { Endpoint } from "../rpc/endpoint.ts";
import { RpcError } from "../rpc/errors.ts";
import type { BlockHeader, ChainLog } from "../rpc/port.ts";
import type { TransfersAnswer } from "../rpc/reader.ts";
import { NFT_TOPICS } from "../rpc/topics.ts";
import type { BackfillTask } from "./backfill-task.ts";
import { compareWithSecond, readChecked } from "./checked.ts";
import { ReadAhead } from "./read-ahead.ts";

/**
 * Ranges read ahead for one collection, and kept until they are appended: some megabytes. How many requests an endpoint
 * takes at once is the pool's to know.
 */
const READ_AHEAD = 8;
/** As long as nothing has come: how dense the logs lie is not known then, and eight too large answers are half a gigabyte. */
const FIRST_AHEAD = 3;
/** Share of ranges compared with a second endpoint by `VERIFY=sample`. */
const SAMPLE = 0.01;
/** An answer in doubt is asked for again this often before the job fails and is retried with backoff. */
const ATTEMPTS = 4;
const RETRY_BASE_MS = 200;
const RETRY_MAX_MS = 5_000;
/** Blocks below the final one that a node on a losing branch may have other ones for. */
const NEAR_FINAL = 512;
/** Blocks whose headers are read along, to a piece of history that is checked by them. */
const CHECKED_SPAN = 500;

/** A backfill under way. */
interface Reading extends BackfillTask {
  /** Who has shown the final block, or is being asked for it. */
  readonly sure: Map<Endpoint, Promise<void>>;
}

/** The history of [fromBlock, toBlock] as lists of events, in order and without a gap. @throws RpcError, AppError */
export async function* backfill(task: BackfillTask): AsyncGenerator<TransfersCommitted[]> {
  // Requests are abandoned together when one of them fails for good or the consumer stops.
  const abandon = new AbortController();
  const signal = AbortSignal.any([task.signal, abandon.signal]);
  const { shownBy, reader, verify, fromBlock, final } = task;
  const sure = new Map(shownBy === undefined ? [] : [[shownBy, Promise.resolve()]]);
  const reading: Reading = { ...task, signal, sure };
  const isSampled = verify === "sample";
  const options = {
    fromBlock,
    toBlock: final.number,
    span: () => (isSampled ? reader.cut() : CHECKED_SPAN),
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

/** The first blocks of a range as an event; a single block that is refused is put together from parts. */
async function readEvent(task: Reading, fromBlock: number, rangeEnd: number): Promise<TransfersCommitted> {
  try {
    const { decoded, toBlock, toHash } = await readPart(task, fromBlock, rangeEnd);
    if (decoded.malformed > 0) task.onMalformed(decoded.malformed);
    const { count, transfers } = decoded;
    return { type: "TransfersCommitted", fromBlock, toBlock, toHash, count, transfers };
  } catch (error) {
    if (!(error instanceof RpcError && error.kind === "range")) throw error;
    return readVerified(task, fromBlock, fromBlock);
  }
}

/** The first blocks of a range, as many as the endpoint takes, decoded; a sample of them compared with a second's. */
async function readPart(
  task: Reading,
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
    reader.answered(answer, answer.toBlock - fromBlock + 1, decoded.logs);
    return { decoded, toHash, endpoint: answer.endpoint };
  };
  const read = async () => {
    const { value, toBlock: end } = await reader.transfers(filter, use, signal);
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

/** Logs and headers by requests of their own, side by side. */
async function readApart(task: Reading, answer: TransfersAnswer): Promise<CheckedRange> {
  await assertSure(task, answer.endpoint);
  const [decoded, toHash] = await Promise.all([answer.ask(), hashOfRange(task, answer.endpoint, answer.toBlock)]);
  return { decoded, toHash };
}

/** Logs and headers in one request, which one node answers: the final block first, the last of the ranges' blocks last. */
async function readTogether({ final }: Reading, answer: TransfersAnswer): Promise<CheckedRange> {
  const numbers = numbersToShow(final, answer.toBlock);
  const { decoded, headers } = await (answer.askInParts as NonNullable<typeof answer.askInParts>)(numbers);
  return { decoded, toHash: hashIn(headers, final, answer.toBlock) };
}

/**
 * Asserts that an endpoint has the final block before it is asked for anything: one that leaves a losing branch while it
 * answers would give logs and hash of that, and then the final block.
 */
async function assertSure(task: Reading, endpoint: Endpoint): Promise<void> {
  const { sure, final } = task;
  let showing = sure.get(endpoint);
  if (showing === undefined) {
    showing = hashOfRange(task, endpoint, final.number).then(() => undefined);
    sure.set(endpoint, showing);
    showing.catch(() => sure.delete(endpoint));
  }
  await showing;
}

/**
 * The hash of a range's last block by who gave its logs, which must have that block and the final one: a node that lags
 * answers with fewer logs, and one on a losing branch with other ones, and neither says so.
 */
async function hashOfRange({ reader, final }: BackfillTask, endpoint: Endpoint, toBlock: number): Promise<Hash> {
  return hashIn(await reader.headersOf(endpoint, numbersToShow(final, toBlock)), final, toBlock);
}

/**
 * The blocks that an endpoint must show for its logs up to `toBlock` to count: that one, and near the final block that one,
 * too. Further down a branch that lost has long ended; `assertSure` has asked for the final block once.
 */
function numbersToShow(final: BlockRef, toBlock: number): number[] {
  const isNear = toBlock < final.number && toBlock > final.number - NEAR_FINAL;
  return isNear ? [final.number, toBlock] : [toBlock];
}

/** The last header's hash. @throws RpcError `transient` when a header is missing, or the first is not the final block's */
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

/** A range whose every block is checked by its header, and by its receipts where that leaves a doubt. */
function readVerified(task: BackfillTask, fromBlock: number, toBlock: number): Promise<TransfersCommitted> {
  const { clock, signal, reader, address, verify, final } = task;
  const filter = { addresses: [address], topics: NFT_TOPICS, fromBlock, toBlock };
  // Near the end the headers reach on to the final block: it says which branch they are of.
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

/** Asserts that a range continues where the stream stands; a wrong log is worse than a stopped job. */
export function assertContiguous(event: TransfersCommitted, next: number): void {
  if (event.fromBlock !== next) {
    throw new InvariantError("the backfill left a gap", { fromBlock: event.fromBlock, expected: next });
  }
}
