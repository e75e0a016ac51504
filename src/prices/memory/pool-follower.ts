/**
 * Keeps the pools in memory current, as a consumer of the chain's follower. Appends each change to the log before it
 * updates memory, and records which tokens are followed, so that replicas can rely on the log. Adopts the tokens that
 * other processes price.
 */
import { LRUCache } from "lru-cache";
import type { AdvancedBlocks, ChainChange, ChainConsumer, FollowedChain } from "../../chain/consumer.ts";
import { isMoney, isReference } from "../../chains/tokens.ts";
import type { Clock } from "../../core/clock.ts";
import type { Address, Hash } from "../../core/hex.ts";
import {
  type BlockRef,
  type HeaderRef,
  type PriceEvent,
  parseStream,
  priceStream,
  type StreamName,
} from "../../events/types.ts";
import { BALANCE_TOPICS, STATE_TOPICS, TOPIC } from "../search/exchange-events.ts";
import { observed } from "../search/history.ts";
import { type Asked, BatchChanges, type BatchOptions, type BookChange } from "./batch-changes.ts";
import type { PoolMemory } from "./memory.ts";
import { baseNumber, extend, followFromRead, forget, newestHeld, readAt } from "./pool-truth.ts";
import type { AppendOptions } from "./price-streams.ts";
import { type Coverage, UNCOVERED } from "./projection.ts";
import { followedFrom, revertBook, type TokenBook, unfollow } from "./token-book.ts";

/** Most tokens of other processes that wait to be loaded. A token beyond it is announced again by its next request. */
const MAX_ANNOUNCED = 1_000;
/** Dropped streams remembered. A forgotten one is loaded once more at most. */
const MAX_DROPPED = 10_000;
/** Most tokens of other processes taken over per batch. */
const MAX_ADOPTED = 16;
/** After a gap this long between batches, in ms, reading the states costs less than reading all logs since. */
export const MAX_GAP_MS = 3_600_000;

/** One unbroken stretch of following by this process. */
interface Session {
  readonly name: string;
  /** Last block that was applied. */
  to: number;
}

interface FollowerOptions extends BatchOptions {
  readonly clock: Clock;
  /** Resolves once memory is restored from the log. */
  readonly ready: () => Promise<void>;
}

export class PriceFollower implements ChainConsumer {
  readonly name = "prices";
  readonly topics: readonly Hash[] = [...STATE_TOPICS, ...BALANCE_TOPICS, TOPIC.pairCreated, TOPIC.poolCreated];
  readonly #options: FollowerOptions;
  readonly #memory: PoolMemory;
  readonly #batch: BatchChanges;
  /** Undefined while this process does not follow. */
  #session: Session | undefined;
  /** The addresses of every filter since the last batch. The follower can call `addresses` several times per batch. */
  #requested: Asked | undefined;
  #queue: Promise<void> = Promise.resolve();
  #appliedMs: number;
  /** The chain as its follower has recorded it. Undefined until this process follows. */
  #chain: FollowedChain | undefined;
  /** Evicted books. The log must no longer say that they are followed. */
  readonly #dropped = new Set<TokenBook>();
  /** Streams of evicted books, with the version that recorded the eviction. */
  readonly #droppedStreams = new LRUCache<StreamName, number>({ max: MAX_DROPPED });
  /** Tokens that other processes price and this one does not hold yet, with the stream version that announced them. */
  readonly #announcedTokens = new Map<Address, number>();

  constructor(options: FollowerOptions) {
    this.#options = options;
    this.#memory = options.memory;
    this.#batch = new BatchChanges(options);
    this.#appliedMs = options.clock.monotonic();
  }

  get isFollowing(): boolean {
    return this.#session !== undefined;
  }

  addresses(): readonly Address[] {
    const { books, venues } = this.#memory;
    books.prune();
    const pools = new Set<Address>();
    const held = new Set<TokenBook>();
    const late = this.#options.clock.monotonic() - this.#appliedMs > MAX_GAP_MS;
    if (!books.idle && !late) {
      for (const book of books.all()) {
        held.add(book);
        for (const address of book.pools.keys()) pools.add(address);
      }
    }
    const before = this.#requested ?? { pools, books: held };
    this.#requested = { pools: before.pools.intersection(pools), books: before.books.intersection(held) };
    return held.size === 0 ? [] : [...venues.map((venue) => venue.factory), ...pools];
  }

