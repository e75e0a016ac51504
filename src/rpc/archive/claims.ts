/**
 * Checks what an archive says by leaving logs out. A log can be compared with its block's receipts; that there is no other
 * one can't. So the node is asked for its own logs of the newest blocks of such a claim, and of a few more drawn at random.
 * Where the node has dropped its logs, the blooms of its headers tell, and receipts decide on the blocks that they name.
 */
import { OverBudget } from "../../core/budget.ts";
import { AppError, isRetryable } from "../../core/errors.ts";
import type { BlockRange } from "../../events/types.ts";
import { mayHold, mayHoldTopic, mayName } from "../decode/bloom.ts";
import { type ChainLog, type CheckAllowance, hasMoreTopics, type LogClaim, type Watched } from "../port.ts";
import type { ProvenLogs, ToldBlock } from "../reading/block-logs.ts";
import type { RpcChainReader } from "../reading/reader.ts";
import { isHistoryPruned } from "../rpc-errors.ts";
import { contentOfLogs, ToldBlocks } from "./witness.ts";

/**
 * Calls of the node in a check. A question may make 100 of them, of which the search itself takes about 20: 32 requests for
 * the newest logs and 4 for others reach 360 blocks even of a node that takes ten at a time. A header is a call for one
 * block alone, so blooms reach 48 blocks.
 */
const [NEWEST, SAMPLES, HEADERS] = [32, 4, 48] as const;
/** Requests for the newest blocks of a pool of which nothing was told: a lie about one with trades shows soon. */
const FEW = 4;
/** Most blocks of a check whose receipts are read. */
const MAX_RECEIPTS = 8;
/** Windows that are read at once. */
const AT_ONCE = 8;
/** Most logs of a window. A claim with more is not confirmed there. */
const MAX_LOGS = 20_000;

interface ClaimParts {
  readonly reader: RpcChainReader;
  /** Most blocks that one request for logs of the node may take. */
  readonly nodeSpan: number;
  /** A number in [0, 1). */
  readonly random: () => number;
  /** Compares a told block with the node's receipts; undefined if these can't be had. Throws if they differ. */
  readonly assertTold: (
    block: ToldBlock,
    watched: Watched,
    isTold: (logs: readonly ChainLog[]) => boolean,
  ) => Promise<ProvenLogs | undefined>;
  /** The error that says that the archive is wrong about a block. */
  readonly disproved: (block: number) => Error;
}

/**
 * See `ArchivedPart.check`. Claims that end at the same block and differ in their contracts only are checked together.
 * @throws the error of `disproved`, or of `assertTold`, if the archive is wrong
 */
export async function checkClaims(
  parts: ClaimParts,
  claims: readonly LogClaim[],
  allowance?: CheckAllowance,
): Promise<readonly number[]> {
  const confirmed = new Map<LogClaim, number>();
  // The oldest first: those about the blocks after a price's block are the lesser ones.
  const groups = [
    ...Map.groupBy(
      claims.toSorted((a, b) => a.toBlock - b.toBlock),
      groupOf,
    ).values(),
  ];
  const requests = allowance ?? { left: NEWEST + SAMPLES };
  const left = { headers: { left: HEADERS }, receipts: { left: MAX_RECEIPTS }, isShared: allowance !== undefined };
  for (const [at, group] of groups.entries()) {
    // Each later group has few requests of its own, and what the ones before left over.
    const kept = (groups.length - at - 1) * (FEW + SAMPLES);
    const share = { left: Math.max(0, requests.left - kept) };
    requests.left -= share.left;
    const from = await new ClaimCheck(parts, group, { ...left, requests: share }).run();
    requests.left += Math.max(0, share.left);
    for (const claim of group) confirmed.set(claim, from);
  }
  return claims.map((claim) => confirmed.get(claim)!);
}

/** Claims with the same group can be one request for logs. */
const groupOf = ({ toBlock, topics, addresses, moreTopics }: LogClaim): string =>
  [toBlock, topics, moreTopics === undefined ? "" : addresses].join(" ");

/** The contracts of all claims of a group. */
function watchedBy(claims: readonly LogClaim[]): Watched {
  const [{ topics, moreTopics, addresses }] = claims as [LogClaim];
  if (moreTopics === undefined) return { topics, addresses: [...new Set(claims.flatMap((one) => one.addresses))] };
  const first = [...new Set(claims.flatMap((one) => one.moreTopics?.[0] ?? []))];
  return { topics, addresses, moreTopics: [first, ...moreTopics.slice(1)] };
}

const isOf = ({ addresses, moreTopics, fromBlock, toBlock }: LogClaim, log: ChainLog): boolean =>
  log.blockNumber >= fromBlock &&
  log.blockNumber <= toBlock &&
  addresses.includes(log.address) &&
  hasMoreTopics(log.topics, moreTopics);

