/**
 * What memory holds of the tokens that are asked about: their words, their pools, and each pool's states back to the
 * beginning of the average's window. Says whether a pool's state is the truth at a followed head: it was known at some
 * block, and every block since has been through the follower, here or in the process that writes the log.
 */
import { LRUCache } from "lru-cache";
import type { ChainView } from "../../chain/consumer.ts";
import type { Clock } from "../../core/clock.ts";
import type { Address, Hash } from "../../core/hex.ts";
import { type HeaderRef, priceStream, type StreamName } from "../../events/types.ts";
import { isBlind, type Observation, type Pool } from "../market/pools.ts";
import { TWAP_WINDOW } from "../market/quality.ts";
import type { TokenFacts } from "../search/discovery.ts";
import { insertByBlock } from "./projection.ts";

/** The session under way vouches that the log's list of a book's pools is whole. Below any block's number. */
export const LISTED = -1;
/** The log's list of a book's pools is good to follow. The factories are asked before a price comes from it. */
export const UNLISTED = -2;

/** A block at whose end a pool's state is known. */
export interface Base {
  readonly number: number;
  /** Undefined where the log vouches for the number: its own reverts say when that ends. */
  readonly hash: Hash | undefined;
  /** Unix seconds; infinite where only the number is known. */
  readonly timestamp: number;
}

export interface HotPool {
  pool: Pool;
  /** Ascending by block, one per block. */
  timeline: Observation[];
  /** The block from whose end on `timeline` is complete; undefined when the pool must be read (again). */
  base: Base | undefined;
  /** First block whose events have come through the follower without a gap since. */
  coveredFrom: number | undefined;
}

export interface TokenBook {
  readonly address: Address;
  readonly stream: StreamName;
  /** Words of the book's own token; the reference book has those of every reference token. */
  facts: ReadonlyMap<Address, TokenFacts>;
  readonly pools: Map<Address, HotPool>;
  /** The number of the block the factories were asked at, `LISTED` or `UNLISTED`; undefined when they must be asked (again). */
  discoveredAt: number | undefined;
  /** First block whose pool creations have come through the follower for this book without a gap since. */
  heldFrom: number | undefined;
  /** `Clock.monotonic` of the last question to the factories. */
  discoveredMs: number;
  /** `Clock.monotonic` of the last request. */
  askedMs: number;
}

export interface BookLimits {
  readonly bytes: number;
  /**
   * Pools whose logs are asked for at each poll; a provider's filter holds some thousands of addresses. A token without a
   * pool counts as one.
   */
  readonly pools: number;
  /** A token nobody asked about for so long is let go, in ms. */
  readonly idleMs: number;
}

/** Rough heap cost: a pool with its maps, and one observation with two bigints and two hashes. */
const POOL_BYTES = 1_024;
const OBSERVATION_BYTES = 512;
/** States older than the window by this margin are dropped, in seconds. */
const KEEP_SECONDS = TWAP_WINDOW + 300;
/** States of one pool in memory: half an hour of blocks every half second is 3,600. */
const MAX_TIMELINE = 4_096;

export class Books {
  readonly reference: TokenBook;
  readonly #tokens: LRUCache<Address, TokenBook>;
  readonly #limits: BookLimits;
  readonly #clock: Clock;

