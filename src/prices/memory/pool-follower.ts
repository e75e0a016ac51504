/**
 * Keeps the pools in memory current, as a consumer of the chain's follower. Turns a batch's logs into states without
 * asking the node, finds new pools by their factory's events, and reverts orphaned blocks. Appends each change to the
 * log before it updates memory, and records which tokens are followed, so that replicas can rely on the log.
 */

import type { AdvancedBlocks, ChainChange, ChainConsumer, FollowedChain } from "../../chain/consumer.ts";
import { AppError } from "../../core/errors.ts";
import type { Address, Hash } from "../../core/hex.ts";
import { type BlockRef, type HeaderRef, type PriceEvent, priceStream, type StreamName } from "../../events/types.ts";
import type { PricesContext } from "../context.ts";
import { isBlind, type Observation } from "../market/pools.ts";
import { type PoolRead, planState, together } from "../search/discovery.ts";
import { BALANCE_TOPICS, STATE_TOPICS, TOPIC } from "../search/exchange-events.ts";
import { byAddress, observed } from "../search/history.ts";
import { creationsIn, FollowedBlocks } from "./followed-blocks.ts";
import {
  adoptBook,
  applyCoverage,
  discoveredEvent,
  knownPools,
  loadReference,
  observedEvent,
  sessionUnderWay,
} from "./memory.ts";
import {
  baseNumber,
  beginBatch,
  extend,
  followFromRead,
  forget,
  type HotPool,
  hotPool,
  readAt,
  replay,
  stateAt,
} from "./pool-truth.ts";
import type { AppendOptions } from "./price-streams.ts";
import { type Coverage, UNCOVERED } from "./projection.ts";
import { followedFrom, forgetList, revertBook, type TokenBook, unfollow } from "./token-book.ts";

/** Most headers fetched per batch to date states. After a long gap a batch omits headers of old blocks. */
const MAX_UNDATED = 64;
/** Most pools read at the end of a batch because their state is not known: up to six calls each, in one Multicall3. */
const MAX_READS = 64;
/** Most tokens of other processes taken over per batch. */
const MAX_ADOPTED = 16;
/** After a gap this long between batches, in ms, reading the states costs less than reading all logs since. */
export const MAX_GAP_MS = 3_600_000;

/** The part of a batch that concerns one book. */
interface Change {
  readonly book: TokenBook;
  readonly events: PriceEvent[];
  readonly states: { readonly hot: HotPool; readonly truth: HotPool["truth"]; readonly states: Observation[] }[];
  readonly reads: { readonly hot: HotPool; readonly read: PoolRead }[];
}

/** A pool that must be read at the end of the batch. */
interface Unread {
  readonly book: TokenBook;
  readonly hot: HotPool;
  readonly isNew: boolean;
}

export class PriceFollower implements ChainConsumer {
  readonly name = "prices";
  readonly topics: readonly Hash[] = [...STATE_TOPICS, ...BALANCE_TOPICS, TOPIC.pairCreated, TOPIC.poolCreated];
  readonly #context: PricesContext;
  readonly #ready: () => Promise<void>;
  /** The addresses of every filter since the last batch. The follower can call `addresses` several times per batch. */
  #requested: { readonly pools: ReadonlySet<Address>; readonly books: ReadonlySet<TokenBook> } | undefined;
  #queue: Promise<void> = Promise.resolve();
  #appliedMs: number;
  /** The chain as its follower has recorded it. Undefined until this process follows. */
  #chain: FollowedChain | undefined;
  readonly #followedBlocks: FollowedBlocks;
  readonly #dropped = new Set<TokenBook>();

  /** @param ready resolves once memory is restored from the log */
  constructor(context: PricesContext, ready: () => Promise<void>) {
    this.#context = context;
    this.#ready = ready;
    this.#followedBlocks = new FollowedBlocks(context.view);
    this.#appliedMs = context.clock.monotonic();
  }