/** True if more can't be read within the bounds of the question, or of this check. */
const isUnaffordable = (error: unknown): boolean =>
  error instanceof OverBudget || (error instanceof AppError && error.code === "too_many_logs");

/** What a check may still do. */
interface Left {
  readonly requests: CheckAllowance;
  readonly headers: { left: number };
  readonly receipts: { left: number };
  /** True if other checks have the same allowance. Then nothing is spent on what can't be confirmed. */
  readonly isShared: boolean;
}

/** The check of claims that end at the same block. */
class ClaimCheck {
  readonly #parts: ClaimParts;
  readonly #claims: readonly LogClaim[];
  readonly #watched: Watched;
  readonly #toBlock: number;
  readonly #left: Left;
  readonly #told: readonly ChainLog[];
  /** True once the node has refused old logs. */
  #isPruned = false;

  constructor(parts: ClaimParts, claims: readonly LogClaim[], left: Left) {
    this.#parts = parts;
    this.#claims = claims;
    this.#left = left;
    this.#watched = watchedBy(claims);
    this.#toBlock = (claims[0] as LogClaim).toBlock;
    this.#told = claims.flatMap(({ logs }) => logs);
    this.#isPruned = this.#toBlock < (parts.reader.knownHistoryStart ?? 0);
  }

