/**
 * Turns a raw `eth_getLogs` answer into columns: parses, verifies and decodes it. Pure. Runs in the decode worker, or
 * on the caller's thread where there is no worker.
 */
import { type ErrorMeta, messageOf } from "../../core/errors.ts";
import type { Address, Hash } from "../../core/hex.ts";
import type { BatchIds, BlockRange, ChainLog, DecodedRange, DecodeJob, LogFilter } from "../port.ts";
import { RpcError, type RpcErrorKind } from "../rpc-errors.ts";
import { scanBatch, scanTransfers } from "./scan.ts";
import { decodeTransferLogs, NFT_TOPICS } from "./transfers.ts";

// Verifies each `eth_getLogs` answer in one pure pass. Logs must belong to the requested addresses, topics and range,
// one block must have one hash, and two different logs may not share an index. A log that was sent twice counts once.
// The result is in chain order and lower case; all other code relies on that. One bad log refuses the whole answer.

/** A log as nodes send it. */
interface WireLog {
  address: string;
  topics: string[];
  data: string;
  blockNumber: string;
  blockHash: string;
  transactionHash: string;
  logIndex: string;
  removed?: boolean;
}

/** The request: addresses and topics in lower case. An empty set means any. */
interface Expected extends BlockRange {
  readonly addresses: ReadonlySet<string>;
  readonly topics: ReadonlySet<string>;
}

const HEX = /^0x[0-9a-f]*$/;
const WORD = /^0x[0-9a-f]{64}$/;
const ADDRESS = /^0x[0-9a-f]{40}$/;
/** Numbers in hex as nodes write them, and in decimal as some nodes do. */
const QUANTITY = /^(?:0x[0-9a-f]{1,13}|[0-9]{1,15})$/i;
/** Block numbers and indexes are stored in 32 bits. */
const MAX_NUMBER = 2 ** 32 - 1;
/** Most characters of a number in an error. */
const MAX_DIGITS = 20;

/** Shortens a value from the endpoint for an error. The value may have any type and length. */
const textOf = (value: unknown): string =>
  typeof value === "string" || typeof value === "number" ? String(value).slice(0, MAX_DIGITS) : "";

function lie(reason: string, log?: { blockNumber?: unknown; logIndex?: unknown }): RpcError {
  return new RpcError("lie", `the endpoint's logs are wrong: ${reason}`, {
    meta: { block: textOf(log?.blockNumber), logIndex: textOf(log?.logIndex) },
  });
}

const lower = (text: string): string => (HEX.test(text) ? text : text.toLowerCase());

/** Reads a whole number; NaN for anything else. `Number` alone would accept null, a list or a fraction. */
function numberOf(value: unknown): number {
  if (typeof value === "number") return Number.isSafeInteger(value) ? value : Number.NaN;
  return typeof value === "string" && QUANTITY.test(value) ? Number(value) : Number.NaN;
}

/** Returns an answer's logs, verified and in chain order. @throws RpcError `lie`, or `transient` if there is no list */
export function verifyLogs(result: unknown, filter: LogFilter): ChainLog[] {
  const expected = { ...filter, addresses: new Set(filter.addresses), topics: new Set(filter.topics) };
  // A gateway without a backend answers null, and may answer properly on a retry.
  if (result === null || result === undefined) throw new RpcError("transient", "the answer has no list of logs");
  if (!Array.isArray(result)) throw lie("not a list");
  const logs: ChainLog[] = new Array(result.length);
  let [sorted, repeated] = [true, false];
  for (let i = 0; i < result.length; i++) {
    const log = readLog(result[i] as WireLog, expected);
    logs[i] = log;
    const before = logs[i - 1];
    if (before !== undefined && inChainOrder(before, log) >= 0) sorted = false;
  }
  if (!sorted) logs.sort(inChainOrder);
  for (let i = 1; i < logs.length; i++) {
    const [a, b] = [logs[i - 1] as ChainLog, logs[i] as ChainLog];
    if (a.blockNumber !== b.blockNumber) continue;
    if (a.blockHash !== b.blockHash) throw lie("one block has two hashes", b);
    if (a.logIndex !== b.logIndex) continue;
    if (!isCopy(a, b)) throw lie("two logs share block and index", b);
    repeated = true;
  }
  // Gateways that merge the answers of several nodes repeat a log once per node.
  return repeated ? logs.filter((log, i) => i === 0 || inChainOrder(logs[i - 1] as ChainLog, log) !== 0) : logs;
}

/** True if two logs of one block and index are the same log. */
function isCopy(a: ChainLog, b: ChainLog): boolean {
  return (
    a.address === b.address &&
    a.transactionHash === b.transactionHash &&
    a.data === b.data &&
    a.topics.length === b.topics.length &&
    a.topics.every((topic, i) => topic === b.topics[i])
  );
}

export const inChainOrder = (a: ChainLog, b: ChainLog): number =>
  a.blockNumber - b.blockNumber || a.logIndex - b.logIndex;