  constructor(options: {
    reference: TokenBook;
    limits: BookLimits;
    clock: Clock;
    onDrop: (book: TokenBook) => void;
  }) {
    this.reference = options.reference;
    this.#limits = options.limits;
    this.#clock = options.clock;
    this.#tokens = new LRUCache({
      maxSize: options.limits.bytes,
      sizeCalculation: bytesOf,
      dispose: (book, _address, reason) => {
        if (reason === "set") return;
        // Nobody applies events to it from here on: whoever still holds it must read its pools again.
        uncover(book);
        book.discoveredAt = undefined;
        options.onDrop(book);
      },
    });
  }

  get(address: Address): TokenBook | undefined {
    return this.#tokens.get(address);
  }

  /** The book of a stream, without counting as a use. */
  held(stream: StreamName): TokenBook | undefined {
    if (stream === this.reference.stream) return this.reference;
    return this.#tokens.peek(stream.slice(stream.lastIndexOf("/") + 1) as Address);
  }

  put(book: TokenBook): void {
    this.#tokens.set(book.address, book);
  }

  /** Every book, the reference first. */
  *all(): Generator<TokenBook> {
    yield this.reference;
    yield* this.#tokens.values();
  }

  /** Lets go of what nobody asked about, and of the least recently asked beyond the bounds. */
  prune(): void {
    const now = this.#clock.monotonic();
    const { idleMs, bytes: maxBytes, pools: maxPools } = this.#limits;
    let pools = this.reference.pools.size;
    let bytes = bytesOf(this.reference);
    for (const [address, book] of [...this.#tokens.entries()]) {
      // Books grow while they are held, so they are weighed again.
      const size = bytesOf(book);
      // One without a pool is gone through at each block, too.
      const places = Math.max(1, book.pools.size);
      const fits = pools + places <= maxPools && bytes + size <= maxBytes;
      if (!fits || now - book.askedMs > idleMs) {
        this.#tokens.delete(address);
        continue;
      }
      pools += places;
      bytes += size;
    }
  }

  /** Whether anybody has asked for a price lately; nothing is followed otherwise. */
  get idle(): boolean {
    const quiet = this.#clock.monotonic() - this.reference.askedMs > this.#limits.idleMs;
    return this.reference.discoveredAt === undefined || quiet;
  }
}

function bytesOf(book: TokenBook): number {
  let bytes = POOL_BYTES;
  for (const { timeline } of book.pools.values()) bytes += POOL_BYTES + timeline.length * OBSERVATION_BYTES;
  return bytes;
}

export const hotPool = (pool: Pool): HotPool => ({
  pool,
  timeline: [],
  base: undefined,
  coveredFrom: undefined,
});

/** A book nobody has written in. */
export const emptyBook = (chainId: number, token: Address): TokenBook => ({
  address: token,
  stream: priceStream(chainId, token),
  facts: new Map(),
  pools: new Map(),
  discoveredAt: undefined,
  heldFrom: undefined,
  discoveredMs: Number.NEGATIVE_INFINITY,
  askedMs: Number.NEGATIVE_INFINITY,
});

/** Whether events since the base have come through without a gap. */
const isUnbroken = ({ base, coveredFrom }: HotPool): boolean =>
  base !== undefined && coveredFrom !== undefined && coveredFrom <= base.number + 1;

/** Whether the pool's state at `head` is known for certain, and what the pool holds with it. */
export function isCurrent(hot: HotPool, head: HeaderRef, view: ChainView): boolean {
  if (!isUnbroken(hot) || hot.base!.number > head.number || !isStanding(hot, view)) return false;
  const state = stateAt(hot, head.number, view);
  // Logs of earlier releases have such states too.
  return state === undefined || !isBlind(state);
}

/** Whether the block of the base is still on the chain. */
export function isStanding({ base }: HotPool, view: ChainView): boolean {
  return base === undefined || base.hash === undefined || isOn(view, base.number, base.hash);
}

/** False when what the follower holds contradicts a block that was read from a node. */
function isOn(view: ChainView, number: number, hash: Hash): boolean {
  const header = view.header(number);
  return header === undefined ? view.isCanonical({ number, hash }) : header.hash === hash;
}

/** The pool's state at the end of a block. */
export const stateAt = (hot: HotPool, block: number, view: ChainView): Observation | undefined =>
  hot.timeline.findLast((state) => state.block <= block && isOn(view, state.block, state.blockHash));

/** The pool's states up to the end of a block. */
export const statesUpTo = (hot: HotPool, block: number, view: ChainView): Observation[] =>
  hot.timeline.filter((state) => state.block <= block && isOn(view, state.block, state.blockHash));

