/**
 * Reads a collection's history: ranges of raw logs, several in flight, decoded off this thread, yielded in order. What
 * is yielded is verified and contiguous; the caller appends it, and its slowness slows the reading down.
 */

import { InvariantError } from "../core/errors.ts";
import type { Address, Hash } from "../core/hex.ts";
import type { TransferForm, TransfersCommitted } from "../events/types.ts";
import { decodeTransferLogs } from "../rpc/decode.ts";
import type { DecodedRange } from "../rpc/decode-answer.ts";
import type { Decoder } from "../rpc/decode-pool.ts";
import { RpcError } from "../rpc/errors.ts";
import type { RpcChainReader } from "../rpc/reader.ts";
import { NFT_TOPICS } from "../rpc/topics.ts";
import type { SpanController } from "./span.ts";

/** Requests in flight for one collection: hides latency without flooding an endpoint. */
const IN_FLIGHT = 4;
/** An answer in doubt, or cut off, is asked for again this often before the job fails and is retried with backoff. */
const DECODE_ATTEMPTS = 4;

export interface BackfillTask {
  readonly reader: RpcChainReader;
  readonly decoder: Decoder;
  readonly span: SpanController;
  readonly address: Address;
  readonly forms: readonly TransferForm[];
  readonly fromBlock: number;
  /** Inclusive; final, so that nothing read can be reverted. */
  readonly toBlock: number;
  readonly signal: AbortSignal;
  readonly onMalformed: (count: number) => void;
}

interface Fetched {
  readonly fromBlock: number;
  readonly toBlock: number;
  readonly decoded: DecodedRange;
}

/** The history of [fromBlock, toBlock] as events, in order and without a gap. @throws RpcError, AppError */
export async function* backfill(task: BackfillTask): AsyncGenerator<TransfersCommitted> {
  const queue: { from: number; parts: Promise<TransfersCommitted[]> }[] = [];
  let next = task.fromBlock;
  // Requests are abandoned together when one of them fails for good or the consumer stops.
  const abandon = new AbortController();
  const signal = AbortSignal.any([task.signal, abandon.signal]);
  try {
    while (next <= task.toBlock || queue.length > 0) {
      while (next <= task.toBlock && queue.length < IN_FLIGHT) {
        const to = Math.min(task.toBlock, next + task.span.span - 1);
        const parts = readRange({ ...task, signal }, next, to);
        // It is awaited in its turn; until then its failure is nobody's.
        parts.catch(() => undefined);
        queue.push({ from: next, parts });
        next = to + 1;
      }
      const head = queue.shift();
      if (head === undefined) return;
      for (const event of await head.parts) yield event;
    }
  } finally {
    abandon.abort(new DOMException("the backfill stopped", "AbortError"));
  }
}

/** One range, split as often as the endpoint refuses it; each part becomes an event. */
async function readRange(task: BackfillTask, fromBlock: number, toBlock: number): Promise<TransfersCommitted[]> {
  const events: TransfersCommitted[] = [];
  for (let from = fromBlock, size = toBlock - fromBlock + 1; from <= toBlock; ) {
    const to = Math.min(toBlock, from + size - 1);
    try {
      const fetched = await fetchDecoded(task, from, to);
      task.span.succeeded(to - from + 1, fetched.decoded.logs);
      events.push(await toEvent(task, fetched));
      from = to + 1;
    } catch (error) {
      if (!(error instanceof RpcError && error.kind === "range")) throw error;
      if (from === to) {
        events.push(await readLargeBlock(task, from));
        from = to + 1;
      } else size = task.span.refused(to - from + 1, error.hint);
    }
  }
  return events;
}

async function fetchDecoded(task: BackfillTask, fromBlock: number, toBlock: number): Promise<Fetched> {
  const { reader, decoder, address, forms, signal } = task;
  const filter = { addresses: [address], topics: NFT_TOPICS, fromBlock, toBlock };
  for (let attempt = 1; ; attempt++) {
    const { raw, endpoint } = await reader.rawLogs(filter, signal);
    const meta = { endpoint: endpoint.label, fromBlock, toBlock, attempt };
    try {
      const job = { address, topics: NFT_TOPICS, fromBlock, toBlock, forms };
      return { fromBlock, toBlock, decoded: await decoder.decode(raw, job, meta) };
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof RpcError && error.retryable) || attempt === DECODE_ATTEMPTS) throw error;
      if (error.kind === "lie") reader.doubt(endpoint);
    }
  }
}

async function toEvent(task: BackfillTask, fetched: Fetched): Promise<TransfersCommitted> {
  const { fromBlock, toBlock, decoded } = fetched;
  if (decoded.malformed > 0) task.onMalformed(decoded.malformed);
  const toHash = decoded.lastBlock === toBlock ? (decoded.lastHash as Hash) : await hashOfBlock(task.reader, toBlock);
  const { count, transfers } = decoded;
  return { type: "TransfersCommitted", fromBlock, toBlock, toHash, count, transfers };
}

async function hashOfBlock(reader: RpcChainReader, number: number): Promise<Hash> {
  const header = await reader.header(number);
  if (header === undefined) throw new RpcError("transient", "the node lacks a final block", { meta: { number } });
  return header.hash;
}

/** A single block that is refused: the reader splits it by topic, and this thread decodes what it may be. */
async function readLargeBlock(task: BackfillTask, block: number): Promise<TransfersCommitted> {
  const { reader, address, forms } = task;
  const logs = await reader.logs({ addresses: [address], topics: NFT_TOPICS, fromBlock: block, toBlock: block });
  const { transfers, count, malformed } = decodeTransferLogs(logs, forms);
  if (malformed > 0) task.onMalformed(malformed);
  const toHash = logs[0]?.blockHash ?? (await hashOfBlock(reader, block));
  return { type: "TransfersCommitted", fromBlock: block, toBlock: block, toHash, count, transfers };
}

/** Asserts that a range continues where the stream stands; a wrong log is worse than a stopped job. */
export function assertContiguous(event: TransfersCommitted, next: number): void {
  if (event.fromBlock !== next) {
    throw new InvariantError("the backfill left a gap", { fromBlock: event.fromBlock, expected: next });
  }
}
