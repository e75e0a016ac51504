/**
 * Finds the newest block to follow, and the time of the next poll. Asks one endpoint. If its head is not above the
 * followed head although blocks are due, it may be behind: then asks all endpoints and benches those that are behind.
 * Else the quickest endpoint, once stuck, would be asked for ever.
 */
import type { Chain } from "../chains/chains.ts";
import type { Clock } from "../core/clock.ts";
import type { Logger } from "../core/logger.ts";
import type { HeaderRef } from "../events/types.ts";
import { RpcError } from "../rpc/errors.ts";
import type { ChainReader, Tips } from "../rpc/port.ts";
import { isHeld } from "./branch.ts";
import type { ChainState } from "./chain-state.ts";

/** Number of newest block times for the median. */
const GAPS_LOOKED_AT = 8;
/** One endpoint is no longer trusted after this many block times, and minimum poll intervals, without a new block. */
const OVERDUE_BLOCKS = 2;
const OVERDUE_POLLS = 10;

/** A node this far below the followed head went back. One closer to it may only lag for a while. */
const FAR_BELOW = 64;
const LAG_MS = 60_000;

export interface HeadWatchOptions {
  readonly chain: Chain;
  readonly reader: ChainReader;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Minimum poll interval in ms. */
  readonly minPollMs: number;
}

export class HeadWatch {
  readonly #options: HeadWatchOptions;
  /** The followed head at the last poll, and the monotonic time since when it is unchanged or all were asked. */
  #followed: { readonly hash: string; since: number } | undefined;

  /** Monotonic time since when the node has shown an older head than the followed one; `isSaid` if that was logged. */
  #below: { readonly since: number; isSaid: boolean } | undefined;

  constructor(options: HeadWatchOptions) {
    this.#options = options;
  }

  /** Returns the newest and the final block, from an endpoint that is not known to be behind. */
  async tips(state: ChainState): Promise<Tips> {
    const tips = await this.#shown(state);
    this.#compare(state, tips.head);
    return tips;
  }

  /** Logs when the node goes back on the followed branch, and when it catches up. Neither moves the followed head. */
  #compare({ head, headers }: ChainState, shown: HeaderRef): void {
    const { chain, clock, logger } = this.#options;
    const isBelow = head !== undefined && shown.number < head.number && isHeld(shown, (number) => headers.get(number));
    if (!isBelow) {
      if (this.#below?.isSaid) logger.info({ chain: chain.name, nodeHead: shown.number }, "the node has caught up");
      this.#below = undefined;
      return;
    }
    this.#below ??= { since: clock.monotonic(), isSaid: false };
    const isLong = clock.monotonic() - this.#below.since >= LAG_MS;
    if (this.#below.isSaid || !(isLong || head.number - shown.number >= FAR_BELOW)) return;
    this.#below.isSaid = true;
    const facts = { chain: chain.name, head: head.number, nodeHead: shown.number };
    logger.warn(facts, "the node went back: the followed blocks stay, and no older state is served as the newest");
  }

  async #shown(state: ChainState): Promise<Tips> {
    const { reader } = this.#options;
    const tips = await reader.tips();
    const { head } = state;
    if (head === undefined || !this.#isDoubtful(state, head, tips.head)) return tips;
    if (!(await reader.passOverLaggards(head))) return tips;
    const others = await reader.tips();
    // Don't revert to the branch of endpoints that are behind, even if no other endpoint answers at the moment.
    if (others.head.number < head.number && !isHeld(others.head, (number) => state.headers.get(number))) {
      throw new RpcError("transient", "the endpoint is behind, on an orphaned branch", {
        meta: { block: others.head.number },
      });
    }
    return others;
  }

  /** Benches endpoints that are behind, by their own heads. */
  async passOverLaggards({ head }: ChainState): Promise<void> {
    if (head !== undefined) await this.#options.reader.passOverLaggards(head);
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

  /** Returns the ms until the next block is due; the minimum poll interval once it is overdue. */
  waitAfter(state: ChainState, head: HeaderRef): number {
    const { clock, minPollMs } = this.#options;
    const blockMs = this.#blockMs(state, head);
    const due = head.timestamp * 1_000 + blockMs - clock.now();
    return Math.min(Math.max(due, minPollMs), Math.max(blockMs, minPollMs));
  }

  /** Returns the most ms between two polls. A failed poll must not delay the head by more than about a block. */
  longestWait(state: ChainState): number {
    return Math.max(state.head === undefined ? 0 : this.#blockMs(state, state.head), this.#options.minPollMs);
  }

  /** Returns the chain's block time, or the recent headers' median if that is less: local chains vary it freely. */
  #blockMs(state: ChainState, head: HeaderRef): number {
    const { blockSeconds } = this.#options.chain;
    const gaps: number[] = [];
    for (let number = head.number; gaps.length < GAPS_LOOKED_AT; number--) {
      const [newer, older] = [state.headers.get(number), state.headers.get(number - 1)];
      if (newer === undefined || older === undefined) break;
      gaps.push(newer.timestamp - older.timestamp);
    }
    const median = gaps.sort((a, b) => a - b)[gaps.length >> 1] ?? blockSeconds;
    return Math.min(median, blockSeconds) * 1_000;
  }
}
