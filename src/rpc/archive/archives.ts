/**
 * The archives of a chain: which of them may be asked now, and logs of long ranges from them where the node's own road is
 * narrow or cut off.
 */
import { Budget, OverBudget } from "../../core/budget.ts";
import { type Clock, withTimeout } from "../../core/clock.ts";
import { AppError, isRetryable } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import type { BlockRange } from "../../events/types.ts";
import { NARROW_SPAN } from "../endpoint/span-controller.ts";
import type { ArchivedPart, ChainLog, ChainReader, LogFilter, Watched } from "../port.ts";
import type { ProvenLogs, ToldBlock } from "../reading/block-logs.ts";
import type { RpcChainReader } from "../reading/reader.ts";
import { isHistoryPruned } from "../rpc-errors.ts";
import { checkClaims } from "./claims.ts";
import { ProgressFloor, restMs } from "./floor.ts";
import { ArchiveError, type ArchiveStatus, type HistorySource, type LogsPart, type TransfersPart } from "./port.ts";
import { contentOfLogs, ToldBlocks } from "./witness.ts";

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
 * prove them, `pruned` if it no longer has them. @throws ArchiveDisprovedError if they differ
 */
export async function assertTold(
  { reader, label }: { readonly reader: RpcChainReader; readonly label: string },
  block: ToldBlock,
  filter: Watched,
  isTold: (logs: readonly ChainLog[]) => boolean,
): Promise<ProvenLogs | "pruned" | undefined> {
  const { number } = block;
  const proven = await reader.provenLogs(block, { ...filter, fromBlock: number, toBlock: number }, isTold);
  if (proven === "other block") throw new ArchiveDisprovedError(label, number, false);
  if (typeof proven === "object" && !isTold(proven.logs)) throw new ArchiveDisprovedError(label, number, true);
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

  /** True if the operator named the archives. A public one that nobody named may not be reachable at all. */
  get isGiven(): boolean {
    return this.#options.isGiven;
  }

  /** True if the node would need more than `requests` requests for the range, or has not all of it. */
  isShorter({ fromBlock, toBlock }: BlockRange, requests: number): boolean {
    const { maxBlocks, historyStart } = this.#options;
    const isLong = toBlock - fromBlock + 1 > (maxBlocks() ?? Number.POSITIVE_INFINITY) * requests;
    return this.isUseful && (isLong || fromBlock < (historyStart() ?? 0));
  }

  /** Most blocks that one request for logs of the node may take, as far as is known. */
  get nodeSpan(): number {
    return Math.max(1, this.#options.maxBlocks() ?? NARROW_SPAN);
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
    const { minBlocks = MIN_BLOCKS, clock, historyStart } = this.#options;
    // What the node has pruned is an archive's, however little it is.
    const least = fromBlock < (historyStart() ?? 0) ? 1 : minBlocks;
    if (!this.isUseful || toBlock - fromBlock + 1 < least) return undefined;
    for (const source of this.#options.sources) {
      if (this.#isOut(source, distrusted)) continue;
      const begun = clock.monotonic();
      try {
        const answered = await withTimeout(clock, HEAD_MS, source.head(signal));
        if (answered === undefined) throw new ArchiveError("retry", "the archive does not tell its head in time");
        const end = Math.min(toBlock, answered.value.number);
        if (end - fromBlock + 1 >= least) return { source, toBlock: end };
      } catch (error) {
        signal.throwIfAborted();
        this.#spent.set(source, clock.monotonic() - begun);
        this.rest(source, error);
      }
    }
    return undefined;
  }

  /**
   * Returns another archive that may be asked and has the whole range, to be asked the same question as `source`. Compare
   * what both tell by `ToldBlocks`. If it differs, neither is believed: `assertTold` of the first differing block says
   * which of them lies, and `rest` is for the liar. Undefined if there is no such archive; a failing one is not a fault.
   * @param distrusted labels of archives that were wrong about the collection
   */
  async witness(
    source: HistorySource,
    { fromBlock, toBlock }: BlockRange,
    distrusted: readonly string[],
    signal: AbortSignal,
  ): Promise<HistorySource | undefined> {
    const others = this.#options.sources.filter((one) => one !== source && !this.#isOut(one, distrusted));
    for (const other of others) {
      try {
        const answered = await withTimeout(this.#options.clock, HEAD_MS, other.head(signal));
        if (fromBlock <= toBlock && (answered?.value.number ?? -1) >= toBlock) return other;
      } catch (error) {
        signal.throwIfAborted();
        this.rest(other, error);
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
  const logsOfNode = async (filter: LogFilter, bound: LogFilter["requests"]): Promise<ChainLog[]> => {
    try {
      return await reader.logs({ ...filter, ...(bound === undefined ? {} : { requests: bound }) });
    } catch (error) {
      if (bound !== undefined && bound.left <= 0 && filter.requests === undefined) Budget.current?.noteRefusal();
      throw error;
    }
  };
  const logs: ChainReader["logs"] = async (filter) => {
    if (archives.isShorter(filter, NODE_REQUESTS)) {
      const found = await fromArchive(reader, archives, filter, clock);
      if (found !== undefined) return found;
    }
    const bound = filter.requests ?? Budget.current?.logRequests;
    // A node whose limit is not known yet shows it within a few requests. The others are left for what no archive has.
    const isTrial = !isWide && archives.mayServe(filter);
    const trial = isTrial ? { left: Math.min(NODE_REQUESTS, bound?.left ?? NODE_REQUESTS) } : undefined;
    const most = trial?.left ?? 0;
    const requests = trial ?? bound ?? { left: Number.POSITIVE_INFINITY };
    const countTrial = () => {
      if (trial !== undefined && filter.requests !== undefined) filter.requests.left -= most - Math.max(0, trial.left);
    };
    try {
      const logs = await reader.logs({ ...filter, requests });
      countTrial();
      return logs;
    } catch (error) {
      countTrial();
      const isPruned = isHistoryPruned(error);
      if (isPruned) await reader.historyStart(filter.toBlock);
      const isOut = requests.left <= 0 || error instanceof OverBudget;
      const found = isPruned || isOut ? await fromArchive(reader, archives, filter, clock) : undefined;
      if (found !== undefined) return found;
      if (isOut && trial !== undefined && (bound?.left ?? 1) > 0 && !(error instanceof OverBudget)) {
        isWide = !archives.isUseful;
        return logsOfNode(filter, bound);
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

/**
 * Reads logs from an archive, and those above its head from the node. A second archive is asked the same, if there is one.
 * Undefined if no archive has them, or if two archives differ and the node can't tell which of them is right.
 */
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
  const { fromBlock, onArchived } = filter;
  const asked = { ...filter, toBlock };
  const { label } = source;
  try {
    const witness = await archives.witness(source, asked, [], signal);
    const [logs, second] = await Promise.all([
      logsFrom(archives, source, asked, signal),
      witness &&
        logsFrom(archives, witness, asked, signal).catch((error: unknown) => restUnlessSound(archives, witness, error)),
    ]);
    await compare(reader, source, { filter, logs, clock });
    const isWitnessed =
      second !== undefined && (await isSame({ reader, archives }, filter, [source, logs], [witness!, second]));
    const rest = toBlock < filter.toBlock ? await reader.logs({ ...filter, fromBlock: toBlock + 1 }) : [];
    onArchived?.({ fromBlock, toBlock, label, isWitnessed, check: checkOf({ reader, archives, clock }, source) });
    return [...logs, ...rest];
  } catch (error) {
    if (error instanceof ArchiveError && error.action === "split") {
      throw new AppError(error.message, { code: "too_many_logs", cause: error });
    }
    if (!(error instanceof ArchiveError || error instanceof ArchiveDisprovedError)) throw error;
    archives.rest(source, error);
    // The other archive may be right.
    return error instanceof ArchiveDisprovedError ? fromArchive(reader, archives, filter, clock) : undefined;
  }
}

/** Returns a check of what an archive told. An archive that is wrong rests. */
function checkOf(
  { reader, archives, clock }: { readonly reader: RpcChainReader; readonly archives: Archives; readonly clock: Clock },
  source: HistorySource,
): ArchivedPart["check"] {
  const { label } = source;
  const parts = {
    ...{ reader, nodeSpan: archives.nodeSpan, random: () => clock.random() },
    assertTold: async (...told: Tail<Parameters<typeof assertTold>>) => {
      const proven = await assertTold({ reader, label }, ...told);
      return proven === "pruned" ? undefined : proven;
    },
    disproved: (block: number) => new ArchiveDisprovedError(label, block, true),
  };
  return async (claims, allowance) => {
    try {
      return await checkClaims(parts, claims, allowance);
    } catch (error) {
      if (error instanceof ArchiveDisprovedError) archives.rest(source, error);
      throw error;
    }
  };
}

/** Reads all logs of a filter from one archive. @throws ArchiveError */
async function logsFrom(
  archives: Archives,
  source: HistorySource,
  filter: LogFilter,
  signal: AbortSignal,
): Promise<ChainLog[]> {
  const logs: ChainLog[] = [];
  for await (const part of archives.advancing(source, source.logs(filter, signal), filter)) logs.push(...part.logs);
  return logs;
}

/** A witness that fails is none. It rests, unless it only lacks the range or the room for it. */
function restUnlessSound(archives: Archives, witness: HistorySource, error: unknown): undefined {
  if (!(error instanceof ArchiveError)) throw error;
  if (error.action !== "split" && error.action !== "shift") archives.rest(witness, error);
}

type Tail<T extends readonly unknown[]> = T extends readonly [unknown, ...infer Rest] ? Rest : never;
type ToldBySource = readonly [source: HistorySource, logs: readonly ChainLog[]];

/**
 * True if two archives told the same. Where they differ, the node's receipts of the first such block say which one lies:
 * the witness then rests, and its word counts for nothing.
 * @throws ArchiveDisprovedError if the first archive lies; ArchiveError `distrust` if the node can't tell
 */
async function isSame(
  { reader, archives }: { readonly reader: RpcChainReader; readonly archives: Archives },
  filter: LogFilter,
  [source, logs]: ToldBySource,
  [witness, second]: ToldBySource,
): Promise<boolean> {
  const block = ToldBlocks.of(logs).firstDifference(ToldBlocks.of(second));
  if (block === undefined) return true;
  const header = await reader.header(block);
  const judge = async ({ label }: HistorySource, all: readonly ChainLog[]) => {
    const told = all.filter(({ blockNumber }) => blockNumber === block);
    const hash = told[0]?.blockHash ?? header?.hash;
    if (hash === undefined) return undefined;
    const isTold = (own: readonly ChainLog[]) => contentOfLogs(own) === contentOfLogs(told);
    const proving = assertTold({ reader, label }, { number: block, hash, receiptsRoot: undefined }, filter, isTold);
    return undefinedIfUnprovable(proving);
  };
  const isRight = (await judge(source, logs)) !== undefined;
  try {
    await judge(witness, second);
  } catch (error) {
    if (!(error instanceof ArchiveDisprovedError)) throw error;
    archives.rest(witness, error);
    return false;
  }
  if (isRight) return false;
  const dispute = `two archives differ about block ${block}, and the node can't tell which one is right`;
  const unsettled = new ArchiveError("distrust", dispute, { meta: { archive: source.label, block } });
  archives.rest(witness, unsettled);
  throw unsettled;
}

/** Resolves to undefined where the node has dropped the receipts. */
async function undefinedIfUnprovable<T>(proving: Promise<T>): Promise<T | undefined> {
  try {
    return await proving;
  } catch (error) {
    if (error instanceof AppError && !isRetryable(error)) return undefined;
    throw error;
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
    const isTold = (logs: readonly ChainLog[]) => contentOfLogs(logs) === contentOfLogs(told);
    await undefinedIfUnprovable(assertTold({ reader, label }, block, filter, isTold));
  };
  await Promise.all([...chosen].map(check));
}
