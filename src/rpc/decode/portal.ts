/**
 * Reads the lines of an SQD Portal's answer: one block with its logs to a line. Pure. Trusts nothing: the logs go
 * through the same checks as a node's, and a header counts as hashed only if its fields make its hash.
 */
import { messageOf } from "../../core/errors.ts";
import { type Hash, hexToBytes } from "../../core/hex.ts";
import { isCrowded } from "../../core/json-bytes.ts";
import type { ArchivedRange, ChainLog, LogFilter, TouchedBlocks } from "../port.ts";
import { RpcError } from "../rpc-errors.ts";
import type { DecodeReply, DecodeRequest } from "./answer.ts";
import { mayHold } from "./bloom.ts";
import { BLOOM } from "./header.ts";
import { headerHash } from "./header-hash.ts";
import { decodeTransferLogs, NFT_TOPICS } from "./transfers.ts";
import { verifyLogs } from "./verify-logs.ts";

/** A block's header as the archive tells it. */
interface PortalHeader extends Readonly<Record<string, unknown>> {
  readonly number: number;
  readonly hash: Hash;
}

interface PortalLine {
  readonly header?: PortalHeader;
  readonly logs?: unknown;
}

/** What an answer says. */
interface DecodedPortalAnswer {
  /** In chain order. */
  readonly logs: readonly ChainLog[];
  /** Headers of the blocks that hold a log. */
  readonly touched: readonly PortalHeader[];
  /** The last block of the answer: complete up to here. Undefined if the answer has no line. */
  readonly last: PortalHeader | undefined;
}

const LINE_END = 0x0a;
const WORD = /^0x[0-9a-f]{64}$/;
const decoder = new TextDecoder();

const lie = (reason: string, block?: number): RpcError =>
  new RpcError("lie", `the archive's answer is wrong: ${reason}`, { meta: block === undefined ? {} : { block } });

/**
 * Reads an answer. A last line that was cut off is left out: the answer is then complete up to the line before.
 * @param isSettling true if headers of the chain have the blooms of other blocks (`BlockHeader.settledHeight`)
 * @throws RpcError `lie` if the answer contradicts the request or itself
 */
export function readPortal(raw: Uint8Array, filter: LogFilter, isSettling = false): DecodedPortalAnswer {
  const wire: object[] = [];
  const touched: PortalHeader[] = [];
  let last: PortalHeader | undefined;
  for (let at = 0; at < raw.length; ) {
    const found = raw.indexOf(LINE_END, at);
    const end = found < 0 ? raw.length : found;
    if (end === at) {
      at++;
      continue;
    }
    const bytes = raw.subarray(at, end);
    if (isCrowded(bytes)) throw lie("a line has more values than logs can have");
    const text = decoder.decode(bytes).trim();
    at = end + 1;
    if (text === "") continue;
    const line = lineOf(text);
    if (line === undefined) {
      if (found < 0) break;
      throw lie("a line is not JSON");
    }
    const header = headerOf(line, filter);
    // An archive whose chunks overlap repeats a block.
    if (header.number === last?.number && header.hash === last.hash) continue;
    if (last !== undefined && header.number <= last.number) throw lie("its blocks are not in order", header.number);
    const isNext = header.number === (last?.number ?? -2) + 1;
    const parent = String(header["parentHash"]).toLowerCase();
    if (isNext && WORD.test(parent) && parent !== last?.hash) throw lie("its blocks are not linked", header.number);
    last = header;
    const { logs = [] } = line;
    if (!Array.isArray(logs)) throw lie("the logs of a block are not a list", header.number);
    if (logs.length === 0) continue;
    touched.push(header);
    const { number: blockNumber, hash: blockHash } = header;
    for (const log of logs) wire.push({ ...(log as object), blockNumber, blockHash });
  }
  const logs = verifyLogs(wire, filter);
  assertInBlooms(logs, touched, isSettling);
  return { logs, touched, last };
}

