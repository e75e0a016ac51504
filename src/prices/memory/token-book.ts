/**
 * The tokens held in memory: facts, pools, and each pool's states back to the start of the average's window. Decides
 * if a pool's state is current at a followed head: it was known at some block, and every block since then came
 * through the follower of this process or of the process that writes the log. Makes no requests.
 */
import { LRUCache } from "lru-cache";
import type { AdvancedBlocks, ChainView } from "../../chain/consumer.ts";
import type { Clock } from "../../core/clock.ts";
import type { Address, Hash } from "../../core/hex.ts";
import { type HeaderRef, priceStream, type StreamName } from "../../events/types.ts";
import type { ChainLog } from "../../rpc/port.ts";
import { isBlind, type Observation, type Pool } from "../market/pools.ts";
import { TWAP_WINDOW } from "../market/quality.ts";
import type { TokenFacts } from "../search/discovery.ts";
import { applyLog } from "../search/exchange-events.ts";
import { insertByBlock } from "./projection.ts";

/** The current session guarantees that the log's list of the book's pools is complete. Below any block number. */
export const LISTED = -1;
/** The follower may use the log's list of the book's pools. Before a price comes from it, the factories are asked. */
export const UNLISTED = -2;

/** A block; the pool's state at its end is known. */
export interface Base {
  readonly number: number;
  /** Undefined when only the log gives the number. The stream's own revert events then invalidate it. */
  readonly hash: Hash | undefined;
  /** Unix seconds; infinite when only the number is known. */
  readonly timestamp: number;
}

export interface HotPool {
  pool: Pool;
  /** Ascending by block, one per block. */
  timeline: Observation[];
  /** `timeline` is complete from the end of this block on; undefined when the pool must be read (again). */
  base: Base | undefined;
  /** First block from which on all of the pool's events came through the follower without a gap. */
  coveredFrom: number | undefined;
}

export interface TokenBook {
  readonly address: Address;
  readonly stream: StreamName;
  /** Facts of the book's own token. The reference book has those of every reference token. */
  facts: ReadonlyMap<Address, TokenFacts>;
  readonly pools: Map<Address, HotPool>;
  /** The block at which the factories were asked, `LISTED` or `UNLISTED`; undefined when they must be asked (again). */
  discoveredBlock: number | undefined;
  /** First block from which on all pool creations for this book came through the follower without a gap. */
  heldFrom: number | undefined;
  /** `Clock.monotonic` of the last request to the factories. */
  lastDiscoveryMs: number;
  /** `Clock.monotonic` of the last price request. */
  lastRequestMs: number;
}

export interface BookLimits {
  readonly bytes: number;
  /**
   * Most pools that each poll asks for logs of; a provider's filter holds some thousand addresses. A token without a
   * pool counts as one.
   */
  readonly pools: number;
  /** A token without a request for this long is evicted, in ms. */
  readonly idleMs: number;
}

