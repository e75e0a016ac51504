/**
 * Reads logs for everything but the backfill, in three stages: cut the range into parts, ask one endpoint for each, and
 * settle the blocks in doubt (`block-logs.ts`). Returns verified logs of the requested contracts, in chain order.
 */
import { AppError, isRetryable } from "../../core/errors.ts";
import type { Address, Hash } from "../../core/hex.ts";
import type { BlockRef } from "../../events/types.ts";
import { logFilterParams } from "../decode/log-request.ts";
import {
  faultyAnswer,
  inChainOrder,
  inOrder,
  type LogFault,
  MAX_FAULTS,
  type SortedLogs,
  sortLogs,
} from "../decode/verify-logs.ts";
import type { EndpointPool } from "../endpoint/endpoint-pool.ts";
import { MAX_SPAN, SpanController } from "../endpoint/span-controller.ts";
import type {
  BlockHeader,
  BloomedBlocks,
  ChainLog,
  CompleteLogsOptions,
  Endpoint,
  LogFilter,
  StretchFilter,
} from "../port.ts";
import { isHistoryPruned, LogsInDoubtError, mayBeTooLarge, RpcError } from "../rpc-errors.ts";
import { BlockLogs, doubtfulBlocks, leastFaulty, MAX_ADDRESSES, type SettledBy } from "./block-logs.ts";
import { namedIn, ownBloom } from "./bloomed-blocks.ts";
import { askReached, headerFrom, missingBlock } from "./headers.ts";
import type { LogHorizon } from "./log-horizon.ts";

/** With more chunks of addresses than this, one filter by topic alone is cheaper than a request per chunk. */
const MAX_CHUNKS = 2;
const SETTLE_AT_ONCE = 4;
/** A refusal of fewer blocks may be about the newest one, and not about their number. */
const FEW_BLOCKS = 16;

export interface LogReaderObserver {
  /** An endpoint left out logs that its receipts, or another endpoint, had. */
  missed(count: number): void;
  /** A block in doubt was settled by this source. */
  settled(by: SettledBy): void;
}

/** A block that the answering endpoint must have. */
type RequiredBlock = Pick<CompleteLogsOptions, "requiredBlock">;

export interface FirstLogsOptions extends RequiredBlock {
  readonly signal: AbortSignal;
}

export interface FirstLogs {
  readonly logs: ChainLog[];
  readonly toBlock: number;
}

/** How large the first request of a search is in blocks, and how many logs an answer should have. */
export interface SearchSize {
  readonly blocks?: number;
  readonly logs?: number;
}

/** A search through logs from old to new. Each answer tells it how many blocks the next request may have. */
export interface LogSearch {
  /** Reads the logs of the first blocks of a range, as many as are expected in one answer. */
  next(filter: LogFilter, options: FirstLogsOptions): Promise<FirstLogs>;
}

interface LogRequest extends LogFilter, RequiredBlock {
  /** Addresses to keep from an answer that was requested by topic alone. */
  readonly only?: ReadonlySet<Address>;
  /** The blocks that the endpoint must have on its branch while it answers. */
  readonly stretch?: StretchFilter["stretch"];
  readonly onDoubt?: CompleteLogsOptions["onDoubt"];
}

/** A verified answer. */
interface AskedLogs extends SortedLogs {
  /** Includes the logs that were filtered out. */
  readonly count: number;
  readonly endpoint: Endpoint;
}

export class LogReader {
  readonly #pool: EndpointPool;
  readonly #horizon: LogHorizon;
  readonly #observer: LogReaderObserver | undefined;
  readonly #blocks: BlockLogs;
  /** Blocks per request. Starts at the maximum and shrinks after a timeout. */
  readonly #span = new SpanController(MAX_SPAN);

  constructor(pool: EndpointPool, horizon: LogHorizon, observer: LogReaderObserver | undefined) {
    this.#pool = pool;
    this.#horizon = horizon;
    this.#observer = observer;
    const readHeaders = (numbers: readonly number[]) =>
      pool.run((endpoint) => Promise.all(numbers.map((number) => headerFrom(endpoint, number))));
    this.#blocks = new BlockLogs(pool, readHeaders, (by) => observer?.settled(by));
  }

  async logs(filter: LogFilter): Promise<ChainLog[]> {
    return this.#read(filter, new Sources(filter.maxLogs));
  }

