/**
 * Reads a collection's history: several ranges of raw logs in flight, decoded off this thread, yielded in order.
 * Yielded ranges are verified and contiguous. The caller appends them; a slow caller slows the reading (back-pressure).
 * The operator chooses how strictly answers are checked (`VERIFY`).
 */
import { firstUnlinked, numbersBetween } from "../../chain/branch.ts";
import { type Clock, retry } from "../../core/clock.ts";
import { InvariantError } from "../../core/errors.ts";
import type { Address, Hash } from "../../core/hex.ts";
import { decodeTransfers } from "../../events/columns.ts";
import type { BlockRange, BlockRef, TransferForm, TransfersCommitted } from "../../events/types.ts";
import { decodeTransferLogs, NFT_TOPICS } from "../../rpc/decode/transfers.ts";
import type {
  ArchivedRange,
  BlockHeader,
  ChainLog,
  DecodedRange,
  Endpoint,
  LogFilter,
  TransferFilter,
  Verify,
} from "../../rpc/port.ts";
import type { ToldLogs } from "../../rpc/reading/block-logs.ts";
import type { RpcChainReader, TransfersAnswer } from "../../rpc/reading/reader.ts";
import { doubtIn, LogsInDoubtError, RpcError } from "../../rpc/rpc-errors.ts";
import { linesByBlock, textOfLines } from "./omissions.ts";

// Reads for the backfill: a range of blocks in pieces, several in parallel and returned in order; and stricter reads
// that check history against headers, receipts and a second endpoint. Never returns an answer in doubt.

/** Input of a backfill: the contract, the range of blocks, the reader, and how strictly answers are checked. */
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
 * Reads the headers of all blocks of a range, each linked to the one before.
 * @param before the header below the range, if it was read
 * @throws RpcError `transient` if they are not linked
 */
export async function linkedHeaders(
  reader: Pick<RpcChainReader, "presentHeaders">,
  fromBlock: number,
  toBlock: number,
  before?: BlockHeader,
): Promise<readonly BlockHeader[]> {
  const headers = await reader.presentHeaders(numbersBetween(fromBlock, toBlock));
  const unlinked = firstUnlinked(before === undefined ? headers : [before, ...headers]);
  if (unlinked === undefined) return headers;
  throw new RpcError("transient", "the endpoint's headers are not linked", { meta: { block: unlinked.number } });
}

/**
 * Reads logs of final blocks and checks each block against its header.
 * @param linkedTo a later block; headers are read up to it and must link to it
 * @throws RpcError if headers and logs contradict each other
 */
