/**
 * Brings requested collections to the point where the follower takes over: identification, then backfill, each under
 * the stream's lease, a few at a time per chain. Failures are facts of the stream and are retried with backoff. The log
 * is the queue: headlines tell the work left, after a restart or on another machine.
 */
import type { ChainWork } from "../../chain/consumer.ts";
import type { Follower } from "../../chain/follower.ts";
import type { Lease } from "../../chain/lease.ts";
import { NodeWatch } from "../../chain/node-watch.ts";
import { Budget } from "../../core/budget.ts";
import { ConcurrencyError, isAbort } from "../../core/errors.ts";
import { countText, durationText } from "../../core/format.ts";
import type { Address } from "../../core/hex.ts";
import type { Lifecycle } from "../../core/lifecycle.ts";
import { StallWatch, stallReason } from "../../core/stall-watch.ts";
import { FairSlots, Lane, type Requester, type Shares } from "../../core/work.ts";
import { type BlockRef, parseStream, type StreamName } from "../../events/types.ts";
import { allStreams, type StreamHead } from "../../log/event-log.ts";
import { ArchiveDisprovedError, type Archives } from "../../rpc/archive/archives.ts";
import type { Decoder } from "../../rpc/decode/decode-pool.ts";
import type { Endpoint } from "../../rpc/port.ts";
import { failureOf, msUntilRetry } from "../collections/failures.ts";
import { fromHeadline, type IndexState, nameText, nextBlock } from "../collections/headline.ts";
import { progressOf } from "../collections/progress.ts";
import { beginAnew, requesterOf } from "../collections/requests.ts";
import { doubtsAfter, rangesIn, wordsIn } from "./archive-doubts.ts";
import { assertContiguous } from "./backfill.ts";
import { JobStream } from "./collection-streams.ts";
import type { FlagRules } from "./flags.ts";
import type { FollowedCollections } from "./followed-collections.ts";
import { type HistoryStep, historyFrom, SAMPLED_BLOCKS } from "./history.ts";
import { identify, type Searched } from "./identify.ts";

/**
 * Collections in parallel per chain. Most of their time is a few round trips to the node, one after the other. A key alone
 * gets the places of `perKey`. The others stay free, so that a key that requests hundreds of collections delays those of
 * another key by no more than one of them takes.
 */
const PARALLEL: Shares = { places: 22, perKey: 16, forOperators: 2 };
/** Those among them that read their history, each some ranges ahead: tens of megabytes. */
const BACKFILLS: Shares = { places: 7, perKey: 4, forOperators: 1 };
/** Parallel identifications that search the whole history: thousands of requests each, mostly without a result. */
const SEARCHES: Shares = { places: 4, perKey: 2, forOperators: 1 };
/** Least time between two log lines about the progress of a backfill. */
const PROGRESS_MS = 10_000;
/** Wait before the next attempt for a lease that another process holds. */
const LEASE_RETRY_MS = 1_000;

export interface JobsOptions extends ChainWork {
  readonly decoder: Pick<Decoder, "prepare">;
  readonly lifecycle: Lifecycle;
  readonly follower: Follower;
  readonly collections: FollowedCollections;
  readonly flags: FlagRules;
  readonly archives: Archives;
  /** Blocks of one history that are compared with their receipts. Default: `SAMPLED_BLOCKS` */
  readonly sampledBlocks?: number | undefined;
  /** The newest final block of the chain's stream. */
  readonly finalized: () => BlockRef | undefined;
  /** The account of a key's calls. */
  readonly accountOf: (requester: Requester) => Budget;
}

const OPEN: readonly IndexState["status"][] = ["requested", "backfilling"];

/** The last block of a backfill, the endpoint that showed it, and the newest block that was shown with it. */
interface FinalBlock extends BlockRef {
  readonly shownBy: Endpoint | undefined;
  readonly head: number;
}

/** The next step of a collection after a job: at once in some lane, or after a wait. */
type Next = { readonly lane: JobLane } | { readonly inMs: number };

/** Streams with one kind of work. */
type JobLane = Lane<StreamName, Next | undefined>;

/** Where a job runs, for which key. */
interface LanePlace {
  readonly lane: JobLane;
  readonly requester: Requester;
}

/** Logs the progress of a backfill, from its tenth second on. */
class ProgressLog {
  readonly #options: Pick<JobsOptions, "chain" | "clock" | "logger">;
  readonly #address: Address;
  #loggedMs: number;

