/**
 * The hot loop of a backfill: turns the bytes of an `eth_getLogs` answer into columns, without a string or object per
 * log. Reads what nodes send nearly always: compact JSON of ERC-721 and ERC-1155 single transfers in chain order. Gives
 * up on everything else, and `decodeAnswer` then parses the JSON. Both ways give the same bytes; a test compares them.
 */
import { encodeTransfers, TransferKind } from "../../events/columns.ts";
import type { BatchPart, DecodedRange, DecodeJob } from "../port.ts";
import { AddressWords, digit, isHex64, isPadding, literal, matches, same64, word } from "./bytes.ts";
import { TRANSFER, TRANSFER_SINGLE } from "./transfer-topics.ts";

/** The fields of a log. Each may occur once. */
const KEYS = [
  "address",
  "blockHash",
  "blockNumber",
  "data",
  "logIndex",
  "topics",
  "removed",
  "transactionHash",
  "transactionIndex",
  "blockTimestamp",
].map((name) => literal(`"${name}":`));
const [ADDRESS, BLOCK_HASH, BLOCK_NUMBER, DATA, LOG_INDEX, TOPICS, REMOVED, TRANSACTION_HASH, TRANSACTION_INDEX] = [
  0, 1, 2, 3, 4, 5, 6, 7, 8,
];
/** The fields that a log must have, as a bit mask over `KEYS`. */
const NEEDED = 0b11_1111;
const [QUOTE, COMMA, OPEN, CLOSE, OPEN_LIST, CLOSE_LIST] = [...'",{}[]'].map((character) =>
  character.charCodeAt(0),
) as unknown as number[];
const FALSE = literal("false");
const RESULT = '"result":[';
const TRANSFER_DIGITS = literal(TRANSFER.slice(2));
const SINGLE_DIGITS = literal(TRANSFER_SINGLE.slice(2));
const QUOTED_PREFIX = 0x22_3078;
/** JSON that may surround the list of logs. */
const BEFORE = /^\{(?:"jsonrpc":"2\.0",|"id":\d+,)*$/;
const AFTER = /^\](?:,"jsonrpc":"2\.0"|,"id":\d+)*\}\s*$/;
const MAX_AROUND = 64;
/** Bytes of the shortest log that is read here: the required fields, with four topics. */
const MIN_LOG_BYTES = 440;
/** Bytes of a topic with its quotes and the comma after it. */
const TOPIC_BYTES = 69;

/** Offset of the end of the last value that was read. */
let end = 0;

/** True if a quoted value that starts with 0x is at `at`. */
function isQuoted(view: DataView, at: number): boolean {
  return view.getUint32(at) >>> 8 === QUOTED_PREFIX;
}

/** Reads a quoted quantity of at most 32 bits, or returns -1. */
function quantity(view: DataView, at: number): number {
  if (!isQuoted(view, at)) return -1;
  let value = 0;
  let p = at + 3;
  for (let next = digit(view.getUint8(p)); next >= 0 && p < at + 12; next = digit(view.getUint8(++p))) {
    value = value * 16 + next;
  }
  if (view.getUint8(p) !== QUOTE || p === at + 3 || value > 0xffff_ffff) return -1;
  end = p + 1;
  return value;
}

/** Returns the offset of a quoted value's 64 digits, or -1. */
function digits64(view: DataView, at: number): number {
  if (!isQuoted(view, at) || view.getUint8(at + 67) !== QUOTE) return -1;
  end = at + 68;
  return at + 3;
}

/** True if a list of four topics is at `at`. */
function areTopics(view: DataView, at: number): boolean {
  if (view.getUint8(at) !== OPEN_LIST) return false;
  for (let i = 0; i < 4; i++) {
    if (digits64(view, at + 1 + i * TOPIC_BYTES) < 0) return false;
    if (view.getUint8(end) !== (i === 3 ? CLOSE_LIST : COMMA)) return false;
  }
  end++;
  return true;
}

