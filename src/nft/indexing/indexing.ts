/**
 * Assembles one chain's indexing: the follower, the jobs, and the routing of the log's wake-ups. The work runs in the process
 * that holds the leases; the view that readers see moves in every process.
 */

import type { ChainConsumer, ChainWork } from "../../chain/consumer.ts";
import { Follower, type FollowerOptions } from "../../chain/follower.ts";
import type { PublishedChain } from "../../chain/view.ts";
import { countedCache } from "../../core/counted-cache.ts";
import type { Address } from "../../core/hex.ts";
import { type BlockRange, nftStream, type StreamName } from "../../events/types.ts";
import type { StreamHead } from "../../log/event-log.ts";
import { fromHeadline } from "../collections/headline.ts";
import type { AuditFinding } from "./audit.ts";
import { Candidates, type CandidatesOptions } from "./candidates.ts";
import { ContractDescriptions } from "./descriptions.ts";
import { FlagRules, type FlagsOptions } from "./flags.ts";
import { FollowedCollections } from "./followed-collections.ts";
import { IndexingJobs, type JobsOptions } from "./jobs.ts";
import { HistoryProofs, type ProofsOptions } from "./proof.ts";

interface IndexingOptions
  extends CandidatesOptions,
    ChainWork,
    Pick<ProofsOptions, "collectionOf">,
    Pick<FlagsOptions, "lists" | "shapeOf">,
    Pick<JobsOptions, "decoder" | "archives" | "sampledBlocks">,
    Pick<FollowerOptions, "minPollMs" | "followEveryMs"> {
  /** The chain as readers see it. */
  readonly view: PublishedChain;
  /** True while a client of this process subscribes to the chain. Announced blocks are then followed at once. */
  readonly hasSubscribers?: () => boolean;
}

/** Interval at which a process tells the others that its clients wait for the chain's blocks, and how long that holds. */
const WATCHED_POLL_MS = 5_000;
const SUBSCRIBERS_TTL_MS = 15_000;

/** Longer than the log takes to acknowledge an append. */
const LOOK_MS = 1_000;

export class ChainIndexing {
  readonly view: PublishedChain;
  /** Contracts that were requested and that the log doesn't know. */
  readonly candidates: Candidates;
  readonly #options: IndexingOptions;
  readonly #collections: FollowedCollections;
  readonly #descriptions: ContractDescriptions;
  readonly #consumers: ChainConsumer[];
  readonly #follower: Follower;
  readonly #jobs: IndexingJobs;
  /** Versions up to which streams were read for work. */
  readonly #read = countedCache<StreamName, number>(10_000);
  /** Newest versions of followed streams that the log has told of, and that are compared a moment later. */
  readonly #announced = new Map<StreamName, number>();
  #following = false;