/** Rough heap cost: a pool with its maps, and one observation with two bigints and two hashes. */
const POOL_BYTES = 1_024;
const OBSERVATION_BYTES = 512;
/** States that are older than the window by this margin are dropped, in seconds. */
const KEEP_SECONDS = TWAP_WINDOW + 300;
/** States of one pool in memory: half an hour of half-second blocks is 3,600. */
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
        // The follower ignores an evicted book. A caller that still holds it must read its pools again.
        markNotFollowed(book);
        book.discoveredBlock = undefined;
        options.onDrop(book);
      },
    });
  }

  get(address: Address): TokenBook | undefined {
    return this.#tokens.get(address);
  }

  /** Returns the book of a stream without marking it as recently used. */
  peek(stream: StreamName): TokenBook | undefined {
    if (stream === this.reference.stream) return this.reference;
    return this.#tokens.peek(stream.slice(stream.lastIndexOf("/") + 1) as Address);
  }

  put(book: TokenBook): void {
    this.#tokens.set(book.address, book);
  }

  /** Yields every book, the reference book first. */
  *all(): Generator<TokenBook> {
    yield this.reference;
    yield* this.#tokens.values();
  }

  /** Evicts idle tokens, and the least recently used ones beyond the bounds. */
  prune(): void {
    const now = this.#clock.monotonic();
    const { idleMs, bytes: maxBytes, pools: maxPools } = this.#limits;
    let pools = this.reference.pools.size;
    let bytes = bytesOf(this.reference);
    for (const [address, book] of [...this.#tokens.entries()]) {
      // Books grow while they are held, so their size is computed again.
      const size = bytesOf(book);
      // A book without a pool costs time at each block, too.
      const places = Math.max(1, book.pools.size);
      const fits = pools + places <= maxPools && bytes + size <= maxBytes;
      if (!fits || now - book.lastRequestMs > idleMs) {
        this.#tokens.delete(address);
        continue;
      }
      pools += places;
      bytes += size;
    }
  }

  /** True if there was no price request lately. The follower then follows no pools. */
  get idle(): boolean {
    const quiet = this.#clock.monotonic() - this.reference.lastRequestMs > this.#limits.idleMs;
    return this.reference.discoveredBlock === undefined || quiet;
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

/** A book without facts and pools. */
export const emptyBook = (chainId: number, token: Address): TokenBook => ({
  address: token,
  stream: priceStream(chainId, token),
  facts: new Map(),
  pools: new Map(),
  discoveredBlock: undefined,
  heldFrom: undefined,
  lastDiscoveryMs: Number.NEGATIVE_INFINITY,
  lastRequestMs: Number.NEGATIVE_INFINITY,
});

/** True if all events since the base came through without a gap. */
const isUnbroken = ({ base, coveredFrom }: HotPool): boolean =>
  base !== undefined && coveredFrom !== undefined && coveredFrom <= base.number + 1;

/** True if the pool's state at `head` is certain, and its depth is capped by a known balance. */
export function isCurrent(hot: HotPool, head: HeaderRef, view: ChainView): boolean {
  if (!isUnbroken(hot) || hot.base!.number > head.number || !isStanding(hot, view)) return false;
  const state = stateAt(hot, head.number, view);
  // Logs of earlier releases can hold blind states.
  return state === undefined || !isBlind(state);
}

/** True if the base's block is still on the chain. */
export function isStanding({ base }: HotPool, view: ChainView): boolean {
  return base === undefined || base.hash === undefined || isOn(view, base.number, base.hash);
}

/** False if the followed chain has another block at that number. */
function isOn(view: ChainView, number: number, hash: Hash): boolean {
  const header = view.header(number);
  return header === undefined ? view.isCanonical({ number, hash }) : header.hash === hash;
}

/** Returns the pool's state at the end of a block. */
export const stateAt = (hot: HotPool, block: number, view: ChainView): Observation | undefined =>
  hot.timeline.findLast((state) => state.block <= block && isOn(view, state.block, state.blockHash));

/** Returns the pool's states up to the end of a block. */
export const statesUpTo = (hot: HotPool, block: number, view: ChainView): Observation[] =>
  hot.timeline.filter((state) => state.block <= block && isOn(view, state.block, state.blockHash));

/** True if the pool's states are complete from a moment (Unix seconds) on. */
export const reachesBack = (hot: HotPool, timestamp: number): boolean =>
  isUnbroken(hot) && hot.base!.timestamp <= timestamp;

/** Applies a node's read of a pool at the end of a block. Keeps the followed states if they are still unbroken. */
export function rebase(hot: HotPool, read: PoolAt, block: HeaderRef, view: ChainView): void {
  hot.pool = read.pool;
  if (isUnbroken(hot) && hot.base!.number <= block.number && isStanding(hot, view)) {
    // The read is still true for its block. If it reached the log first, the journal will not append it again.
    const isHeld = hot.timeline.some((state) => state.blockHash === block.hash && !isBlind(state));
    if (read.state !== undefined && !isHeld) extend(hot, [read.state], block.timestamp);
    return;
  }
  resetTo(hot, read.state, block);
  if (hot.coveredFrom !== undefined) hot.coveredFrom = Math.max(hot.coveredFrom, block.number + 1);
}

/** A pool and its state, as a node returned them. */
interface PoolAt {
  readonly pool: Pool;
  readonly state: Observation | undefined;
}

/** Replaces a pool's states by one read. */
export function resetTo(hot: HotPool, observation: Observation | undefined, block: HeaderRef): void {
  const { number, hash, timestamp } = block;
  hot.base = { number, hash, timestamp };
  hot.timeline = observation === undefined ? [] : [observation];
}

/** Adds states and drops those that are too old for any average. `now`: Unix seconds. */
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

/** Reverts a pool to the block `ancestor`. Returns true if it had anything above. */
export function revertPool(hot: HotPool, ancestor: number): boolean {
  const before = hot.timeline.length;
  hot.timeline = hot.timeline.filter((observation) => observation.block <= ancestor);
  const isLost = hot.base !== undefined && hot.base.number > ancestor;
  if (isLost) hot.base = undefined;
  if (hot.coveredFrom !== undefined && hot.coveredFrom > ancestor + 1) hot.coveredFrom = undefined;
  return isLost || hot.timeline.length < before;
}

/** Reverts a book to the block `ancestor`. */
export function revertBook(book: TokenBook, ancestor: number): void {
  for (const hot of book.pools.values()) revertPool(hot, ancestor);
  if (book.heldFrom !== undefined && book.heldFrom > ancestor + 1) book.heldFrom = undefined;
  if (book.discoveredBlock !== undefined && book.discoveredBlock > ancestor) book.discoveredBlock = undefined;
}

/** Marks the book's pools as not followed, and drops bases that only the log gave. */
export function markNotFollowed(book: TokenBook): void {
  book.heldFrom = undefined;
  for (const hot of book.pools.values()) {
    hot.coveredFrom = undefined;
    if (hot.base?.hash === undefined) hot.base = undefined;
  }
}

/** Returns the first block from which the whole book is followed; undefined when part of it is not. */
export function followedFrom(book: TokenBook): number | undefined {
  let from = book.heldFrom;
  if (from === undefined) return undefined;
  for (const hot of book.pools.values()) {
    if (!isUnbroken(hot)) return undefined;
    from = Math.max(from, hot.coveredFrom!);
  }
  return from;
}

/**
 * Returns the states that a batch's logs lead to. Up to the block before the batch, or to the pool's base if that is
 * later, the pool's timeline is authoritative. Later entries in it were read by another process and are ignored.
 * `timestamps`: Unix seconds by block. A state in a block without one is only an intermediate step; the batch's last
 * block always has one.
 */
export function replay(
  hot: HotPool,
  { fromBlock }: AdvancedBlocks,
  logs: readonly ChainLog[],
  timestamps: ReadonlyMap<number, number>,
  view: ChainView,
): Observation[] {
  const known = Math.max(fromBlock - 1, hot.base?.number ?? -1);
  const states: Observation[] = [];
  let last = stateAt(hot, known, view);
  for (const log of logs) {
    if (log.blockNumber <= known) continue;
    const timestamp = timestamps.get(log.blockNumber);
    const next = applyLog(last, log, timestamp ?? last?.timestamp ?? 0);
    if (next === undefined || next === last) continue;
    if (states.at(-1)?.block === next.block) states.pop();
    if (timestamp !== undefined) states.push(next);
    last = next;
  }
  return states;
}