/** Writes 64 digits as eight words, lowest first. Returns false if one of them is not a hex digit. */
function parseWords(view: DataView, at: number, target: Uint32Array, index: number): boolean {
  for (let w = 0; w < 8; w++) {
    const value = word(view, at + 56 - w * 8);
    if (value < 0) return false;
    target[index * 8 + w] = value;
  }
  return true;
}

/** Returns the index of the field name at `at`, or -1. Tests the likely name first. */
function keyAt(view: DataView, at: number, likely: number): number {
  if (likely >= 0 && matches(view, at, KEYS[likely] as DataView)) return likely;
  for (let key = 0; key < KEYS.length; key++) if (matches(view, at, KEYS[key] as DataView)) return key;
  return -1;
}

/** The fields of one log, as offsets into the answer and as numbers. */
interface LogFields {
  hashAt: number;
  blockNumber: number;
  logIndex: number;
  /** -1 if the node doesn't tell it. */
  transactionIndex: number;
  topicsAt: number;
  /** Offset of the data's digits; -1 if the data are empty. */
  dataAt: number;
}

/** Reads one field's value. Returns false if this file cannot read it. */
function readField(view: DataView, at: number, key: number, address: DataView, log: LogFields): boolean {
  switch (key) {
    case ADDRESS:
      end = at + address.byteLength;
      return matches(view, at, address);
    case BLOCK_HASH:
      log.hashAt = digits64(view, at);
      return log.hashAt >= 0;
    case BLOCK_NUMBER:
      log.blockNumber = quantity(view, at);
      return log.blockNumber >= 0;
    case DATA: {
      if (!isQuoted(view, at)) return false;
      const isEmpty = view.getUint8(at + 3) === QUOTE;
      log.dataAt = isEmpty ? -1 : at + 3;
      end = isEmpty ? at + 4 : at + 132;
      return isEmpty || view.getUint8(at + 131) === QUOTE;
    }
    case LOG_INDEX:
      log.logIndex = quantity(view, at);
      return log.logIndex >= 0;
    case TRANSACTION_INDEX:
      log.transactionIndex = quantity(view, at);
      return log.transactionIndex >= 0;
    case TOPICS:
      log.topicsAt = at + 4;
      return areTopics(view, at);
    case REMOVED:
      end = at + FALSE.byteLength;
      return matches(view, at, FALSE);
    case TRANSACTION_HASH: {
      const start = digits64(view, at);
      return start >= 0 && isHex64(view, start);
    }
    default:
      return quantity(view, at) >= 0;
  }
}

/** The state of a scan: the columns so far, and the last log for the order check. */
class Scan {
  readonly kinds: Uint8Array;
  readonly blocks: Uint32Array;
  readonly logIndexes: Uint32Array;
  readonly from: Uint32Array;
  readonly to: Uint32Array;
  readonly ids: Uint32Array;
  readonly amounts: Uint32Array;
  readonly addresses = new AddressWords();
  readonly address: DataView;
  fromBlock: number;
  toBlock: number;
  readonly takesSingles: boolean;
  readonly takesAmounts: boolean;
  /** The order of the fields in the previous log. */
  readonly order = new Int8Array(KEYS.length).fill(-1);
  readonly log: LogFields = { hashAt: 0, blockNumber: 0, logIndex: 0, transactionIndex: -1, topicsAt: 0, dataAt: 0 };
  count = 0;
  lastBlock = -1;
  lastIndex = -1;
  lastTransaction = -1;
  lastHashAt = -1;

  constructor({ address, fromBlock, toBlock, forms }: DecodeJob, capacity: number) {
    this.kinds = new Uint8Array(capacity);
    this.blocks = new Uint32Array(capacity);
    this.logIndexes = new Uint32Array(capacity);
    this.from = new Uint32Array(capacity);
    this.to = new Uint32Array(capacity);
    this.ids = new Uint32Array(capacity * 8);
    this.amounts = new Uint32Array(capacity * 8);
    this.address = literal(`"${address}"`);
    this.fromBlock = fromBlock;
    this.toBlock = toBlock;
    this.takesSingles = forms.includes("erc721");
    this.takesAmounts = forms.includes("erc1155");
  }
}

