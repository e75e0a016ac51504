/**
 * Which block to believe as the head of the chain, and how long to wait for the next one. Asks one endpoint, and all of
 * them if that one may be behind.
 */
import type { BlockRef, HeaderRef } from "../events/types.ts";
import type { BlockHeader, Newest } from "../rpc/port.ts";
import { RpcError } from "../rpc/rpc-errors.ts";
import { isUnforked } from "./branch.ts";
import type { ChainWork } from "./consumer.ts";
import type { ChainState } from "./view.ts";

/** Number of newest block times for the median, and how far down their headers are searched. */
const GAPS_LOOKED_AT = 8;
const MAX_GAP = 512;
/** One endpoint is no longer trusted after this many block times, and minimum poll intervals, without a new block. */
const OVERDUE_BLOCKS = 2;
const OVERDUE_POLLS = 10;

/**
 * After this many block times, and minimum poll intervals, without a new block the node may be stuck: a minute or more.
 * The chain itself may stand still, so each further time at the same head takes twice as long, up to an hour.
 */
const STUCK_BLOCKS = 6;
const STUCK_POLLS = 60;
const STUCK_MAX_MS = 3_600_000;

/** Numbers below the head at which its parent is looked for. */
const MAX_SKIP = 8;

/** A node this far below the followed head went back. One closer to it may only lag for a while. */
const FAR_BELOW = 64;
const LAG_MS = 60_000;
const LAG_POLLS = 60;

/** The node's newest block with the endpoint that showed it, and the newest final block. */
export interface ShownTips extends Newest {
  /** The whole header, if the node was asked for it. */
  readonly finalized: BlockRef | BlockHeader;
}

interface PollPace {
  /** Least ms between polls that no client waits for; 0 while one does. */
  readonly restMs: number;
  readonly hasMoved: boolean;
}

interface HeadWatchOptions extends Pick<ChainWork, "chain" | "reader" | "clock" | "logger"> {
  /** Minimum poll interval in ms. */
  readonly minPollMs: number;
}

export class HeadWatch {
  readonly #options: HeadWatchOptions;
  /** The followed head at the last poll, and the monotonic time since when it is unchanged or all were asked. */
  #followed: { readonly hash: string; since: number } | undefined;

  /** The followed head, the monotonic time since when it is unchanged, and how often it was reported as stuck. */
  #standing: { readonly hash: string; readonly since: number; readonly reports: number } | undefined;

  /** Monotonic time since when the node has shown an older head than the followed one; `isReported` if that was logged. */
  #below: { readonly since: number; isReported: boolean } | undefined;

  constructor(options: HeadWatchOptions) {
    this.#options = options;
  }

  /**
   * Returns the newest block from an endpoint that is not known to be behind, and the newest final block: the node's,
   * or the followed one if `asksFinal` is false.
   */
  async tips(state: ChainState, asksFinal: boolean): Promise<ShownTips> {
    const tips = await this.#shown(state, asksFinal);
    this.#compare(state, tips.head);
    await this.#assertNoSkip(state, tips.head);
    return tips;
  }