  constructor(options: IndexingOptions) {
    this.#options = options;
    const { log, clock, logger, lifecycle, view } = options;
    const { chainId } = options.chain;
    this.view = view;
    const onFound = () => this.#follower.pollNow();
    const { lists, shapeOf } = options;
    const flags = new FlagRules({ chainId, log, clock, logger, lifecycle, lists, shapeOf, onFound });
    const onHead = (head: StreamHead) => this.#jobs.offer(head);
    const proofs = new HistoryProofs({ ...options, onFound });
    const onCode = (...seen: Parameters<ChainIndexing["codeSeen"]>) => this.codeSeen(...seen);
    this.#descriptions = new ContractDescriptions({ ...options, onCode });
    this.#collections = new FollowedCollections({
      ...{ ...options, flags, proofs, onHead, descriptions: this.#descriptions },
      onPartRead: ({ number }) => this.#follower.readied(number),
    });
    this.#consumers = [this.#collections];
    this.#follower = new Follower({
      ...options,
      consumers: this.#consumers,
      hasSubscribersElsewhere: async () => (await log.leases()).some(({ name }) => name === this.#subscribersLease),
      isNeeded: () => this.#jobs.isBusy || this.#consumers.some((consumer) => consumer.needsBlocks?.() === true),
    });
    this.candidates = new Candidates(options);
    this.#jobs = new IndexingJobs({
      ...{ ...options, flags },
      follower: this.#follower,
      collections: this.#collections,
      finalized: () => view.finalized(),
    });
  }

  /** The collections that this process follows. */
  followed(): readonly Address[] {
    return this.#collections.addresses();
  }

  /** Adds a consumer of the follower's blocks, before `start`. */
  addConsumer(consumer: ChainConsumer): void {
    this.#consumers.push(consumer);
  }

  /** Resumes from the log: shows the head, continues open jobs, starts the follower if there is anything to follow. */
  async start(): Promise<void> {
    await this.view.load();
    this.#options.reader.expect(this.view.finalized());
    if (await this.#jobs.load()) this.follow();
    const { lifecycle, chain, hasSubscribers, clock, leases } = this.#options;
    const { watched } = this.#collections;
    const paceOf = () => (!leases.holds(this.#follower.lease) ? "none" : this.#follower.isIdle ? "slow" : "full");
    lifecycle.run(`watch contracts of ${chain.name}`, (signal) => watched.run(paceOf, signal));
    if (hasSubscribers === undefined) return;
    lifecycle.run(`wait for ${chain.name}`, async (signal) => {
      for (; !signal.aborted; await clock.sleep(WATCHED_POLL_MS, signal).catch(() => undefined))
        await this.#announceSubscribers();
    });
  }

  get #subscribersLease(): string {
    return `heard/${this.#options.chain.chainId}`;
  }

  /** Tells the process that follows the chain, by a lease, that clients of this one wait for its blocks. */
  async #announceSubscribers(): Promise<void> {
    const { log, leases, hasSubscribers, logger, chain } = this.#options;
    if (hasSubscribers?.() !== true || leases.holds(this.#follower.lease)) return;
    await log.acquireLease(this.#subscribersLease, leases.holder, SUBSCRIBERS_TTL_MS).catch((error: unknown) => {
      logger.debug({ err: error, chain: chain.name }, "the follower could not be told that clients wait");
    });
  }

  /** True if nothing on the chain is followed, as far as this process knows. */
  get isIdle(): boolean {
    return this.#following ? this.#follower.isIdle : this.view.head() === undefined;
  }

  /** Starts the follower, or wakes it if nothing was followed. */
  follow(): void {
    if (this.#following) {
      this.#follower.wake();
      return;
    }
    this.#following = true;
    this.#options.lifecycle.run(`follow ${this.#options.chain.name}`, (signal) => this.#follower.run(signal));
  }

  /**
   * A stream of this chain grew. The chain's own stream moves the projection; a collection's may be work. Its head is
   * read only in that case: nearly all wake-ups are for followed collections, which the follower itself has moved.
   * @param isOwn true if this process appended
   */
  async onWakeUp(stream: StreamName, version: number, isOwn = false): Promise<void> {
    if (stream === this.view.stream) {
      await this.view.catchUp(version);
      return;
    }
    const isCollection = stream.startsWith("nft/");
    if (isCollection && this.#mayBeWork(stream, version, isOwn)) await this.#offer(stream, version);
    // A price that another process read: its clients wait for the chain's blocks.
    if (isCollection || (stream.startsWith("price") && !isOwn)) this.follow();
  }

  /**
   * 1. A version that was read here is no news: the server repeats the wake-ups of this process's own appends.
   * 2. A job of this process works on the stream. It reads the stream again if another process may have written it.
   * 3. This process follows the chain: all collections that it doesn't follow may be work. One that it follows may have
   *    been written by another process, for an operator; that is looked into a moment later.
   * 4. Another process does. It keeps its followed collections to itself, and the log has what they became: the next
   *    follower reads all streams when it begins.
   */
  #mayBeWork(stream: StreamName, version: number, isOwn: boolean): boolean {
    if ((this.#read.get(stream) ?? 0) >= version) return false;
    if (this.#jobs.grew(stream) && isOwn) return false;
    if (this.#options.leases.holds(this.#follower.lease)) {
      if (this.#collections.versionOf(stream) === undefined) return true;
      // Once another process follows the chain, this one need not read the stream to know that.
      this.#jobs.handedOver(stream);
      if (!isOwn) this.#compareLater(stream, version);
      return false;
    }
    return !this.#jobs.isDone(stream);
  }

  /**
   * Reads a followed stream if another process has written it: the collection is indexed anew, or removed. Waits first:
   * the server may tell of an append before it is acknowledged to its writer, this process.
   */
  #compareLater(stream: StreamName, version: number): void {
    const isWaiting = this.#announced.has(stream);
    this.#announced.set(stream, version);
    if (isWaiting) return;
    const { clock, lifecycle, logger } = this.#options;
    clock.after(LOOK_MS, () => {
      const announced = this.#announced.get(stream) ?? 0;
      this.#announced.delete(stream);
      const known = this.#collections.versionOf(stream);
      if (lifecycle.stopping || known === undefined || announced <= known) return;
      // The server told of it during the wait, perhaps just now: it gets its own wait.
      if (announced > version) this.#compareLater(stream, announced);
      else {
        this.changed(stream).catch((error: unknown) =>
          logger.warn({ err: error, stream }, "a stream could not be read"),
        );
      }
    });
  }

  /**
   * Reads again what a contract says of itself: its name, symbol, claimed standards and code.
   * @throws AppError if the chain or the log does not answer; then nothing is changed
   */
  async readAgain(address: Address): Promise<void> {
    if (!(await this.#descriptions.readAgain(address))) return;
    const { log, chain, leases } = this.#options;
    const stream = nftStream(chain.chainId, address);
    // A followed collection concerns its follower alone. Another process learns of the append by the log.
    const isFollowed = fromHeadline((await log.head(stream)).headline).status === "following";
    if (!isFollowed || leases.holds(this.#follower.lease)) await this.changed(stream);
  }

  /** Like `readAgain`, and resolves if the chain or the log does not answer, too. */
  async tryReadAgain(address: Address): Promise<void> {
    await this.readAgain(address).catch((error: unknown) => {
      const { logger, chain } = this.#options;
      logger.debug({ err: error, chain: chain.name, address }, "a contract's name could not be read again");
    });
  }

  /** Reads a stream that this process wrote outside of indexing: the collection is indexed anew, or removed. */
  async changed(stream: StreamName): Promise<void> {
    const { version } = await this.#options.log.head(stream);
    await this.#offer(stream, version);
    this.follow();
  }

  async #offer(stream: StreamName, version: number): Promise<void> {
    this.#read.set(stream, version);
    const head = await this.#options.log.head(stream).catch((error: unknown) => {
      this.#read.delete(stream);
      throw error;
    });
    this.#jobs.offer(head);
    this.#collections.offer(head);
  }

  /** A followed block shows that a transfer is missing between two blocks. The follower then reads their receipts. */
  doubt(address: Address, blocks: BlockRange): void {
    this.#collections.doubt(address, blocks);
    if (this.#following) this.#follower.pollNow();
  }

  /** The audit has found that a contract names other owners than its logs. The follower has its blocks read again. */
  doubtOwners(address: Address, finding: AuditFinding): void {
    this.#collections.doubtOwners(address, finding);
    if (this.#following) this.#follower.pollNow();
  }

  /** The audit has read a contract's code. The follower looks into a change of it. */
  codeSeen(address: Address, block: number, hasCode: boolean): void {
    this.#collections.codeSeen(address, block, hasCode);
  }

  /** The operator's lists changed: polls at once, so that flags don't wait for the next block. */
  listsChanged(): void {
    if (this.#following) this.#follower.pollNow();
  }

  /** A client of this process begins to wait for the chain's blocks. */
  clientAsked(): void {
    if (this.#following) this.#follower.clientAsked();
    void this.#announceSubscribers();
  }

  /** A node announced a new block. */
  headSeen(): void {
    if (this.#following) this.#follower.headSeen();
  }

  stop(): void {
    this.#jobs.stop();
  }
}
