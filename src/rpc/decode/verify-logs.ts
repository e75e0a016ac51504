/**
 * Verifies each `eth_getLogs` answer in one pure pass. Logs must belong to the requested addresses, topics and range,
 * one block must have one hash, and two different logs may not share a place: transaction and index. Some nodes count
 * the indexes of a bridge's logs from 0 again, so the index alone is no place. The result is in chain order and lower
 * case, each log once; all other code relies on that.
 */
import type { Address, Hash } from "../../core/hex.ts";
import type { BlockRange } from "../../events/types.ts";
import { type ChainLog, hasMoreTopics, type LogFilter, type MoreTopics } from "../port.ts";
import { RpcError } from "../rpc-errors.ts";

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
/** A word of 32 bytes, in lower case. */
export const WORD = /^0x[0-9a-f]{64}$/;
const ADDRESS = /^0x[0-9a-f]{40}$/;
/** Numbers in hex as nodes write them, and in decimal as some nodes do. */
const QUANTITY = /^(?:0x[0-9a-f]{1,13}|[0-9]{1,15})$/i;
/** Block numbers and indexes are stored in 32 bits. */
export const MAX_NUMBER = 2 ** 32 - 1;
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

/**
 * Returns an answer's logs, verified and in chain order. One bad log spoils the whole answer.
 * @throws RpcError `lie`, or `transient` if there is no list
 */
export function verifyLogs(result: unknown, filter: LogFilter): ChainLog[] {
  const { logs, faults } = sortLogs(result, filter);
  if (faults[0] !== undefined) throw faultyAnswer(faults[0]);
  return logs;
}

/**
 * Like `verifyLogs`, but leaves out only the bad log's contract in that block, and says so.
 * @throws RpcError `lie` or `transient` if there is no list
 */
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
