/**
 * The single follower of a chain: polls the head, checks that new blocks link to known ones, reads the logs of all
 * followed contracts in one request, passes them to the consumers, then moves the chain stream's head. Resolves a fork
 * to its common ancestor first. Runs only in the process that holds the chain's lease.
 */
import { backoffMs } from "../core/clock.ts";
import { AppError, ConcurrencyError, messageOf } from "../core/errors.ts";
import { StallWatch, stallReason } from "../core/stall-watch.ts";
import { type BlockRef, type ChainEvent, chainStream, type HeaderRef, type StreamName } from "../events/types.ts";
import type { BlockHeader } from "../rpc/port.ts";
import { RpcError } from "../rpc/rpc-errors.ts";
import {
  assertNoFork,
  assertOnChain,
  FinalityViolation,
  ForkedAnswersError,
  findCommonAncestor,
  firstUnlinked,
  type HeaderOf,
  needsOnlyAPoll,
  orphanedAbove,
  ViolationWatch,
} from "./branch.ts";
import type { ChainChange, ChainConsumer, ChainWork } from "./consumer.ts";
import { HeadWatch, type ShownTips } from "./head.ts";
import { HeaderReads } from "./header-reads.ts";
import { isHandedOver, type Lease } from "./lease.ts";
import { logsFor, NewBlocks, type ReadBlocks } from "./new-blocks.ts";
import { firstRecorded, type Goal, goalOf, nextStep } from "./next-step.ts";
import { NodeWatch } from "./node-watch.ts";
import { PollSchedule } from "./poll-schedule.ts";
import { type ChainState, checkpointOf, evolveChain, isFull, loadChainState } from "./view.ts";

/** Events of a chain stream between two checkpoints: the most that a reader replays. */
const CHECKPOINT_EVERY = 1_000;
const MIN_POLL_MS = 1_000;
const RETRY_MAX_MS = 15_000;
/** The same if the log is the reason: it serves all replicas, and is back at once for each of them. */
const LOG_RETRY_MAX_MS = 3_000;
/** Poll interval of a halted chain: its node may come back from the wrong fork. */
const HALTED_POLL_MS = 60_000;
/** Wait of a chain on which nothing is followed. A request wakes it. */
const IDLE_MS = 60_000;
/** Polls in a row whose answers lie on several branches. By then they are no fork that happens just now. */
const MAX_FORKED_POLLS = 5;
/** Longest poll. Some requests may hang although the node shows its head. They time out after this time. */
const LONGEST_POLL_MS = 30_000;
/** A process without a working node asks for the lease this often. Writes that need no node may be due. */
const MAX_DOWN_MS = 60_000;

export interface FollowerOptions extends ChainWork {
  /** They take each change in this order. */
  readonly consumers: readonly ChainConsumer[];
  /** True while a client of this process subscribes to anything on the chain. */
  readonly hasSubscribers?: (() => boolean) | undefined;
  /** Least wait between polls in ms; tests poll faster. */
  readonly minPollMs?: number | undefined;
  /** Wait between polls in ms while nobody subscribes. Default: until the next block is due. */
  readonly followEveryMs?: number | undefined;
  /** True while a client of another process waits for the chain's blocks. Asked at each poll that it decides. */
  readonly hasSubscribersElsewhere?: (() => Promise<boolean>) | undefined;
  /** False while nothing on the chain is followed, or about to be. Then nothing is asked of its nodes. */
  readonly isNeeded?: (() => boolean) | undefined;
}