  needsBlocks(): boolean {
    const { books } = this.#memory;
    books.prune();
    return !books.idle || this.#announcedTokens.size > 0;
  }

  /** A request may have read a pool at a newer block than the follower's. */
  holdsAbove(block: number): boolean {
    for (const book of this.#memory.books.all()) {
      for (const hot of book.pools.values()) if (newestHeld(hot) > block) return true;
    }
    return false;
  }

  drop(book: TokenBook): void {
    if (this.isFollowing) this.#dropped.add(book);
  }

  /** Notes a price stream that grew, perhaps by a request at another process. Returns true if its token is new here. */
  announce(stream: StreamName, version: number): boolean {
    const { books, journal } = this.#memory;
    const parsed = parseStream(stream);
    if (parsed.kind !== "price" || version <= journal.version(stream)) return false;
    if (isMoney(this.#options.chain, parsed.address) || books.peek(stream) !== undefined) return false;
    if (this.#announcedTokens.size >= MAX_ANNOUNCED) return false;
    this.#announcedTokens.set(parsed.address, version);
    return true;
  }

  settle(): Promise<void> {
    return this.#enqueue(() => this.#sync());
  }

  async begin(chain: FollowedChain): Promise<void> {
    this.#chain = chain;
  }

  apply(change: ChainChange): Promise<void> {
    return this.#enqueue(() => (change.type === "advanced" ? this.#apply(change) : this.#revert(change.ancestor)));
  }

  #enqueue(work: () => Promise<void>): Promise<void> {
    const result = this.#queue.then(() => this.#options.ready()).then(work);
    this.#queue = result.catch(() => undefined);
    return result;
  }

  /** Reads the events of other processes. While another process follows, its headlines say which pools are followed. */
  async #sync(): Promise<void> {
    const { books, journal } = this.#memory;
    books.prune();
    await journal.open(books.reference.stream);
    const held = [...books.all()];
    await journal.refresh(held.map((book) => book.stream));
    const current = this.#memory.sessionUnderWay();
    if (this.#session !== undefined && this.#session.name === current) return;
    this.#session = undefined;
    for (const book of held) this.#memory.applyCoverage(book, current);
  }

  async #apply(batch: AdvancedBlocks): Promise<void> {
    const asked = this.#requested ?? { pools: new Set<Address>(), books: new Set<TokenBook>() };
    this.#requested = undefined;
    this.#appliedMs = this.#options.clock.monotonic();
    await this.#sync();
    if (asked.books.size === 0) await this.#endSession(batch.to);
    else this.#session = this.#continuedOrNewSession(batch);
    this.#batch.blocks.add(batch);
    if (this.#session !== undefined) {
      await this.#write(await this.#batch.of(batch, asked), batch.to, this.#session.name);
      this.#session.to = batch.to.number;
    }
    await this.#loadAnnouncedTokens();
  }

  /** Continues this process's session, or starts a new one and takes over from the process that followed up to here. */
  #continuedOrNewSession({ fromBlock, headers }: AdvancedBlocks): Session {
    const { books, fingerprint } = this.#memory;
    const { clock, view } = this.#options;
    const session = this.#session;
    if (session !== undefined && fromBlock <= session.to + 1) {
      // A batch that is delivered again may hold other blocks than the first time.
      if (fromBlock <= session.to) for (const book of books.all()) revertBook(book, fromBlock - 1);
      return session;
    }
    const head = view.head();
    const linked = headers[0]?.number !== fromBlock || headers[0].parentHash === head?.hash;
    // After a gap in its own session, or in the published chain, the log's guarantee does not cover the missing blocks.
    const isKnown = session === undefined && head?.number === fromBlock - 1 && linked;
    const current = isKnown ? this.#memory.sessionUnderWay() : undefined;
    for (const book of books.all()) {
      for (const hot of book.pools.values()) if (baseNumber(hot) < fromBlock - 1) forget(hot);
      this.#memory.applyCoverage(book, current);
      if (book.heldFrom !== undefined && book.heldFrom > fromBlock) unfollow(book);
    }
    this.#batch.blocks.clear();
    const random = Math.floor(clock.random() * 2 ** 40).toString(36);
    return { name: `${fingerprint}-${clock.now().toString(36)}-${random}`, to: fromBlock - 1 };
  }

