/**
 * The lives of an address: a contract that was destroyed may be deployed again at its address by CREATE2. Finds by code
 * and logs where earlier contracts ended.
 */
import { AppError } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import type { HeaderRef } from "../../events/types.ts";
import type { Archives } from "../../rpc/archive/archives.ts";
import { NFT_TOPICS } from "../../rpc/decode/transfers.ts";
import type { ChainReader } from "../../rpc/port.ts";
import type { RpcChainReader } from "../../rpc/reading/reader.ts";
import { isStateUnavailable } from "../../rpc/rpc-errors.ts";
import { firstTold } from "./first-told.ts";

/** Intervals per step of a search by code: 20 million blocks take nine round trips instead of 25. */
export const PARTS = 8;
/** The same where the result may be too low: fewer calls, mostly in one round trip. */
const COARSE_PARTS = 4;
/** Requests for logs of earlier lives, and blocks whose code is read to find an end: 32 at most. */
const [MAX_REQUESTS, PROBES] = [64, 64];
/** Most ends that are recorded of an address. Each life keeps a ledger of at least 8 KB in memory. */
export const MAX_ENDS = 64;
/** Prefix of the code of an account that delegates to a contract (EIP-7702), before the 20 bytes of the address. */
const DELEGATION = "0xef0100";
const [PUSH1, PUSH32, SELFDESTRUCT] = [0x60, 0x7f, 0xff] as const;

const isDelegation = (code: string): boolean => code.startsWith(DELEGATION) && code.length === 48;

/**
 * Time from which accounts may delegate on some chain: the proposal of EIP-7702 was made on 2024-05-07
 * (github.com/ethereum/EIPs/blob/master/EIPS/eip-7702.md). In seconds since the epoch.
 */
const DELEGATIONS_FROM = Date.UTC(2024, 4, 7) / 1_000;

/**
 * Returns a block before which no account emitted a log, by the times of the headers. 0 if the node does not tell them.
 * @param head the newest block
 */
export async function firstDelegations(reader: ChainReader, head: HeaderRef): Promise<number> {
  // A development chain's clock may say anything.
  if (head.timestamp < DELEGATIONS_FROM) return 0;
  let [low, high] = [0, head.number];
  while (high - low > 1) {
    // The first look is at the start, because most chains that are young, or are a developer's, began later.
    const blocks = low === 0 && high === head.number ? [1] : between(low, high);
    const headers = await reader.headers(blocks);
    if (headers.some((header) => header === undefined)) return 0;
    const first = headers.findIndex((header) => (header?.timestamp ?? 0) >= DELEGATIONS_FROM);
    low = (first < 0 ? blocks.at(-1) : blocks[first - 1]) ?? low;
    high = blocks[first] ?? high;
  }
  return low;
}

/** True for the code of a contract. A delegation is none: its end destroys nothing. */
export const isContract = (code: string): boolean => code !== "0x" && code !== "" && !isDelegation(code);

/** True if the code has the instruction that destroys its contract. */
export function mayBeDestroyed(code: string): boolean {
  const bytes = Buffer.from(code.slice(2), "hex");
  // The compiler's description of the code stands at its end, with its length in the last two bytes.
  const described = bytes.length < 2 ? 0 : bytes.readUInt16BE(bytes.length - 2) + 2;
  const end = described < bytes.length ? bytes.length - described : bytes.length;
  for (let at = 0; at < end; at++) {
    const instruction = bytes[at] as number;
    if (instruction === SELFDESTRUCT) return true;
    if (instruction >= PUSH1 && instruction <= PUSH32) at += instruction - PUSH1 + 1;
  }
  return false;
}

/** Returns the blocks that divide an interval into equal parts. */
export function between(low: number, high: number, most = PARTS): number[] {
  const parts = Math.min(most, high - low);
  return Array.from({ length: parts - 1 }, (_, i) => low + Math.floor(((high - low) * (i + 1)) / parts));
}

/**
 * Returns the first block after which the address has code, or has none, between a block where that is not so and one
 * where it is: several blocks per round trip. If it changes more than once, one of the changes.
 * @param nearEnough share of the blocks after it by which the result may be too low
 * @throws AppError `state_unavailable` if the node has no old state
 */
export async function firstBlockWhere(
  reader: ChainReader,
  address: Address,
  {
    isThere,
    after,
    by,
    nearEnough = 0,
  }: { readonly isThere: boolean; readonly after: number; readonly by: number; readonly nearEnough?: number },
): Promise<number> {
  let [low, high] = [after, by];
  while (high - low > 1) {
    if (high - low < (by - high) * nearEnough) return low + 1;
    const blocks = between(low, high, nearEnough > 0 ? COARSE_PARTS : PARTS);
    const codes = await Promise.all(blocks.map((block) => reader.code(address, block)));
    const first = codes.findIndex((code) => (code !== "0x" && code !== "") === isThere);
    low = (first < 0 ? blocks.at(-1) : blocks[first - 1]) ?? low;
    high = blocks[first] ?? high;
  }
  return high;
}