async function readChecked(
  reader: RpcChainReader,
  filter: LogFilter,
  { verify, linkedTo }: { verify: Verify; linkedTo: BlockRef | undefined },
): Promise<{ logs: ChainLog[]; toHash: Hash }> {
  const { fromBlock, toBlock } = filter;
  const last = linkedTo?.number ?? toBlock;
  const all = await linkedHeaders(reader, fromBlock, last);
  const headers = all.slice(0, toBlock - fromBlock + 1);
  if (linkedTo !== undefined && all.at(-1)?.hash !== linkedTo.hash) {
    throw new RpcError("transient", "the endpoint is on another branch", { meta: { block: linkedTo.number } });
  }
  const logs = await reader.completeLogs(filter, headers, {
    strict: verify === "receipts",
    isByBlock: verify === "headers",
  });
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
 * Compares a decoded answer with a second endpoint's answer for the same range. If they differ, each endpoint's receipts
 * of the affected blocks are read, and those that make the header's root count. If all or none do, the logs are in no
 * bloom, as a bridge's may be, and the fullest answer counts: the contract's owners are compared later. The endpoints
 * that told other logs are benched.
 * @throws RpcError `transient` if no answer of the two has these logs
 */
async function compareWithSecond(
  task: RunningBackfill,
  filter: TransferFilter,
  first: TransfersOf,
): Promise<DecodedRange> {
  const { reader, forms } = task;
  const { fromBlock, toBlock } = filter;
  const second = await secondOpinion(task, filter, first);
  if (second === undefined || sameBytes(first.decoded.transfers, second.decoded.transfers)) return first.decoded;
  const blocks = blocksThatDiffer(first.decoded.transfers, second.decoded.transfers);
  const asked = { addresses: [filter.address], topics: NFT_TOPICS, fromBlock, toBlock };
  const linesOf = (decoded: Uint8Array, block: number) =>
    textOfLines(linesByBlock(decodeTransfers(decoded), new Set([block])).get(block));
  const wrong = new Set<Endpoint>();
  // By the headers of the first one, which has shown the final block: it is on the right branch.
  for (const header of await reader.headersOf(first.endpoint, blocks.slice(0, MAX_COMPARED))) {
    if (header === undefined) continue;
    const told = await reader.logsByEach(header, asked);
    const right = fullest(told.some(({ by }) => by === "root") ? told.filter(({ by }) => by === "root") : told);
    if (right === undefined) continue;
    const lines = linesOf(decodeTransferLogs([...right.logs], forms).transfers, header.number);
    for (const { endpoint, decoded } of [first, second]) {
      if (linesOf(decoded.transfers, header.number) !== lines) wrong.add(endpoint);
    }
  }
  const fault = `its logs of blocks ${fromBlock} to ${toBlock} differ from the receipts`;
  for (const endpoint of wrong) reader.benchLiar(endpoint, fault);
  const right = [first, second].find(({ endpoint }) => !wrong.has(endpoint));
  if (right !== undefined && wrong.size > 0) return right.decoded;
  throw new RpcError("transient", "two endpoints disagree, and receipts don't tell which one is right", {
    meta: { fromBlock, toBlock },
  });
}

/** The answer with the most logs, if it has all logs of the others. */
function fullest(told: readonly ToldLogs[]): ToldLogs | undefined {
  const placeOf = ({ transactionHash, topics, data }: ChainLog) => [transactionHash, data, ...topics].join();
  const most = told.toSorted((a, b) => b.logs.length - a.logs.length)[0];
  const places = new Set(most?.logs.map(placeOf));
  return told.every(({ logs }) => logs.every((log) => places.has(placeOf(log)))) ? most : undefined;
}

/** What an endpoint gave for a range, and the hash that it has of the range's last block. */
interface TransfersOf {
  readonly decoded: DecodedRange;
  readonly toHash: Hash;
  readonly endpoint: Endpoint;
}

/**
 * Returns a second endpoint's answer. Undefined if there is no second endpoint, or it refuses, is behind or on another
 * branch: the first one has shown the final block.
 */
async function secondOpinion(
  task: RunningBackfill,
  filter: TransferFilter,
  { endpoint: first, toHash }: TransfersOf,
): Promise<TransfersOf | undefined> {
  const endpoint = task.reader.endpointBeside(first);
  if (endpoint === undefined) return undefined;
  try {
    await assertHasFinalBlock(task, endpoint);
    if ((await hashOfRange(task, endpoint, filter.toBlock)) !== toHash) return undefined;
    return { decoded: await endpoint.transfers(filter, task.signal), toHash, endpoint };
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

// Reads a range of blocks in pieces, several in parallel, and returns them in order. The size of a piece is set when it
// begins; blocks that it could not read become a new piece. The number of places limits the pieces that run or wait, so
// a slow consumer slows the reading (back-pressure), however long the history is.

interface Gap {
  fromBlock: number;
  readonly toBlock: number;
}

interface Piece<T> {
  readonly reading: Promise<void>;
  outcome: { readonly value: T } | { readonly error: unknown } | undefined;
}

interface ReadAheadOptions<T> {
  readonly fromBlock: number;
  readonly toBlock: number;
  /** Returns the number of blocks of the next piece. */
  readonly span: () => number;
  /** Reads the first blocks of a piece, up to the result's `toBlock`. */
  readonly read: (fromBlock: number, toBlock: number) => Promise<T>;
}

export class ReadAhead<T extends { readonly toBlock: number }> {
  readonly #options: ReadAheadOptions<T>;
  /** Pieces and unread gaps that the consumer has not taken yet, in order. */
  readonly #queue: (Piece<T> | Gap)[];
  #places: number;

  /** @param places initial number of places */
  constructor(options: ReadAheadOptions<T>, places: number) {
    const { fromBlock, toBlock } = options;
    this.#options = options;
    this.#places = places;
    this.#queue = fromBlock <= toBlock ? [{ fromBlock, toBlock }] : [];
  }

  /** Sets how many pieces may run or wait to be taken. */
  set places(count: number) {
    this.#places = count;
  }

  get isOver(): boolean {
    return this.#queue.length === 0;
  }

  /** Waits for the first piece and returns all finished pieces before the first unfinished one. @throws its error */
  async take(): Promise<T[]> {
    this.#fill();
    const [first] = this.#queue;
    if (first === undefined || !("reading" in first)) return [];
    await first.reading;
    const taken: T[] = [];
    for (let head = this.#queue[0]; head !== undefined && "reading" in head; head = this.#queue[0]) {
      const { outcome } = head;
      if (outcome === undefined) break;
      if ("error" in outcome) {
        // Return the pieces before the failed one first.
        if (taken.length > 0) break;
        throw outcome.error;
      }
      taken.push(outcome.value);
      this.#queue.shift();
    }
    return taken;
  }

  /**
   * Begins pieces in the first places. New pieces for unread blocks push finished ones beyond the places; those are
   * limited to the same number again.
   */
  #fill(): void {
    const queue = this.#queue;
    let begun = queue.filter((one) => "reading" in one).length;
    for (let at = 0; at < queue.length && at < this.#places; at++) {
      const gap = queue[at];
      if (gap === undefined || "reading" in gap) continue;
      // Always begin the first piece: all later ones wait for it.
      if (begun++ >= this.#places * 2 && at > 0) return;
      const { fromBlock, toBlock } = gap;
      const end = Math.min(toBlock, fromBlock + this.#options.span() - 1);
      gap.fromBlock = end + 1;
      queue.splice(at, end === toBlock ? 1 : 0, this.#begin(fromBlock, end));
    }
  }

  #begin(fromBlock: number, toBlock: number): Piece<T> {
    const read = async (): Promise<void> => {
      try {
        const value = await this.#options.read(fromBlock, toBlock);
        piece.outcome = { value };
        if (value.toBlock < toBlock) this.#giveBack(piece, { fromBlock: value.toBlock + 1, toBlock });
      } catch (error) {
        piece.outcome = { error };
      }
    };
    const piece: Piece<T> = { reading: Promise.resolve().then(read), outcome: undefined };
    return piece;
  }

  /** Puts the unread blocks of a piece behind it, as a gap for the next free place. */
  #giveBack(piece: Piece<T>, rest: Gap): void {
    const behind = this.#queue.indexOf(piece) + 1;
    const next = this.#queue[behind];
    if (next !== undefined && !("reading" in next)) next.fromBlock = rest.fromBlock;
    else this.#queue.splice(behind, 0, rest);
    this.#fill();
  }
}

/**
 * Ranges read ahead for one collection and kept until they are appended: some megabytes. The pool limits the requests
 * per endpoint.
 */
export const READ_AHEAD = 8;
/** Ranges ahead before the first answer: their density is unknown, and eight huge answers are half a gigabyte. */
export const FIRST_AHEAD = 3;
/** Blocks in which two endpoints differ that are looked at. */
const MAX_COMPARED = 64;
/** Share of ranges compared with a second endpoint by `VERIFY=sample`, beside the first one. */
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