  /** Ends the session because no client asks for prices. Replicas must not rely on the log from here on. */
  async #endSession(to: HeaderRef): Promise<void> {
    const { books, journal } = this.#memory;
    for (const book of books.all()) unfollow(book);
    this.#session = undefined;
    this.#dropped.clear();
    if (journal.coverage(books.reference.stream).session === undefined) return;
    await this.#append(books.reference.stream, [], { coverage: UNCOVERED, block: to.number });
  }

  /** Appends as the chain's follower. The guard refuses a process that was paused while another one took over. */
  #append(stream: StreamName, events: readonly PriceEvent[], options: AppendOptions): Promise<void> {
    return this.#memory.journal.append(stream, events, { ...options, chainVersion: this.#chain?.version ?? 0 });
  }

  /** Appends the changes to the log, then applies them to memory. */
  async #write(changes: readonly BookChange[], to: HeaderRef, session: string): Promise<void> {
    const { journal, books } = this.#memory;
    const dropped = [...this.#dropped].filter((book) => books.peek(book.stream) === undefined);
    this.#dropped.clear();
    const writes = changes.map(async ({ book, events, states, reads }) => {
      const after = { ...book, pools: new Map(book.pools) };
      for (const { hot, read } of reads) after.pools.set(read.pool.address, { ...hot, truth: readAt(to) });
      const coverage = this.#coverageOf(after, session);
      await this.#append(book.stream, events, { followed: true, coverage, block: to.number });
      for (const { hot, truth, states: own } of states) if (hot.truth === truth) extend(hot, own, to.timestamp);
      for (const { hot, read } of reads) {
        followFromRead(hot, { pool: read.pool, state: observed(read, to) }, to);
        book.pools.set(read.pool.address, hot);
      }
    });
    const ends = dropped.map(async ({ stream }) => {
      await journal.open(stream);
      await this.#append(stream, [], { coverage: UNCOVERED, block: to.number });
      this.#droppedStreams.set(stream, journal.version(stream));
      this.#memory.closeUnheld(stream);
    });
    await Promise.all([...writes, ...ends]);
  }

  /** Returns the coverage to record for a book: the first block followed, or not followed. */
  #coverageOf(book: TokenBook, session: string): Coverage {
    const known = this.#memory.knownPools(book);
    const added = [...book.pools.keys()].filter((address) => !known.has(address)).length;
    const from = [...known.keys()].every((address) => book.pools.has(address)) ? followedFrom(book) : undefined;
    if (from !== undefined) return { session, from, pools: known.size + added };
    const isReference = book.stream === this.#memory.books.reference.stream;
    return isReference ? { session, from: undefined, pools: 0 } : UNCOVERED;
  }

  /** Loads tokens that other processes price, so that they are followed here. */
  async #loadAnnouncedTokens(): Promise<void> {
    const announced = this.#announcedTokens;
    for (const [token, version] of announced) {
      // The event that records an eviction grows the token's stream as well. It is no client's request.
      const dropped = this.#droppedStreams.get(priceStream(this.#options.chain.chainId, token)) ?? 0;
      if (version <= dropped) announced.delete(token);
    }
    const tokens = [...announced.keys()].slice(0, MAX_ADOPTED);
    for (const token of tokens) announced.delete(token);
    if (tokens.length === 0 || !(await this.#memory.loadReference())) return;
    this.#memory.noteRequest(this.#memory.books.reference);
    await Promise.all(tokens.map((token) => this.#adopt(token)));
  }

  /**
   * Loads the book of a token that another process priced. Every process writes a connector's facts into the
   * connector's stream; only pools in it show that a client asked for the connector's price.
   */
  async #adopt(token: Address): Promise<void> {
    const { chain } = this.#options;
    const stream = priceStream(chain.chainId, token);
    const isAsked = !isReference(chain, token) || (await this.#memory.journal.open(stream)).pools.size > 0;
    if (isAsked) await this.#memory.loadBook(token);
    else this.#memory.closeUnheld(stream);
  }

  async #revert(ancestor: BlockRef): Promise<void> {
    await this.#sync();
    const held = [...this.#memory.books.all()];
    for (const book of held) revertBook(book, ancestor.number);
    this.#batch.blocks.clear(ancestor.number);
    const session = this.#session;
    if (session === undefined) return;
    session.to = ancestor.number;
    const reverted: PriceEvent = { type: "BlocksReverted", ancestor };
    await Promise.all(
      held.map((book) => {
        const coverage = this.#coverageOf(book, session.name);
        return this.#append(book.stream, [reverted], { followed: true, coverage, block: ancestor.number });
      }),
    );
  }
}
