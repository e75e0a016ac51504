/**
 * What a batch of the chain's follower changes in the pools in memory: turns its logs into states without asking the
 * node, finds new pools by their factory's events, and reads the pools without a known state. Appends nothing.
 */
import type { AdvancedBlocks, ChainView } from "../../chain/consumer.ts";
import type { Chain } from "../../chains/chains.ts";
import { isReference, isReferencePair } from "../../chains/tokens.ts";
import { AppError } from "../../core/errors.ts";
import type { Address, Hash } from "../../core/hex.ts";
import type { BlockRef, HeaderRef, PriceEvent } from "../../events/types.ts";
import type { ChainLog, ChainReader } from "../../rpc/port.ts";
import { isBlind, type Observation, type Pool } from "../market/pools.ts";
import { type PoolRead, planState, poolOf, together } from "../search/discovery.ts";
import { addressAt, TOPIC } from "../search/exchange-events.ts";
import { byAddress, observed } from "../search/history.ts";
import type { PoolMemory } from "./memory.ts";
import { beginBatch, forget, type HotPool, hotPool, replay, stateAt } from "./pool-truth.ts";
import { discoveredEvent, observedEvent } from "./projection.ts";
import { type TokenBook, UNLISTED } from "./token-book.ts";

/** Most headers fetched per batch to date states. After a long gap a batch omits headers of old blocks. */
const MAX_UNDATED = 64;
/** Most pools read at the end of a batch because their state is not known: up to six calls each, in one Multicall3. */
const MAX_READS = 64;

/** The pools and books whose logs since the last batch are all in the next one. */
export interface Asked {
  readonly pools: ReadonlySet<Address>;
  readonly books: ReadonlySet<TokenBook>;
}

interface FollowedStates {
  readonly hot: HotPool;
  readonly truth: Extract<HotPool["truth"], { readonly kind: "followed" }>;
  readonly states: readonly Observation[];
}

/** The part of a batch that concerns one book. */
export interface BookChange {
  readonly book: TokenBook;
  readonly events: PriceEvent[];
  readonly states: FollowedStates[];
  readonly reads: { readonly hot: HotPool; readonly read: PoolRead }[];
}

/** A pool that must be read at the end of the batch. */
interface Unread {
  readonly book: TokenBook;
  readonly hot: HotPool;
  readonly isNew: boolean;
}

export interface BatchOptions {
  readonly chain: Chain;
  readonly reader: ChainReader;
  readonly memory: PoolMemory;
  readonly view: ChainView;
}

export class BatchChanges {
  readonly blocks: FollowedBlocks;
  readonly #options: BatchOptions;

  constructor(options: BatchOptions) {
    this.blocks = new FollowedBlocks(options.view);
    this.#options = options;
  }

  /** Returns the changes, book by book. Reads pools without a known state at the end of the batch. */
  async of(batch: AdvancedBlocks, asked: Asked): Promise<BookChange[]> {
    const { books, journal } = this.#options.memory;
    const { fromBlock, to } = batch;
    const groups = byAddress(batch.logs);
    const timestamps = await this.#timestamps(batch);
    const changes = new Map<TokenBook, BookChange>();
    const unread: Unread[] = [];
    const doubted = new Set(batch.doubts.map(({ contract }) => contract));
    for (const book of books.all()) {
      const change: BookChange = { book, events: [], states: [], reads: [] };
      changes.set(book, change);
      book.heldFrom = asked.books.has(book) ? (book.heldFrom ?? fromBlock) : undefined;
      for (const [address, hot] of book.pools) {
        beginBatch(hot, batch, asked.pools.has(address), this.blocks);
        const { truth } = hot;
        // Its state is known at the end of the batch or later. The next batch continues from there.
        if (truth.kind === "known") continue;
        // Without its logs, only the node tells its state.
        if (doubted.has(address)) forget(hot);
        else if (truth.kind === "followed") {
          const states = replay(hot, batch, groups.get(address) ?? [], timestamps, this.blocks);
          if (this.#addStates(change, { hot, truth, states }, fromBlock)) continue;
          forget(hot);
        }
        unread.push({ book, hot, isNew: false });
      }
    }
    for (const log of batch.logs) {
      for (const { book, pool } of this.#creationsIn(log)) {
        unread.push({ book, hot: hotPool(pool), isNew: true });
      }
    }
    for (const [{ book, hot, isNew }, read] of await this.#read(unread, to)) {
      const change = changes.get(book)!;
      change.reads.push({ hot, read });
      const state = observed(read, to);
      const isSaid = journal.state(book.stream).pools.has(read.pool.address);
      if (isNew || !isSaid) change.events.push(discoveredEvent(read.pool, to.number));
      if (state !== undefined) change.events.push(observedEvent(read.pool.address, state));
    }
    return [...changes.values()];
  }

  /** Adds a pool's states to a change. Returns false if the pool must be read instead. */
  #addStates(change: BookChange, followed: FollowedStates, fromBlock: number): boolean {
    const { hot, truth, states } = followed;
    const { number } = truth.base;
    const last = states.at(-1) ?? stateAt(hot, Math.max(number, fromBlock - 1), this.blocks);
    // Its events give the price since `Initialize`, but not its balances. Only the node returns those.
    if (last !== undefined && isBlind(last)) return false;
    // The log must also hold the pool's state before the first followed block, whichever process read it.
    const first = number >= fromBlock - 1 ? stateAt(hot, number, this.blocks) : undefined;
    const { address } = hot.pool;
    if (first !== undefined) change.events.push(observedEvent(address, first));
    change.events.push(...states.map((state) => observedEvent(address, state)));
    if (states.length > 0) change.states.push(followed);
    return true;
  }

