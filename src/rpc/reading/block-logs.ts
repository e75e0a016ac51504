/**
 * The logs of single blocks, and whether they are complete. A bloom tells which contracts have logs. If there is no log
 * of one of them, its blocks are in doubt, and their receipts decide. If receipts contradict the header, the contracts
 * stay in doubt. Only where no endpoint has receipts, a second endpoint decides.
 */
import { countedCache } from "../../core/counted-cache.ts";
import { AppError } from "../../core/errors.ts";
import { type Address, type Hash, quantity } from "../../core/hex.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import { Bloom, type BloomedLog, mayName } from "../decode/bloom.ts";
import { receiptsRoot } from "../decode/hashes.ts";
import { BLOOM, parseHeader } from "../decode/header.ts";
import { logFilterParams } from "../decode/log-request.ts";
import { faultyAnswer, inOrder, type LogFault, type SortedLogs, sortLogs, verifyLogs } from "../decode/verify-logs.ts";
import type { EndpointPool } from "../endpoint/endpoint-pool.ts";
import {
  type BlockHeader,
  type BloomedBlocks,
  type ChainLog,
  type Endpoint,
  hasMoreTopics,
  type LogFilter,
  type Watched,
} from "../port.ts";
import { asOptional, isHistoryPruned, isUnknownRefusal, RpcError, rpcErrorOf } from "../rpc-errors.ts";
import { bloomedBlocks, namedIn, ownBloom, type ReadHeaders } from "./bloomed-blocks.ts";
import { fromAnyNode, headerFrom, missingBlock, prunedBelowHead } from "./headers.ts";

/**
 * Returns the blocks in doubt: their bloom names a watched contract of which none of them has a log.
 * @param isByBlock true if each of the blocks needs one. Otherwise a log of one block explains a bloom over several
 */
export function doubtfulBlocks(
  groups: readonly BloomedBlocks[],
  watched: Watched,
  { logs, isByBlock }: { readonly logs: readonly ChainLog[]; readonly isByBlock: boolean },
): BloomedBlocks[] {
  const seen = new Set(logs.map((log) => `${log.blockNumber}${log.address}`));
  const isExplained = ({ blocks }: BloomedBlocks, address: Address): boolean => {
    const hasLog = ({ number }: BlockHeader) => seen.has(`${number}${address}`);
    return isByBlock ? blocks.every(hasLog) : blocks.some(hasLog);
  };
  return groups.filter((group) => namedIn(group, watched).some((address) => !isExplained(group, address)));
}

interface WireReceipt {
  readonly logs?: unknown;
  readonly logsBloom?: unknown;
  readonly type?: unknown;
  readonly gasUsed?: unknown;
}