  search({ blocks, logs }: SearchSize): LogSearch {
    const span = new SpanController(blocks, logs);
    const next = async (filter: LogFilter, { requiredBlock, signal }: FirstLogsOptions): Promise<FirstLogs> => {
      const parts = this.#ranges({ ...filter, requiredBlock }, new Sources(), { span, signal });
      return (await parts.next()).value as FirstLogs;
    };
    return { next };
  }

  /** See `BlockLogs.proven`. */
  provenLogs(...asked: Parameters<BlockLogs["proven"]>): ReturnType<BlockLogs["proven"]> {
    return this.#blocks.proven(...asked);
  }

  /** See `BlockLogs.assertReceipts`. */
  assertReceipts(...asked: Parameters<BlockLogs["assertReceipts"]>): Promise<void> {
    return this.#blocks.assertReceipts(...asked);
  }

  /** See `BlockLogs.byEach`. */
  logsByEach(...asked: Parameters<BlockLogs["byEach"]>): ReturnType<BlockLogs["byEach"]> {
    return this.#blocks.byEach(...asked);
  }

  /** See `bloomedBlocks`. */
  bloomed(headers: readonly BlockHeader[]): Promise<BloomedBlocks[]> {
    return this.#blocks.bloomed(headers);
  }

  async logsOfStretch({ addresses, topics, stretch, onDoubt }: StretchFilter): Promise<ChainLog[] | undefined> {
    const { below, head } = stretch;
    const filter = { addresses, topics, fromBlock: below.number + 1, toBlock: head.number, stretch, onDoubt };
    const sources = new Sources();
    const logs = await this.#complete(filter, [head], {}, sources);
    return sources.hasMoved ? undefined : logs;
  }

  completeLogs(
    filter: LogFilter,
    toCheck: readonly BlockHeader[] | Promise<readonly BlockHeader[]>,
    options: CompleteLogsOptions = {},
  ): Promise<ChainLog[]> {
    const { requiredBlock, onDoubt } = options;
    return this.#complete({ ...filter, requiredBlock, onDoubt }, toCheck, options, new Sources(filter.maxLogs));
  }