/** Reads the fields of the log at `start`. Returns the offset after it, or -1. */
function readLog(view: DataView, start: number, scan: Scan): number {
  const { order, address, log } = scan;
  let at = start;
  if (view.getUint8(at) !== OPEN) return -1;
  let seen = 0;
  log.transactionIndex = -1;
  for (let field = 0; field < KEYS.length; field++) {
    const key = keyAt(view, at + 1, order[field] as number);
    if (key < 0 || (seen & (1 << key)) !== 0) return -1;
    seen |= 1 << key;
    order[field] = key;
    if (!readField(view, at + 1 + (KEYS[key] as DataView).byteLength, key, address, log)) return -1;
    at = end;
    const next = view.getUint8(at);
    if (next === CLOSE) return (seen & NEEDED) === NEEDED ? at + 1 : -1;
    if (next !== COMMA) return -1;
  }
  return -1;
}

/** Checks a log against the range and the previous log, like `verifyLogs` does. */
function isInOrder(view: DataView, scan: Scan): boolean {
  const { hashAt, blockNumber, logIndex, transactionIndex } = scan.log;
  if (blockNumber < scan.fromBlock || blockNumber > scan.toBlock || blockNumber < scan.lastBlock) return false;
  if (blockNumber === scan.lastBlock) {
    // Rising in both, the order is the same with and without the transaction.
    if (logIndex <= scan.lastIndex || transactionIndex < scan.lastTransaction) return false;
    if (!same64(view, hashAt, scan.lastHashAt)) return false;
  } else if (!isHex64(view, hashAt)) return false;
  scan.lastBlock = blockNumber;
  scan.lastIndex = logIndex;
  scan.lastTransaction = transactionIndex;
  scan.lastHashAt = hashAt;
  return true;
}

/** Adds the transfer of the current log to the columns. Returns false if this file cannot read it. */
function addTransfer(view: DataView, scan: Scan): boolean {
  const { topicsAt, dataAt, blockNumber, logIndex } = scan.log;
  const { count, ids, amounts } = scan;
  const second = topicsAt + TOPIC_BYTES;
  const third = second + TOPIC_BYTES;
  const fourth = third + TOPIC_BYTES;
  let sender = second;
  let receiver = third;
  if (matches(view, topicsAt, TRANSFER_DIGITS)) {
    if (!scan.takesSingles || dataAt >= 0 || !parseWords(view, fourth, ids, count)) return false;
    scan.kinds[count] = TransferKind.erc721;
    amounts[count * 8] = 1;
  } else if (matches(view, topicsAt, SINGLE_DIGITS)) {
    if (!scan.takesAmounts || dataAt < 0 || !isHex64(view, second)) return false;
    if (!parseWords(view, dataAt, ids, count) || !parseWords(view, dataAt + 64, amounts, count)) return false;
    scan.kinds[count] = TransferKind.erc1155;
    sender = third;
    receiver = fourth;
  } else return false;
  // The JSON path ignores the twelve bytes before an address. If they are not zero, leave the answer to it.
  if (!isPadding(view, sender) || !isPadding(view, receiver)) return false;
  const from = scan.addresses.intern(view, sender + 24);
  const to = scan.addresses.intern(view, receiver + 24);
  if (from < 0 || to < 0) return false;
  scan.blocks[count] = blockNumber;
  scan.logIndexes[count] = logIndex;
  scan.from[count] = from;
  scan.to[count] = to;
  scan.count++;
  return true;
}

/** Reads the list of logs at `start`. Returns the offset of its end, or -1. */
function readList(view: DataView, start: number, scan: Scan): number {
  const capacity = scan.kinds.length;
  for (let at = start; scan.count < capacity; at++) {
    at = readLog(view, at, scan);
    if (at < 0 || !isInOrder(view, scan) || !addTransfer(view, scan)) return -1;
    const next = view.getUint8(at);
    if (next === CLOSE_LIST) return at;
    if (next !== COMMA) return -1;
  }
  return -1;
}