/** Whether the pool's states are complete from a moment (Unix seconds) on. */
export const reachesBack = (hot: HotPool, timestamp: number): boolean =>
  isUnbroken(hot) && hot.base!.timestamp <= timestamp;

/** Sets what the node said of a pool at the end of a block, unless what the follower made of it is still good. */
export function rebase(hot: HotPool, read: PoolAt, block: HeaderRef, view: ChainView): void {
  hot.pool = read.pool;
  if (isUnbroken(hot) && hot.base!.number <= block.number && isStanding(hot, view)) {
    // Still a fact of its block, and where it was put in the log first, nobody will say it again.
    const isHeld = hot.timeline.some((state) => state.blockHash === block.hash && !isBlind(state));
    if (read.state !== undefined && !isHeld) extend(hot, [read.state], block.timestamp);
    return;
  }
  resetTo(hot, read.state, block);
  if (hot.coveredFrom !== undefined) hot.coveredFrom = Math.max(hot.coveredFrom, block.number + 1);
}

/** What a node said of a pool. */
interface PoolAt {
  readonly pool: Pool;
  readonly state: Observation | undefined;
}

/** Forgets what was before a reading. */
export function resetTo(hot: HotPool, observation: Observation | undefined, block: HeaderRef): void {
  const { number, hash, timestamp } = block;
  hot.base = { number, hash, timestamp };
  hot.timeline = observation === undefined ? [] : [observation];
}

/** Adds states and drops those that no average reaches any more. `now`: Unix seconds. */
export function extend(hot: HotPool, observations: readonly Observation[], now: number): void {
  for (const observation of observations) {
    const isNewest = observation.block > (hot.timeline.at(-1)?.block ?? -1);
    if (isNewest) hot.timeline.push(observation);
    else hot.timeline = insertByBlock(hot.timeline, observation);
  }
  const { timeline } = hot;
  let drop = Math.max(0, timeline.length - MAX_TIMELINE);
  while (drop + 1 < timeline.length && timeline[drop + 1]!.timestamp < now - KEEP_SECONDS) drop++;
  if (drop === 0) return;
  timeline.splice(0, drop);
  const { block: number, blockHash: hash, timestamp } = timeline[0]!;
  if (hot.base !== undefined && number > hot.base.number) hot.base = { number, hash, timestamp };
}

/** Takes back what a pool learnt above a block; true when there was something. */
export function revertPool(hot: HotPool, ancestor: number): boolean {
  const before = hot.timeline.length;
  hot.timeline = hot.timeline.filter((observation) => observation.block <= ancestor);
  const isLost = hot.base !== undefined && hot.base.number > ancestor;
  if (isLost) hot.base = undefined;
  if (hot.coveredFrom !== undefined && hot.coveredFrom > ancestor + 1) hot.coveredFrom = undefined;
  return isLost || hot.timeline.length < before;
}

/** Takes back what a book learnt above a block. */
export function revertBook(book: TokenBook, ancestor: number): void {
  for (const hot of book.pools.values()) revertPool(hot, ancestor);
  if (book.heldFrom !== undefined && book.heldFrom > ancestor + 1) book.heldFrom = undefined;
  if (book.discoveredAt !== undefined && book.discoveredAt > ancestor) book.discoveredAt = undefined;
}

/** Nobody follows the book's pools any more, and what the log vouched for counts no longer. */
export function uncover(book: TokenBook): void {
  book.heldFrom = undefined;
  for (const hot of book.pools.values()) {
    hot.coveredFrom = undefined;
    if (hot.base?.hash === undefined) hot.base = undefined;
  }
}

/** The first block from which everything of the book is followed; undefined when something is not. */
export function followedFrom(book: TokenBook): number | undefined {
  let from = book.heldFrom;
  if (from === undefined) return undefined;
  for (const hot of book.pools.values()) {
    if (!isUnbroken(hot)) return undefined;
    from = Math.max(from, hot.coveredFrom!);
  }
  return from;
}