  addresses(): readonly Address[] {
    const { books, venues, clock } = this.#context;
    books.prune();
    const pools = new Set<Address>();
    const held = new Set<TokenBook>();
    const late = clock.monotonic() - this.#appliedMs > MAX_GAP_MS;
    if (!books.idle && !late) {
      for (const book of books.all()) {
        held.add(book);
        for (const address of book.pools.keys()) pools.add(address);
      }
    }
    const before = this.#requested;
    this.#requested = before === undefined ? { pools, books: held } : intersection(before, { pools, books: held });
    return held.size === 0 ? [] : [...venues.map((venue) => venue.factory), ...pools];
  }

  /** Notes that memory evicted a book: the log must no longer say that it is followed. */
  drop(book: TokenBook): void {
    if (this.#context.session !== undefined) this.#dropped.add(book);
  }

  /** Resolves once memory has caught up with the log. */
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
    const result = this.#queue.then(() => this.#ready()).then(work);
    this.#queue = result.catch(() => undefined);
    return result;
  }

  /** Reads the events of other processes. While another process follows, its headlines say which pools are followed. */
  async #sync(): Promise<void> {
    const { books, journal, session } = this.#context;
    books.prune();
    await journal.open(books.reference.stream);
    const held = [...books.all()];
    await journal.refresh(held.map((book) => book.stream));
    const current = sessionUnderWay(this.#context);
    if (session !== undefined && session === current) return;
    this.#context.session = undefined;
    this.#context.followedTo = undefined;
    for (const book of held) applyCoverage(this.#context, book, current);
  }

  async #apply(batch: AdvancedBlocks): Promise<void> {
    const context = this.#context;
    const asked = this.#requested ?? { pools: new Set<Address>(), books: new Set<TokenBook>() };
    this.#requested = undefined;
    this.#appliedMs = context.clock.monotonic();
    await this.#sync();
    if (asked.books.size === 0) await this.#endSession(batch.to);
    else this.#continueOrStartSession(batch);
    this.#followedBlocks.add(batch);
    const isFollowing = context.session !== undefined;
    const changes = isFollowing ? await this.#changes(batch, asked) : [];
    if (isFollowing) await this.#write(changes, batch.to);
    context.followedTo = batch.to.number;
    await this.#loadAnnouncedTokens();
  }

  /** Continues this process's session, or starts a new one and takes over from the process that followed up to here. */
  #continueOrStartSession({ fromBlock, headers }: AdvancedBlocks): void {
    const { books, clock, followedTo, session, view, listingFingerprint } = this.#context;
    if (session !== undefined && followedTo !== undefined && fromBlock <= followedTo + 1) {
      // A batch that is delivered again may hold other blocks than the first time.
      if (fromBlock <= followedTo) for (const book of books.all()) revertBook(book, fromBlock - 1);
      return;
    }
    const head = view.head();
    const linked = headers[0]?.number !== fromBlock || headers[0].parentHash === head?.hash;
    // After a gap in its own session, or in the published chain, the log's guarantee does not cover the missing blocks.
    const isKnown = session === undefined && head?.number === fromBlock - 1 && linked;
    const current = sessionUnderWay(this.#context);
    for (const book of books.all()) {
      for (const hot of book.pools.values()) {
        if (baseNumber(hot) < fromBlock - 1) forget(hot);
      }
      applyCoverage(this.#context, book, isKnown ? current : undefined);
      if (book.heldFrom !== undefined && book.heldFrom > fromBlock) unfollow(book);
    }
    this.#followedBlocks.clear();
    const random = Math.floor(clock.random() * 2 ** 40).toString(36);
    this.#context.session = `${listingFingerprint}-${clock.now().toString(36)}-${random}`;
  }

  /** Ends the session because no client asks for prices. Replicas must not rely on the log from here on. */
  async #endSession(to: HeaderRef): Promise<void> {
    const { books, journal } = this.#context;
    for (const book of books.all()) unfollow(book);
    this.#context.session = undefined;
    this.#dropped.clear();
    if (journal.coverage(books.reference.stream).session === undefined) return;
    await this.#append(books.reference.stream, [], { coverage: UNCOVERED, block: to.number });
  }