  /**
   * Reads the number below a head whose parent is an older block. If there is no block of that number, the chain skips
   * numbers, and the read says so. @throws RpcError
   */
  async #assertNoSkip({ headers }: ChainState, { number, parentHash }: HeaderRef): Promise<void> {
    for (let older = number - 2; older >= number - MAX_SKIP; older--) {
      if (headers.get(older)?.hash === parentHash) await this.#options.reader.presentHeaders([number - 1]);
    }
  }

  async #ask({ finalized, head }: ChainState, asksFinal: boolean): Promise<ShownTips> {
    const { reader } = this.#options;
    if (asksFinal || finalized === undefined || head === undefined) return reader.tips();
    const newest = await reader.newest();
    // After a long gap fewer headers are read, if the newest final block is known.
    return newest.head.number - head.number > MAX_GAP ? reader.tips() : { ...newest, finalized };
  }

  /**
   * True if the node has shown a lower block for a while, at a number whose followed header was not read. Then nothing
   * tells whether the node went back on the followed branch, or follows another one.
   */
  isLost({ head, headers }: ChainState, shown: BlockRef): boolean {
    if (this.#below === undefined || head === undefined || headers.has(shown.number)) return false;
    const { clock, minPollMs } = this.#options;
    return clock.monotonic() - this.#below.since >= Math.min(LAG_MS, minPollMs * LAG_POLLS);
  }

  /** Logs when the node goes back on the followed branch, and when it catches up. Neither moves the followed head. */
  #compare({ head, headers }: ChainState, shown: HeaderRef): void {
    const { chain, clock, logger } = this.#options;
    const isBelow =
      head !== undefined && shown.number < head.number && isUnforked(shown, (number) => headers.get(number));
    if (!isBelow) {
      if (this.#below?.isReported) logger.info({ chain: chain.name, nodeHead: shown.number }, "the node has caught up");
      this.#below = undefined;
      return;
    }
    this.#below ??= { since: clock.monotonic(), isReported: false };
    const isLong = clock.monotonic() - this.#below.since >= LAG_MS;
    if (this.#below.isReported || !(isLong || head.number - shown.number >= FAR_BELOW)) return;
    this.#below.isReported = true;
    const facts = { chain: chain.name, head: head.number, nodeHead: shown.number };
    logger.warn(facts, "the node went back: the followed blocks stay, and no older state is served as the newest");
  }

  async #shown(state: ChainState, asksFinal: boolean): Promise<ShownTips> {
    const { reader } = this.#options;
    const tips = await this.#ask(state, asksFinal);
    const { head } = state;
    if (head === undefined || !this.#isDoubtful(state, head, tips.head)) return tips;
    if (!(await reader.benchLaggards(head))) return tips;
    const others = await this.#ask(state, asksFinal);
    // Don't revert to the branch of endpoints that are behind, even if no other endpoint answers at the moment.
    if (others.head.number < head.number && !isUnforked(others.head, (number) => state.headers.get(number))) {
      throw new RpcError("transient", "the endpoint is behind, on an orphaned branch", {
        meta: { block: others.head.number },
      });
    }
    return others;
  }

  /** True if the followed head has not moved for so long that the node may be stuck. Call it after each poll. */
  isStuck(state: ChainState): boolean {
    const { clock, minPollMs } = this.#options;
    const { head } = state;
    if (head === undefined) return false;
    const now = clock.monotonic();
    if (this.#standing?.hash !== head.hash) this.#standing = { hash: head.hash, since: now, reports: 0 };
    const { since, reports } = this.#standing;
    const patience = Math.max(this.#blockMs(state, head) * STUCK_BLOCKS, minPollMs * STUCK_POLLS);
    if (now - since < Math.min(STUCK_MAX_MS, patience * 2 ** reports)) return false;
    this.#standing = { hash: head.hash, since: now, reports: reports + 1 };
    return true;
  }

  /** Benches endpoints that are behind, by their own heads. */
  async passOverLaggards({ head }: ChainState): Promise<void> {
    if (head !== undefined) await this.#options.reader.benchLaggards(head);
  }

  /** True if `shown` may be an older state of the chain than `followed`, or has not moved for too long. */
  #isDoubtful(state: ChainState, followed: HeaderRef, shown: HeaderRef): boolean {
    const now = this.#options.clock.monotonic();
    if (this.#followed?.hash !== followed.hash) this.#followed = { hash: followed.hash, since: now };
    if (shown.number !== followed.number) return shown.number < followed.number;
    if (shown.hash !== followed.hash) return true;
    const { minPollMs } = this.#options;
    const patience = Math.max(this.#blockMs(state, followed) * OVERDUE_BLOCKS, minPollMs * OVERDUE_POLLS);
    if (now - this.#followed.since < patience) return false;
    this.#followed.since = now;
    return true;
  }

  /**
   * Returns the ms until the next block is due; the minimum poll interval once it is overdue. With `restMs`, the blocks
   * of that time are waited for, and a moment for the last one to arrive: a poll that comes too early is a wasted call.
   * @param hasMoved true if the poll moved the head
   */
  waitAfter(state: ChainState, head: HeaderRef, { restMs, hasMoved }: PollPace): number {
    const { clock, minPollMs } = this.#options;
    const blockMs = this.#blockMs(state, head);
    const longMs = restMs === 0 ? blockMs : Math.max(restMs, blockMs) + blockMs / 6;
    // The head's time may be long ago although it is new: some nodes lag, and local chains set it freely.
    const leastMs = restMs === 0 ? minPollMs : Math.max(minPollMs, (longMs * (hasMoved ? 2 : 1)) / 3);
    const due = head.timestamp * 1_000 + longMs - clock.now();
    return Math.min(Math.max(due, leastMs), Math.max(longMs, leastMs));
  }

  /** Returns the most ms between two polls. A failed poll must not delay the head by more than about a block. */
  longestWait(state: ChainState): number {
    return Math.max(state.head === undefined ? 0 : this.#blockMs(state, state.head), this.#options.minPollMs);
  }

  /** Returns the chain's block time, or the recent headers' median if that is less: local chains vary it freely. */
  #blockMs(state: ChainState, head: HeaderRef): number {
    const { blockSeconds } = this.#options.chain;
    const gaps: number[] = [];
    let newer = head;
    for (let number = head.number - 1; gaps.length < GAPS_LOOKED_AT && head.number - number < MAX_GAP; number--) {
      const older = state.headers.get(number);
      if (older === undefined) continue;
      gaps.push(Math.max(0, newer.timestamp - older.timestamp) / (newer.number - older.number));
      newer = older;
    }
    const median = gaps.sort((a, b) => a - b)[gaps.length >> 1] ?? blockSeconds;
    return Math.min(median, blockSeconds) * 1_000;
  }
}
