/**
 * Brings requested collections to where the follower takes over: identification, then backfill, each under the stream's
 * lease, a few at a time per chain. Failures are facts of the stream and are retried with backoff. The queue is the log:
 * headlines say what is left to do, here or after a restart or on another machine.
 */
import type { Chain } from "../chains/chains.ts";
import type { Clock } from "../core/clock.ts";
import { ConcurrencyError, isAbort } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { Lifecycle } from "../core/lifecycle.ts";
import type { Logger } from "../core/logger.ts";
import { StallWatch } from "../core/stall.ts";
import { type BlockRef, parseStream, type StreamName } from "../events/types.ts";
import type { EventLog, StreamHead } from "../log/port.ts";
import type { Decoder } from "../rpc/decode-pool.ts";
import type { Endpoint } from "../rpc/endpoint.ts";
import type { RpcChainReader } from "../rpc/reader.ts";
import { assertContiguous, backfill } from "./backfill.ts";
import type { Verify } from "./backfill-task.ts";
import type { FollowedCollections } from "./collections.ts";
import { failureOf, stallReason } from "./failure.ts";
import type { CollectionFlags } from "./flags.ts";
import type { Follower } from "./follower.ts";
import { fromHeadline, type IndexState, nextBlock } from "./headline.ts";
import { identify } from "./identify.ts";
import { tryLease } from "./lease.ts";
import type { IndexingObserver } from "./observer.ts";
import { StreamWriter } from "./stream-writer.ts";

/** Collections worked on at a time per chain: one large backfill must not keep small ones waiting. */
const PARALLEL = 4;
/** Contracts at a time whose whole history is searched for what they are: thousands of requests, mostly for nothing. */
const SEARCHES = 2;
/** A lease held elsewhere is asked for again after this. */
const LEASE_RETRY_MS = 1_000;
const PAGE = 1_000;

export interface JobsOptions {
  readonly chain: Chain;
  readonly log: EventLog;
  readonly reader: RpcChainReader;
  readonly decoder: Pick<Decoder, "prepare">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly lifecycle: Lifecycle;
  readonly observer: IndexingObserver;
  readonly follower: Follower;
  readonly collections: FollowedCollections;
  readonly flags: CollectionFlags;
  readonly holder: string;
  /** How hard the logs of a backfill are checked. */
  readonly verify: Verify;
}

const OPEN: readonly IndexState["status"][] = ["requested", "backfilling"];

/** Streams that wait for one kind of work, and those at it. */
class Lane {
  readonly waiting = new Set<StreamName>();
  readonly running = new Set<StreamName>();
  readonly places: number;

  constructor(places: number) {
    this.places = places;
  }

  has(stream: StreamName): boolean {
    return this.waiting.has(stream) || this.running.has(stream);
  }

  get size(): number {
    return this.waiting.size + this.running.size;
  }
}

/** Where a backfill ends, who has shown that, and the newest block that was shown with it. */
interface FinalBlock extends BlockRef {
  readonly shownBy: Endpoint | undefined;
  readonly head: number;
}

/** How a collection goes on after a job: at once in some lane, or after a while. */
type Next = { readonly lane: Lane } | { readonly inMs: number };

export class IndexingJobs {
  readonly #options: JobsOptions;
  readonly #work = new Lane(PARALLEL);
  /** Apart, so that addresses nobody ever used do not keep collections waiting. */
  readonly #searches = new Lane(SEARCHES);
  /** Streams whose next attempt is set for later. */
  readonly #delayed = new Map<StreamName, () => void>();
  /** Streams that grew while a job of theirs was running, which may have looked before. */
  readonly #grown = new Set<StreamName>();

  constructor(options: JobsOptions) {
    this.#options = options;
  }

  /** Collections waited for or worked on. */
  get open(): number {
    return this.#work.size + this.#searches.size + this.#delayed.size;
  }

  /** Takes up what the log says is left to do; returns whether the chain has any NFT stream at all. */
  async load(): Promise<boolean> {
    const { log, chain } = this.#options;
    let any = false;
    for (let after = ""; ; ) {
      const page = await log.streams(`nft/${chain.chainId}/`, { after, limit: PAGE });
      for (const head of page) {
        const { status } = fromHeadline(head.headline);
        any ||= status !== "not_nft" && status !== "not_a_contract";
        this.offer(head);
      }
      const last = page.at(-1);
      if (last === undefined || page.length < PAGE) return any;
      after = last.stream;
    }
  }

  /** Takes note of a stream of this chain: queues it when it has work left. */
  offer(head: StreamHead): void {
    const { status, retryAt } = fromHeadline(head.headline);
    if (!OPEN.includes(status)) return;
    if (this.#isTaken(head.stream)) {
      this.#grown.add(head.stream);
      return;
    }
    const wait = retryAt - this.#options.clock.now();
    if (wait > 0) this.#later(head.stream, wait);
    else this.#enqueue(head.stream, this.#work);
  }