/** A log of a receipt. Nothing of it is checked. */
interface UncheckedLog extends BloomedLog {
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

const logsIn = (receipt: WireReceipt | null): UncheckedLog[] => (Array.isArray(receipt?.logs) ? receipt.logs : []);

/** Returns the hash in lower case; "" if the log has none. */
const blockHashOf = (log: UncheckedLog | null): string =>
  typeof log?.blockHash === "string" ? log.blockHash.toLowerCase() : "";

const isOfOtherBlock = (log: UncheckedLog | null, { hash }: BlockHeader): boolean =>
  TOPIC.test(blockHashOf(log)) && blockHashOf(log) !== hash;

/** Returns the logs of watched contracts, with any topics. */
function ofWatched(logs: readonly UncheckedLog[], watched: Watched): UncheckedLog[] {
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

/** Like `sortReceipts`, for the receipts of one block. @throws RpcError `lie` also for a faulty log of a watched contract */
export async function logsOfReceipts(result: unknown, header: BlockHeader, watched: Watched): Promise<ChainLog[]> {
  const { logs, faults } = await sortReceipts(ownBloom(header), [result], watched, { isHeld: false });
  if (faults[0] !== undefined) throw faultyAnswer(faults[0]);
  return logs;
}

/** Whether receipts of the chain have made a header's root before. */
interface RootsHeld {
  isHeld: boolean;
}

/** Logs of receipts, and what ties them to the header: `answer` if no header has their bloom yet. */
interface SortedReceipts extends SortedLogs {
  readonly by: ProvenLogs["by"];
}

/**
 * Returns the watched logs of `eth_getBlockReceipts` answers, one for each of the blocks, in order. Proves that they are
 * complete. A log that can't be read is a fault of its own contract only; the logs of the others count.
 * @throws RpcError `lie` if receipts and header contradict each other
 */
async function sortReceipts(
  group: BloomedBlocks,
  answers: readonly unknown[],
  watched: Watched,
  roots: RootsHeld,
): Promise<SortedReceipts> {
  const logs: ChainLog[] = [];
  const faults: LogFault[] = [];
  let covered = 0n;
  for (const [at, header] of group.blocks.entries()) {
    const block = await sortBlock(answers[at], header, watched);
    logs.push(...block.logs);
    faults.push(...block.faults);
    covered |= block.covered;
  }
  const by = await provenBy(group, answers.flat() as WireReceipt[], covered, roots);
  return { logs, faults, by };
}

/**
 * Tells what ties receipts to their header: they make its root, or their blooms cover its bloom. Receipts may hold more
 * than the bloom, which on Polygon lacks the bridge's logs.
 * @throws RpcError `lie` if they do neither, or if receipts of known types miss a root that other blocks' made
 */
async function provenBy(
  { blocks, logsBloom, receiptsRoot: stated }: BloomedBlocks,
  receipts: readonly WireReceipt[],
  covered: bigint,
  roots: RootsHeld,
): Promise<ProvenLogs["by"]> {
  if (logsBloom === undefined) return "answer";
  const claimed = BigInt(logsBloom);
  const isCovered = (claimed & covered) === claimed;
  const first = blocks[0] as BlockHeader;
  if (stated !== undefined) {
    if ((await rootsOf(receipts)).includes(stated)) {
      roots.isHeld ||= receipts.length > 0;
      return "root";
    }
    const isKnown = receipts.every(({ type }) => STANDARD_TYPES.has(type));
    if (isCovered && roots.isHeld && isKnown) throw lie(first, "they do not make the block's receipts root");
  }
  if (!isCovered) throw lie(first, "their logs do not cover the block's bloom");
  return "bloom";
}

/** Types of receipts whose encoding is the same on every chain. */
const STANDARD_TYPES = new Set<unknown>(["0x0", "0x1", "0x2", "0x3", "0x4"]);

/** The root of receipts, and that without a last one of a transaction that used no gas: the bridge's on Polygon. */
async function rootsOf(receipts: readonly WireReceipt[]): Promise<(Hash | undefined)[]> {
  const isOfBridge = receipts.at(-1)?.gasUsed === "0x0";
  const all = await receiptsRoot(receipts);
  return isOfBridge ? [all, await receiptsRoot(receipts.slice(0, -1))] : [all];
}

/** The watched logs of one block's receipts, and the bits of its receipts' blooms. */
async function sortBlock(
  result: unknown,
  header: BlockHeader,
  watched: Watched,
): Promise<SortedLogs & { readonly covered: bigint }> {
  if (!Array.isArray(result)) throw lie(header, "not a list");
  const all = result.flatMap(logsIn);
  if (!all.some((log) => blockHashOf(log) === header.hash) && all.some((log) => isOfOtherBlock(log, header))) {
    throw ofOtherBlock(header);
  }
  const own = ofWatched(all, watched);
  const inBlock = own.filter((log) => blockHashOf(log) === header.hash);
  const at = { fromBlock: header.number, toBlock: header.number };
  const sorted = sortLogs(inBlock, { addresses: watched.addresses, topics: [], ...at });
  const strays = own
    .filter((log) => blockHashOf(log) !== header.hash)
    .map(({ address }) => address.toLowerCase() as Address);
  const { unread, covered } = await coveredBy(result, header, watched);
  const accuse = (contract: Address, reason: string) =>
    ({ reason, block: header.number, contract, logIndex: "" }) satisfies LogFault;
  const faults = [
    ...sorted.faults,
    ...strays.map((contract) => accuse(contract, "a log is of another block than its receipt")),
    ...unread.map((contract) => accuse(contract, "a receipt's log can't be read")),
  ];
  const isFaulty = new Set<string | undefined>(faults.map(({ contract }) => contract));
  const logs = withTopics(sorted.logs, watched).filter(({ address }) => !isFaulty.has(address));
  return { logs, faults, covered };
}

/**
 * Returns the bits of the receipts' blooms. The logs of each relevant receipt must make its bloom. Works in slices, with
 * pauses for other work. `unread` are the watched contracts of which a log may be one that can't be read.
 * @throws RpcError `lie` if a receipt contradicts itself
 */
async function coveredBy(
  receipts: readonly WireReceipt[],
  header: BlockHeader,
  watched: Watched,
): Promise<{ readonly unread: readonly Address[]; readonly covered: bigint }> {
  const unread: Address[] = [];
  let [covered, added] = [0n, 0];
  for (const receipt of receipts) {
    const claimed = bloomIn(receipt, header);
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
      const bloom = BLOOM.test(claimed) ? claimed : header.settledHeight === undefined ? header.logsBloom : undefined;
      unread.push(...namedWithout(bloom, readable, watched));
    }
    if (BLOOM.test(claimed)) {
      const whole = BigInt(claimed);
      const isMade = isWhole ? made.value === whole : (made.value | whole) === whole;
      if (!isMade) throw lie(header, "a receipt's logs do not make its bloom");
      covered |= whole;
    } else covered |= made.value;
  }
  return { unread, covered };
}

/** Returns the wanted ones among all logs of a block. @throws RpcError `lie` for a faulty one */
const logsOf = (own: readonly UncheckedLog[], filter: LogFilter): ChainLog[] =>
  withTopics(verifyLogs(ofWatched(own, filter), { ...filter, topics: [], moreTopics: [] }), filter);

/** Returns the watched contracts that a bloom names, or all without one, without those of a receipt's readable logs. */
function namedWithout(
  bloom: string | undefined,
  readable: readonly BloomedLog[],
  { addresses }: Pick<Watched, "addresses">,
): Address[] {
  const seen = new Set(readable.map(({ address }) => address.toLowerCase()));
  return addresses.filter((one) => !seen.has(one) && (bloom === undefined || mayName(bloom, one)));
}

/** Returns the receipt's own bloom in lower case; "" if it has none. */
function bloomIn(receipt: WireReceipt, header: BlockHeader): string {
  if (typeof receipt !== "object" || receipt === null) throw lie(header, "a receipt is not an object");
  return typeof receipt.logsBloom === "string" ? receipt.logsBloom.toLowerCase() : "";
}

/** True if a receipt's bloom must be recomputed: it names a watched contract, or is missing. */
function matters(own: string, { addresses }: Watched): boolean {
  // With more addresses than this, recomputing every bloom is less work than testing each address.
  if (!BLOOM.test(own) || addresses.length > MAX_ASKED) return true;
  return addresses.some((address) => mayName(own, address));
}

function ofOtherBlock({ number }: BlockHeader): RpcError {
  return new RpcError("transient", "the endpoint's receipts are of another block of that number", {
    meta: { block: number },
  });
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

/** A block's logs as one endpoint tells them. */
export interface ToldLogs extends ProvenLogs {
  readonly endpoint: Endpoint;
}

export type SettledBy = "receipts" | "another endpoint" | "asking again";

/** After this many refusals in a row, an endpoint counts as having no receipts. A single refusal may be temporary. */
const MAX_REFUSALS = 3;
/** Most blocks whose contradictory receipts are remembered. */
const MAX_CONTRADICTED = 1_000;
/** Most addresses in one filter. Providers refuse longer lists. */
export const MAX_ADDRESSES = 1_000;

/** Reads the logs of single blocks from more than the answer of one endpoint. */
export class BlockLogs {
  readonly #pool: EndpointPool;
  readonly #onSettled: (by: SettledBy) => void;
  readonly #readHeaders: ReadHeaders;
  /** Refusals of `eth_getBlockReceipts` in a row per endpoint, with any message. */
  readonly #refusals = new Map<Endpoint, number>();
  readonly #roots: RootsHeld = { isHeld: false };
  /** Hashes of blocks whose receipts contradicted their header: an endpoint that is benched for it is not asked again. */
  readonly #contradicted = countedCache<Hash, true>(MAX_CONTRADICTED);

  constructor(pool: EndpointPool, readHeaders: ReadHeaders, onSettled: (by: SettledBy) => void) {
    this.#pool = pool;
    this.#readHeaders = readHeaders;
    this.#onSettled = onSettled;
  }

  /** See `bloomedBlocks`. */
  bloomed(headers: readonly BlockHeader[]): Promise<BloomedBlocks[]> {
    return bloomedBlocks(headers, this.#readHeaders);
  }

  /**
   * Returns the blocks' logs from their receipts; `faults` if all receipts have faulty logs of some contracts.
   * `contradictory`: receipts contradict the header, and no endpoint has better ones. Undefined if none has receipts.
   */
  async byReceipts(group: BloomedBlocks, filter: LogFilter): Promise<SortedLogs | "contradictory" | undefined> {
    if (!this.#pool.endpoints.some((endpoint) => this.#hasReceipts(endpoint))) return undefined;
    const { hash } = group.blocks[0] as BlockHeader;
    try {
      return await leastFaulty(async (accept) => {
        const ask = async (endpoint: Endpoint) => {
          const answers: unknown[] = [];
          for (const header of group.blocks) answers.push(await this.#presentReceipts(endpoint, header));
          const sorted = await sortReceipts(group, answers, filter, this.#roots)
            .catch((error: unknown) => this.#sortAnew(error, { endpoint, group, filter }))
            .catch((error: unknown) => {
              if (rpcErrorOf(error)?.kind === "lie") this.#contradicted.set(hash, true);
              throw error;
            });
          this.#contradicted.delete(hash);
          return accept(sorted);
        };
        return this.#pool.run(ask, { meta: { block: group.blocks[0]?.number } });
      });
    } catch (error) {
      const kind = rpcErrorOf(error)?.kind;
      if (kind === "lie" || (kind === "unsupported" && this.#contradicted.has(hash))) return "contradictory";
      // The endpoints that support receipts are down, or have pruned the block. Don't wait for them.
      if (kind === "unsupported" || isHistoryPruned(error)) return undefined;
      throw error;
    }
  }

  /**
   * Returns a block's logs as each endpoint tells them: by its receipts where it has them, else by hash. Leaves out
   * endpoints that don't answer, and those whose receipts contradict the header.
   */
  async byEach(header: BlockHeader, filter: LogFilter): Promise<ToldLogs[]> {
    const [group] = (await this.bloomed([header])) as [BloomedBlocks];
    const ask = async (endpoint: Endpoint): Promise<ProvenLogs> => {
      if (!this.#hasReceipts(endpoint)) {
        return { logs: (await logsOfBlocks(endpoint, ownBloom(header), filter)).logs, by: "answer" };
      }
      const answers: unknown[] = [];
      for (const one of group.blocks) answers.push(await this.#presentReceipts(endpoint, one));
      const { logs, by } = await sortReceipts(group, answers, filter, this.#roots);
      return { logs: logs.filter(({ blockNumber }) => blockNumber === header.number), by };
    };
    const told = this.#pool.endpoints.map(async (endpoint) => {
      const answer = await this.#pool.runOn(endpoint, ask).catch((error: unknown) => {
        if (error instanceof AppError) return undefined;
        throw error;
      });
      return answer === undefined ? [] : [{ endpoint, ...answer }];
    });
    return (await Promise.all(told)).flat();
  }

  /**
   * Reads receipts again that contradict their headers, each in one batch with the header, so that one node answers for
   * both. Until then the receipts may be of another branch: an empty block of it has no log that names its hash.
   * @throws RpcError `transient` if the endpoint has other blocks; `lie` if the contradiction stays
   */
  async #sortAnew(
    error: unknown,
    { endpoint, group, filter }: { endpoint: Endpoint; group: BloomedBlocks; filter: LogFilter },
  ): Promise<SortedReceipts> {
    if (rpcErrorOf(error)?.kind !== "lie") throw error;
    const answers: unknown[] = [];
    for (const header of group.blocks) {
      const [receipts, own] = await Promise.all([
        this.#presentReceipts(endpoint, header, 1),
        headerFrom(endpoint, header.number),
      ]);
      if (own?.hash !== header.hash) throw ofOtherBlock(header);
      answers.push(receipts);
    }
    return sortReceipts(group, answers, filter, this.#roots);
  }

  /** @throws RpcError `transient` if the endpoint lacks the block's receipts */
  async #presentReceipts(endpoint: Endpoint, header: Pick<BlockHeader, "number">, tries?: number): Promise<unknown> {
    const result = await fromAnyNode(async () => (await this.#receiptsOf(endpoint, header)) ?? undefined, tries);
    if (result !== undefined) return result;
    const pruned = await prunedBelowHead(endpoint, header.number, "eth_getBlockReceipts");
    if (pruned !== undefined) throw pruned;
    throw new RpcError("transient", "the endpoint lacks a block's receipts", { meta: { block: header.number } });
  }

  /**
   * Returns the logs of a block by its receipts, proven by their root or else by the blooms. `other block`: the chain has
   * another block of that number. `pruned`: the nodes no longer have the block or its receipts. Undefined if no endpoint
   * has receipts, or they contradict the header.
   * @param claim what the other source tells. If the receipts of a block without a root agree, the header isn't read
   */
  async proven(
    block: ToldBlock,
    filter: LogFilter,
    claim?: (logs: readonly ChainLog[]) => boolean,
  ): Promise<ProvenLogs | "other block" | "pruned" | undefined> {
    if (!this.#pool.endpoints.some((endpoint) => this.#hasReceipts(endpoint))) return undefined;
    const ask = async (endpoint: Endpoint): Promise<ProvenLogs | "other block"> => {
      const receipts = await this.#presentReceipts(endpoint, block);
      if (!Array.isArray(receipts)) throw new RpcError("transient", "the endpoint's receipts of a block are no list");
      const own = receipts.flatMap(logsIn);
      const isOfBlock = own.every((log) => blockHashOf(log) === block.hash);
      if (isOfBlock && block.receiptsRoot !== undefined && (await receiptsRoot(receipts)) === block.receiptsRoot) {
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
      const [group] = (await this.bloomed([header])) as [BloomedBlocks];
      const answers: unknown[] = [];
      for (const one of group.blocks) {
        answers.push(one.number === block.number ? receipts : await this.#presentReceipts(endpoint, one));
      }
      const sorted = await sortReceipts(group, answers, filter, this.#roots);
      if (sorted.faults[0] !== undefined) throw faultyAnswer(sorted.faults[0]);
      return { logs: sorted.logs.filter(({ blockNumber }) => blockNumber === block.number), by: sorted.by };
    };
    try {
      return await this.#pool.run(ask, { meta: { block: block.number } });
    } catch (error) {
      if (isHistoryPruned(error)) return "pruned";
      const kind = rpcErrorOf(error)?.kind;
      if (kind === "unsupported" || kind === "lie") return undefined;
      throw error;
    }
  }

  /**
   * Asserts that an endpoint has a block's receipts.
   * @throws RpcError `state_unavailable` if all have pruned them, `unsupported` if none has any
   */
  async assertReceipts(number: number): Promise<void> {
    await this.#pool.run((endpoint) => this.#presentReceipts(endpoint, { number }, 1), { meta: { block: number } });
  }

  /**
   * Returns the logs of blocks in doubt: 1) from their receipts; 2) without receipts, from a second endpoint and the
   * first one; 3) without a second endpoint, from two more requests. With `strict`, case 3 is an error. `faults` name
   * the contracts that stay in doubt: all that the bloom names, if the receipts contradict it.
   * @param first the endpoint whose logs are in doubt
   * @throws AppError `unverifiable` in strict mode
   */
  async settle(
    group: BloomedBlocks,
    filter: LogFilter,
    { first, strict }: { first: Endpoint | undefined; strict: boolean },
  ): Promise<SortedLogs> {
    const byReceipts = await this.byReceipts(group, filter);
    const named = namedIn(group, filter);
    if (byReceipts === "contradictory") {
      const block = Math.max(group.blocks[0]?.number ?? 0, filter.fromBlock);
      const reason = "no endpoint's receipts match the block's header: logs are missing, or false";
      return { logs: [], faults: named.map((contract) => ({ block, contract, reason, logIndex: "" })) };
    }
    if (byReceipts !== undefined) {
      this.#onSettled("receipts");
      return byReceipts;
    }
    // This request only adds logs that the bloom confirms, so a resting endpoint may answer it.
    const second = first && this.#pool.secondEndpoint(first, strict);
    if (second === undefined && strict) {
      throw new AppError("VERIFY=receipts needs eth_getBlockReceipts, or a second endpoint to compare with", {
        code: "unverifiable",
        meta: { block: group.blocks[0]?.number },
      });
    }
    // Filtered by topic alone, one block is still a small answer.
    const narrow = { ...filter, addresses: named.length > MAX_ADDRESSES ? [] : named };
    const asking = (run: (ask: (endpoint: Endpoint) => Promise<SortedLogs>) => Promise<SortedLogs>) =>
      leastFaulty((accept) => run(async (endpoint) => accept(await logsOfBlocks(endpoint, group, narrow))));
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
      throw asOptional(error);
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

/** Reads the blocks' logs by hash (EIP-234). A node on another branch refuses instead of giving other logs. */
async function logsOfBlocks(endpoint: Endpoint, { blocks }: BloomedBlocks, filter: LogFilter): Promise<SortedLogs> {
  const { fromBlock: _from, toBlock: _to, ...rest } = logFilterParams(filter);
  const found: SortedLogs[] = [];
  for (const { hash, number } of blocks) {
    const result = await endpoint.request("eth_getLogs", [{ blockHash: hash, ...rest }]);
    const sorted = sortLogs(result, { ...filter, fromBlock: number, toBlock: number });
    if (sorted.logs.some((log) => log.blockHash !== hash)) {
      throw new RpcError("lie", "the endpoint's logs are of another block", { meta: { block: number } });
    }
    found.push(sorted);
  }
  return { logs: found.flatMap(({ logs }) => logs), faults: found.flatMap(({ faults }) => faults) };
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