export class Follower {
  readonly #options: FollowerOptions;
  readonly #stream: StreamName;
  readonly #polls: PollSchedule;
  /** True between the first and the last append of a poll. A failure then leaves memory and log out of step. */
  #writing = false;
  /** True if an append that this process gave up may still reach the log. */
  #hasUncertainAppend = false;
  readonly #heads: HeadWatch;
  readonly #reads: HeaderReads;
  readonly #blocks: NewBlocks;
  readonly #violations: ViolationWatch;
  readonly #node: NodeWatch;
  /** Reports polls without success. It runs from the first turn until another process follows. */
  #stall: StallWatch | undefined;
  /** The chain as of the last turn. */
  #state: ChainState | undefined;
  /** True if anything was needed at the last poll. */
  #isNeeded = false;
  /** True if the last poll asked nothing, because nothing was needed. */
  #isIdle = false;
  /** True if the node showed its head in the last poll. */
  #hasShownHead = false;
  /** The head that does not move, if that ended the last turn. */
  #stuckAt: number | undefined;
  /** True if the log says that the final block is far behind. */
  #isFarSaid = false;
  /** Interruptions since the last successful poll, except hand-overs. */
  #interruptions = 0;

  constructor(options: FollowerOptions) {
    this.#options = options;
    this.#stream = chainStream(options.chain.chainId);
    const { chain, reader, clock, logger, verify } = options;
    const { followEveryMs: restMs = 0, hasSubscribers } = options;
    this.#polls = new PollSchedule(clock, { minPollMs: this.#minPoll, restMs, hasSubscribers });
    this.#heads = new HeadWatch({ chain, reader, clock, logger, minPollMs: this.#minPoll });
    this.#reads = new HeaderReads(verify, () => clock.random());
    this.#blocks = new NewBlocks({ ...options, reads: this.#reads });
    this.#violations = new ViolationWatch(reader, clock);
    this.#node = new NodeWatch({ reader, clock });
  }

  /** The name of the chain's lease. */
  get lease(): string {
    return `follow/${this.#options.chain.chainId}`;
  }

  /** Polls at once instead of when the next block is due. */
  pollNow(): void {
    this.#polls.requestPoll();
  }

  /**
   * A collection is ready to join. Its requester may know any block up to the request. A followed head of at least
   * `seen` is new enough and needs no poll; without `seen`, the follower polls.
   */
  readied(seen: number | undefined): void {
    if (seen === undefined) this.#polls.requestPoll();
    else this.#polls.requestJoin(seen);
  }

  /** True while nothing on the chain is followed. */
  get isIdle(): boolean {
    return this.#isIdle;
  }

  /** Something may be followed from now on. */
  wake(): void {
    if (this.#isIdle) this.#polls.requestPoll();
  }

  /** A client begins to wait for the chain's blocks: ends a wait that is longer than a block. */
  clientAsked(): void {
    if (this.#polls.isResting) this.#polls.requestPoll();
  }

  /** A node announced a block: polls soon, but within the minimum poll interval. */
  headSeen(): void {
    this.#polls.blockAnnounced();
  }

  /** Follows whenever it can get the lease, until the signal aborts. Halts while finality is violated. */
  async run(signal: AbortSignal): Promise<void> {
    const { leases } = this.#options;
    const onRefused = () => this.#stopStallWatch();
    while (!signal.aborted) {
      try {
        await leases.run(this.lease, { signal, onRefused }, (lease) => this.#follow(lease));
      } catch (error) {
        if (!signal.aborted) await this.#waitAfter(error, signal).catch(() => undefined);
      }
    }
    this.#stopStallWatch();
  }

  /** Waits before the next turn, as the end of the last one demands. @throws the signal's reason */
  async #waitAfter(error: unknown, signal: AbortSignal): Promise<void> {
    const { clock, logger, chain } = this.#options;
    if (error instanceof FinalityViolation) {
      logger.error({ err: error, chain: chain.name }, "following stops: a fork is deeper than finality");
      this.#stopStallWatch();
      await clock.sleep(HALTED_POLL_MS, signal);
      return;
    }
    if (isHandedOver(error)) {
      logger.info({ chain: chain.name, reason: messageOf(error) }, "another process may follow the chain");
      await this.#node.holdOff({
        signal,
        probeMs: this.#minPoll,
        maxMs: this.#longestWait(),
        maxDownMs: MAX_DOWN_MS,
        stuckAt: this.#stuckAt,
        isRequested: () => this.#polls.isRequested,
      });
      return;
    }
    const attempt = ++this.#interruptions;
    const isLog = error instanceof AppError && error.code === "log_unavailable";
    const level = attempt === 1 || error instanceof ConcurrencyError ? "debug" : "warn";
    logger[level]({ err: error, chain: chain.name, attempt }, "following was interrupted");
    await clock.sleep(backoffMs(clock, attempt, MIN_POLL_MS, isLog ? LOG_RETRY_MAX_MS : RETRY_MAX_MS), signal);
  }

