/**
 * The archives of a chain: which of them may be asked now, and logs of long ranges from them where the node's own road is
 * narrow or cut off.
 */
import { Budget, OverBudget } from "../../core/budget.ts";
import { type Clock, withTimeout } from "../../core/clock.ts";
import { AppError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import type { BlockRange } from "../../events/types.ts";
import { inChainOrder } from "../decode/answer.ts";
import { NARROW_SPAN } from "../endpoint/capabilities.ts";
import type { ChainLog, ChainReader, LogFilter, Watched } from "../port.ts";
import type { ProvenLogs, ToldBlock } from "../reading/block-logs.ts";
import type { RpcChainReader } from "../reading/reader.ts";
import { isHistoryPruned } from "../rpc-errors.ts";
import { ProgressFloor, restMs } from "./floor.ts";
import { ArchiveError, type ArchiveStatus, type HistorySource, type LogsPart, type TransfersPart } from "./port.ts";

/** Fewer blocks are read from the node alone: ten requests, even of an endpoint that takes ten blocks at a time. */
const MIN_BLOCKS = 100;
/**
 * Longest rest of an archive that fails at once, and of a public one that nobody named, which a machine without internet
 * need not try each minute. One that was wrong rests as long as the latter.
 */
const REST_MS = 60_000;
const DISTRUST_MS = 600_000;
/** Time after which an archive that lacks the newest blocks is asked for its head again. */
const LOOK_MS = 60_000;
/** Most time for an archive's head. */
const HEAD_MS = 5_000;

/** An archive told something that the node's chain contradicts. What it has told of the collection must go. */
export class ArchiveDisprovedError extends Error {
  readonly label: string;
  /** The block with other logs on the chain. */
  readonly block: number;
  /** True if the block is the chain's, and only its logs are not. */
  readonly isOfLogs: boolean;

  constructor(label: string, block: number, isOfLogs: boolean) {
    const what = isOfLogs ? "its receipts have other logs" : "the chain has another block there";
    super(`the ${label} contradicts the node at block ${block}: ${what}`);
    this.label = label;
    this.block = block;
    this.isOfLogs = isOfLogs;
  }
}

/**
 * Compares a block's logs, as an archive tells them, with the node's receipts. Returns the node's; undefined if it can't
 * prove them. @throws ArchiveDisprovedError if they differ
 */
export async function assertTold(
  { reader, label }: { readonly reader: RpcChainReader; readonly label: string },
  block: ToldBlock,
  filter: Watched,
  isTold: (logs: readonly ChainLog[]) => boolean,
): Promise<ProvenLogs | undefined> {
  const { number } = block;
  const proven = await reader.provenLogs(block, { ...filter, fromBlock: number, toBlock: number }, isTold);
  if (proven === "other block") throw new ArchiveDisprovedError(label, number, false);
  if (proven !== undefined && !isTold(proven.logs)) throw new ArchiveDisprovedError(label, number, true);
  return proven;
}

interface ArchivesOptions {
  readonly sources: readonly HistorySource[];
  /** True if the operator named them. Otherwise they are used only where the node's own road is narrow or cut off. */
  readonly isGiven: boolean;
  /** Fewer blocks are read from the node alone. Default: `MIN_BLOCKS`. */
  readonly minBlocks?: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly chain: string;
  /** Most blocks that the node takes per request; null if no limit is known. */
  readonly maxBlocks: () => number | null;
  /** The first block of which the node has logs, if it refused older ones. */
  readonly historyStart: () => number | undefined;
}

/** An archive that failed. */
interface Rest {
  readonly until: number;
  readonly reason: string;
  /** Failures in a row. */
  readonly failures: number;
}

/** The archives of a chain, and which of them may be asked now. */
export class Archives {
  readonly #options: ArchivesOptions;
  readonly #rests = new Map<HistorySource, Rest>();
  /** Time in ms that the last failed try of an archive took. */
  readonly #spent = new WeakMap<HistorySource, number>();

  constructor(options: ArchivesOptions) {
    this.#options = options;
  }

  /** True if an archive would save calls now. */
  get isUseful(): boolean {
    const { sources, isGiven, maxBlocks, historyStart } = this.#options;
    const most = maxBlocks();
    const isNarrow = (most !== null && most < NARROW_SPAN) || historyStart() !== undefined;
    return sources.length > 0 && (isGiven || isNarrow);
  }

  /** True if the node would need more than `requests` requests for the range, or has not all of it. */
  isShorter({ fromBlock, toBlock }: BlockRange, requests: number): boolean {
    const { maxBlocks, historyStart } = this.#options;
    const isLong = toBlock - fromBlock + 1 > (maxBlocks() ?? Number.POSITIVE_INFINITY) * requests;
    return this.isUseful && (isLong || fromBlock < (historyStart() ?? 0));
  }

  /** True if an archive could serve the range, should the node turn out to be narrow. */
  mayServe({ fromBlock, toBlock }: BlockRange): boolean {
    return this.#options.sources.length > 0 && toBlock - fromBlock + 1 >= MIN_BLOCKS;
  }

  /** True if an archive may be asked now. */
  isReady(distrusted: readonly string[]): boolean {
    return this.isUseful && this.#options.sources.some((source) => !this.#isOut(source, distrusted));
  }

  /** Time in ms until an archive may be asked, 0 if one may be asked now. Undefined if there is none to ask. */
  restLeft(distrusted: readonly string[]): number | undefined {
    const left = this.#restsLeft(distrusted);
    return this.isUseful && left.length > 0 ? Math.min(...left) : undefined;
  }

  /** Time in ms after which it is worth to look for an archive again, although none has the blocks now. */
  lookAgainMs(distrusted: readonly string[]): number {
    return Math.min(LOOK_MS, ...this.#restsLeft(distrusted).filter((left) => left > 0));
  }

  #restsLeft(distrusted: readonly string[]): number[] {
    const trusted = this.#options.sources.filter(({ label }) => !distrusted.includes(label));
    return trusted.map((source) => this.#restOf(source));
  }

  #restOf(source: HistorySource): number {
    return Math.max(0, (this.#rests.get(source)?.until ?? 0) - this.#options.clock.monotonic());
  }

  #isOut(source: HistorySource, distrusted: readonly string[]): boolean {
    return distrusted.includes(source.label) || this.#restOf(source) > 0;
  }

  /**
   * Passes an archive's parts on as long as it makes progress. A caller that gets an error lets the archive rest.
   * @throws ArchiveError `retry` if it is slower than the node would be, or costs the node more requests
   */
  async *advancing<T extends TransfersPart | LogsPart>(
    source: HistorySource,
    parts: AsyncIterable<T>,
    range: BlockRange,
  ): AsyncGenerator<T> {
    const { clock, maxBlocks, historyStart, sources } = this.#options;
    const floor = new ProgressFloor(source.label, range, maxBlocks());
    // A slow archive is better than none.
    const isOnlyOne = sources.length === 1 && range.fromBlock < (historyStart() ?? 0);
    let since = clock.monotonic();
    try {
      for await (const part of parts) {
        const lines = "logs" in part ? part.logs.length : part.decoded.count;
        if (isOnlyOne || floor.passed({ ...part, lines })) this.#succeeded(source);
        yield part;
        since = clock.monotonic();
      }
    } catch (error) {
      this.#spent.set(source, Math.max(floor.spentMs, clock.monotonic() - since));
      throw error;
    }
  }

  /** Forgets earlier failures. A rest that another reading caused goes on. */
  #succeeded(source: HistorySource): void {
    const rest = this.#rests.get(source);
    if (rest !== undefined) this.#rests.set(source, { ...rest, failures: 0 });
  }

  /**
   * Returns an archive that has blocks from `from` on, and its newest block, at most `to`. Undefined if none has enough.
   * @param distrusted labels of archives that were wrong about the collection
   */
  async find(
    { fromBlock, toBlock }: BlockRange,
    distrusted: readonly string[],
    signal: AbortSignal,
  ): Promise<{ readonly source: HistorySource; readonly toBlock: number } | undefined> {
    const { minBlocks = MIN_BLOCKS, clock } = this.#options;
    if (!this.isUseful || toBlock - fromBlock + 1 < minBlocks) return undefined;
    for (const source of this.#options.sources) {
      if (this.#isOut(source, distrusted)) continue;
      const begun = clock.monotonic();
      try {
        const answered = await withTimeout(clock, HEAD_MS, source.head(signal));
        if (answered === undefined) throw new ArchiveError("retry", "the archive does not tell its head in time");
        const end = Math.min(toBlock, answered.value.number);
        if (end - fromBlock + 1 >= minBlocks) return { source, toBlock: end };
      } catch (error) {
        signal.throwIfAborted();
        this.#spent.set(source, clock.monotonic() - begun);
        this.rest(source, error);
      }
    }
    return undefined;
  }

  /** Leaves an archive alone for a while: longer with each failure, and if it asked for that or was wrong. */
  rest(source: HistorySource, error: unknown): void {
    const { clock, logger, chain, isGiven } = this.#options;
    const isWrong = error instanceof ArchiveDisprovedError || (error instanceof ArchiveError && !error.retryable);
    // Several readings fail in one outage.
    if (this.#restOf(source) > 0 && !isWrong) return;
    const reason = error instanceof Error ? error.message : "it failed";
    const failures = (this.#rests.get(source)?.failures ?? 0) + 1;
    const asked = (error instanceof ArchiveError ? error.retryAfterMs : undefined) ?? 0;
    const most = isGiven ? REST_MS : DISTRUST_MS;
    const ms = isWrong ? DISTRUST_MS : Math.max(asked, restMs(failures, this.#spent.get(source) ?? 0, most));
    this.#rests.set(source, { until: clock.monotonic() + ms, reason, failures });
    const fields = { err: error, chain, archive: source.label, restMs: Math.round(ms) };
    logger[isGiven ? "warn" : "info"](fields, "an archive is not asked for a while");
  }

  status(): readonly ArchiveStatus[] {
    const { sources, clock } = this.#options;
    return sources.map((source) => {
      const rest = this.#rests.get(source);
      const isResting = rest !== undefined && rest.until > clock.monotonic();
      const state = isResting ? "resting" : this.isUseful ? "ready" : "asleep";
      return { label: source.label, state, reason: isResting ? rest.reason : null };
    });
  }
}

/** Requests for logs beyond which a long range is read from an archive. */
const NODE_REQUESTS = 8;
/** Blocks of an archive's logs that are compared with the node's receipts: the newest one, and some drawn at random. */
const COMPARED = 8;

/**
 * The node's reader, except that logs of long ranges come from an archive where the node's own road is narrow, or cut
 * off. The newest block of them, and some others, must have the same logs in the node's receipts.
 */
export function readerWithArchives(reader: RpcChainReader, archives: Archives, clock: Clock): ChainReader {
  // True once a long read has taken many requests for its logs, not for a limit of blocks.
  let isWide = false;
  const logs: ChainReader["logs"] = async (filter) => {
    if (archives.isShorter(filter, NODE_REQUESTS)) {
      const found = await fromArchive(reader, archives, filter, clock);
      if (found !== undefined) return found;
    }
    // A node whose limit is not known yet shows it within a few requests.
    const isTrial = !isWide && archives.mayServe(filter);
    const bound = filter.requests ?? Budget.current?.logRequests;
    const requests = bound ?? { left: isTrial ? NODE_REQUESTS : Number.POSITIVE_INFINITY };
    try {
      return await reader.logs({ ...filter, requests });
    } catch (error) {
      const isPruned = isHistoryPruned(error);
      if (isPruned) await reader.historyStart(filter.toBlock);
      const isOut = requests.left <= 0 || error instanceof OverBudget;
      const found = isPruned || isOut ? await fromArchive(reader, archives, filter, clock) : undefined;
      if (found !== undefined) return found;
      if (isOut && bound === undefined) {
        isWide = !archives.isUseful;
        return reader.logs(filter);
      }
      if (isOut && filter.requests === undefined) Budget.current?.noteRefusal();
      throw error;
    }
  };
  return new Proxy<ChainReader>(reader, {
    get: (target, name) => {
      if (name === "logs") return logs;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** Reads logs from an archive, and those above its head from the node. Undefined if no archive has them. */
async function fromArchive(
  reader: RpcChainReader,
  archives: Archives,
  filter: LogFilter,
  clock: Clock,
): Promise<ChainLog[] | undefined> {
  const { signal } = new AbortController();
  const found = await archives.find(filter, [], signal);
  if (found === undefined) return undefined;
  const { source, toBlock } = found;
  try {
    const logs: ChainLog[] = [];
    const asked = { ...filter, toBlock };
    const parts = archives.advancing(source, source.logs(asked, signal), asked);
    for await (const part of parts) logs.push(...part.logs);
    await compare(reader, source, { filter, logs, clock });
    const rest = toBlock < filter.toBlock ? await reader.logs({ ...filter, fromBlock: toBlock + 1 }) : [];
    return [...logs, ...rest];
  } catch (error) {
    if (error instanceof ArchiveError && error.action === "split") {
      throw new AppError(error.message, { code: "too_many_logs", cause: error });
    }
    if (!(error instanceof ArchiveError || error instanceof ArchiveDisprovedError)) throw error;
    archives.rest(source, error);
    return undefined;
  }
}

/** @throws ArchiveDisprovedError if a block's receipts have other logs */
async function compare(
  reader: RpcChainReader,
  { label }: HistorySource,
  { filter, logs, clock }: { readonly filter: LogFilter; readonly logs: readonly ChainLog[]; readonly clock: Clock },
): Promise<void> {
  const byBlock = [...Map.groupBy(logs, ({ blockNumber }) => blockNumber)];
  const newest = byBlock.length - 1;
  const chosen = new Set([newest]);
  for (let draw = 1; draw < COMPARED; draw++) chosen.add(Math.floor(clock.random() * byBlock.length));
  const check = async (at: number): Promise<void> => {
    const [number, told] = byBlock[at] ?? [];
    if (number === undefined || told === undefined) return;
    const block = { number, hash: (told[0] as ChainLog).blockHash, receiptsRoot: undefined };
    const isTold = (logs: readonly ChainLog[]) => printOf(logs) === printOf(told);
    await assertTold({ reader, label }, block, filter, isTold);
  };
  await Promise.all([...chosen].map(check));
}

/** In order, without the index of the log: some nodes count the logs of receipts from 0 in each transaction. */
const printOf = (logs: readonly ChainLog[]): string =>
  logs
    .toSorted(inChainOrder)
    .map(({ address, topics, data }) => [address, data, ...topics].join(" "))
    .join();
