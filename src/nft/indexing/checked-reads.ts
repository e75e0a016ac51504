/**
 * Stricter reads of history: links headers, proves logs by receipts, and compares them with a second endpoint. Never returns
 * an answer in doubt.
 */
import { firstUnlinked, numbersBetween } from "../../chain/branch.ts";
import type { Clock } from "../../core/clock.ts";
import type { Address, Hash } from "../../core/hex.ts";
import { decodeTransfers } from "../../events/columns.ts";
import type { BlockRef, TransferForm } from "../../events/types.ts";
import { decodeTransferLogs, NFT_TOPICS } from "../../rpc/decode/transfers.ts";
import type {
  BlockHeader,
  ChainLog,
  DecodedRange,
  Endpoint,
  LogFilter,
  TransferFilter,
  Verify,
} from "../../rpc/port.ts";
import type { ToldLogs } from "../../rpc/reading/block-logs.ts";
import type { RpcChainReader } from "../../rpc/reading/reader.ts";
import { RpcError } from "../../rpc/rpc-errors.ts";
import { linesByBlock, textOfLines } from "./omissions.ts";

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
export async function readChecked(
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
export async function compareWithSecond(
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

/** Blocks in which two endpoints differ that are looked at. */
const MAX_COMPARED = 64;
/** Share of ranges compared with a second endpoint by `VERIFY=sample`, beside the first one. */
export const SAMPLE = 0.01;
/** Attempts for an answer in doubt, before the job fails and is retried with backoff. */
export const ATTEMPTS = 4;
export const RETRY_BASE_MS = 200;
export const RETRY_MAX_MS = 5_000;
/** Distance below the final block within which a node on an orphaned branch may have other blocks. */
export const NEAR_FINAL = 512;
/** Blocks per range if the range is checked by headers: their headers are read as well. */
export const CHECKED_SPAN = 500;

/** A running backfill. */
export interface RunningBackfill extends BackfillTask {
  /** Per endpoint, the check that it has the final block. */
  readonly finalBlockChecks: Map<Endpoint, Promise<void>>;
}

/**
 * Asserts once per endpoint that it has the final block, before any other request. An endpoint that leaves an orphaned
 * branch during its answer would give the orphaned logs and hash, and then the right final block.
 */
export async function assertHasFinalBlock(task: RunningBackfill, endpoint: Endpoint): Promise<void> {
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
export async function hashOfRange({ reader, final }: BackfillTask, endpoint: Endpoint, toBlock: number): Promise<Hash> {
  return hashIn(await reader.headersOf(endpoint, numbersToShow(final, toBlock)), final, toBlock);
}

/**
 * Returns the blocks that an endpoint must show so that its logs up to `toBlock` count: that block, and near the final
 * block also the final one. Further below no orphaned branch survives, and `assertHasFinalBlock` has checked the final
 * block.
 */
export function numbersToShow(final: BlockRef, toBlock: number): number[] {
  const isNear = toBlock < final.number && toBlock > final.number - NEAR_FINAL;
  return isNear ? [final.number, toBlock] : [toBlock];
}

/** Returns the last header's hash. @throws RpcError `transient` if a header is missing or the final block is another */
export function hashIn(headers: readonly (BlockHeader | undefined)[], final: BlockRef, toBlock: number): Hash {
  const [top, last] = [headers[0], headers.at(-1)];
  if (last === undefined || top === undefined) {
    throw new RpcError("transient", "the endpoint lacks a final block", { meta: { block: toBlock } });
  }
  if (top.number === final.number && top.hash !== final.hash) {
    throw new RpcError("transient", "the endpoint is on another branch", { meta: { block: final.number } });
  }
  return last.hash;
}