  async #follow(lease: Lease): Promise<void> {
    const { log, clock, consumers, leases } = this.#options;
    const { holder } = leases;
    const state = await loadChainState(log, this.#stream, { bounds: this.#options.bounds?.headers });
    this.#state = state;
    this.#stuckAt = undefined;
    this.#reads.begin();
    this.#stall ??= new StallWatch(clock, (ms) => this.#stalled(ms));
    // This event moves the stream's version, which fences late writes of another process and pending ones of this
    // process. Only then is the log's list of collections final.
    const isRecorded = state.follower === holder && !this.#hasUncertainAppend;
    if (!isRecorded) await this.#append(state, [{ type: "FollowingBegan", holder }]);
    this.#hasUncertainAppend = false;
    for (const consumer of consumers) await consumer.begin?.(state);
    await this.#poll(state, lease);
  }

  #stopStallWatch(): void {
    this.#stall?.stop();
    this.#stall = undefined;
  }

  /** Reports the current work after too long without a successful poll. */
  #stalled(ms: number): void {
    const { logger, chain, reader, consumers } = this.#options;
    const from = this.#state?.head?.number ?? "?";
    const reason = stallReason(`following from block ${from}`, ms, reader.failureWithin(ms));
    logger.warn({ chain: chain.name, seconds: Math.round(ms / 1_000), reason }, "following makes no progress");
    if (!this.#writing) for (const consumer of consumers) consumer.stalled?.(reason);
  }

  /** Polls until the lease is lost or handed over, or an error occurs that another poll cannot fix. */
  async #poll(state: ChainState, lease: Lease): Promise<never> {
    const { clock } = this.#options;
    for (let failures = 0; ; ) {
      lease.assertHeld();
      let wait: number;
      this.#writing = false;
      const isOnlyToJoin = this.#polls.takeJoinOnly(state.head);
      try {
        if (isOnlyToJoin && failures === 0) wait = (await this.#atHeadWithoutPoll(state)) ? this.#polls.dueIn : 0;
        else wait = await this.#node.whileAnswering(lease, () => this.#pollOnce(state, lease), LONGEST_POLL_MS);
        failures = 0;
        this.#succeeded(state, lease);
      } catch (error) {
        // Errors that only need another poll keep the lease. All other ones give it up and reload from the log.
        const passing = !this.#writing && needsOnlyAPoll(error);
        this.#hasUncertainAppend = this.#writing || (error instanceof AppError && error.code === "write_interrupted");
        lease.assertHeld();
        if (!passing) throw error;
        failures++;
        this.#options.logger.debug({ err: error, attempt: failures }, "a poll failed");
        if (error instanceof ForkedAnswersError) this.#reads.mismatched();
        // An endpoint may be stuck on another branch, and may be the quickest next time, too.
        if (this.#hasShownHead) await this.#heads.passOverLaggards(state);
        this.#failed(error, failures, lease);
        wait = backoffMs(clock, failures, this.#minPoll, Math.min(RETRY_MAX_MS, this.#longestWait()));
      }
      await this.#polls.pause(wait, lease.signal);
    }
  }

  /** @throws the lease's reason if the node seems to be stuck */
  #succeeded(state: ChainState, lease: Lease): void {
    this.#stall?.progressed();
    this.#interruptions = 0;
    this.#node.succeeded();
    if (this.#isIdle || !this.#heads.isStuck(state)) return;
    this.#stuckAt = state.head?.number;
    this.#node.handOver(lease, "the node shows no new block");
    lease.assertHeld();
  }

  /** @throws the lease's reason if the node has failed too often */
  #failed(error: unknown, failures: number, lease: Lease): void {
    // A chain that may be about to halt needs more polls of this process.
    if (this.#violations.isSuspected) return;
    if (!(error instanceof ForkedAnswersError)) this.#node.failed(error, lease, !this.#hasShownHead);
    else if (failures >= MAX_FORKED_POLLS) this.#node.handOver(lease, "the answers lie on several branches");
    lease.assertHeld();
  }

  #longestWait(): number {
    return this.#state === undefined ? this.#minPoll : this.#heads.longestWait(this.#state);
  }

  /** Polls the chain, follows it, and lets the consumers work at its head. Returns the ms until the next poll. */
  async #pollOnce(state: ChainState, lease: Lease): Promise<number> {
    this.#polls.begin();
    this.#hasShownHead = false;
    await this.#prepare();
    if (await this.#takeIdle()) return IDLE_MS;
    const found = state.finalized && (await this.#options.reader.foundInstead());
    if (found !== undefined) await this.#violated(state, found);
    const tips = await this.#heads.tips(state, this.#reads.asksFinal);
    this.#hasShownHead = true;
    this.#options.observer.head(tips.head.number);
    this.#reads.shown();
    const before = state.head?.hash;
    await this.#advance(state, tips, lease);
    this.#sayDistance(state);
    this.#reads.polled();
    this.#violations.clear();
    await this.#atHead(state);
    const pace = { restMs: await this.#restMs(), hasMoved: state.head?.hash !== before };
    const wait = this.#heads.waitAfter(state, tips.head, pace);
    this.#polls.dueIn = wait;
    return wait;
  }

  /**
   * True if nothing is needed, and nothing was needed at the last poll either: its blocks have told the consumers that
   * they end there.
   */
  async #takeIdle(): Promise<boolean> {
    const { isNeeded, hasSubscribersElsewhere } = this.#options;
    const wasNeeded = this.#isNeeded;
    this.#isNeeded = isNeeded?.() !== false || (await hasSubscribersElsewhere?.()) === true;
    this.#isIdle = !(wasNeeded || this.#isNeeded);
    return this.#isIdle;
  }

  /** Returns the ms that polls can be apart: 0 while a client waits. */
  async #restMs(): Promise<number> {
    const { restMs } = this.#polls;
    return restMs > 0 && (await this.#options.hasSubscribersElsewhere?.()) === true ? 0 : restMs;
  }

  /** Says when the final block gets so far behind the head that the headers between are no longer all kept. */
  #sayDistance({ head, finalized, bounds }: ChainState): void {
    const { chain, logger } = this.#options;
    const blocks = (head?.number ?? 0) - (finalized?.number ?? 0);
    const isFar = finalized !== undefined && blocks > bounds.newest;
    if (isFar === this.#isFarSaid) return;
    this.#isFarSaid = isFar;
    const facts = { chain: chain.name, head: head?.number, finalized: finalized?.number, blocks };
    const text =
      "the final block is far behind the head: all blocks between may be reverted, and fewer headers are kept";
    logger.info(facts, isFar ? text : "the final block is close to the head again");
  }

  get #minPoll(): number {
    return this.#options.minPollMs ?? MIN_POLL_MS;
  }

  async #prepare(): Promise<void> {
    this.#writing = true;
    for (const consumer of this.#options.consumers) await consumer.prepare?.();
    this.#writing = false;
  }

  /** Returns false if a consumer needs a newer head. */
  async #atHead({ head }: ChainState): Promise<boolean> {
    let isEnough = true;
    if (head === undefined) return isEnough;
    for (const consumer of this.#options.consumers) {
      if ((await consumer.atHead?.(head)) === false) isEnough = false;
    }
    return isEnough;
  }

  /** Like `#atHead`, without a poll before. If the followed branch is orphaned by now, the next poll resolves it. */
  async #atHeadWithoutPoll(state: ChainState): Promise<boolean> {
    try {
      return await this.#atHead(state);
    } catch (error) {
      if (error instanceof ForkedAnswersError) return false;
      throw error;
    }
  }

  /**
   * Moves the followed head towards the node's head; after a reorg, first back to the common ancestor. A second fork in
   * one poll is rewound, too, and leaves advancing to the next poll.
   */
  async #advance(state: ChainState, tips: ShownTips, lease: Lease): Promise<void> {
    const { observer, verify } = this.#options;
    for (let hasRewound = false; ; hasRewound = true) {
      const goal = goalOf(state, tips, this.#blocks.hasContracts);
      const target = goal.isBounded ? await this.#blocks.headerAt(goal.number) : tips.head;
      const step = nextStep(state, goal, target, verify);
      if (step.type === "begin") return await this.#begin(state, tips);
      observer.halted(false);
      if (step.type === "wait" && !this.#heads.isLost(state, target)) return;
      if (step.type === "advance") {
        const read = await this.#blocks.read(state, tips, { goal, readFrom: step.readFrom, target });
        if (read !== undefined)
          return await this.#apply(state, { ...read, tagged: taggedBy(tips, target) }, goal, lease);
      }
      this.#reads.mismatched();
      const from = step.type === "rewind" ? step.from : Math.min(target.number, (state.head as HeaderRef).number);
      if (!(await this.#resolveFork(state, from, lease))) return;
      if (hasRewound) return this.#polls.requestPoll();
    }
  }

  /** Starts following a chain: records its unfinalised headers, linked. */
  async #begin(state: ChainState, tips: ShownTips): Promise<void> {
    const { head, finalized } = tips;
    const { apart, newest } = firstRecorded(tips);
    const older = await this.#blocks.headersBelow(apart, head);
    const headers = await this.#blocks.headersUpTo(newest, head);
    if (firstUnlinked(headers) !== undefined) throw new ForkedAnswersError(head.number);
    const first = older[0] ?? (headers[0] as BlockHeader);
    if (first.hash !== finalized.hash) throw new ForkedAnswersError(first.number);
    for (const consumer of this.#options.consumers) consumer.saw?.(headers);
    await this.#append(state, [
      { type: "HeadAdvanced", fromBlock: first.number, headers: [...older, ...headers].map(toRef) },
      { type: "ChainFinalized", block: { number: first.number, hash: first.hash } },
    ]);
  }

  /** Lets the consumers write the new blocks, then moves the head. */
  async #apply(
    state: ChainState,
    { headers, logs, doubts, tagged }: ReadBlocks & { readonly tagged: HeaderRef | undefined },
    goal: Goal,
    lease: Lease,
  ): Promise<void> {
    const to = headers.at(-1) as BlockHeader;
    const fromBlock = (state.head as HeaderRef).number + 1;
    const byNumber = new Map(headers.map((header) => [header.number, header]));
    const headerOf = (number: number) => byNumber.get(number) ?? state.headers.get(number);
    // Nodes may disagree: one node's final block must be on the followed branch.
    assertNoFork(goal.final, headerOf);
    assertOnChain(logs, (number) => byNumber.get(number));
    const isNew = tagged !== undefined && tagged.number === goal.final.number && headerOf(tagged.number) === undefined;
    if (isNew) assertNeighbours(tagged, headerOf);
    const held = newestKnown(Math.min(goal.final.number, to.number), state.finalized?.number ?? 0, headerOf);
    const final = isNew ? tagged : held;
    lease.assertHeld();
    this.#writing = true;
    await this.#deliver({ type: "advanced", fromBlock, to: toRef(to), headers, logs, doubts });
    const isNewFinal = final !== undefined && final.number > (state.finalized?.number ?? -1);
    // The header of the final block stays, even if this event thins out the others.
    const isRepeated = isNewFinal && (isNew || isFull(state)) && !byNumber.has(final.number);
    const recorded = (isRepeated ? [final, ...headers] : headers).map(toRef);
    const events: ChainEvent[] = [{ type: "HeadAdvanced", fromBlock, headers: recorded }];
    if (isNewFinal) {
      events.push({ type: "ChainFinalized", block: { number: final.number, hash: final.hash } });
    }
    await this.#append(state, events);
    this.#writing = false;
    if (!goal.isBounded) return;
    this.#reads.needsFinal();
    this.#polls.requestPoll();
  }

  /** Delivers a change to each consumer, with the logs of its own addresses and topics. */
  async #deliver(change: ChainChange): Promise<void> {
    for (const consumer of this.#options.consumers) {
      await consumer.apply(change.type === "advanced" ? { ...change, logs: logsFor(consumer, change) } : change);
    }
  }

  /** Finds the common ancestor and reverts to it. Returns false if it is the head. @throws FinalityViolation */
  async #resolveFork(state: ChainState, from: number, lease: Lease): Promise<boolean> {
    const { reader, logger, chain, observer } = this.#options;
    const parting = await findCommonAncestor(reader, state, from);
    if ("found" in parting) return this.#violated(state, parting.found);
    const { ancestor } = parting;
    if (ancestor.number === state.head?.number) return false;
    const orphaned = orphanedAbove(state, ancestor.number);
    lease.assertHeld();
    const at = { number: ancestor.number, hash: ancestor.hash };
    logger.info({ chain: chain.name, ancestor: at.number, depth: orphaned.length }, "the chain was reorganised");
    this.#writing = true;
    await this.#append(state, [{ type: "ChainReverted", ancestor: at, orphaned }]);
    await this.#deliver({ type: "reverted", ancestor: at, orphaned });
    this.#writing = false;
    observer.reorg();
    return true;
  }

  /** The node has another block in the final one's place. @throws RpcError until that is certain; FinalityViolation */
  async #violated(state: ChainState, found: BlockRef): Promise<never> {
    const finalized = state.finalized as BlockRef;
    if (!(await this.#violations.confirm(finalized, this.#minPoll))) {
      throw new RpcError("transient", "the endpoint is on a branch without the final block", {
        meta: { block: finalized.number },
      });
    }
    // The metric moves before the stream, so that a reader of both sees no contradiction.
    this.#options.observer.halted(true);
    if (state.halted === undefined) await this.#append(state, [{ type: "ChainHalted", finalized, found }]);
    throw new FinalityViolation(this.#options.chain.name, finalized, found);
  }

  async #append(state: ChainState, events: readonly ChainEvent[]): Promise<void> {
    const { log } = this.#options;
    const version = await log.append({ stream: this.#stream, events, expectedVersion: state.version });
    for (const [index, event] of events.entries()) evolveChain(state, event, version - events.length + index + 1);
    const checkpoint = state.sinceCheckpoint < CHECKPOINT_EVERY ? undefined : checkpointOf(state);
    // A checkpoint begins the count anew, so this ends here.
    if (checkpoint !== undefined) await this.#append(state, [checkpoint]);
  }
}

/**
 * The node's final block, if the endpoint that shows it has shown the block to be followed, too. Without the header, the
 * newest known block below it would be recorded as the final one.
 */
function taggedBy({ head, finalized, shownBy }: ShownTips, target: BlockHeader): HeaderRef | undefined {
  return shownBy !== undefined && target.hash === head.hash && "parentHash" in finalized ? finalized : undefined;
}

/** Asserts that a block links to the followed ones beside it. @throws ForkedAnswersError */
function assertNeighbours(header: HeaderRef, headerOf: HeaderOf): void {
  const [below, above] = [headerOf(header.number - 1), headerOf(header.number + 1)];
  const isLinked = (below?.hash ?? header.parentHash) === header.parentHash;
  if (!isLinked || (above?.parentHash ?? header.hash) !== header.hash) throw new ForkedAnswersError(header.number);
}

/** Returns the newest known header from one number down to another. */
function newestKnown(from: number, to: number, headerOf: HeaderOf): HeaderRef | undefined {
  for (let number = from; number >= to; number--) {
    const header = headerOf(number);
    if (header !== undefined) return header;
  }
  return undefined;
}

function toRef(header: HeaderRef): HeaderRef {
  const { number, hash, parentHash, timestamp } = header;
  return { number, hash, parentHash, timestamp };
}