function readLog(wire: WireLog, expected: Expected): ChainLog {
  if (
    typeof wire !== "object" ||
    wire === null ||
    typeof wire.address !== "string" ||
    !Array.isArray(wire.topics) ||
    typeof wire.data !== "string" ||
    typeof wire.blockHash !== "string" ||
    !wire.topics.every((topic) => typeof topic === "string")
  ) {
    throw lie("a log lacks a field", wire);
  }
  if (wire.removed === true) throw lie("a log is marked as removed", wire);
  const blockNumber = numberOf(wire.blockNumber);
  const logIndex = numberOf(wire.logIndex);
  if (!(blockNumber >= expected.fromBlock && blockNumber <= expected.toBlock && blockNumber <= MAX_NUMBER)) {
    throw lie("a log is outside the range", wire);
  }
  if (!(logIndex >= 0 && logIndex <= MAX_NUMBER)) throw lie("a log has no index", wire);
  const address = lower(wire.address);
  const blockHash = lower(wire.blockHash);
  if (!ADDRESS.test(address) || !WORD.test(blockHash)) throw lie("a log's address or block is not hex", wire);
  if (expected.addresses.size > 0 && !expected.addresses.has(address)) throw lie("a log is of another address", wire);
  const topics = wire.topics.map(lower);
  if (topics.length > 4 || !topics.every((topic) => WORD.test(topic))) throw lie("a log has odd topics", wire);
  if (expected.topics.size > 0 && (topics[0] === undefined || !expected.topics.has(topics[0]))) {
    throw lie("a log is of another topic", wire);
  }
  const data = lower(wire.data);
  if (!HEX.test(data) || data.length % 2 !== 0) throw lie("a log's data is not hex", wire);
  return {
    address: address as Address,
    topics: topics as Hash[],
    data,
    blockNumber,
    blockHash: blockHash as Hash,
    transactionHash: (typeof wire.transactionHash === "string" ? lower(wire.transactionHash) : "") as Hash,
    logIndex,
  };
}

export type DecodeRequest = DecodeJob & { readonly id: number; readonly raw: Uint8Array };
export type DecodeReply =
  /** `headers`: those of a batch, as the endpoint sent them. */
  | { readonly id: number; readonly range: DecodedRange; readonly headers?: readonly unknown[] }
  /** The endpoint answered with a JSON-RPC error; with `isOfBatch`, to the batch as a whole. */
  | { readonly id: number; readonly rpcError: unknown; readonly isOfBatch?: boolean }
  | {
      readonly id: number;
      readonly kind: RpcErrorKind;
      readonly message: string;
      readonly meta?: ErrorMeta;
      readonly retryAfterMs?: number | undefined;
    };

const NOT_JSON = { kind: "transient", message: "the answer is not JSON" } as const;
const decoder = new TextDecoder();

/** Decodes an answer. Never throws. */
export function decodeAnswer(request: DecodeRequest): DecodeReply {
  if (request.batch !== undefined) return decodeBatch(request, request.batch);
  const plain = scanTransfers(request.raw, request);
  return plain === undefined ? parseAnswer(request) : { id: request.id, range: plain };
}

/** Like `decodeAnswer`, through parsed JSON. Reads every answer that `scanTransfers` does not. */
export function parseAnswer(request: DecodeRequest): DecodeReply {
  const { id, raw } = request;
  const answer = jsonIn(raw) as BatchElement | null | undefined;
  if (answer === undefined || answer === null) return { id, ...NOT_JSON };
  if (answer.error !== undefined && answer.error !== null) return { id, rpcError: answer.error };
  return decodeLists(request, [{ ...request, result: answer.result }]);
}

/** Parses an answer. Undefined if it is not JSON. */
function jsonIn(raw: Uint8Array): unknown {
  try {
    return JSON.parse(decoder.decode(raw));
  } catch {
    return undefined;
  }
}

interface BatchElement {
  readonly id?: unknown;
  readonly result?: unknown;
  readonly error?: unknown;
}

/** Decodes a batch: the logs of consecutive ranges, and headers. */
function decodeBatch(request: DecodeRequest, batch: BatchIds): DecodeReply {
  const { id, raw } = request;
  const plain = scanBatch(raw, request, batch.logs);
  if (plain !== undefined) {
    const { elements, range } = plain;
    return { id, range, headers: batch.headers.map((one) => elements.get(one)?.result) };
  }
  const answers = jsonIn(raw);
  if (answers === undefined) return { id, ...NOT_JSON };
  if (!Array.isArray(answers)) {
    const { error } = (answers ?? {}) as BatchElement;
    return { id, rpcError: error ?? { message: "the answer to a batch is not a batch" }, isOfBatch: true };
  }
  const elements = new Map((answers as (BatchElement | null)[]).map((one) => [Number(one?.id), one]));
  const requested = [...batch.logs.map(({ id: one }) => one), ...batch.headers].map((one) => elements.get(one));
  const refused = requested.find((one) => one?.error !== undefined && one.error !== null);
  if (refused !== undefined) return { id, rpcError: refused?.error };
  const reply = decodeLists(
    request,
    batch.logs.map((part) => ({ ...part, result: elements.get(part.id)?.result })),
  );
  return "range" in reply ? { ...reply, headers: batch.headers.map((one) => elements.get(one)?.result) } : reply;
}

/** Verifies each list of logs against its own range, so that a log cannot move to another range. Then decodes them. */
function decodeLists(
  { id, address, forms }: DecodeRequest,
  lists: readonly (BlockRange & { readonly result: unknown })[],
): DecodeReply {
  try {
    const logs = lists.flatMap(({ result, fromBlock, toBlock }) =>
      verifyLogs(result, { addresses: [address], topics: NFT_TOPICS, fromBlock, toBlock }),
    );
    const last = logs.at(-1);
    const decoded = decodeTransferLogs(logs, forms);
    return { id, range: { ...decoded, logs: logs.length, lastBlock: last?.blockNumber, lastHash: last?.blockHash } };
  } catch (error) {
    return { id, kind: error instanceof RpcError ? error.kind : "lie", message: messageOf(error) };
  }
}
