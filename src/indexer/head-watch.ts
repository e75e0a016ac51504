/**
 * The chain's newest block as it is to be followed, and when the next one is to be looked for. One endpoint is asked; when
 * what it shows is not beyond what is followed, and blocks are due, it may be behind: then everybody is asked, and those
 * that are behind rest. Otherwise the quickest of several nodes, once stuck, would be asked for good.
 */
import type { Chain } from "../chains/chains.ts";
import type { Clock } from "../core/clock.ts";
import type { Logger } from "../core/logger.ts";
import type { HeaderRef } from "../events/types.ts";
import { RpcError } from "../rpc/errors.ts";
import type { ChainReader, Tips } from "../rpc/port.ts";
import { isHeld } from "./branch.ts";
import type { ChainState } from "./chain-state.ts";

/** Newest block times whose median is taken. */
const GAPS_LOOKED_AT = 8;
/** Without a new block for so many block times, and so many least waits, one node's word is not enough. */
const OVERDUE_BLOCKS = 2;
const OVERDUE_POLLS = 10;

/** A node that shows a head so far below the followed one has gone back; one that is closer may only lag, for a while. */
const FAR_BELOW = 64;
const LAG_MS = 60_000;

export interface HeadWatchOptions {
  readonly chain: Chain;
  readonly reader: ChainReader;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Least wait between polls in ms. */
  readonly minPollMs: number;
}

export class HeadWatch {
  readonly #options: HeadWatchOptions;
  /** The followed head when last looked at, and since when it has been that, or everybody was asked, on the monotonic clock. */
  #followed: { readonly hash: string; since: number } | undefined;

  /** Since when the node has shown an older head than the followed one, on the monotonic clock, and whether that was said. */
  #below: { readonly since: number; isSaid: boolean } | undefined;

  constructor(options: HeadWatchOptions) {
    this.#options = options;
  }

  /** The newest and the final block; of an endpoint that is not known to be behind. */
  async tips(state: ChainState): Promise<Tips> {
    const tips = await this.#shown(state);
    this.#compare(state, tips.head);
    return tips;
  }

  /** Says when the node goes back on the followed branch, and when it has caught up: no block tells of either. */
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
    logger.warn(facts, "the node went back: what was followed is still shown, and nothing older is told as of now");
  }

  async #shown(state: ChainState): Promise<Tips> {
    const { reader } = this.#options;
    const tips = await reader.tips();
    const { head } = state;
    if (head === undefined || !this.#isDoubtful(state, head, tips.head)) return tips;
    if (!(await reader.passOverLaggards(head))) return tips;
    const others = await reader.tips();
    // Nobody goes back for those that are behind, even if no other endpoint is to be had for now.
    if (others.head.number < head.number && !isHeld(others.head, (number) => state.headers.get(number))) {
      throw new RpcError("transient", "the endpoint is behind, on a branch that lost", {
        meta: { block: others.head.number },
      });
    }
    return others;
  }

  /** Has those rest that are behind, as far as they say so. */
  async passOverLaggards({ head }: ChainState): Promise<void> {
    if (head !== undefined) await this.#options.reader.passOverLaggards(head);
  }

  /** Whether what is shown may be an older state of the chain than what is followed, or is no newer for too long. */
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

  /** Ms until the next block is due; once it is overdue, the least wait. */
  waitAfter(state: ChainState, head: HeaderRef): number {
    const { clock, minPollMs } = this.#options;
    const blockMs = this.#blockMs(state, head);
    const due = head.timestamp * 1_000 + blockMs - clock.now();
    return Math.min(Math.max(due, minPollMs), Math.max(blockMs, minPollMs));
  }

  /** Ms between two looks at most: a look that failed must not make the head later than a block or so. */
  longestWait(state: ChainState): number {
    return Math.max(state.head === undefined ? 0 : this.#blockMs(state, state.head), this.#options.minPollMs);
  }

  /** The chain's own block time, or what the newest headers show when that is less: local chains make blocks when they like. */
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
