/**
 * Turns a raw `eth_getLogs` answer into columns: parses, verifies and decodes it. Pure. Runs in the decode worker, or
 * on the caller's thread where there is no worker.
 */
import { parseBlockTime } from "../../core/block-time.ts";
import { type ErrorMeta, messageOf } from "../../core/errors.ts";
import type { Address, Hash } from "../../core/hex.ts";
import { parseQuantity, quantity, toHash } from "../../core/hex.ts";
import { jsonIn } from "../../core/json-bytes.ts";
import type { BlockRange } from "../../events/types.ts";
import {
  type BatchIds,
  type BlockHeader,
  type ChainLog,
  type DecodedRange,
  type DecodeJob,
  hasMoreTopics,
  type LogFilter,
  type MoreTopics,
  type TransferFilter,
} from "../port.ts";
import { RpcError, type RpcErrorKind } from "../rpc-errors.ts";
import { isHashed } from "./hashes.ts";
import { scanBatch, scanTransfers } from "./scan.ts";
import { decodeTransferLogs, NFT_TOPICS } from "./transfers.ts";

// Verifies each `eth_getLogs` answer in one pure pass. Logs must belong to the requested addresses, topics and range,
// one block must have one hash, and two different logs may not share a place: transaction and index. Some nodes count
// the indexes of a bridge's logs from 0 again, so the index alone is no place. A log that was sent twice counts once.
// The result is in chain order and lower case; all other code relies on that. `verifyLogs` refuses the whole answer for
// one bad log. `sortLogs` leaves out only the bad log's contract in that block, and says so.

/** A log as nodes send it. */
interface WireLog {
  address: string;
  topics: string[];
  data: string;
  blockNumber: string;
  blockHash: string;
  transactionHash: string;
  transactionIndex?: string | null;
  logIndex: string;
  removed?: boolean;
}

/** Why a contract's logs of a block can't be used. A block or contract that can't be read is undefined. */
export interface LogFault {
  readonly reason: string;
  readonly block: number | undefined;
  readonly contract: Address | undefined;
  readonly logIndex: string;
}

export interface SortedLogs {
  /** In chain order, without the contracts of `faults` in their blocks. */
  readonly logs: ChainLog[];
  /** At most `MAX_FAULTS`. */
  readonly faults: readonly LogFault[];
}

/** Most faults that are kept of one answer. Beyond it the answer as a whole is worth nothing. */
export const MAX_FAULTS = 64;

