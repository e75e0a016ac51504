/**
 * The logs of one block, and whether they are complete. A header's bloom tells which contracts have logs. If there is
 * no log of one of them, the block is in doubt, and its receipts decide, or else a second endpoint.
 */
import { yieldToEventLoop } from "../../core/background.ts";
import { AppError } from "../../core/errors.ts";
import { type Address, type Hash, quantity } from "../../core/hex.ts";
import {
  BLOOM,
  faultyAnswer,
  inOrder,
  type LogFault,
  logFilterParams,
  parseHeader,
  type SortedLogs,
  sortLogs,
  verifyLogs,
} from "../decode/answer.ts";
import { addressesInBloom, Bloom, type BloomedLog, mayName } from "../decode/bloom.ts";
import { receiptsRoot } from "../decode/hashes.ts";
import type { EndpointPool } from "../endpoint/endpoint-pool.ts";
import {
  type BlockHeader,
  type ChainLog,
  type Endpoint,
  hasMoreTopics,
  type LogFilter,
  type Watched,
} from "../port.ts";
import { isUnknownRefusal, RpcError, rpcErrorOf } from "../rpc-errors.ts";
import { fromAnyNode, missingBlock } from "./headers.ts";

/** Returns the blocks whose bloom names a watched contract of which there is no log. */
export function doubtfulBlocks(
  headers: readonly BlockHeader[],
  watched: Watched,
  logs: readonly ChainLog[],
): BlockHeader[] {
  const seen = new Set(logs.map((log) => `${log.blockNumber}${log.address}`));
  return headers.filter((header) =>
    addressesInBloom(header, watched).some((address) => !seen.has(`${header.number}${address}`)),
  );
}

interface WireReceipt {
  readonly logs?: unknown;
  readonly logsBloom?: unknown;
}

/** A log of a receipt. Nothing of it is checked. */
interface WireLog extends BloomedLog {
  readonly blockHash?: unknown;
}

const MAX_ASKED = 100;
/** Logs hashed in one slice: a millisecond. A hostile transaction can have ten thousand. */
const LOGS_AT_ONCE = 32;

const ADDRESS = /^0x[0-9a-f]{40}$/;
const TOPIC = /^0x[0-9a-f]{64}$/;

/** True if a log's bits can be computed. Contracts of other virtual machines, and faulty nodes, have logs without. */
function isBloomable(log: BloomedLog): boolean {
  if (typeof log?.address !== "string" || !ADDRESS.test(log.address.toLowerCase())) return false;
  const { topics } = log;
  return (
    Array.isArray(topics) &&
    topics.length <= 4 &&
    topics.every((one) => typeof one === "string" && TOPIC.test(one.toLowerCase()))
  );
}

const logsIn = (receipt: WireReceipt | null): WireLog[] => (Array.isArray(receipt?.logs) ? receipt.logs : []);

/** Returns the hash in lower case; "" if the log has none. */
const blockHashOf = (log: WireLog | null): string =>
  typeof log?.blockHash === "string" ? log.blockHash.toLowerCase() : "";

const isOfOtherBlock = (log: WireLog | null, { hash }: BlockHeader): boolean =>
  TOPIC.test(blockHashOf(log)) && blockHashOf(log) !== hash;

/** Returns the logs of watched contracts, with any topics. */
function ofWatched(logs: readonly WireLog[], watched: Watched): WireLog[] {
  const addresses = new Set<string>(watched.addresses);
  return logs.filter((log) => typeof log?.address === "string" && addresses.has(log.address.toLowerCase()));
}

/** Returns the logs with the wanted topics. */
function withTopics(logs: readonly ChainLog[], { topics, moreTopics }: Watched) {
  const wanted = new Set<string>(topics);
  return logs.filter(
    (log) => (wanted.size === 0 || wanted.has(log.topics[0] ?? "")) && hasMoreTopics(log.topics, moreTopics),
  );
}