  async #read(unread: readonly Unread[], to: HeaderRef): Promise<[Unread, PoolRead][]> {
    const chosen = unread.slice(0, MAX_READS);
    const plan = together(chosen.map(({ hot }) => planState(hot.pool)));
    const { reader } = this.#options;
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
    // A new pool that could not be read is found again by asking the factories.
    for (const { book, isNew } of unread.slice(reads.length)) if (isNew) book.list = UNLISTED;
    return reads.map((read, index) => [chosen[index]!, read]);
  }

  async #timestamps(batch: AdvancedBlocks): Promise<Map<number, number>> {
    const known = new Map(batch.headers.map((header) => [header.number, header.timestamp]));
    const missing = [...new Set(batch.logs.map((log) => log.blockNumber))].filter((number) => !known.has(number));
    const wanted = missing.slice(-MAX_UNDATED);
    for (const header of wanted.length === 0 ? [] : await this.#options.reader.headers(wanted)) {
      if (header !== undefined) known.set(header.number, header.timestamp);
    }
    return known;
  }

  /** Returns the pool that a log announces, once for each book in memory that it belongs in and that lacks it. */
  #creationsIn(log: ChainLog): { book: TokenBook; pool: Pool }[] {
    const kind = log.topics[0];
    if (kind !== TOPIC.pairCreated && kind !== TOPIC.poolCreated) return [];
    const venue = this.#options.memory.venues.find((entry) => entry.factory === log.address);
    const token0 = addressAt(log.topics[1] ?? "0x", 0);
    const token1 = addressAt(log.topics[2] ?? "0x", 0);
    const address = addressAt(log.data, kind === TOPIC.pairCreated ? 0 : 1);
    if (venue === undefined || token0 === undefined || token1 === undefined || address === undefined) return [];
    const fee = kind === TOPIC.poolCreated ? Number(BigInt(log.topics[3] ?? "0x0")) : (venue.fees[0] ?? 0);
    const pool = poolOf(venue, { address, fee, token0, token1 });
    return this.#booksOf(token0, token1)
      .filter((book) => !book.pools.has(address))
      .map((book) => ({ book, pool }));
  }

  #booksOf(token0: Address, token1: Address): TokenBook[] {
    const { chain, memory } = this.#options;
    const { books } = memory;
    if (isReferencePair(chain, token0, token1)) return [books.reference];
    const first = isReference(chain, token1) ? books.get(token0) : undefined;
    const second = isReference(chain, token0) ? books.get(token1) : undefined;
    return [first, second].filter((book) => book !== undefined);
  }
}

/** Most block hashes kept in addition to the published view. */
const MAX_BLOCKS = 4_096;

/**
 * The published view, with the blocks of the batch that is being written. The published head moves only after the batch
 * is durable, so the plain view lags behind the follower here.
 */
class FollowedBlocks implements ChainView {
  readonly #shown: ChainView;
  readonly #hashes = new Map<number, Hash>();

  constructor(shown: ChainView) {
    this.#shown = shown;
  }

  add({ headers }: Pick<AdvancedBlocks, "headers">): void {
    const [first] = headers;
    if (first !== undefined) this.#hashes.set(first.number - 1, first.parentHash);
    for (const { number, hash } of headers) this.#hashes.set(number, hash);
    for (const number of this.#hashes.keys()) {
      if (this.#hashes.size <= MAX_BLOCKS) break;
      this.#hashes.delete(number);
    }
  }

  /** Forgets the blocks above `above`; all of them by default. */
  clear(above = -1): void {
    for (const number of this.#hashes.keys()) if (number > above) this.#hashes.delete(number);
  }

  head = (): HeaderRef | undefined => this.#shown.head();
  finalized = (): BlockRef | undefined => this.#shown.finalized();
  header = (number: number): HeaderRef | undefined =>
    this.#hashes.has(number) ? undefined : this.#shown.header(number);

  isCanonical(block: BlockRef): boolean {
    const followed = this.#hashes.get(block.number);
    return followed === undefined ? this.#shown.isCanonical(block) : followed === block.hash;
  }
}