/** The request: addresses and topics in lower case. An empty set means any. */
interface Expected extends BlockRange {
  readonly addresses: ReadonlySet<string>;
  readonly topics: ReadonlySet<string>;
  readonly moreTopics?: MoreTopics;
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
const wireText = (value: unknown): string =>
  typeof value === "string" || typeof value === "number" ? String(value).slice(0, MAX_DIGITS) : "";

/** The error of an answer with faulty logs. Names the first fault. */
export function faultyAnswer({ reason, block, contract, logIndex }: LogFault): RpcError {
  const place = {
    ...(block === undefined ? {} : { block }),
    ...(contract === undefined ? {} : { contract }),
    logIndex,
  };
  return new RpcError("lie", `the endpoint's logs are wrong: ${reason}`, { meta: place });
}

const lower = (text: string): string => (HEX.test(text) ? text : text.toLowerCase());

/** Reads a whole number; NaN for anything else. `Number` alone would accept null, a list or a fraction. */
function numberOf(value: unknown): number {
  if (typeof value === "number") return Number.isSafeInteger(value) ? value : Number.NaN;
  return typeof value === "string" && QUANTITY.test(value) ? Number(value) : Number.NaN;
}

/** Returns an answer's logs, verified and in chain order. @throws RpcError `lie`, or `transient` if there is no list */
export function verifyLogs(result: unknown, filter: LogFilter): ChainLog[] {
  const { logs, faults } = sortLogs(result, filter);
  if (faults[0] !== undefined) throw faultyAnswer(faults[0]);
  return logs;
}

/** Like `verifyLogs`, but leaves out what is faulty. @throws RpcError `lie` or `transient` if there is no list */
export function sortLogs(result: unknown, filter: LogFilter): SortedLogs {
  const expected = { ...filter, addresses: new Set(filter.addresses), topics: new Set(filter.topics) };
  // A gateway without a backend answers null, and may answer properly on a retry.
  if (result === null || result === undefined) throw new RpcError("transient", "the answer has no list of logs");
  if (!Array.isArray(result)) throw new RpcError("lie", "the endpoint's logs are wrong: not a list");
  const logs: ChainLog[] = [];
  const faults: LogFault[] = [];
  for (const wire of result as WireLog[]) {
    const log = readLog(wire, expected);
    if (!("reason" in log)) logs.push(log);
    else if (faults.length < MAX_FAULTS) faults.push(log);
  }
  return inOrder(logs, faults);
}

/**
 * Sorts logs into chain order and drops copies: gateways that merge the answers of several nodes repeat a log once per
 * node. Also used for logs of several answers.
 * @param found faults that are known already
 */
export function inOrder(logs: ChainLog[], found: readonly LogFault[] = []): SortedLogs {
  // Only some nodes tell a log's transaction. Without it for all logs, indexes alone give the order.
  if (logs.some(({ transactionIndex }) => transactionIndex === UNKNOWN_PLACE)) {
    for (const [i, log] of logs.entries()) logs[i] = { ...log, transactionIndex: 0 };
  }
  if (logs.some((log, i) => i > 0 && inChainOrder(logs[i - 1] as ChainLog, log) >= 0)) logs.sort(inChainOrder);
  const faults = [...found];
  const copies = new Set<ChainLog>();
  for (let i = 1; i < logs.length; i++) {
    const [a, b] = [logs[i - 1] as ChainLog, logs[i] as ChainLog];
    if (a.blockNumber !== b.blockNumber) continue;
    if (a.blockHash !== b.blockHash) accuse("one block has two hashes", strayLogs(logs, a.blockNumber), faults);
    else if (inChainOrder(a, b) !== 0) continue;
    else if (isCopy(a, b)) copies.add(b);
    else accuse("two logs share block, transaction and index", [a, b], faults);
  }
  if (faults.length === 0) return { logs: copies.size === 0 ? logs : logs.filter((log) => !copies.has(log)), faults };
  const isFaulty = new Set(faults.map(({ block, contract }) => `${block} ${contract}`));
  const sound = (log: ChainLog) => !copies.has(log) && !isFaulty.has(`${log.blockNumber} ${log.address}`);
  return { logs: logs.filter(sound), faults };
}

/** Returns the logs of a block whose hash is not that of most of its logs; all of them if no hash has most. */
function strayLogs(logs: readonly ChainLog[], block: number): ChainLog[] {
  const own = logs.filter(({ blockNumber }) => blockNumber === block);
  const hashes = Map.groupBy(own, ({ blockHash }) => blockHash);
  const most = [...hashes.values()].find((some) => some.length * 2 > own.length);
  return own.filter((log) => most?.includes(log) !== true);
}

function accuse(reason: string, logs: readonly ChainLog[], faults: LogFault[]): void {
  for (const { blockNumber: block, address: contract, logIndex } of logs) {
    const isKnown = faults.some((fault) => fault.block === block && fault.contract === contract);
    if (!isKnown && faults.length < MAX_FAULTS) faults.push({ reason, block, contract, logIndex: String(logIndex) });
  }
}

/** True if two logs of one place are the same log. */
function isCopy(a: ChainLog, b: ChainLog): boolean {
  return (
    a.address === b.address &&
    a.transactionHash === b.transactionHash &&
    a.data === b.data &&
    a.topics.length === b.topics.length &&
    a.topics.every((topic, i) => topic === b.topics[i])
  );
}

/** Collections that an older release read keep its order, block and index: stored transfers are never sorted again. */
export const inChainOrder = (a: ChainLog, b: ChainLog): number =>
  a.blockNumber - b.blockNumber || a.transactionIndex - b.transactionIndex || a.logIndex - b.logIndex;

/** The index of a transaction that the node doesn't tell. */
const UNKNOWN_PLACE = -1;

/** Reads one log, or says what is wrong with it. */
function readLog(wire: WireLog, expected: Expected): ChainLog | LogFault {
  const address = typeof wire?.address === "string" ? lower(wire.address) : "";
  const blockNumber = numberOf(wire?.blockNumber);
  const hasBlock = blockNumber >= expected.fromBlock && blockNumber <= expected.toBlock && blockNumber <= MAX_NUMBER;
  const isRequested = expected.addresses.size === 0 || expected.addresses.has(address);
  const faulty = (reason: string): LogFault => ({
    reason,
    block: hasBlock ? blockNumber : undefined,
    contract: ADDRESS.test(address) && isRequested ? (address as Address) : undefined,
    logIndex: wireText(wire?.logIndex),
  });
  if (
    typeof wire !== "object" ||
    wire === null ||
    typeof wire.address !== "string" ||
    !Array.isArray(wire.topics) ||
    typeof wire.data !== "string" ||
    typeof wire.blockHash !== "string" ||
    !wire.topics.every((topic) => typeof topic === "string")
  ) {
    return faulty("a log lacks a field");
  }
  if (wire.removed === true) return faulty("a log is marked as removed");
  if (!hasBlock) return faulty("a log is outside the range");
  const logIndex = numberOf(wire.logIndex);
  if (!(logIndex >= 0 && logIndex <= MAX_NUMBER)) return faulty("a log has no index");
  const blockHash = lower(wire.blockHash);
  if (!ADDRESS.test(address) || !WORD.test(blockHash)) return faulty("a log's address or block is not hex");
  if (!isRequested) return faulty("a log is of another address");
  const topics = wire.topics.map(lower);
  if (topics.length > 4 || !topics.every((topic) => WORD.test(topic))) return faulty("a log has odd topics");
  if (expected.topics.size > 0 && (topics[0] === undefined || !expected.topics.has(topics[0]))) {
    return faulty("a log is of another topic");
  }
  if (!hasMoreTopics(topics, expected.moreTopics)) return faulty("a log is of other indexed values");
  const data = lower(wire.data);
  if (!HEX.test(data) || data.length % 2 !== 0) return faulty("a log's data is not hex");
  const transactionIndex = numberOf(wire.transactionIndex);
  return {
    address: address as Address,
    topics: topics as Hash[],
    data,
    blockNumber,
    blockHash: blockHash as Hash,
    transactionHash: (typeof wire.transactionHash === "string" ? lower(wire.transactionHash) : "") as Hash,
    transactionIndex: transactionIndex >= 0 && transactionIndex <= MAX_NUMBER ? transactionIndex : UNKNOWN_PLACE,
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
    if (!(error instanceof RpcError)) return { id, kind: "lie", message: messageOf(error) };
    return { id, kind: error.kind, message: error.message, meta: error.meta };
  }
}

/** The parameter object of `eth_getLogs` for a contract's NFT transfers. */
export const transferParams = ({ address, fromBlock, toBlock }: TransferFilter): Record<string, unknown> =>
  logFilterParams({ addresses: [address], topics: NFT_TOPICS, fromBlock, toBlock });

/** The parameter object of `eth_getLogs`. */
export function logFilterParams(filter: LogFilter): Record<string, unknown> {
  const { addresses, topics, moreTopics = [] } = filter;
  const first = topics.length === 0 ? null : topics;
  return {
    fromBlock: quantity(filter.fromBlock),
    toBlock: quantity(filter.toBlock),
    ...(addresses.length === 0 ? {} : { address: addresses.length === 1 ? addresses[0] : addresses }),
    ...(first === null && moreTopics.length === 0
      ? {}
      : { topics: [first, ...moreTopics.map((some) => some ?? null)] }),
  };
}

/** @throws TypeError for a number that can't be stored */
function parseBlockNumber(value: unknown): number {
  const number = parseQuantity(value);
  if (number > MAX_NUMBER) throw new TypeError("a block number above 2^32");
  return number;
}

const NO_BLOOM = `0x${"0".repeat(512)}`;
export const BLOOM = /^0x[0-9a-f]{512}$/;

/**
 * Parses the header of an `eth_getBlockByNumber` answer. Undefined for null (a block above the node's head).
 * @throws RpcError `lie` if a field is missing, or the number differs from the requested one
 */
export function parseHeader(wire: unknown, requested: number | string, endpoint: string): BlockHeader | undefined {
  if (wire === null || wire === undefined) return undefined;
  const fields = wire as Record<string, unknown>;
  const bloom = String(fields["logsBloom"]).toLowerCase();
  const root = String(fields["receiptsRoot"]).toLowerCase();
  const isSettling = fields["settledHeight"] !== undefined && fields["settledHeight"] !== null;
  try {
    const header = {
      number: parseBlockNumber(fields["number"]),
      hash: toHash(String(fields["hash"])),
      parentHash: toHash(String(fields["parentHash"])),
      timestamp: parseBlockTime(fields["timestamp"]),
      // A missing or malformed bloom matches no log.
      logsBloom: BLOOM.test(bloom) ? bloom : NO_BLOOM,
      ...(WORD.test(root) ? { receiptsRoot: root as Hash } : {}),
      ...(isSettling ? { settledHeight: parseQuantity(fields["settledHeight"]) } : {}),
      // One header a poll tells whether the chain's headers still have the known form.
      ...(requested === "latest" ? { isHashed: isHashed(fields) } : {}),
    };
    if (isSettling && (header.settledHeight as number) >= header.number) throw new TypeError("settles itself");
    if (typeof requested === "number" && header.number !== requested) throw new TypeError("not the requested block");
    return header;
  } catch (cause) {
    throw new RpcError("lie", "the endpoint's block header is wrong", { meta: { endpoint, block: requested }, cause });
  }
}