/** Like `sortReceipts`. @throws RpcError `lie` also for a faulty log of a watched contract */
export async function logsOfReceipts(result: unknown, header: BlockHeader, watched: Watched): Promise<ChainLog[]> {
  const { logs, faults } = await sortReceipts(result, header, watched);
  if (faults[0] !== undefined) throw faultyAnswer(faults[0]);
  return logs;
}

/**
 * Returns the watched logs of an `eth_getBlockReceipts` answer, in order. Proves that they are complete. A log that can't
 * be read is a fault of its own contract only; the logs of the others count.
 * @throws RpcError `lie` if receipts and header contradict each other
 */
async function sortReceipts(result: unknown, header: BlockHeader, watched: Watched): Promise<SortedLogs> {
  if (!Array.isArray(result)) throw lie(header, "not a list");
  const all = result.flatMap(logsIn);
  if (!all.some((log) => blockHashOf(log) === header.hash) && all.some((log) => isOfOtherBlock(log, header))) {
    throw new RpcError("transient", "the endpoint's receipts are of another block of that number", {
      meta: { block: header.number },
    });
  }
  const own = ofWatched(all, watched);
  const inBlock = own.filter((log) => blockHashOf(log) === header.hash);
  const at = { fromBlock: header.number, toBlock: header.number };
  const sorted = sortLogs(inBlock, { addresses: watched.addresses, topics: [], ...at });
  const strays = own
    .filter((log) => blockHashOf(log) !== header.hash)
    .map(({ address }) => address.toLowerCase() as Address);
  const unread = await unreadContracts(result, header, watched);
  const accuse = (contract: Address, reason: string) =>
    ({ reason, block: header.number, contract, logIndex: "" }) satisfies LogFault;
  const faults = [
    ...sorted.faults,
    ...strays.map((contract) => accuse(contract, "a log is of another block than its receipt")),
    ...unread.map((contract) => accuse(contract, "a receipt's log can't be read")),
  ];
  const isFaulty = new Set<string | undefined>(faults.map(({ contract }) => contract));
  return { logs: withTopics(sorted.logs, watched).filter(({ address }) => !isFaulty.has(address)), faults };
}

/**
 * Asserts that receipts hold all watched logs: their blooms must cover the header's bloom, and the logs of each relevant
 * receipt must make its bloom. Receipts may hold more than the header's bloom: on Polygon the bridge's state-sync
 * transaction is in no header. Works in slices, with pauses for other work.
 * @returns the watched contracts of which a log may be one that can't be read
 * @throws RpcError `lie` if receipts and header contradict each other
 */
async function unreadContracts(
  receipts: readonly WireReceipt[],
  header: BlockHeader,
  watched: Watched,
): Promise<Address[]> {
  const unread: Address[] = [];
  let [covered, added] = [0n, 0];
  for (const receipt of receipts) {
    const claimed = ownBloom(receipt, header);
    if (!matters(claimed, watched)) {
      covered |= BigInt(claimed);
      continue;
    }
    const made = new Bloom();
    const readable = logsIn(receipt).filter((log) => isBloomable(log) && !isOfOtherBlock(log, header));
    for (const log of readable) {
      made.add(log);
      if (++added % LOGS_AT_ONCE === 0) await yieldToEventLoop();
    }
    const isWhole = readable.length === logsIn(receipt).length;
    if (!isWhole) {
      // The log that can't be read may be of any contract that the receipt names and has no other log of.
      unread.push(...namedWithout(BLOOM.test(claimed) ? claimed : header.logsBloom, readable, watched));
    }
    if (BLOOM.test(claimed)) {
      const whole = BigInt(claimed);
      const isMade = isWhole ? made.value === whole : (made.value | whole) === whole;
      if (!isMade) throw lie(header, "a receipt's logs do not make its bloom");
      covered |= whole;
    } else covered |= made.value;
  }
  const claimed = BigInt(header.logsBloom);
  if ((claimed & covered) !== claimed) throw lie(header, "their logs do not cover the block's bloom");
  return unread;
}

/** Returns the wanted ones among all logs of a block. @throws RpcError `lie` for a faulty one */
const logsOf = (own: readonly WireLog[], filter: LogFilter): ChainLog[] =>
  withTopics(verifyLogs(ofWatched(own, filter), { ...filter, topics: [], moreTopics: [] }), filter);