  constructor(options: Pick<JobsOptions, "chain" | "clock" | "logger">, address: Address) {
    this.#options = options;
    this.#address = address;
    this.#loggedMs = options.clock.monotonic();
  }

  moved(state: IndexState): void {
    const { chain, clock, logger } = this.#options;
    if (clock.monotonic() - this.#loggedMs < PROGRESS_MS) return;
    this.#loggedMs = clock.monotonic();
    const { percent, transfersPerSecond, secondsLeft } = progressOf(state);
    const { name, transfers } = state;
    const fields = { chain: chain.name, address: this.#address, percent, transfers, transfersPerSecond, secondsLeft };
    const parts = [
      `${percent ?? 0} %`,
      ...(transfers === null ? [] : [`${countText(transfers)} transfers`]),
      ...(secondsLeft === null ? [] : [`${durationText(secondsLeft * 1_000)} left`]),
    ];
    logger.info(fields, `indexing ${nameText(chain, this.#address, name)} ${parts.join(" · ")}`);
  }
}

export class IndexingJobs {
  readonly #options: JobsOptions;
  readonly #node: NodeWatch;
  readonly #work = this.#lane(PARALLEL);
  /** Separate from `#work`, so that requests for unused addresses don't delay collections. */
  readonly #searches = this.#lane(SEARCHES);
  readonly #backfills = new FairSlots({
    ...BACKFILLS,
    maxWaiting: Number.POSITIVE_INFINITY,
    retryAfter: 0,
    work: "backfills",
  });
  /** Streams with a later attempt, and the function that cancels it. */
  readonly #delayed = new Map<StreamName, () => void>();
  /** Streams that grew during their job. The job may have read the stream before that. */
  readonly #changedDuringJob = new Set<StreamName>();
  /** Streams of followed collections, as of their last head. Only a chain's follower gives them work again. */
  readonly #done = new Set<StreamName>();

  constructor(options: JobsOptions) {
    this.#options = options;
    this.#node = new NodeWatch(options);
  }

  /** Number of collections that wait or have a running job. */
  get open(): number {
    return this.#work.size + this.#searches.size + this.#delayed.size;
  }

  /** True while a job waits for its turn or runs. */
  get isBusy(): boolean {
    return this.#work.size + this.#searches.size > 0;
  }

  /** Queues the open work of the log. Returns true if the chain has any stream that may be, or become, an NFT's. */
  async load(): Promise<boolean> {
    const { log, chain } = this.#options;
    let any = false;
    for await (const head of allStreams(log, `nft/${chain.chainId}/`)) {
      const { status } = fromHeadline(head.headline);
      any ||= status !== "not_a_contract";
      this.offer(head);
    }
    return any;
  }

  /** Queues a stream of this chain if it has work left. */
  offer(head: StreamHead): void {
    const state = fromHeadline(head.headline);
    if (state.status === "following") this.#done.add(head.stream);
    else this.#done.delete(head.stream);
    if (!OPEN.includes(state.status)) return;
    if (this.#isTaken(head.stream)) {
      this.#changedDuringJob.add(head.stream);
      return;
    }
    const wait = msUntilRetry(state, this.#options.clock);
    if (wait > 0) this.#later(head.stream, requesterOf(state), wait);
    else this.#enqueue(head.stream, requesterOf(state), this.#work);
  }

  /** Notes that the follower has the stream: it has no work, until a head of it shows another status. */
  handedOver(stream: StreamName): void {
    this.#done.add(stream);
  }

  /** True if the stream has no work, as far as its last head shows. */
  isDone(stream: StreamName): boolean {
    return this.#done.has(stream);
  }

  /** Records that a stream grew. Returns true if it waits here or has a running job, which then reads it again. */
  grew(stream: StreamName): boolean {
    const isTaken = this.#isTaken(stream);
    if (isTaken) this.#changedDuringJob.add(stream);
    return isTaken;
  }

  #isTaken(stream: StreamName): boolean {
    return this.#work.has(stream) || this.#searches.has(stream);
  }