  /** Returns the batch's changes, book by book. Reads pools without a known state at the end of the batch. */
  async #changes(
    batch: AdvancedBlocks,
    asked: { readonly pools: ReadonlySet<Address>; readonly books: ReadonlySet<TokenBook> },
  ): Promise<Change[]> {
    const { books, venues, chain, journal } = this.#context;
    const { fromBlock, to } = batch;
    const groups = byAddress(batch.logs);
    const timestamps = await this.#timestamps(batch);
    const changes = new Map<TokenBook, Change>();
    const unread: Unread[] = [];
    for (const book of books.all()) {
      const change: Change = { book, events: [], states: [], reads: [] };
      changes.set(book, change);
      book.heldFrom = asked.books.has(book) ? (book.heldFrom ?? fromBlock) : undefined;
      for (const [address, hot] of book.pools) {
        beginBatch(hot, batch, asked.pools.has(address), this.#followedBlocks);
        const { truth } = hot;
        if (truth.kind === "unknown") unread.push({ book, hot, isNew: false });
        else if (truth.kind === "followed") {
          const { base } = truth;
          const states = replay(hot, batch, groups.get(address) ?? [], timestamps, this.#followedBlocks);
          const last = states.at(-1) ?? stateAt(hot, Math.max(base.number, fromBlock - 1), this.#followedBlocks);
          // Its events give the price since `Initialize`, but not its balances. Only the node returns those.
          if (last !== undefined && isBlind(last)) {
            forget(hot);
            unread.push({ book, hot, isNew: false });
            continue;
          }
          // The log must also hold the pool's state before the first followed block, whichever process read it.
          const first = base.number >= fromBlock - 1 ? stateAt(hot, base.number, this.#followedBlocks) : undefined;
          if (first !== undefined) change.events.push(observedEvent(address, first));
          if (states.length === 0) continue;
          change.states.push({ hot, truth, states });
          change.events.push(...states.map((state) => observedEvent(address, state)));
        }
      }
    }
    for (const log of batch.logs) {
      for (const { book, pool } of creationsIn(log, { books, venues, chain })) {
        unread.push({ book, hot: hotPool(pool), isNew: true });
      }
    }
    for (const [{ book, hot, isNew }, read] of await this.#read(unread, to)) {
      const change = changes.get(book);
      if (change === undefined) continue;
      change.reads.push({ hot, read });
      const state = observed(read, to);
      const isSaid = journal.state(book.stream).pools.has(read.pool.address);
      if (isNew || !isSaid) change.events.push(discoveredEvent(read.pool, to.number));
      if (state !== undefined) change.events.push(observedEvent(read.pool.address, state));
    }
    return [...changes.values()];
  }

  async #read(unread: readonly Unread[], to: HeaderRef): Promise<[Unread, PoolRead][]> {
    const { reader } = this.#context;
    const chosen = unread.slice(0, MAX_READS);
    const plan = together(chosen.map(({ hot }) => planState(hot.pool)));
    let reads: PoolRead[] = [];
    try {
      if (chosen.length > 0) {
        reads = plan.read(await reader.calls(plan.calls, to.number));
        if ((await reader.header(to.number))?.hash !== to.hash) reads = [];
      }
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      // Not fatal: the next request for the token reads the pool, and the next batch retries.
    }
    const done = reads.map((read, index): [Unread, PoolRead] => [chosen[index]!, read]);
    // A new pool that could not be read is found again by asking the factories.
    const left = new Set(unread.filter(({ isNew }) => isNew)).difference(new Set(done.map(([entry]) => entry)));
    for (const { book } of left) forgetList(book);
    return done;
  }

  /** Appends as the chain's follower. The guard refuses a process that was paused while another one took over. */
  #append(stream: StreamName, events: readonly PriceEvent[], options: AppendOptions): Promise<void> {
    return this.#context.journal.append(stream, events, { ...options, chainVersion: this.#chain?.version ?? 0 });
  }

  /** Appends the changes to the log, then applies them to memory. */
  async #write(changes: readonly Change[], to: HeaderRef): Promise<void> {
    const { journal, books, droppedStreams } = this.#context;
    const dropped = [...this.#dropped].filter((book) => books.peek(book.stream) === undefined);
    this.#dropped.clear();
    const writes = changes.map(async ({ book, events, states, reads }) => {
      const unread = new Map(reads.map(({ hot, read }) => [read.pool.address, hot]));
      const after = { ...book, pools: new Map(book.pools) };
      for (const [address, hot] of unread) after.pools.set(address, { ...hot, truth: readAt(to) });
      const coverage = this.#coverageOf(after, book === books.reference);
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
      droppedStreams.set(stream, journal.version(stream));
      if (books.peek(stream) === undefined) journal.close(stream);
    });
    await Promise.all([...writes, ...ends]);
  }

  /** Returns the coverage to record for a book: the first block followed, or not followed. */
  #coverageOf(book: TokenBook, isReference: boolean): Coverage {
    const { session } = this.#context;
    const known = knownPools(this.#context, book);
    const added = [...book.pools.keys()].filter((address) => !known.has(address)).length;
    const from = [...known.keys()].every((address) => book.pools.has(address)) ? followedFrom(book) : undefined;
    if (from === undefined) return isReference ? { session, from: undefined, pools: 0 } : UNCOVERED;
    return { session, from, pools: known.size + added };
  }

  /** Loads tokens that other processes price, so that they are followed here. */
  async #loadAnnouncedTokens(): Promise<void> {
    const { announcedTokens, droppedStreams, chain } = this.#context;
    for (const [token, version] of announcedTokens) {
      // The event that records an eviction grows the token's stream as well. It is no client's request.
      if (version <= (droppedStreams.get(priceStream(chain.chainId, token)) ?? 0)) announcedTokens.delete(token);
    }
    const tokens = [...announcedTokens.keys()].slice(0, MAX_ADOPTED);
    for (const token of tokens) announcedTokens.delete(token);
    if (tokens.length === 0 || !(await loadReference(this.#context))) return;
    this.#context.books.reference.lastRequestMs = this.#context.clock.monotonic();
    await Promise.all(tokens.map((token) => adoptBook(this.#context, token)));
  }

  async #revert(ancestor: BlockRef): Promise<void> {
    const { books } = this.#context;
    await this.#sync();
    const held = [...books.all()];
    for (const book of held) revertBook(book, ancestor.number);
    this.#followedBlocks.clear(ancestor.number);
    if (this.#context.session === undefined) return;
    this.#context.followedTo = ancestor.number;
    const reverted: PriceEvent = { type: "BlocksReverted", ancestor };
    await Promise.all(
      held.map((book) => {
        const coverage = this.#coverageOf(book, book === books.reference);
        return this.#append(book.stream, [reverted], { followed: true, coverage, block: ancestor.number });
      }),
    );
  }

  async #timestamps(batch: AdvancedBlocks): Promise<Map<number, number>> {
    const known = new Map(batch.headers.map((header) => [header.number, header.timestamp]));
    const missing = [...new Set(batch.logs.map((log) => log.blockNumber))].filter((number) => !known.has(number));
    const wanted = missing.slice(-MAX_UNDATED);
    if (wanted.length > 0) {
      for (const header of await this.#context.reader.headers(wanted)) {
        if (header !== undefined) known.set(header.number, header.timestamp);
      }
    }
    return known;
  }
}

function intersection<T extends { readonly pools: ReadonlySet<Address>; readonly books: ReadonlySet<TokenBook> }>(
  a: T,
  b: T,
): { readonly pools: ReadonlySet<Address>; readonly books: ReadonlySet<TokenBook> } {
  return { pools: a.pools.intersection(b.pools), books: a.books.intersection(b.books) };
}