  /** Returns the block from which on the claims are confirmed. */
  async run(): Promise<number> {
    const confirmed = await this.#newest();
    const open = this.#claims.filter(({ fromBlock }) => fromBlock < confirmed);
    if (open.length === 0 || this.#left.isShared) return confirmed;
    await this.#compareEnds(open, confirmed);
    await this.#sample({ fromBlock: Math.min(...open.map(({ fromBlock }) => fromBlock)), toBlock: confirmed - 1 });
    return confirmed;
  }

  /** Confirms the newest blocks, down to the lowest claim in reach. Returns the lowest block that was confirmed. */
  async #newest(): Promise<number> {
    const { requests, isShared } = this.#left;
    const { nodeSpan } = this.#parts;
    let confirmed = this.#toBlock + 1;
    const lowest = this.#lowest(Math.max(0, requests.left - (isShared ? 0 : SAMPLES)) * nodeSpan, FEW * nodeSpan);
    while (confirmed > lowest && !this.#isPruned) {
      const windows: BlockRange[] = [];
      for (let end = confirmed - 1; end >= lowest && windows.length < AT_ONCE; end -= nodeSpan) {
        windows.push({ fromBlock: Math.max(lowest, end - nodeSpan + 1), toBlock: end });
      }
      const reached = await Promise.all(windows.map((window) => this.#compareLogs(window)));
      const unread = windows.findIndex((_, at) => reached[at] === false);
      confirmed = windows[unread < 0 ? windows.length - 1 : unread - 1]?.fromBlock ?? confirmed;
      if (unread >= 0) break;
    }
    if (!this.#isPruned) return confirmed;
    const { headers } = this.#left;
    const fromBlock = Math.max(this.#lowest(headers.left, headers.left), confirmed - headers.left);
    return fromBlock < confirmed ? this.#compareBlooms({ fromBlock, toBlock: confirmed - 1 }) : confirmed;
  }

  /**
   * The lowest block that is worth reading: where the lowest claim within reach begins. Blocks are read even if they can't
   * confirm a claim, because they may show a lie: all within reach where the last log was told, few where none was.
   */
  #lowest(reach: number, few: number): number {
    const begins = this.#claims.map(({ fromBlock }) => fromBlock);
    const within = begins.filter((begin) => begin > this.#toBlock - reach);
    const beyond = this.#left.isShared
      ? []
      : this.#claims.filter(({ fromBlock }) => fromBlock <= this.#toBlock - reach);
    const least = beyond.map(({ logs }) => this.#toBlock - (logs.length > 0 ? reach : Math.min(few, reach)) + 1);
    return Math.max(Math.min(...begins), Math.min(this.#toBlock + 1, ...within, ...least));
  }

  /** Compares some blocks below the confirmed ones, drawn at random. */
  async #sample({ fromBlock, toBlock }: BlockRange): Promise<void> {
    const isPruned = this.#isPruned;
    const size = Math.min(isPruned ? 1 : this.#parts.nodeSpan, toBlock - fromBlock + 1);
    const { requests, headers } = this.#left;
    const count = Math.min(SAMPLES, Math.max(0, isPruned ? headers.left : requests.left));
    const draws = Array.from({ length: count }, () => {
      const from = fromBlock + Math.floor(this.#parts.random() * (toBlock - fromBlock - size + 2));
      return { fromBlock: from, toBlock: from + size - 1 };
    });
    await Promise.all(draws.map((window) => (isPruned ? this.#compareBlooms(window) : this.#compareLogs(window))));
  }

  /** Compares the blocks of the logs with which the claims begin, and of their last ones. */
  async #compareEnds(claims: readonly LogClaim[], below: number): Promise<void> {
    const ends = claims.flatMap(({ logs }) => [logs[0], logs.findLast(({ blockNumber }) => blockNumber < below)]);
    const blocks = new Set(
      ends.flatMap((log) => (log !== undefined && log.blockNumber < below ? log.blockNumber : [])),
    );
    await Promise.all([...blocks].map((block) => this.#isRight(block)));
  }

  /** True if the node's own logs of a range are those that were told; false if the node can't tell. Throws if not. */
  async #compareLogs(range: BlockRange): Promise<boolean> {
    this.#left.requests.left--;
    try {
      const requests = { left: 2 };
      const own = await this.#parts.reader.logs({ ...this.#watched, ...range, maxLogs: MAX_LOGS, requests });
      const block = ToldBlocks.of(this.#claimed(own)).firstDifference(ToldBlocks.of(this.#toldIn(range)));
      if (block === undefined) return true;
      if ((await this.#isRight(block)) !== true) throw this.#parts.disproved(block);
      return false;
    } catch (error) {
      if (isUnaffordable(error)) return false;
      if (!isHistoryPruned(error)) throw error;
      this.#isPruned = true;
      return false;
    }
  }

  /**
   * Compares a range with the blooms of the node's headers. Receipts decide on the blocks that they name. Returns the block
   * from which on it is confirmed, up to its end; above the end if nothing is.
   */
  async #compareBlooms({ fromBlock, toBlock }: BlockRange): Promise<number> {
    const { reader, disproved } = this.#parts;
    const numbers = Array.from({ length: toBlock - fromBlock + 1 }, (_, at) => fromBlock + at);
    this.#left.headers.left -= numbers.length;
    let confirmed = toBlock + 1;
    try {
      const groups = await reader.bloomed(await reader.presentHeaders(numbers));
      for (const { blocks, logsBloom } of groups.toReversed()) {
        if (logsBloom === undefined) return confirmed;
        const own = blocks.map(({ number }) => number);
        const told = own.flatMap((number) => this.#toldIn({ fromBlock: number, toBlock: number }));
        const strange = told.find((log) => !mayHold(logsBloom, log));
        if (strange !== undefined) throw disproved(strange.blockNumber);
        if (this.#isNamed(logsBloom, own)) {
          const right = await Promise.all(own.map((number) => this.#isRight(number)));
          if (right.some((one) => one !== true)) return confirmed;
        }
        confirmed = Math.min(...own);
      }
      return Math.max(fromBlock, confirmed);
    } catch (error) {
      if (isUnaffordable(error)) return confirmed;
      throw error;
    }
  }

  /** True if a bloom over these blocks may hold a log of a claim. */
  #isNamed(bloom: string, blocks: readonly number[]): boolean {
    const { topics } = this.#watched;
    if (topics.length > 0 && !topics.some((topic) => mayHoldTopic(bloom, topic))) return false;
    return this.#claims.some(({ addresses, moreTopics = [], fromBlock, toBlock }) => {
      if (!blocks.some((block) => block >= fromBlock && block <= toBlock)) return false;
      if (!addresses.some((address) => mayName(bloom, address))) return false;
      return moreTopics.every((some) => some === undefined || some.some((topic) => mayHoldTopic(bloom, topic)));
    });
  }

  /** True if a block's receipts have the logs that were told of it; undefined if they can't be had. Throws if not. */
  async #isRight(block: number): Promise<true | undefined> {
    if (this.#left.receipts.left-- <= 0) return undefined;
    const { reader, assertTold } = this.#parts;
    const told = this.#toldIn({ fromBlock: block, toBlock: block });
    try {
      const hash = told[0]?.blockHash ?? (await reader.header(block))?.hash;
      if (hash === undefined) return undefined;
      const isTold = (logs: readonly ChainLog[]) => contentOfLogs(this.#claimed(logs)) === contentOfLogs(told);
      const proven = await assertTold({ number: block, hash, receiptsRoot: undefined }, this.#watched, isTold);
      return proven && true;
    } catch (error) {
      const isUnknown = error instanceof OverBudget || (error instanceof AppError && !isRetryable(error));
      if (!isUnknown) throw error;
      return undefined;
    }
  }

  #toldIn({ fromBlock, toBlock }: BlockRange): ChainLog[] {
    return this.#told.filter(({ blockNumber }) => blockNumber >= fromBlock && blockNumber <= toBlock);
  }

  /** Of the node's logs, those that the claims are about. */
  #claimed(logs: readonly ChainLog[]): ChainLog[] {
    return logs.filter((log) => this.#claims.some((claim) => isOf(claim, log)));
  }
}