  #later(stream: StreamName, requester: Requester, ms: number): void {
    this.#delayed.get(stream)?.();
    const cancel = this.#options.clock.after(ms, () => {
      this.#delayed.delete(stream);
      this.#enqueue(stream, requester, this.#work);
    });
    this.#delayed.set(stream, cancel);
  }

  #enqueue(stream: StreamName, requester: Requester, lane: JobLane): void {
    if (!this.#options.lifecycle.stopping && !this.#isTaken(stream)) lane.add(stream, requester);
  }

  #lane(shares: Shares): JobLane {
    const lane: JobLane = new Lane({
      shares,
      isStopping: () => this.#options.lifecycle.stopping,
      start: async (stream, requester) => {
        let next: Next | undefined;
        await this.#options.lifecycle.run(`index ${stream}`, async (signal) => {
          this.#changedDuringJob.delete(stream);
          next = await this.#job(stream, { lane, requester }, signal);
        });
        return next;
      },
      ended: (next, stream, requester) => {
        this.#options.lifecycle.run(`queue ${stream}`, () => this.#queueNext(stream, requester, next));
      },
    });
    return lane;
  }

  /** Queues the next step. Runs after the job has released its lease: until then the stream counts as taken. */
  async #queueNext(stream: StreamName, requester: Requester, next: Next | undefined): Promise<void> {
    if (next === undefined) {
      if (!this.#changedDuringJob.has(stream)) return;
      const head = await this.#options.log.head(stream).catch(() => undefined);
      if (head === undefined) this.#later(stream, requester, LEASE_RETRY_MS);
      else this.offer(head);
    } else if ("lane" in next) this.#enqueue(stream, requester, next.lane);
    else this.#later(stream, requester, next.inMs);
  }

  /** Cancels waiting jobs. Running ones end by the lifecycle's signal. */
  stop(): void {
    for (const cancel of this.#delayed.values()) cancel();
    this.#delayed.clear();
    for (const lane of [this.#work, this.#searches]) lane.clear();
  }

  async #job(stream: StreamName, place: LanePlace, signal: AbortSignal): Promise<Next | undefined> {
    const { leases, logger, accountOf } = this.#options;
    try {
      // The attempt would fail, and keep another process with a working node from the job.
      if (!(await this.#node.isUp())) return { inMs: LEASE_RETRY_MS };
      const spending = new Budget({ payer: accountOf(place.requester) });
      const attempt = (lease: Lease) => spending.run(() => this.#attempt(stream, { ...place, spending }, lease.signal));
      const work = (lease: Lease) => this.#node.whileAnswering(lease, () => attempt(lease));
      const done = await leases.tryRun(`index/${stream}`, signal, work);
      return done === undefined ? { inMs: LEASE_RETRY_MS } : done.result;
    } catch (error) {
      if (signal.aborted || isAbort(error)) return undefined;
      // The job lost its lease, or a race for the stream. The log knows the progress.
      logger.debug({ err: error, stream }, "an indexing job was interrupted");
      return { inMs: LEASE_RETRY_MS };
    }
  }

  async #attempt(
    stream: StreamName,
    { lane, requester, spending }: LanePlace & { readonly spending: Budget },
    signal: AbortSignal,
  ): Promise<Next | undefined> {
    const { log, chain, clock, logger, observer } = this.#options;
    const parsed = parseStream(stream);
    if (parsed.kind !== "nft") return undefined;
    const { address } = parsed;
    const head = await log.head(stream);
    const writer = new JobStream(log, { clock, spending }, head);
    const stall = new StallWatch(clock, (ms) => this.#stalled(writer, address, ms));
    const moved = () => stall.progressed();
    try {
      if (writer.state.status === "joining") this.#handOver(writer, address);
      const isAsked = writer.state.status === "requested";
      const final = isAsked ? await this.#identify(writer, address, lane, { signal, moved }) : undefined;
      const next = this.#laneAfter(lane, writer.state.status);
      if (next === undefined && writer.state.status === "backfilling") {
        // A collection that waits for its turn is not stalled.
        stall.stop();
        const read = async () => {
          moved();
          const end = final ?? (await this.#finalBlock(nextBlock(writer.state)));
          await this.#backfill(writer, address, end, { signal, moved, requester });
        };
        await this.#backfills.run(requester, read, { signal });
      }
      await writer.settled();
      return next && { lane: next };
    } catch (error) {
      // Waits for the running append: a second one must not run beside it, nor after the lease is released.
      await writer.settled().catch(() => undefined);
      if (signal.aborted || isAbort(error) || error instanceof ConcurrencyError) throw error;
      this.#node.failed(error);
      const { event, waitMs } = failureOf(error, writer.state, clock);
      const meta = { chain: chain.name, address, attempt: event.attempt, retryInMs: waitMs };
      logger.warn({ err: error, ...meta }, "indexing failed");
      writer.append([event]);
      await writer.settled();
      observer.failed();
      return { inMs: waitMs };
    } finally {
      stall.stop();
    }
  }

  /** Reports the step of a job without progress: in the process's log, and to subscribers through the event log. */
  #stalled(writer: JobStream, address: Address, ms: number): void {
    const { chain, logger, reader } = this.#options;
    const { state } = writer;
    const doing = state.status === "requested" ? "identifying the contract" : `reading from block ${nextBlock(state)}`;
    const reason = stallReason(doing, ms, reader.failureWithin(ms));
    logger.warn({ chain: chain.name, address, seconds: Math.round(ms / 1_000), reason }, "indexing makes no progress");
    if (writer.isIdle) writer.append([{ type: "IndexingStalled", reason }]);
  }

  /** Returns the lane in which a collection continues after `lane`. Undefined: in the same job. */
  #laneAfter(lane: JobLane, status: IndexState["status"]): JobLane | undefined {
    if (status === "requested") return this.#searches;
    return status === "backfilling" && lane === this.#searches ? this.#work : undefined;
  }

  /**
   * Identifies the contract and begins the append of the result. If only a search can tell, appends no event. Returns
   * the final block if the history must be read up to it.
   */
  async #identify(
    writer: JobStream,
    address: Address,
    lane: JobLane,
    { signal, moved }: { readonly signal: AbortSignal; readonly moved: () => void },
  ): Promise<FinalBlock | undefined> {
    const { reader, archives, decoder, chain, logger } = this.#options;
    decoder.prepare();
    const onSearched = async (part: Searched) => {
      await writer.settled();
      writer.append([], part);
      moved();
    };
    const reach = lane === this.#searches ? "all" : "first blocks";
    const anywhere = { fromBlock: 0, toBlock: Number.MAX_SAFE_INTEGER };
    const mayBeginEarly = (await archives.find(anywhere, [], signal)) !== undefined;
    const known = writer.state;
    const found = await identify(reader, address, { reach, known, onSearched, mayBeginEarly, archives, signal });
    await writer.settled();
    if (found === undefined) return undefined;
    const { hasCode: hadCode, destroyedAt } = found;
    const { kind, startBlock } = found.identified;
    // A contract that has another kind now has its earlier logs in the former forms.
    const forms = kind === "nft" ? [...new Set([...writer.state.forms, ...found.identified.forms])] : [];
    const identified = { ...found.identified, forms };
    logger.info({ chain: chain.name, address, kind, forms: forms.join(","), startBlock }, "contract identified");
    if (kind !== "nft") {
      writer.append([identified]);
      this.#options.collections.offer(await writer.settled());
      return undefined;
    }
    // A contract younger than the final block has no final history. The follower reads all of it.
    const final = await this.#finalBlock();
    // A stall may have been recorded meanwhile.
    await writer.settled();
    const flags = this.#options.flags.identified(address, writer.state, identified);
    const isYoung = startBlock > final.number;
    const ends = found.ends.map((block) => ({ type: "ContractDestroyed", block }) as const);
    const work = { ...flags.state, hadCode, destroyedAt, ...(isYoung && { status: "joining" as const }) };
    writer.append([identified, ...ends, ...flags.events], work);
    if (isYoung) this.#handOver(writer, address, final.head);
    return final;
  }

  /** @param from the last known final block. An endpoint with a lower one may be behind; the pool asks another. */
  async #finalBlock(from = 0): Promise<FinalBlock> {
    const { reader } = this.#options;
    let tips = await reader.tips();
    if (tips.finalized.number < from && (await reader.benchLaggards(tips.head))) tips = await reader.tips();
    const { finalized, head, shownBy } = tips;
    // Endpoints may differ about finality. What the chain's stream has as final stays final.
    const recorded = this.#options.finalized();
    if (recorded !== undefined && recorded.number > finalized.number && recorded.number <= head.number) {
      return { ...recorded, shownBy: undefined, head: head.number };
    }
    return { number: finalized.number, hash: finalized.hash, shownBy, head: head.number };
  }

  /**
   * Registers the collection with the follower, which reads on while the last append of the history is still running.
   * @param seen the newest block known since the request; without it the follower polls first
   */
  #handOver(writer: JobStream, address: Address, seen?: number): void {
    this.#options.collections.offerPending(address, writer.state, writer.settled());
    this.#options.follower.readied(seen);
  }

  async #backfill(
    writer: JobStream,
    address: Address,
    final: FinalBlock,
    run: { readonly signal: AbortSignal; readonly moved: () => void; readonly requester: Requester },
  ): Promise<void> {
    try {
      await this.#readHistory(writer, address, final, run);
    } catch (error) {
      if (!(error instanceof ArchiveDisprovedError)) throw error;
      const { log, clock, chain, logger } = this.#options;
      await writer.settled();
      const { state } = writer;
      const doubts = doubtsAfter(state, { archive: error.label, wrongAt: error.block, isOfLogs: error.isOfLogs });
      logger.warn({ err: error, chain: chain.name, address, ...doubts }, "an archive was wrong: indexing anew");
      // What it told before may be wrong, too. Nothing of it counts any more.
      await beginAnew({ log, clock }, { chainId: chain.chainId, address }, "ReindexRequested", run.requester, doubts);
    }
  }

  /** Nothing final is left to read: another endpoint's final block was higher. The follower reads the rest. */
  #beyondFinal(writer: JobStream, address: Address, { head }: FinalBlock): void {
    const next = nextBlock(writer.state);
    // The node is behind. The job is retried later.
    if (head < next) throw new Error(`the node's newest block ${head} is below block ${next}`);
    writer.append([], { status: "joining", attempt: 0, retryAt: 0 });
    this.#handOver(writer, address, head);
  }

  async #readHistory(
    writer: JobStream,
    address: Address,
    final: FinalBlock,
    { signal, moved }: { readonly signal: AbortSignal; readonly moved: () => void },
  ): Promise<void> {
    const { chain, reader, observer, clock, verify, archives, sampledBlocks = SAMPLED_BLOCKS } = this.#options;
    const target = final.number;
    if (nextBlock(writer.state) > target) return this.#beyondFinal(writer, address, final);
    const { sampled, provableFrom, distrusted, nodeRanges } = writer.state;
    const steps = historyFrom({
      chain,
      archives,
      distrusted: wordsIn(distrusted),
      nodeRanges: rangesIn(nodeRanges),
      samplesLeft: Math.max(0, sampledBlocks - sampled),
      provableFrom: provableFrom ?? 0,
      reader,
      clock,
      verify,
      address,
      forms: writer.state.forms,
      fromBlock: nextBlock(writer.state),
      final: { number: target, hash: final.hash },
      shownBy: final.shownBy,
      signal,
      onMalformed: (count) => observer.malformed(count),
    });
    const { transfers: runTransfers } = writer.state;
    const run = { runAt: clock.now(), runBlock: nextBlock(writer.state), runTransfers };
    const progress = new ProgressLog(this.#options, address);
    for await (const { events, archive } of steps) {
      // One append at a time. The next ranges are read and decoded meanwhile.
      await writer.settled();
      signal.throwIfAborted();
      let next = nextBlock(writer.state);
      for (const event of events) {
        assertContiguous(event, next);
        next = event.toBlock + 1;
      }
      const status = next > target ? "joining" : "backfilling";
      const flags = this.#options.flags.due(address, writer.state);
      const told = archive && toldBy(writer.state, archive, next - 1);
      writer.append([...events, ...flags.events], { ...run, ...flags.state, ...told, status });
      moved();
      progress.moved(writer.state);
      if (status === "joining") this.#handOver(writer, address, final.head);
    }
  }
}

/** Adds to a state's facts of archives that one of them told a further part, up to a block. */
function toldBy(
  state: IndexState,
  { label, proof }: NonNullable<HistoryStep["archive"]>,
  archivedTo: number,
): Partial<IndexState> {
  const archives = [...new Set([...wordsIn(state.archives), label])].join(",");
  const { touched, hashed, sampled, byRoot, absent, blocks = 0 } = state;
  return {
    archives,
    archivedTo,
    touched: touched + proof.touched,
    hashed: hashed + proof.hashed,
    sampled: sampled + proof.sampled,
    byRoot: byRoot + proof.byRoot,
    absent: absent + proof.absent,
    blocks: blocks + proof.blocks,
    ...(proof.provableFrom === undefined ? {} : { provableFrom: proof.provableFrom }),
  };
}