function lineOf(text: string): PortalLine | undefined {
  try {
    const line = JSON.parse(text) as PortalLine | null;
    return typeof line === "object" && line !== null ? line : undefined;
  } catch {
    return undefined;
  }
}

function headerOf({ header }: PortalLine, { fromBlock, toBlock }: LogFilter): PortalHeader {
  const number = header?.number;
  const hash = typeof header?.hash === "string" ? header.hash.toLowerCase() : "";
  if (!Number.isSafeInteger(number) || !WORD.test(hash)) throw lie("a block lacks its number or hash");
  if ((number as number) < fromBlock || (number as number) > toBlock) throw lie("a block is outside the range", number);
  return { ...header, number: number as number, hash: hash as Hash };
}

/**
 * True if a header has its own block's bloom and root. One that settles other blocks says so. If the chain has such
 * headers, one without the field counts only if its fields make its hash: the archive may not know the field.
 */
const isOfItself = (header: PortalHeader, isSettling: boolean): boolean =>
  (header["settledHeight"] ?? undefined) === undefined && (!isSettling || headerHash(header) === header.hash);

/** A log that isn't in its block's bloom was never in that block. */
function assertInBlooms(logs: readonly ChainLog[], touched: readonly PortalHeader[], isSettling: boolean): void {
  const blooms = new Map<number, string>();
  for (const header of touched) {
    const { number, logsBloom } = header;
    const bloom = String(logsBloom).toLowerCase();
    if (!isOfItself(header, isSettling)) continue;
    if (BLOOM.test(bloom) && !EMPTY_BLOOM.test(bloom)) blooms.set(number, bloom);
  }
  for (const log of logs) {
    const bloom = blooms.get(log.blockNumber);
    if (bloom !== undefined && !mayHold(bloom, log)) throw lie("a log is not in its block's bloom", log.blockNumber);
  }
}

/** Chains that fill no bloom have this one in each header. */
const EMPTY_BLOOM = /^0x0{512}$/;

/** Decodes an answer into columns. Never throws. */
export function decodePortal(request: DecodeRequest): DecodeReply {
  const { id, raw, address, forms, fromBlock, toBlock, isSettling = false } = request;
  try {
    const filter = { addresses: [address], topics: NFT_TOPICS, fromBlock, toBlock };
    const { logs, touched, last } = readPortal(raw, filter, isSettling);
    if (last === undefined) return { id, kind: "transient", message: "the archive's answer has no block" };
    const decoded = decodeTransferLogs(logs, forms);
    const { number: coveredThrough, hash: toHash } = last;
    const range: ArchivedRange = {
      ...decoded,
      logs: logs.length,
      lastBlock: touched.at(-1)?.number,
      lastHash: touched.at(-1)?.hash,
      coveredThrough,
      toHash,
      touched: columnsOf(touched, isSettling),
    };
    return { id, range };
  } catch (error) {
    if (!(error instanceof RpcError)) return { id, kind: "lie", message: messageOf(error) };
    return { id, kind: error.kind, message: error.message, meta: error.meta };
  }
}

function columnsOf(touched: readonly PortalHeader[], isSettling: boolean): TouchedBlocks {
  const count = touched.length;
  const columns = {
    numbers: new Uint32Array(count),
    hashes: new Uint8Array(count * 32),
    receiptsRoots: new Uint8Array(count * 32),
    isHashed: new Uint8Array(count),
  };
  for (const [i, header] of touched.entries()) {
    columns.numbers[i] = header.number;
    columns.hashes.set(hexToBytes(header.hash), i * 32);
    const root = String(header["receiptsRoot"]).toLowerCase();
    if (WORD.test(root) && isOfItself(header, isSettling)) columns.receiptsRoots.set(hexToBytes(root), i * 32);
    columns.isHashed[i] = headerHash(header) === header.hash ? 1 : 0;
  }
  return columns;
}