/** Returns the watched contracts that a bloom names, without those of a receipt's readable logs. */
function namedWithout(bloom: string, readable: readonly BloomedLog[], { addresses }: Watched): Address[] {
  const seen = new Set(readable.map(({ address }) => address.toLowerCase()));
  return addresses.filter((one) => !seen.has(one) && mayName(bloom, one));
}

/** Returns the receipt's own bloom in lower case; "" if it has none. */
function ownBloom(receipt: WireReceipt, header: BlockHeader): string {
  if (typeof receipt !== "object" || receipt === null) throw lie(header, "a receipt is not an object");
  return typeof receipt.logsBloom === "string" ? receipt.logsBloom.toLowerCase() : "";
}

/** True if a receipt's bloom must be recomputed: it names a watched contract, or is missing. */
function matters(own: string, { addresses }: Watched): boolean {
  // With more addresses than this, recomputing every bloom is less work than testing each address.
  if (!BLOOM.test(own) || addresses.length > MAX_ASKED) return true;
  return addresses.some((address) => mayName(own, address));
}

function lie(header: BlockHeader, reason: string): RpcError {
  return new RpcError("lie", `the endpoint's receipts are wrong: ${reason}`, { meta: { block: header.number } });
}

/** A block of which another source tells a log. */
export interface ToldBlock {
  readonly number: number;
  readonly hash: Hash;
  /** Its receipts' root, if its header's fields, among them this one, make its hash. */
  readonly receiptsRoot: Hash | undefined;
}

/** A block's logs by its receipts, and what proves that they are all. `answer`: the node's word alone. */
export interface ProvenLogs {
  readonly logs: readonly ChainLog[];
  readonly by: "root" | "bloom" | "answer";
}

export type SettledBy = "receipts" | "another endpoint" | "asking again";

/** After this many refusals in a row, an endpoint counts as having no receipts. A single refusal may be temporary. */
const MAX_REFUSALS = 3;
/** Most addresses in one filter. Providers refuse longer lists. */
export const MAX_ADDRESSES = 1_000;

/** Reads the logs of single blocks from more than the answer of one endpoint. */
export class BlockLogs {
  readonly #pool: EndpointPool;
  readonly #onSettled: (by: SettledBy) => void;
  /** Refusals of `eth_getBlockReceipts` in a row per endpoint, with any message. */
  readonly #refusals = new Map<Endpoint, number>();

  constructor(pool: EndpointPool, onSettled: (by: SettledBy) => void) {
    this.#pool = pool;
    this.#onSettled = onSettled;
  }

  /**
   * Returns a block's logs from its receipts; `faults` if all receipts have faulty logs of some contracts. Undefined if
   * no endpoint has receipts, or they contradict the header.
   */
  async byReceipts(header: BlockHeader, filter: LogFilter): Promise<SortedLogs | undefined> {
    const found = await this.#readReceipts(header, filter);
    return typeof found === "string" ? undefined : found;
  }

