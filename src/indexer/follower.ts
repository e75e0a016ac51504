/**
 * The one follower of a chain: polls the head, checks that new blocks link to the known ones, reads the logs of all
 * followed contracts in one request, hands them to the consumers and then moves the chain stream's head. A fork is
 * resolved to its common ancestor first. Runs only where the chain's lease is held.
 */
import type { Chain } from "../chains/chains.ts";
import type { Clock } from "../core/clock.ts";
import { AppError, ConcurrencyError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import { backoffMs } from "../core/retry.ts";
import { StallWatch } from "../core/stall.ts";
import { type BlockRef, type ChainEvent, chainStream, type HeaderRef, type StreamName } from "../events/types.ts";
import type { EventLog } from "../log/port.ts";
import { RpcError } from "../rpc/errors.ts";
import type { BlockHeader, ChainLog, Tips } from "../rpc/port.ts";
import type { RpcChainReader } from "../rpc/reader.ts";
import type { Verify } from "./backfill-task.ts";
import { assertOnChain, ForkedAnswersError, firstUnlinked, isHeld } from "./branch.ts";
import { loadChainState } from "./chain-projection.ts";
import { type ChainState, checkpointOf, evolveChain, isCanonical } from "./chain-state.ts";
import type { FollowedCollections } from "./collections.ts";
import type { BlockConsumer } from "./consumer.ts";
import { stallReason } from "./failure.ts";
import { FinalityViolation, findParting, orphanedAbove, ViolationWatch } from "./fork.ts";
import { HeadWatch } from "./head-watch.ts";
import { type Lease, withLease } from "./lease.ts";
import { Looks } from "./looks.ts";
import type { IndexingObserver } from "./observer.ts";
import { numbersBetween, presentHeaders } from "./present-headers.ts";

/** Blocks kept revertible at most when finality stalls; beyond it following waits. */
const MAX_UNFINALIZED = 4_096;
/** Newest blocks of a gap that are checked by their headers in any case: an hour and a half of Ethereum. */
const ALWAYS_CHECKED = 512;
/** Share of followed blocks whose logs are compared with their receipts, where the endpoint has some. */
const RECEIPTS_SAMPLE = 0.05;
/** Blocks followed at once after a long gap: what is read of them is in memory until it is written. */
const MAX_STEP = 2_000;
/** Events of a chain stream between two checkpoints: what a reader replays at most. */
const CHECKPOINT_EVERY = 1_000;
const MIN_POLL_MS = 1_000;
const RETRY_MAX_MS = 15_000;
/** A halted chain is looked at again this often: its node may come back from the wrong fork. */
const HALTED_POLL_MS = 60_000;

export interface FollowerOptions {
  readonly chain: Chain;
  readonly log: EventLog;
  readonly reader: RpcChainReader;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly observer: IndexingObserver;
  readonly collections: FollowedCollections;
  readonly consumers: readonly BlockConsumer[];
  /** Names this process as holder of leases. */
  readonly holder: string;
  readonly verify: Verify;
  /** True while a client of this process subscribes to anything on the chain. */
  readonly isHeard?: () => boolean;
  /** Least wait between polls in ms; tests poll faster. */
  readonly minPollMs?: number;
}

export class Follower {
  readonly #options: FollowerOptions;
  readonly #stream: StreamName;
  readonly #looks: Looks;
  /** Between the first and the last append of a poll: what fails there leaves memory and log apart. */
  #writing = false;
  /** Whether something that was to be written may land in the log yet, though it was given up. */
  #isUnanswered = false;
  readonly #heads: HeadWatch;
  readonly #violations: ViolationWatch;

  constructor(options: FollowerOptions) {
    this.#options = options;
    this.#stream = chainStream(options.chain.chainId);
    const { chain, reader, clock, logger } = options;
    this.#looks = new Looks(clock, this.#minPoll, options.isHeard);
    this.#heads = new HeadWatch({ chain, reader, clock, logger, minPollMs: this.#minPoll });
    this.#violations = new ViolationWatch(reader, clock);
  }

  /** Polls now instead of when the next block is due. */
  nudge(): void {
    this.#looks.want();
  }

  /**
   * Somebody is ready to join. Who asked for a collection may know of any block up to then: one that was `seen` since is
   * new enough to join at, and needs no other look at the chain.
   */
  readied(seen: number | undefined): void {
    if (seen === undefined) this.#looks.want();
    else this.#looks.readied(seen);
  }

  /** A node announced a block: polls soon, but no more often than the least wait allows. */
  headSeen(): void {
    this.#looks.headSeen();
  }

  /** Follows whenever the lease can be had, until stopped or until finality is violated. */
  async run(signal: AbortSignal): Promise<void> {
    const { log, clock, logger, holder, chain } = this.#options;
    const name = `follow/${chain.chainId}`;
    for (let failures = 0; !signal.aborted; ) {
      try {
        await withLease({ log, clock, name, holder, signal }, (lease) => this.#follow(lease));
        failures = 0;
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof FinalityViolation) {
          logger.error({ err: error, chain: chain.name }, "following stops: a fork is deeper than finality");
          failures = 0;
          await clock.sleep(HALTED_POLL_MS, signal).catch(() => undefined);
          continue;
        }
        failures++;
        const wait = backoffMs(clock, failures, MIN_POLL_MS, RETRY_MAX_MS);
        const level = failures === 1 || error instanceof ConcurrencyError ? "debug" : "warn";
        logger[level]({ err: error, chain: chain.name, attempt: failures }, "following was interrupted");
        await clock.sleep(wait, signal).catch(() => undefined);
      }
    }
  }

  async #follow(lease: Lease): Promise<void> {
    const { log, collections, holder } = this.#options;
    const state = await loadChainState(log, this.#stream);
    // From here on nobody else's writes go by this stream's version, nor what is on its way of this one's; only then is
    // there a last word on what to follow.
    const isSaid = state.follower === holder && !this.#isUnanswered;
    if (!isSaid) await this.#append(state, [{ type: "FollowingBegan", holder }]);
    this.#isUnanswered = false;
    await collections.load();
    const { head: tip, finalized } = state;
    collections.chainVersion = state.version;
    if (tip !== undefined && finalized !== undefined) {
      await collections.reconcile(tip, finalized, (block) => isCanonical(state, block));
    }
    const stall = new StallWatch(this.#options.clock, (ms) => this.#stalled(state, ms));
    try {
      await this.#poll(state, lease, () => stall.moved());
    } finally {
      stall.stop();
    }
  }

  /** Says what the follower tries when no poll has succeeded for so long. */
  #stalled({ head }: ChainState, ms: number): void {
    const { logger, chain, reader, collections } = this.#options;
    const reason = stallReason(`following from block ${head?.number ?? "?"}`, ms, reader.failureWithin(ms));
    logger.warn({ chain: chain.name, seconds: Math.round(ms / 1_000), reason }, "following makes no progress");
    if (!this.#writing) collections.stalled(reason);
  }

  /** Polls until the lease is lost, or something fails that another poll alone would not mend. */
  async #poll(state: ChainState, lease: Lease, moved: () => void): Promise<never> {
    const { clock } = this.#options;
    for (let failures = 0; ; ) {
      lease.assertHeld();
      let wait: number;
      this.#writing = false;
      const isOnlyToJoin = this.#looks.isOnlyToJoin(state.head);
      try {
        if (isOnlyToJoin && failures === 0) wait = (await this.#joinAsHeld(state)) ? this.#looks.dueIn : 0;
        else wait = await this.#look(state, lease);
        failures = 0;
        moved();
      } catch (error) {
        // What only asks for another look keeps the lease; all else gives it up and starts from the log.
        const passing =
          !this.#writing &&
          (error instanceof ForkedAnswersError ||
            (error instanceof AppError && error.retryable) ||
            error instanceof RpcError);
        this.#isUnanswered = this.#writing || (error instanceof AppError && error.code === "write_interrupted");
        if (!passing || lease.signal.aborted) throw error;
        failures++;
        this.#options.logger.debug({ err: error, attempt: failures }, "a poll failed");
        // Who answers from another branch may be stuck on it, and the quickest to answer the next time, too.
        if (error instanceof ForkedAnswersError) await this.#heads.passOverLaggards(state);
        wait = backoffMs(clock, failures, this.#minPoll, Math.min(RETRY_MAX_MS, this.#heads.longestWait(state)));
      }
      await this.#looks.pause(wait, lease.signal);
    }
  }

  /** Looks at the chain, follows it, and has join who waits; returns in how many ms to look again. */
  async #look(state: ChainState, lease: Lease): Promise<number> {
    this.#looks.begin();
    await this.#flag();
    const tips = await this.#heads.tips(state);
    this.#options.observer.head(this.#options.chain.chainId, tips.head.number);
    await this.#advance(state, tips, lease);
    this.#violations.clear();
    await this.#options.collections.recheck();
    await this.#join(state);
    const wait = this.#heads.waitAfter(state, tips.head);
    this.#looks.dueIn = wait;
    return wait;
  }

  get #minPoll(): number {
    return this.#options.minPollMs ?? MIN_POLL_MS;
  }

  /** Needs no node: what the operator lists is shown while none answers, too. */
  async #flag(): Promise<void> {
    this.#writing = true;
    await this.#options.collections.flag();
    this.#writing = false;
  }

  /** Has join who waits; whether the followed head was enough for all of them. */
  async #join({ head, headers }: ChainState): Promise<boolean> {
    return head === undefined || this.#options.collections.join(head, (number) => headers.get(number));
  }

  /** As `#join`, without a look before: the chain may have gone elsewhere meanwhile, which is for a look to say. */
  async #joinAsHeld(state: ChainState): Promise<boolean> {
    try {
      return await this.#join(state);
    } catch (error) {
      if (error instanceof ForkedAnswersError) return false;
      throw error;
    }
  }

  /**
   * Moves the followed head towards the node's; where there was a reorg, back to the ancestor and on from there.
   * @param hasGoneBack in this look already: a node that changes its mind again is looked at again
   */
  async #advance(state: ChainState, tips: Tips, lease: Lease, hasGoneBack = false): Promise<void> {
    const { observer, chain } = this.#options;
    const { head: nodeHead, finalized } = tips;
    if (state.head === undefined || state.finalized === undefined) {
      await this.#begin(state, nodeHead, finalized);
      return;
    }
    // A finalised tag that goes back is not believed: what was final stays final.
    const final = finalized.number > state.finalized.number ? finalized : state.finalized;
    const bound = Math.min(final.number + MAX_UNFINALIZED, state.head.number + MAX_STEP);
    const isStep = nodeHead.number > bound;
    const target = isStep ? await this.#headerAt(bound) : nodeHead;
    observer.halted(chain.chainId, false);
    if (target.number <= state.head.number) {
      // The same hash: the node lags or nothing is new. Below what is held: it lags by more than the window.
      if (isHeld(target, (number) => state.headers.get(number))) return;
      await this.#goOver(state, tips, { from: target.number, hasGoneBack }, lease);
      return;
    }
    const from = this.#firstRead(state.head.number + 1, target, { final, isStep });
    const headers = await this.#linkedHeaders(state, from, target);
    if (headers === undefined) {
      await this.#goOver(state, tips, { from: Math.min(state.head.number, target.number), hasGoneBack }, lease);
      return;
    }
    // Nodes may be of two minds: what one calls final must be on the branch that is followed.
    const ownFinal = headers.find((header) => header.number === final.number) ?? state.headers.get(final.number);
    if (ownFinal !== undefined && ownFinal.hash !== final.hash) throw new ForkedAnswersError(final.number);
    await this.#apply(state, headers, final.number <= target.number ? final : target, lease);
    if (isStep) this.#looks.want();
  }

  /** The first block whose header is read on the way to `target`: final ones need not be, unless all are checked. */
  #firstRead(next: number, target: BlockRef, { final, isStep }: { final: BlockRef; isStep: boolean }): number {
    if (this.#options.verify !== "sample") return next;
    if (isStep && target.number <= final.number) return target.number;
    return Math.max(next, Math.min(final.number, target.number - ALWAYS_CHECKED + 1));
  }

  /** Back to the common ancestor, and on to the head in the same look; a second fork in one look waits for the next. */
  async #goOver(
    state: ChainState,
    tips: Tips,
    { from, hasGoneBack }: { from: number; hasGoneBack: boolean },
    lease: Lease,
  ): Promise<void> {
    const wentBack = await this.#resolveFork(state, from, lease);
    if (!wentBack) return;
    if (hasGoneBack) this.#looks.want();
    else await this.#advance(state, tips, lease, true);
  }

  async #headerAt(number: number): Promise<BlockHeader> {
    const [header] = await presentHeaders(this.#options.reader, [number]);
    return header as BlockHeader;
  }

  /** The first look at a chain: the unfinalised headers, linked. */
  async #begin(state: ChainState, head: BlockHeader, finalized: BlockHeader): Promise<void> {
    const from = Math.max(finalized.number, head.number - MAX_UNFINALIZED);
    const first = from === finalized.number ? finalized : await this.#headerAt(from);
    const headers = first.number === head.number ? [head] : [first, ...(await this.#fetchHeaders(from + 1, head))];
    if (firstUnlinked(headers) !== undefined || first.hash !== headers[0]?.hash)
      throw new ForkedAnswersError(head.number);
    this.#options.collections.saw(headers);
    await this.#append(state, [
      { type: "HeadAdvanced", fromBlock: from, headers: headers.map(toRef) },
      { type: "ChainFinalized", block: { number: first.number, hash: first.hash } },
    ]);
  }

  async #fetchHeaders(from: number, to: BlockHeader): Promise<BlockHeader[]> {
    const before = from < to.number ? numbersBetween(from, to.number - 1) : [];
    return [...(await presentHeaders(this.#options.reader, before)), to];
  }

  /**
   * Headers from `from` to the target, linked to each other and to the followed head; undefined when they are not: a
   * fork. After a long gap `from` lies above the head + 1: then the head itself is asked for again.
   */
  async #linkedHeaders(state: ChainState, from: number, target: BlockHeader): Promise<BlockHeader[] | undefined> {
    const tip = state.head as HeaderRef;
    if (from > tip.number + 1) {
      const again = await this.#headerAt(tip.number);
      if (again.hash !== tip.hash) return undefined;
    }
    const headers = await this.#fetchHeaders(from, target);
    const first = headers[0] as BlockHeader;
    if (first.number === tip.number + 1 && first.parentHash !== tip.hash) return undefined;
    if (firstUnlinked(headers) !== undefined) throw new ForkedAnswersError(target.number);
    return headers;
  }

  /** Reads the logs of the new blocks for all consumers, lets them write, then moves the head. */
  async #apply(state: ChainState, headers: readonly BlockHeader[], final: BlockRef, lease: Lease): Promise<void> {
    const { consumers } = this.#options;
    const tip = state.head as HeaderRef;
    const to = headers.at(-1) as BlockHeader;
    const fromBlock = tip.number + 1;
    const byNumber = new Map(headers.map((header) => [header.number, header]));
    const logs = await this.#logs(headers, fromBlock, to);
    assertOnChain(logs, (number) => byNumber.get(number));
    // Logs say nothing of a block without any: the head's hash, asked for after them, does.
    const again = await this.#headerAt(to.number);
    if (again.hash !== to.hash) throw new ForkedAnswersError(to.number);
    lease.assertHeld();
    this.#writing = true;
    for (const consumer of consumers) {
      const addresses = new Set(consumer.addresses());
      const topics = new Set<string>(consumer.topics);
      const wanted = logs.filter((log) => addresses.has(log.address) && topics.has(log.topics[0] ?? ""));
      const batch = {
        fromBlock,
        to: toRef(to),
        headers: headers.map(toRef),
        logs: wanted,
        chainVersion: state.version,
      };
      await consumer.apply(batch);
    }
    const events: ChainEvent[] = [{ type: "HeadAdvanced", fromBlock, headers: headers.map(toRef) }];
    if (final.number > (state.finalized?.number ?? -1)) {
      events.push({ type: "ChainFinalized", block: { number: final.number, hash: final.hash } });
    }
    await this.#append(state, events);
    this.#options.collections.saw(headers);
    this.#writing = false;
  }

  #logs(headers: readonly BlockHeader[], fromBlock: number, to: BlockHeader): Promise<ChainLog[]> {
    const { consumers, reader, verify } = this.#options;
    const addresses = [...new Set(consumers.flatMap((consumer) => consumer.addresses()))];
    const topics = [...new Set(consumers.flatMap((consumer) => consumer.topics))];
    if (addresses.length === 0) return Promise.resolve([]);
    const reaching = headers[0]?.number === fromBlock ? undefined : to;
    const { clock } = this.#options;
    const sampled = new Set(headers.filter(() => clock.random() < RECEIPTS_SAMPLE).map(({ number }) => number));
    const options = { strict: verify === "receipts", reaching, sampled };
    return reader.completeLogs({ addresses, topics, fromBlock, toBlock: to.number }, headers, options);
  }

  /** Finds the common ancestor and reverts to it; false when it is the head. @throws FinalityViolation */
  async #resolveFork(state: ChainState, from: number, lease: Lease): Promise<boolean> {
    const { reader, consumers, logger, chain, observer } = this.#options;
    const parting = await findParting(reader, state, from);
    if ("found" in parting) return this.#violated(state, parting.found);
    const { ancestor } = parting;
    if (ancestor.number === state.head?.number) return false;
    const orphaned = orphanedAbove(state, ancestor.number);
    lease.assertHeld();
    const at = { number: ancestor.number, hash: ancestor.hash };
    logger.info({ chain: chain.name, ancestor: at.number, depth: orphaned.length }, "the chain was reorganised");
    this.#writing = true;
    await this.#append(state, [{ type: "ChainReverted", ancestor: at, orphaned }]);
    for (const consumer of consumers) await consumer.revert(at, orphaned, state.version);
    this.#writing = false;
    observer.reorg(chain.chainId, orphaned.length);
    return true;
  }

  /** The node has another block in the place of the final one: another look, or, when that is believed, a halt. */
  async #violated(state: ChainState, found: BlockRef): Promise<never> {
    const finalized = state.finalized as BlockRef;
    if (!(await this.#violations.isSure(finalized, this.#minPoll))) {
      throw new RpcError("transient", "the endpoint is on a branch without the final block", {
        meta: { block: finalized.number },
      });
    }
    // Before answers say so: who reads both is not told two things.
    this.#options.observer.halted(this.#options.chain.chainId, true);
    if (state.halted === undefined) await this.#append(state, [{ type: "ChainHalted", finalized, found }]);
    throw new FinalityViolation(this.#options.chain.name, finalized, found);
  }

  async #append(state: ChainState, events: readonly ChainEvent[]): Promise<void> {
    const { log } = this.#options;
    const all = [...events];
    const version = await log.append({ stream: this.#stream, events: all, expectedVersion: state.version });
    for (const [index, event] of all.entries()) evolveChain(state, event, version - all.length + index + 1);
    this.#options.collections.chainVersion = version;
    if (state.sinceCheckpoint < CHECKPOINT_EVERY) return;
    const checkpoint = checkpointOf(state);
    if (checkpoint === undefined) return;
    const next = await log.append({ stream: this.#stream, events: [checkpoint], expectedVersion: version });
    evolveChain(state, checkpoint, next);
    // By an older one all that is written next would be refused.
    this.#options.collections.chainVersion = next;
  }
}

function toRef(header: BlockHeader): HeaderRef {
  const { number, hash, parentHash, timestamp } = header;
  return { number, hash, parentHash, timestamp };
}
