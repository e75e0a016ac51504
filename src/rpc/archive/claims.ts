/**
 * Checks what an archive says by leaving logs out. A log can be compared with its block's receipts; that there is no other
 * one can't. So the node is asked for its own logs of the newest blocks of such a claim, and of a few more drawn at random.
 * Where the node has dropped its logs, the blooms of its headers tell, and receipts decide on the blocks that they name.
 */
import { OverBudget } from "../../core/budget.ts";
import { AppError, isRetryable } from "../../core/errors.ts";
import type { BlockRange } from "../../events/types.ts";
import { mayHold, mayHoldTopic, mayName } from "../decode/bloom.ts";
import { type ChainLog, hasMoreTopics, type LogClaim, type Watched } from "../port.ts";
import type { ProvenLogs, ToldBlock } from "../reading/block-logs.ts";
import type { RpcChainReader } from "../reading/reader.ts";
import { isHistoryPruned } from "../rpc-errors.ts";
import { contentOf, ToldBlocks } from "./witness.ts";

/**
 * Calls of the node in a check. A question may make 100 of them, of which the search itself takes about 20: 32 requests for
 * the newest logs and 8 for others reach 400 blocks even of a node that takes ten at a time. A header is a call for one
 * block alone, so blooms reach 48 blocks.
 */
const [NEWEST, SAMPLES, HEADERS] = [32, 8, 48] as const;
/** Requests for the newest logs of a claim that all of them can't confirm. */
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
  requests: { left: number } = { left: NEWEST + SAMPLES },
): Promise<readonly number[]> {
  const confirmed = new Map<LogClaim, number>();
  const groups = [...Map.groupBy(claims, groupOf).values()];
  const receipts = { left: MAX_RECEIPTS };
  for (const [at, group] of groups.entries()) {
    // What one group leaves over is for the next.
    const share = { left: Math.floor(Math.max(0, requests.left) / (groups.length - at)) };
    requests.left -= share.left;
    const from = await new ClaimCheck(parts, group, { requests: share, receipts }).run();
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

/** The check of claims that end at the same block. */
class ClaimCheck {
  readonly #parts: ClaimParts;
  readonly #claims: readonly LogClaim[];
  readonly #watched: Watched;
  readonly #toBlock: number;
  readonly #left: { readonly requests: { left: number }; readonly receipts: { left: number } };
  readonly #told: readonly ChainLog[];
  /** True once the node has refused old logs. */
  #isPruned = false;

  constructor(
    parts: ClaimParts,
    claims: readonly LogClaim[],
    left: { readonly requests: { left: number }; readonly receipts: { left: number } },
  ) {
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
    if (open.length === 0) return confirmed;
    await this.#compareEnds(open, confirmed);
    await this.#sample({ fromBlock: Math.min(...open.map(({ fromBlock }) => fromBlock)), toBlock: confirmed - 1 });
    return confirmed;
  }

  /** Confirms the newest blocks, down to the lowest claim in reach. Returns the lowest block that was confirmed. */
  async #newest(): Promise<number> {
    const { requests } = this.#left;
    const size = this.#windowSize;
    const most = Math.max(0, requests.left - SAMPLES);
    const reach = this.#toBlock - (this.#isPruned ? HEADERS : most * size) + 1;
    const begins = this.#claims.map(({ fromBlock }) => fromBlock);
    const within = begins.filter((begin) => begin >= reach);
    const few = this.#toBlock - (this.#isPruned ? HEADERS : Math.min(most, FEW) * size) + 1;
    const lowest = Math.max(Math.min(...begins), Math.min(...within, within.length < begins.length ? few : reach));
    let confirmed = this.#toBlock + 1;
    while (confirmed > lowest) {
      const windows: BlockRange[] = [];
      for (let end = confirmed - 1; end >= lowest && windows.length < AT_ONCE; end -= this.#windowSize) {
        windows.push({ fromBlock: Math.max(lowest, end - this.#windowSize + 1), toBlock: end });
      }
      const wasPruned = this.#isPruned;
      const reached = await Promise.all(windows.map((window) => this.#compare(window)));
      for (const [at, { fromBlock }] of windows.entries()) {
        confirmed = reached[at]!;
        if (confirmed > fromBlock) {
          // Its headers may tell more.
          if (this.#isPruned && !wasPruned) break;
          return confirmed;
        }
      }
    }
    return confirmed;
  }

  get #windowSize(): number {
    return this.#isPruned ? HEADERS : this.#parts.nodeSpan;
  }

  /** Compares some blocks below the confirmed ones, drawn at random. */
  async #sample({ fromBlock, toBlock }: BlockRange): Promise<void> {
    const size = Math.min(this.#isPruned ? 1 : this.#parts.nodeSpan, toBlock - fromBlock + 1);
    const count = Math.min(SAMPLES, Math.max(0, this.#left.requests.left));
    const draws = Array.from({ length: count }, () => {
      const from = fromBlock + Math.floor(this.#parts.random() * (toBlock - fromBlock - size + 2));
      return { fromBlock: from, toBlock: from + size - 1 };
    });
    await Promise.all(draws.map((window) => this.#compare(window)));
  }

  /** Compares the blocks of the logs with which the claims begin, and of their last ones. */
  async #compareEnds(claims: readonly LogClaim[], below: number): Promise<void> {
    const ends = claims.flatMap(({ logs }) => [logs[0], logs.findLast(({ blockNumber }) => blockNumber < below)]);
    const blocks = new Set(
      ends.flatMap((log) => (log !== undefined && log.blockNumber < below ? log.blockNumber : [])),
    );
    await Promise.all([...blocks].map((block) => this.#isRight(block)));
  }

  /** Returns the block from which on the node confirms a range. Its end and one if it confirms nothing. */
  async #compare(range: BlockRange): Promise<number> {
    const unknown = range.toBlock + 1;
    try {
      if (this.#isPruned) return await this.#compareBlooms(range);
      const requests = { left: 2 };
      this.#left.requests.left--;
      const own = await this.#parts.reader.logs({ ...this.#watched, ...range, maxLogs: MAX_LOGS, requests });
      const block = ToldBlocks.of(this.#claimed(own)).firstDifference(ToldBlocks.of(this.#toldIn(range)));
      if (block === undefined) return range.fromBlock;
      if ((await this.#isRight(block)) !== true) throw this.#parts.disproved(block);
      return unknown;
    } catch (error) {
      if (error instanceof OverBudget || (error instanceof AppError && error.code === "too_many_logs")) return unknown;
      if (this.#isPruned || !isHistoryPruned(error)) throw error;
      this.#isPruned = true;
      return unknown;
    }
  }

  /** Like `#compare`, by the blooms of headers. */
  async #compareBlooms({ fromBlock, toBlock }: BlockRange): Promise<number> {
    const { reader, disproved } = this.#parts;
    const numbers = Array.from({ length: toBlock - fromBlock + 1 }, (_, at) => fromBlock + at);
    const groups = await reader.bloomed(await reader.presentHeaders(numbers));
    let confirmed = toBlock + 1;
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
      const isTold = (logs: readonly ChainLog[]) => contentOf(this.#claimed(logs)) === contentOf(told);
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