  async #readReceipts(header: BlockHeader, filter: LogFilter): Promise<SortedLogs | "unsupported" | "contradictory"> {
    if (!this.#pool.endpoints.some((endpoint) => this.#hasReceipts(endpoint))) return "unsupported";
    try {
      return await leastFaulty(async (accept) => {
        const ask = async (endpoint: Endpoint) => {
          const result = await fromAnyNode(async () => (await this.#receiptsOf(endpoint, header)) ?? undefined);
          if (result === undefined) throw new RpcError("transient", "the endpoint lacks a block's receipts");
          return accept(await sortReceipts(result, header, filter));
        };
        return this.#pool.run(ask, { meta: { block: header.number } });
      });
    } catch (error) {
      const kind = rpcErrorOf(error)?.kind;
      // The endpoints that support receipts are down. Don't wait for them.
      if (kind === "unsupported") return "unsupported";
      // All receipts contradict the header's bloom. The chain may not build blooms so, and then they prove nothing.
      if (kind === "lie") return "contradictory";
      throw error;
    }
  }

  /**
   * Returns the logs of a block by its receipts, proven by their root or else by the blooms. `other block`: the chain has
   * another block of that number. Undefined if no endpoint has receipts, or they contradict the header.
   * @param claim what the other source tells. If the receipts of a block without a root agree, the header isn't read
   */
  async proven(
    block: ToldBlock,
    filter: LogFilter,
    claim?: (logs: readonly ChainLog[]) => boolean,
  ): Promise<ProvenLogs | "other block" | undefined> {
    if (!this.#pool.endpoints.some((endpoint) => this.#hasReceipts(endpoint))) return undefined;
    const ask = async (endpoint: Endpoint): Promise<ProvenLogs | "other block"> => {
      const receipts = await this.#receiptsOf(endpoint, block);
      if (!Array.isArray(receipts)) throw new RpcError("transient", "the endpoint lacks a block's receipts");
      const root = receiptsRoot(receipts);
      const own = receipts.flatMap(logsIn);
      const isOfBlock = own.every((log) => blockHashOf(log) === block.hash);
      if (isOfBlock && root !== undefined && root === block.receiptsRoot) {
        return { logs: logsOf(own, filter), by: "root" };
      }
      if (isOfBlock && block.receiptsRoot === undefined && own.length > 0 && claim !== undefined) {
        const logs = logsOf(own, filter);
        if (claim(logs)) return { logs, by: "answer" };
      }
      const wire = await endpoint.request("eth_getBlockByNumber", [quantity(block.number), false]);
      const header = parseHeader(wire, block.number, endpoint.label);
      if (header === undefined) throw missingBlock(block.number, endpoint);
      if (header.hash !== block.hash) return "other block";
      const logs = await logsOfReceipts(receipts, header, filter);
      const stated = String((wire as { readonly receiptsRoot?: unknown }).receiptsRoot).toLowerCase();
      return { logs, by: stated === root ? "root" : "bloom" };
    };
    try {
      return await this.#pool.run(ask, { meta: { block: block.number } });
    } catch (error) {
      const kind = rpcErrorOf(error)?.kind;
      if (kind === "unsupported" || kind === "lie") return undefined;
      throw error;
    }
  }

  /**
   * Returns the logs of a block in doubt: 1) from its receipts; 2) without receipts, from a second endpoint and the
   * first one; 3) without a second endpoint, from two more requests. With `strict`, case 3 is an error. `faults` name
   * the contracts that stay in doubt.
   * @param first the endpoint whose logs are in doubt
   * @throws AppError `unverifiable` in strict mode
   */
  async settle(
    header: BlockHeader,
    filter: LogFilter,
    { first, strict }: { first: Endpoint | undefined; strict: boolean },
  ): Promise<SortedLogs> {
    const byReceipts = await this.#readReceipts(header, filter);
    if (typeof byReceipts !== "string") {
      this.#onSettled("receipts");
      return byReceipts;
    }
    // This request only adds logs that the bloom confirms, so a resting endpoint may answer it.
    const second = first && this.#pool.secondEndpoint(first, strict);
    if (second === undefined && strict) {
      throw new AppError("VERIFY=receipts needs eth_getBlockReceipts, or a second endpoint to compare with", {
        code: "unverifiable",
        // Other blocks may have sound receipts.
        meta: { block: header.number, hasReceipts: byReceipts === "contradictory" },
      });
    }
    const named = addressesInBloom(header, filter);
    // Filtered by topic alone, one block is still a small answer.
    const narrow = { ...filter, addresses: named.length > MAX_ADDRESSES ? [] : named };
    const asking = (run: (ask: (endpoint: Endpoint) => Promise<SortedLogs>) => Promise<SortedLogs>) =>
      leastFaulty((accept) => run(async (endpoint) => accept(await logsOfBlock(endpoint, header, narrow))));
    const bySecond = second && (await this.#secondAnswer(() => asking((ask) => this.#pool.runOn(second, ask)), strict));
    const one = bySecond ?? (await asking((ask) => this.#pool.run(ask)));
    const other = await asking((ask) => (first === undefined ? this.#pool.run(ask) : this.#pool.runOn(first, ask)));
    this.#onSettled(bySecond === undefined ? "asking again" : "another endpoint");
    // Neither answer proves that it is complete. Logs that the header's bloom confirms are accepted from both.
    const confirmed = new Set<string>(named);
    const both = new Map([...printed(other.logs), ...printed(one.logs)]);
    const union = inOrder([...both.values()].filter((log) => confirmed.has(log.address)));
    // A contract that is faulty in one answer only is settled by the other one.
    const isIn = ({ faults }: SortedLogs, { contract }: LogFault) =>
      faults.some((fault) => fault.contract === contract);
    return { logs: union.logs, faults: [...union.faults, ...one.faults.filter((fault) => isIn(other, fault))] };
  }

  /** Returns a second endpoint's answer. Undefined if the endpoint fails and the answer is not required. */
  async #secondAnswer<T>(ask: () => Promise<T>, isRequired: boolean): Promise<T | undefined> {
    try {
      return await ask();
    } catch (error) {
      if (isRequired || !(error instanceof AppError)) throw error;
      return undefined;
    }
  }

  #hasReceipts(endpoint: Endpoint): boolean {
    return (this.#refusals.get(endpoint) ?? 0) < MAX_REFUSALS;
  }

  /** @throws RpcError `unsupported` without a request, after enough refusals */
  async #receiptsOf(endpoint: Endpoint, { number }: Pick<BlockHeader, "number">): Promise<unknown> {
    if (!this.#hasReceipts(endpoint)) throw new RpcError("unsupported", "the endpoint has no eth_getBlockReceipts");
    const before = this.#refusals.get(endpoint) ?? 0;
    try {
      const result = await endpoint.request("eth_getBlockReceipts", [quantity(number)]);
      this.#refusals.set(endpoint, 0);
      return result;
    } catch (error) {
      // Requests that ran at the same time count once: one failure can end a whole batch.
      if (isUnknownRefusal(error)) this.#refusals.set(endpoint, before + 1);
      throw error;
    }
  }
}

/**
 * Logs by their content, to find them in another answer: only some nodes tell the index of a transaction, and some count
 * the logs of each transaction from 0. Equal logs of a transaction are told apart by their number.
 */
function printed(logs: readonly ChainLog[]): Map<string, ChainLog> {
  const counts = new Map<string, number>();
  const found = new Map<string, ChainLog>();
  for (const log of logs) {
    const content = [log.transactionHash, log.address, log.data, ...log.topics].join(" ");
    const nth = counts.get(content) ?? 0;
    counts.set(content, nth + 1);
    found.set(`${nth} ${content}`, log);
  }
  return found;
}

/** Reads one block's logs by hash (EIP-234). A node on another branch refuses instead of giving other logs. */
async function logsOfBlock(endpoint: Endpoint, { hash, number }: BlockHeader, filter: LogFilter): Promise<SortedLogs> {
  const { fromBlock: _from, toBlock: _to, ...rest } = logFilterParams(filter);
  const result = await endpoint.request("eth_getLogs", [{ blockHash: hash, ...rest }]);
  const sorted = sortLogs(result, { ...filter, fromBlock: number, toBlock: number });
  if (sorted.logs.some((log) => log.blockHash !== hash)) {
    throw new RpcError("lie", "the endpoint's logs are of another block", { meta: { block: number } });
  }
  return sorted;
}

/**
 * Asks endpoints for logs until an answer is sound. If all answers have faulty logs, returns the one with the fewest.
 * @param ask asks by the pool, which tries other endpoints as long as `accept` throws
 */
export async function leastFaulty<T extends SortedLogs>(ask: (accept: (answer: T) => T) => Promise<T>): Promise<T> {
  let least: T | undefined;
  try {
    return await ask((answer) => {
      const [fault] = answer.faults;
      if (fault === undefined) return answer;
      if (least === undefined || answer.faults.length < least.faults.length) least = answer;
      throw faultyAnswer(fault);
    });
  } catch (error) {
    if (least === undefined || !(error instanceof AppError && error.retryable)) throw error;
    return least;
  }
}