/** An element of a batch, with its list of logs emptied. */
interface ScannedElement {
  readonly id: number;
  readonly result: unknown;
}

/** Most bytes around the lists of a batch: a few block headers. */
const MAX_BESIDE = 64 * 1_024;

/** Like `scanTransfers`, for a batch with a list per part, in order. Also returns its elements by id, without logs. */
export function scanBatch(
  bytes: Uint8Array,
  job: DecodeJob,
  parts: readonly BatchPart[],
): { range: DecodedRange; elements: Map<number, ScannedElement> } | undefined {
  if (job.forms.includes("cryptopunks")) return undefined;
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const scan = new Scan(job, Math.ceil(bytes.length / MIN_LOG_BYTES));
  let [beside, at] = ["", 0];
  try {
    for (const { fromBlock, toBlock } of parts) {
      [scan.fromBlock, scan.toBlock] = [fromBlock, toBlock];
      const listAt = text.subarray(at, at + MAX_BESIDE).indexOf(RESULT);
      if (listAt < 0) return undefined;
      const start = at + listAt + RESULT.length;
      beside += text.toString("latin1", at, start);
      at = view.getUint8(start) === CLOSE_LIST ? start : readList(view, start, scan);
      if (at < 0) return undefined;
    }
    if (bytes.length - at > MAX_BESIDE) return undefined;
    beside += text.toString("latin1", at);
    const parsed: unknown = JSON.parse(beside);
    if (!Array.isArray(parsed)) return undefined;
    const elements = parsed as readonly ScannedElement[];
    const lists = elements.filter(({ result }) => Array.isArray(result)).map(({ id }) => id);
    if (lists.length !== parts.length || lists.some((id, i) => id !== parts[i]?.id)) return undefined;
    return { range: rangeOf(scan, text), elements: new Map(elements.map((one) => [one.id, one])) };
  } catch (error) {
    // Truncated or unusual JSON.
    if (error instanceof RangeError || error instanceof SyntaxError || error instanceof TypeError) return undefined;
    throw error;
  }
}

/** Reads an answer into columns. Undefined if any part of it is not of the plain kind. */
export function scanTransfers(bytes: Uint8Array, job: DecodeJob): DecodedRange | undefined {
  // The JSON path combines pairs of CryptoPunks events.
  if (job.forms.includes("cryptopunks")) return undefined;
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const listAt = text.subarray(0, MAX_AROUND * 2).indexOf(RESULT);
  if (listAt < 0 || !BEFORE.test(text.toString("latin1", 0, listAt))) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const scan = new Scan(job, Math.ceil(bytes.length / MIN_LOG_BYTES));
  let listEnd: number;
  try {
    listEnd = readList(view, listAt + RESULT.length, scan);
  } catch (error) {
    // Truncated JSON.
    if (error instanceof RangeError) return undefined;
    throw error;
  }
  if (listEnd < 0 || bytes.length - listEnd > MAX_AROUND || !AFTER.test(text.toString("latin1", listEnd)))
    return undefined;
  return rangeOf(scan, text);
}

/** Encodes the scanned columns. */
function rangeOf(scan: Scan, text: Buffer): DecodedRange {
  const lastHash = `0x${text.toString("latin1", scan.lastHashAt, scan.lastHashAt + 64).toLowerCase()}`;
  const { count, addresses, ids, amounts, kinds, blocks, logIndexes, from, to } = scan;
  const transfers = encodeTransfers({
    ...{ count, kinds, blocks, logIndexes, from, to },
    addressCount: addresses.count,
    addresses: addresses.bytes(),
    ids: { words: 8, values: ids },
    amounts: { words: 8, values: amounts },
  });
  if (count === 0) return { transfers, count, malformed: 0, logs: 0, lastBlock: undefined, lastHash: undefined };
  return { transfers, count, malformed: 0, logs: count, lastBlock: scan.lastBlock, lastHash };
}