  async #complete(
    requested: LogRequest,
    toCheck: readonly BlockHeader[] | Promise<readonly BlockHeader[]>,
    options: CompleteLogsOptions,
    sources: Sources,
  ): Promise<ChainLog[]> {
    const [logs, given] = await Promise.all([this.#read(requested, sources), toCheck]);
    const { doubted } = sources;
    const addresses = requested.addresses.filter((one) => !doubted.has(one));
    const filter: LogRequest = doubted.size === 0 ? requested : { ...requested, addresses };
    // Without an address, the filter would mean any.
    if (addresses.length === 0 && requested.addresses.length > 0) return [];
    const groups = (await this.#blocks.bloomed(given)).filter(
      ({ blocks }) => !blocks.every((header) => sources.isProven(header, filter.addresses.length)),
    );
    return this.#checked({ groups, filter, logs }, options, sources);
  }

  /**
   * Returns the logs of blocks that were read before a header had their bloom. Where it names a contract without a log,
   * the receipts decide; a contract that stays in doubt keeps what was told.
   * @param filter the range of the blocks
   * @param told the logs that were read
   */
  settledLogs(
    group: BloomedBlocks,
    filter: LogFilter,
    told: readonly ChainLog[],
    options: CompleteLogsOptions,
  ): Promise<ChainLog[]> {
    const sources = new Sources();
    sources.add(filter.fromBlock, filter.toBlock, undefined);
    const request = { ...filter, onDoubt: () => undefined };
    return this.#checked({ groups: [group], filter: request, logs: [...told] }, options, sources);
  }

  /** Replaces logs that receipts or another endpoint show to be missing, or false. */
  async #checked(
    { groups, filter, logs }: { groups: readonly BloomedBlocks[]; filter: LogRequest; logs: ChainLog[] },
    { strict = false, isByBlock = false, sampled, onMissed }: CompleteLogsOptions,
    sources: Sources,
  ): Promise<ChainLog[]> {
    const { doubted } = sources;
    const isStrict = ({ blocks }: BloomedBlocks) => strict || blocks.some(({ number }) => sources.inPieces.has(number));
    const isNamed = (group: BloomedBlocks) => namedIn(group, filter).length > 0;
    const lenient = groups.filter((group) => !isStrict(group));
    const doubtful = [
      ...groups.filter((group) => isStrict(group) && isNamed(group)),
      ...doubtfulBlocks(lenient, filter, { logs, isByBlock }),
    ];
    let complete = logs;
    // Receipts only correct these blocks: no bloom says yet that a log is missing, or none is.
    const isSampled = ({ blocks }: BloomedBlocks) => blocks.some(({ number }) => sampled?.has(number));
    const compared = groups.filter((group) => {
      if (group.logsBloom === undefined) return isStrict(group) || isSampled(group);
      return !isStrict(group) && isSampled(group) && !doubtful.includes(group) && isNamed(group);
    });
    for (const group of compared) {
      const found = await this.#blocks.byReceipts(group, filter);
      if (found === "contradictory") doubtful.push(group);
      else if (found !== undefined) complete = this.#corrected(complete, group, found, sources);
    }
    const settle = (group: BloomedBlocks): Promise<SortedLogs> => {
      const asked = group.blocks.find(({ number }) => sources.endpointOf(number) !== undefined);
      return this.#blocks.settle(group, filter, { first: asked && sources.endpointOf(asked.number), strict });
    };
    for (let at = 0; at < doubtful.length; at += SETTLE_AT_ONCE) {
      const some = doubtful.slice(at, at + SETTLE_AT_ONCE);
      const settled = await Promise.all(some.map(settle));
      for (const [i, group] of some.entries()) {
        const found = settled[i] as SortedLogs;
        const numbers = new Set(group.blocks.map(({ number }) => number));
        const own = new Set(complete.flatMap((log) => (numbers.has(log.blockNumber) ? log.address : [])));
        const isUnsettled = ({ contract }: LogFault) =>
          contract !== undefined && (isStrict(group) || !own.has(contract));
        for (const fault of found.faults.filter(isUnsettled)) this.#doubt(fault, filter, sources);
        complete = this.#corrected(complete, group, found, sources);
      }
    }
    if (doubted.size > 0) complete = complete.filter(({ address }) => !doubted.has(address));
    if (!sources.isCorrected) return complete;
    onMissed?.();
    return complete.sort(inChainOrder);
  }

  /** A contract's logs stay faulty: the read goes on without the contract. @throws LogsInDoubtError if it can't */
  #doubt({ contract, block, reason }: LogFault, { onDoubt, fromBlock }: LogRequest, { doubted }: Sources): void {
    if (contract === undefined || doubted.has(contract)) return;
    const doubt = { contract, block: block ?? fromBlock, reason };
    if (onDoubt === undefined) throw new LogsInDoubtError(doubt);
    doubted.add(contract);
    onDoubt(doubt);
  }

  /**
   * Replaces faulty logs by those of their blocks' receipts. A contract whose logs are faulty there, too, is in doubt.
   * @throws LogsInDoubtError, RpcError `lie` if the faults name neither block nor contract
   */
  async #mended(filter: LogRequest, { logs, faults, endpoint }: AskedLogs, sources: Sources): Promise<ChainLog[]> {
    const { topics, only, fromBlock } = filter;
    const asked = only === undefined ? filter.addresses : [...only];
    const [first] = faults as [LogFault];
    if (faults.length === MAX_FAULTS) throw faultyAnswer(first);
    let mended = logs;
    for (const [number, own] of Map.groupBy(faults, ({ block = fromBlock }) => block)) {
      // Another endpoint may be on another branch, whose block of this number has other logs.
      const header = await this.#pool.runOn(endpoint, (one) => headerFrom(one, number));
      const isOther = ({ blockNumber, blockHash }: ChainLog) => blockNumber === number && blockHash !== header?.hash;
      if (header === undefined || logs.some(isOther)) throw missingBlock(number, endpoint);
      const isNameless = own.some(({ contract }) => contract === undefined);
      const hasPlace = own.every(({ block }) => block !== undefined);
      if (isNameless && !(asked.length > 0 && hasPlace)) throw faultyAnswer(first);
      // A log without a readable or requested address may be of any contract that the block's bloom names.
      const bloomed = wordOf(header);
      const suspects = bloomed.logsBloom === undefined ? asked : namedIn(bloomed, { addresses: asked, topics });
      const named = isNameless ? suspects : [];
      const contracts = new Set([...own.flatMap(({ contract }) => contract ?? []), ...named]);
      const watched = { ...filter, addresses: [...contracts] };
      const isAsked = hasPlace && contracts.size > 0;
      const found = isAsked ? await this.#receiptsIfUp(header, watched) : undefined;
      for (const contract of contracts) {
        const isLost = found === undefined || found.faults.some((fault) => fault.contract === contract);
        const reason = own.find((fault) => fault.contract === contract)?.reason ?? first.reason;
        if (isLost) this.#doubt({ ...first, contract, block: number, reason }, filter, sources);
        mended = mended.filter((log) => log.blockNumber !== number || log.address !== contract);
        if (!isLost) mended = mended.concat(found.logs.filter(({ address }) => address === contract));
      }
    }
    return inOrder(mended).logs;
  }

  /** Like `byReceipts`; undefined also while the endpoints with receipts are down. Others don't wait for them. */
  async #receiptsIfUp(header: BlockHeader, filter: LogFilter): Promise<SortedLogs | undefined> {
    try {
      const found = await this.#blocks.byReceipts(wordOf(header), filter);
      return found === "contradictory" ? undefined : found;
    } catch (error) {
      if (!isRetryable(error)) throw error;
      return undefined;
    }
  }

  /** Replaces the logs of the blocks, except those of faulty contracts. Benches the endpoint that gave different ones. */
  #corrected(logs: ChainLog[], { blocks }: BloomedBlocks, found: SortedLogs, sources: Sources): ChainLog[] {
    const isFaulty = new Set(found.faults.map(({ contract }) => contract));
    let corrected = logs;
    for (const { number } of blocks) {
      // A bloom may be over blocks that were not asked for.
      const liar = sources.endpointOf(number);
      const isReplaced = (log: ChainLog) => log.blockNumber === number && !isFaulty.has(log.address);
      const own = corrected.filter(isReplaced);
      const right = found.logs.filter((log) => isReplaced(log));
      if (!sources.has(number) || areSame(own, right)) continue;
      sources.isCorrected = true;
      this.#observer?.missed(Math.max(1, right.length - own.length));
      if (liar !== undefined)
        this.#pool.benchLiar(liar, `its logs of block ${number} differ from the block's receipts`);
      corrected = corrected.filter((log) => !isReplaced(log)).concat(right);
    }
    return corrected;
  }

  /** Reads a range with any number of addresses: as one list, in chunks, or by topic alone. */
  async #read(filter: LogRequest, sources: Sources): Promise<ChainLog[]> {
    const { addresses } = filter;
    if (addresses.length <= MAX_ADDRESSES) return this.#inRanges(filter, sources);
    if (addresses.length > MAX_ADDRESSES * MAX_CHUNKS) {
      return this.#inRanges({ ...filter, addresses: [], only: new Set(addresses) }, sources);
    }
    const chunks: Promise<ChainLog[]>[] = [];
    for (let i = 0; i < addresses.length; i += MAX_ADDRESSES) {
      chunks.push(this.#inRanges({ ...filter, addresses: addresses.slice(i, i + MAX_ADDRESSES) }, sources));
    }
    return (await Promise.all(chunks)).flat().sort(inChainOrder);
  }

  async #inRanges(filter: LogRequest, sources: Sources): Promise<ChainLog[]> {
    const parts: ChainLog[][] = [];
    for await (const { logs } of this.#ranges(filter, sources)) parts.push(sources.countLogs(logs));
    return parts.flat();
  }

  /**
   * Yields a range's logs in parts that an endpoint answers, in order. A search has a span of its own: it learns from
   * refusals and timeouts, and goes on. All other reads share a span, and end with a timeout, after which the next one
   * begins smaller. A refusal halves only the part that it is about: others may have fewer logs, and smaller blocks.
   */
  async *#ranges(
    filter: LogRequest,
    sources: Sources,
    search?: { readonly span: SpanController; readonly signal: AbortSignal },
  ): AsyncGenerator<FirstLogs, void> {
    const span = search?.span ?? this.#span;
    /** The end of the range, and those of the refused parts in it that are not read to their ends. */
    const ends = [filter.toBlock];
    for (let { fromBlock } = filter; fromBlock <= filter.toBlock; ) {
      const end = ends.at(-1) as number;
      // A search asks for what the present endpoint takes. Another one may take less.
      const limit = search === undefined ? this.#pool.knownLimit : undefined;
      const blocks = span.take(Math.min(end - fromBlock + 1, limit ?? MAX_SPAN));
      const toBlock = fromBlock + blocks - 1;
      const part = { ...filter, fromBlock, toBlock };
      let logs: ChainLog[];
      try {
        const answer = await this.#ask(part, sources, search?.signal);
        span.succeeded(blocks, answer.count);
        logs = answer.logs;
      } catch (error) {
        // A single block that is late says nothing about more of them: the endpoints may be down.
        const isLate = blocks > 1 && mayBeTooLarge(error);
        if (isLate) span.tookTooLong(blocks);
        else span.settle(blocks);
        if (isLate && search !== undefined) continue;
        if (!isRangeRefusal(error)) throw error;
        if (error.hint?.size !== undefined) this.#pool.refusedSpan(blocks, error.hint);
        if (blocks > 1) {
          const half = Math.min(Math.ceil(blocks / 2), error.hint?.size ?? blocks);
          ends.push(fromBlock + (search === undefined ? half : span.refused(blocks, error.hint)) - 1);
          continue;
        }
        logs = await this.#largeBlock(part, error, sources);
      }
      yield { logs, toBlock };
      fromBlock = toBlock + 1;
      if (toBlock === end) ends.pop();
    }
  }

  /**
   * Reads one block that is too large for a single answer: from its receipts, or else by topic and by address.
   * @throws AppError `block_too_large` if nothing is left to split
   */
  async #largeBlock(filter: LogRequest, refusal: RpcError, sources: Sources): Promise<ChainLog[]> {
    const { fromBlock: block, only } = filter;
    const header = await this.#pool.run((endpoint) => headerFrom(endpoint, block), { meta: { block } });
    const watched = only === undefined ? filter : { ...filter, addresses: [...only] };
    const [group = undefined] = header === undefined ? [] : await this.#blocks.bloomed([header]);
    const isAlone = group?.blocks.length === 1;
    const found = header && (await this.#blocks.byReceipts(isAlone ? group : wordOf(header), watched));
    if (header !== undefined && found !== undefined && found !== "contradictory") {
      for (const fault of found.faults) this.#doubt(fault, filter, sources);
      sources.proven.set(block, { hash: header.hash, addresses: watched.addresses.length - sources.doubted.size });
      return found.logs;
    }
    sources.inPieces.add(block);
    return (await this.#inPieces(filter, refusal, sources)).sort(inChainOrder);
  }

  /** Reads one block's logs by parts of the filter. Finds no omitted logs: `completeLogs` checks the block. */
  async #inPieces(filter: LogRequest, refusal: RpcError, sources: Sources): Promise<ChainLog[]> {
    const logs: ChainLog[] = [];
    const { onDoubt, topics, addresses, fromBlock } = filter;
    const [contract] = addresses;
    if (topics.length <= 1 && addresses.length <= 1) assertNoContradiction(refusal, fromBlock);
    if (onDoubt !== undefined && topics.length <= 1 && addresses.length === 1 && contract !== undefined) {
      // The endpoints refuse one contract's logs. That is no reason to read none of the block.
      this.#doubt({ contract, block: fromBlock, reason: refusal.message, logIndex: "" }, filter, sources);
      return logs;
    }
    for (const piece of piecesOf(filter, refusal)) {
      try {
        for (const log of (await this.#ask(piece, sources)).logs) logs.push(log);
      } catch (error) {
        if (!isRangeRefusal(error)) throw error;
        for (const log of await this.#inPieces(piece, error, sources)) logs.push(log);
      }
    }
    return logs;
  }

  /**
   * Reads a range in one answer. If all answers have faulty logs, the receipts of their blocks count.
   * @throws RpcError `range`; LogsInDoubtError
   */
  async #ask(filter: LogRequest, sources: Sources, signal?: AbortSignal): Promise<{ logs: ChainLog[]; count: number }> {
    const { fromBlock, toBlock, requiredBlock, only, stretch, requests } = filter;
    // A single block cannot be split, so after a refusal for size another endpoint is asked.
    const failover = fromBlock === toBlock ? "any" : "lacking";
    const ask = async (endpoint: Endpoint): Promise<AskedLogs> => {
      if (requests !== undefined && requests.left-- <= 0) {
        throw new AppError("the range takes more requests than the caller's limit", { code: "too_many_logs" });
      }
      this.#horizon.assertNotDropped(endpoint, fromBlock);
      // Checked before the logs: an endpoint that catches up in between would pass, though its logs end too early.
      if (requiredBlock !== undefined) await assertHasBlock(endpoint, requiredBlock);
      if (stretch !== undefined && endpoint !== stretch.shownBy) await assertHasBlock(endpoint, stretch.head);
      // One batch, so that the node that answers with the logs also answers with the headers.
      const [answer, isWhole] = await Promise.all([
        endpoint.request("eth_getLogs", [logFilterParams(filter)]).catch(async (error: unknown) => {
          // An endpoint that refuses a request within a batch is asked again without the batch. A request that was not
          // answered is repeated by the pool, and is no sign of a range that is too wide.
          if (requests !== undefined && isRangeRefusal(error)) requests.left--;
          else if (requests !== undefined && isRetryable(error)) requests.left++;
          // A few blocks are hardly too many. A node that is behind refuses those above its head, in words of its own.
          const isOdd = isRangeRefusal(error) && error.hint === undefined && toBlock - fromBlock < FEW_BLOCKS;
          if (!isOdd || (sources.reached.get(endpoint) ?? -1) >= toBlock) throw error;
          const again = () => endpoint.request("eth_getLogs", [logFilterParams(filter)]);
          return askReached(endpoint, toBlock, again).catch((refusal: unknown) => {
            if (isRangeRefusal(refusal)) sources.reached.set(endpoint, toBlock);
            throw refusal;
          });
        }),
        stretch === undefined || hasBlocks(endpoint, [stretch.head, stretch.below]),
      ]);
      if (!isWhole) sources.hasMoved = true;
      const { logs: all, faults } = sortLogs(answer, filter);
      // Filtered at once: all contracts' logs of a long gap are gigabytes.
      const logs = only === undefined ? all : all.filter((log) => only.has(log.address));
      const isOwn = ({ contract }: LogFault) => contract === undefined || only === undefined || only.has(contract);
      return { logs, faults: faults.filter(isOwn), count: all.length, endpoint };
    };
    const options = { meta: { fromBlock, toBlock }, failover, ...(signal ? { signal } : {}) } as const;
    const asked = await leastFaulty<AskedLogs>((accept) =>
      this.#pool.run(async (endpoint) => accept(await ask(endpoint)), options),
    );
    sources.add(fromBlock, toBlock, asked.endpoint);
    const { logs, faults, count } = asked;
    return { logs: faults.length === 0 ? logs : await this.#mended(filter, asked, sources), count };
  }
}

const NO_ADDRESS = `0x${"0".repeat(39)}1` as Address;
const NO_TOPIC = `0x${"1".repeat(64)}` as Hash;

/** Asks for logs of the newest blocks, of which none match. @throws RpcError if the endpoint doesn't take so many */
export const askForSpan = (endpoint: Endpoint, blocks: number, head: number): Promise<unknown> =>
  endpoint.request("eth_getLogs", [
    logFilterParams({
      ...{ addresses: [NO_ADDRESS], topics: [NO_TOPIC] },
      ...{ fromBlock: Math.max(0, head - blocks + 1), toBlock: head },
    }),
  ]);

/**
 * Searches for the first block that an endpoint has not pruned, after it refused older ones: about 24 requests.
 * @param ask requests logs or receipts of one block. @throws its error, unless that says that the history is pruned
 */
export async function firstUnprunedBlock(ask: (block: number) => Promise<unknown>, head: number): Promise<number> {
  let [pruned, has] = [-1, head];
  while (has - pruned > 1) {
    const middle = Math.floor((pruned + has) / 2);
    const isThere = await ask(middle).then(
      () => true,
      (error: unknown) => {
        if (isHistoryPruned(error)) return false;
        throw error;
      },
    );
    if (isThere) has = middle;
    else pruned = middle;
  }
  return has;
}

const isRangeRefusal = (error: unknown): error is RpcError => error instanceof RpcError && error.kind === "range";

/** @throws RpcError `transient` for a refusal of one block that names a larger size: it says nothing about the block */
function assertNoContradiction(refusal: RpcError, block: number): void {
  const { range = [0, 0], size = range[1] - range[0] + 1 } = refusal.hint ?? {};
  if (size <= 1) return;
  const text = `the endpoint refused one block, and says that it takes ${size}`;
  throw new RpcError("transient", text, { meta: { ...refusal.meta, block }, cause: refusal });
}

/** Splits a filter into smaller ones. @throws AppError `block_too_large` if that is impossible */
function piecesOf(filter: LogRequest, refusal: RpcError): LogRequest[] {
  const { topics, addresses, fromBlock } = filter;
  if (topics.length > 1) return topics.map((topic) => ({ ...filter, topics: [topic] }));
  if (addresses.length > 1) return addresses.map((address) => ({ ...filter, addresses: [address] }));
  // The node's own words: a refusal that reads like one for size may be of another kind.
  throw new AppError(`the logs of block ${fromBlock} can't be read: ${refusal.message}`, {
    code: "block_too_large",
    meta: { ...refusal.meta, block: fromBlock },
    cause: refusal,
  });
}

/** A block without its bloom, if that is another block's. Its receipts are then checked against themselves alone. */
const wordOf = (header: BlockHeader): BloomedBlocks =>
  header.settledHeight === undefined
    ? ownBloom(header)
    : { blocks: [header], logsBloom: undefined, receiptsRoot: undefined };

/** @throws RpcError `transient` if the endpoint lacks the block: its logs may end before it */
async function assertHasBlock(endpoint: Endpoint, block: BlockRef): Promise<void> {
  if ((await headerFrom(endpoint, block.number))?.hash === block.hash) return;
  throw new RpcError("transient", "the endpoint does not have the required block yet", {
    meta: { endpoint: endpoint.label, block: block.number },
  });
}

/** True if the endpoint has all of these blocks on its branch. */
async function hasBlocks(endpoint: Endpoint, blocks: readonly BlockRef[]): Promise<boolean> {
  const found = await Promise.all(blocks.map(({ number }) => headerFrom(endpoint, number)));
  return found.every((header, i) => header?.hash === blocks[i]?.hash);
}

/** What one read learned on its way: which endpoint answered for which blocks, and how many logs came. */
class Sources {
  /** Blocks read by parts of the filter. Here some logs of a contract do not mean that all of them came. */
  readonly inPieces = new Set<number>();
  /** True if an endpoint lacked an end of the stretch while it answered. */
  hasMoved = false;
  /** Endpoints that have shown a head above the blocks that they refused. */
  readonly reached = new Map<Endpoint, number>();
  /** Contracts whose logs can't be read. */
  readonly doubted = new Set<Address>();
  /** True if logs were replaced by those of receipts or of another answer. */
  isCorrected = false;
  /** Blocks read from their receipts, and the number of addresses that were searched for. */
  readonly proven = new Map<number, { readonly hash: Hash; readonly addresses: number }>();
  readonly #ranges: { readonly from: number; readonly to: number; readonly endpoint: Endpoint | undefined }[] = [];
  /** Logs that may still come before the filter's limit. */
  #room: number;

  constructor(room = Number.POSITIVE_INFINITY) {
    this.#room = room;
  }

  /** Counts the logs and returns them. @throws AppError `too_many_logs` above the filter's limit */
  countLogs(logs: ChainLog[]): ChainLog[] {
    this.#room -= logs.length;
    if (this.#room >= 0) return logs;
    throw new AppError("the range has more logs than the caller's limit", { code: "too_many_logs" });
  }

  /** @param endpoint undefined for logs that were read before */
  add(from: number, to: number, endpoint: Endpoint | undefined): void {
    this.#ranges.push({ from, to, endpoint });
  }

  /** True if the block's own receipts were read for all addresses. */
  isProven({ number, hash }: BlockHeader, addresses: number): boolean {
    const proven = this.proven.get(number);
    return proven?.hash === hash && proven.addresses === addresses;
  }

  /** True if the block is of a range that was asked for. */
  has(block: number): boolean {
    return this.#ranges.some(({ from, to }) => block >= from && block <= to);
  }

  endpointOf(block: number): Endpoint | undefined {
    return this.#ranges.find(({ from, to }) => block >= from && block <= to)?.endpoint;
  }
}

/** The order counts, not the index of a log: some nodes count the logs of receipts from 0 in each transaction. */
function areSame(a: readonly ChainLog[], b: readonly ChainLog[]): boolean {
  const print = ({ address, blockHash, topics, data }: ChainLog) => `${address} ${blockHash} ${topics.join()} ${data}`;
  return a.length === b.length && a.every((log, i) => print(log) === print(b[i]!));
}