  #isTaken(stream: StreamName): boolean {
    return this.#work.has(stream) || this.#searches.has(stream);
  }

  #later(stream: StreamName, ms: number): void {
    this.#delayed.get(stream)?.();
    const cancel = this.#options.clock.after(ms, () => {
      this.#delayed.delete(stream);
      this.#enqueue(stream, this.#work);
    });
    this.#delayed.set(stream, cancel);
  }

  #enqueue(stream: StreamName, lane: Lane): void {
    if (this.#options.lifecycle.stopping || this.#isTaken(stream)) return;
    lane.waiting.add(stream);
    this.#fill(lane);
  }

  #fill(lane: Lane): void {
    const { lifecycle } = this.#options;
    for (const stream of lane.waiting) {
      if (lane.running.size >= lane.places || lifecycle.stopping) return;
      lane.waiting.delete(stream);
      lane.running.add(stream);
      const job = lifecycle.run(`index ${stream}`, async (signal) => {
        let next: Next | undefined;
        try {
          this.#grown.delete(stream);
          next = await this.#job(stream, lane, signal);
        } finally {
          lane.running.delete(stream);
        }
        await this.#goOn(stream, next);
      });
      job.finally(() => this.#fill(lane));
    }
  }

  /** Not before the job is over, its lease given back: until then its stream is taken. */
  async #goOn(stream: StreamName, next: Next | undefined): Promise<void> {
    if (next === undefined) {
      if (!this.#grown.has(stream)) return;
      const head = await this.#options.log.head(stream).catch(() => undefined);
      if (head === undefined) this.#later(stream, LEASE_RETRY_MS);
      else this.offer(head);
    } else if ("lane" in next) this.#enqueue(stream, next.lane);
    else this.#later(stream, next.inMs);
  }

  /** Cancels what waits; what runs ends by the lifecycle's signal. */
  stop(): void {
    for (const cancel of this.#delayed.values()) cancel();
    this.#delayed.clear();
    for (const lane of [this.#work, this.#searches]) lane.waiting.clear();
  }

  async #job(stream: StreamName, lane: Lane, signal: AbortSignal): Promise<Next | undefined> {
    const { log, clock, holder, logger } = this.#options;
    try {
      const name = `index/${stream}`;
      const options = { log, clock, name, holder, signal };
      const done = await tryLease(options, (lease) => this.#attempt(stream, lane, lease.signal));
      return done === undefined ? { inMs: LEASE_RETRY_MS } : done.result;
    } catch (error) {
      if (signal.aborted || isAbort(error)) return undefined;
      // Lost a lease or a race: the log knows how far it is.
      logger.debug({ err: error, stream }, "an indexing job was interrupted");
      return { inMs: LEASE_RETRY_MS };
    }
  }

  async #attempt(stream: StreamName, lane: Lane, signal: AbortSignal): Promise<Next | undefined> {
    const { log, chain, clock, logger, observer } = this.#options;
    const parsed = parseStream(stream);
    if (parsed.kind !== "nft") return undefined;
    const { address } = parsed;
    const head = await log.head(stream);
    const writer = new StreamWriter(log, head);
    const stall = new StallWatch(clock, (ms) => this.#stalled(writer, address, ms));
    const moved = () => stall.moved();
    try {
      if (writer.state.status === "joining") this.#handOver(writer, address);
      const isAsked = writer.state.status === "requested";
      const final = isAsked ? await this.#identify(writer, address, lane, signal) : undefined;
      const next = this.#laneAfter(lane, writer.state.status);
      if (next === undefined && writer.state.status === "backfilling") {
        const end = final ?? (await this.#finalBlock(nextBlock(writer.state)));
        await this.#backfill(writer, address, end, { signal, moved });
      }
      await writer.settled();
      return next && { lane: next };
    } catch (error) {
      // Nothing is written beside it, nor after the lease is given up.
      await writer.settled().catch(() => undefined);
      if (signal.aborted || isAbort(error) || error instanceof ConcurrencyError) throw error;
      const { event, change, waitMs } = failureOf(error, writer.state, clock);
      const meta = { chain: chain.name, address, attempt: change.attempt, retryInMs: waitMs };
      logger.warn({ err: error, ...meta }, "indexing failed");
      writer.append([event], change);
      await writer.settled();
      observer.failed(chain.chainId, address);
      return { inMs: waitMs };
    } finally {
      stall.stop();
    }
  }

  /** Says what a job tries that has not moved for so long: in the process's log, and to subscribers by the event log. */
  #stalled(writer: StreamWriter, address: Address, ms: number): void {
    const { chain, logger, reader } = this.#options;
    const { state } = writer;
    const doing =
      state.status === "requested" ? "finding out what the contract is" : `reading from block ${nextBlock(state)}`;
    const reason = stallReason(doing, ms, reader.failureWithin(ms));
    logger.warn({ chain: chain.name, address, seconds: Math.round(ms / 1_000), reason }, "indexing makes no progress");
    if (writer.isIdle) writer.append([{ type: "IndexingStalled", reason }], {});
  }

  /** Where a collection goes on that `lane` has identified, or could not. */
  #laneAfter(lane: Lane, status: IndexState["status"]): Lane | undefined {
    if (status === "requested") return this.#searches;
    return status === "backfilling" && lane === this.#searches ? this.#work : undefined;
  }

  /**
   * Begins to say what the contract is, unless only a search can tell; returns the final block, where its history is to
   * be read up to it.
   */
  async #identify(
    writer: StreamWriter,
    address: Address,
    lane: Lane,
    signal: AbortSignal,
  ): Promise<FinalBlock | undefined> {
    const { reader, decoder, chain, clock, logger } = this.#options;
    decoder.prepare();
    const identified = await identify(reader, address, lane === this.#searches ? "all" : "first blocks", signal);
    if (identified === undefined) return undefined;
    await writer.settled();
    const { kind, forms, startBlock } = identified;
    const common = { forms, startBlock, attempt: 0, retryAt: 0, identifiedAt: clock.now() };
    logger.info({ chain: chain.name, address, kind, forms: forms.join(","), startBlock }, "contract identified");
    if (kind !== "nft") {
      writer.append([identified], { ...common, status: kind });
      return undefined;
    }
    // A contract younger than the final block has no final history to read: the follower reads all of it.
    const final = await this.#finalBlock();
    const flags = this.#options.flags.identified(address, writer.state, identified);
    const status = startBlock > final.number ? "joining" : "backfilling";
    writer.append([identified, ...flags.events], { ...common, ...flags.state, status });
    if (status === "joining") this.#handOver(writer, address, final.head);
    return final;
  }

  /** @param from a block that the chain had as final before: who shows less may be behind, and others are asked */
  async #finalBlock(from = 0): Promise<FinalBlock> {
    const { reader } = this.#options;
    let tips = await reader.tips();
    if (tips.finalized.number < from && (await reader.passOverLaggards(tips.head))) tips = await reader.tips();
    const { finalized, head, shownBy } = tips;
    return { number: finalized.number, hash: finalized.hash, shownBy, head: head.number };
  }

  /**
   * Has the follower take over, which reads on while the last of the history is still being appended.
   * @param seen the newest block that was shown since the collection was asked for; without it, whatever is newest
   */
  #handOver(writer: StreamWriter, address: Address, seen?: number): void {
    this.#options.collections.expect(address, writer.state, writer.settled());
    this.#options.follower.readied(seen);
  }

  async #backfill(
    writer: StreamWriter,
    address: Address,
    final: FinalBlock,
    { signal, moved }: { readonly signal: AbortSignal; readonly moved: () => void },
  ): Promise<void> {
    const { reader, chain, observer, clock, verify } = this.#options;
    const target = final.number;
    if (nextBlock(writer.state) > target) {
      // The node's final block is below what is in already: it lags. Asked again later.
      throw new Error(`the chain's final block ${target} is below block ${nextBlock(writer.state)}`);
    }
    let transfers = 0;
    const ranges = backfill({
      reader,
      clock,
      verify,
      address,
      forms: writer.state.forms,
      fromBlock: nextBlock(writer.state),
      final: { number: target, hash: final.hash },
      shownBy: final.shownBy,
      signal,
      onMalformed: (count) => observer.malformed(chain.chainId, count),
    });
    for await (const events of ranges) {
      // One append at a time; the next ranges are asked for and decoded meanwhile.
      await writer.settled();
      signal.throwIfAborted();
      let next = nextBlock(writer.state);
      let { endHash } = writer.state;
      for (const event of events) {
        assertContiguous(event, next);
        next = event.toBlock + 1;
        endHash = event.toHash;
        transfers += event.count;
      }
      const end = next - 1;
      const status = end >= target ? "joining" : "backfilling";
      const flags = this.#options.flags.due(address, writer.state);
      const change = { ...flags.state, end, endHash, status, attempt: 0, retryAt: 0 } as const;
      const progress = { block: end, target, transfers };
      writer.append([...events, ...flags.events], change, () => observer.progress(chain.chainId, address, progress));
      moved();
      if (status === "joining") this.#handOver(writer, address, final.head);
    }
  }
}