/** The first block of the earliest life that was found, and the ends of all lives but the present one, rising. */
interface Lives {
  readonly startBlock: number;
  readonly ends: readonly number[];
}

interface LivesOptions {
  /** A block with code, with none in the block before. */
  readonly deployed: number;
  /** Archives that may tell the logs of earlier lives. */
  readonly archives?: Archives | undefined;
  readonly signal: AbortSignal;
}

/**
 * Finds the lives before the present one.
 * @param head a later block with code
 */
export async function findLives(
  reader: RpcChainReader,
  address: Address,
  { head, ...options }: LivesOptions & { readonly head: number },
): Promise<Lives> {
  const { deployed } = options;
  const before = await livesBefore(reader, address, options);
  const count = Math.min(PROBES, Math.max(0, head - deployed - 1));
  const probes = Array.from(
    { length: count },
    (_, i) => deployed + Math.floor(((head - deployed) * (i + 1)) / (count + 1)),
  );
  const codes = await Promise.all(probes.map((block) => reader.code(address, block)));
  const ends = [...before.ends];
  for (const [i, block] of probes.entries()) {
    const isGone = !isContract(codes[i] as string) && (i === 0 || isContract(codes[i - 1] as string));
    if (!isGone) continue;
    ends.push(await firstBlockWhere(reader, address, { isThere: false, after: probes[i - 1] ?? deployed, by: block }));
  }
  return { startBlock: before.startBlock, ends };
}

/** Finds the lives below a deployment by their logs, with a bounded number of requests where no archive tells them. */
async function livesBefore(
  reader: RpcChainReader,
  address: Address,
  { deployed, archives, signal }: LivesOptions,
): Promise<Lives> {
  const ends: number[] = [];
  let startBlock = deployed;
  const requests = { left: MAX_REQUESTS };
  const search = reader.logSearch();
  try {
    for (let from = 0; from < deployed && ends.length < MAX_ENDS / 2; ) {
      const range = { fromBlock: from, toBlock: deployed - 1 };
      const told = archives && (await firstTold({ reader, archives }, { ...range, address, forms: undefined, signal }));
      if (told !== undefined && "none" in told) {
        from = told.none + 1;
        continue;
      }
      const filter = { ...range, addresses: [address], topics: NFT_TOPICS, requests };
      const { logs, toBlock } =
        told === undefined
          ? await search.next(filter, { signal })
          : { logs: told.logs, toBlock: told.logs[0]!.blockNumber };
      const block = logs[0]?.blockNumber;
      from = toBlock + 1;
      if (block === undefined) continue;
      if (ends.length === 0) {
        startBlock = await firstBlockWhere(reader, address, { isThere: true, after: -1, by: block });
      }
      const end = await firstBlockWhere(reader, address, { isThere: false, after: block - 1, by: deployed - 1 });
      ends.push(end);
      from = end + 1;
    }
  } catch (error) {
    if (!(error instanceof AppError && error.code === "too_many_logs")) throw error;
  }
  return { startBlock, ends };
}

/** True if the address has code after a block, or now if the node has dropped that block's state. */
export async function hasCodeAfter(reader: ChainReader, address: Address, block: number): Promise<boolean> {
  try {
    return isContract(await reader.code(address, block));
  } catch (error) {
    if (!isStateUnavailable(error)) throw error;
    return isContract(await reader.code(address, "latest"));
  }
}

/** False if the address has code after a block. A block whose state the node has dropped is too old to be in doubt. */
export async function wasGone(reader: ChainReader, address: Address, block: number): Promise<boolean> {
  try {
    return !isContract(await reader.code(address, block));
  } catch (error) {
    if (isStateUnavailable(error)) return true;
    throw error;
  }
}

/**
 * Returns the block that ended a followed contract, which has no code after `by`: looks further back with each probe, all
 * in one round trip, then between two of them. `by` if the node has no old state.
 * @param known blocks at which there may have been code
 * @throws AppError `unverifiable` if the node shows no code at any of these blocks: it may show none of any contract
 */
export async function endOfLife(
  reader: ChainReader,
  address: Address,
  { known, by }: { readonly known: readonly number[]; readonly by: number },
): Promise<number> {
  const first = Math.min(...known);
  const probes = known.filter((block) => block >= 0 && block < by);
  for (let back = 1; by - back > first; back *= 2) probes.push(by - back);
  probes.sort((a, b) => b - a);
  try {
    const codes = await Promise.all(probes.map((block) => reader.code(address, block)));
    const newest = codes.findIndex(isContract);
    const after = probes[newest];
    if (after === undefined) {
      throw new AppError("the node shows no code of a followed contract at any block", { code: "unverifiable" });
    }
    return await firstBlockWhere(reader, address, { isThere: false, after, by: probes[newest - 1] ?? by });
  } catch (error) {
    if (isStateUnavailable(error)) return by;
    throw error;
  }
}
