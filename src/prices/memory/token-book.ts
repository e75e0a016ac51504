/**
 * The tokens held in memory: facts, pools, where each list of pools is from, and from which block on it is followed.
 * Evicts idle tokens, and the least recently used ones beyond the bounds. Makes no requests.
 */
import { LRUCache } from "lru-cache";
import type { Clock } from "../../core/clock.ts";
import type { Address } from "../../core/hex.ts";
import { priceStream, type StreamName } from "../../events/types.ts";
import type { TokenFacts } from "../search/discovery.ts";
import { type HotPool, revertPool, unfollowPool } from "./pool-truth.ts";

/**
 * Where a book's list of pools is from:
 * - `unknown`: the factories must be asked (again).
 * - `logged`: from the log. The follower may use it; a price may use it only while `isComplete`, which means that the
 *   current session guarantees that no pool is missing.
 * - `asked`: from the factories, at the end of `block`.
 */
type PoolList =
  | { readonly kind: "unknown" }
  | { readonly kind: "logged"; readonly isComplete: boolean }
  | { readonly kind: "asked"; readonly block: number };

/** The factories must be asked for the book's pools before the next price. */
export const UNLISTED: PoolList = { kind: "unknown" };

export interface TokenBook {
  readonly address: Address;
  readonly stream: StreamName;
  /** Facts of the book's own token. The reference book has those of every reference token. */
  facts: ReadonlyMap<Address, TokenFacts>;
  readonly pools: Map<Address, HotPool>;
  list: PoolList;
  /** First block from which on all pool creations for this book came through the follower; undefined: not followed. */
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
        unfollow(book);
        book.list = UNLISTED;
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
    return this.reference.list.kind === "unknown" || quiet;
  }
}

function bytesOf(book: TokenBook): number {
  let bytes = POOL_BYTES;
  for (const { timeline } of book.pools.values()) bytes += POOL_BYTES + timeline.length * OBSERVATION_BYTES;
  return bytes;
}

export const emptyBook = (chainId: number, token: Address): TokenBook => ({
  address: token,
  stream: priceStream(chainId, token),
  facts: new Map(),
  pools: new Map(),
  list: UNLISTED,
  heldFrom: undefined,
  lastDiscoveryMs: Number.NEGATIVE_INFINITY,
  lastRequestMs: Number.NEGATIVE_INFINITY,
});

/** Reverts a book to the block `ancestor`. */
export function revertBook(book: TokenBook, ancestor: number): void {
  revertPools(book, ancestor);
  if (book.heldFrom !== undefined && book.heldFrom > ancestor + 1) book.heldFrom = undefined;
  if (book.list.kind === "asked" && book.list.block > ancestor) book.list = UNLISTED;
}

export function revertPools(book: TokenBook, ancestor: number): void {
  for (const hot of book.pools.values()) revertPool(hot, ancestor);
}

/** Marks a book as not followed, with all its pools. */
export function unfollow(book: TokenBook): void {
  book.heldFrom = undefined;
  for (const hot of book.pools.values()) unfollowPool(hot);
}

/** Returns the first block from which the whole book is followed; undefined when part of it is not. */
export function followedFrom({ heldFrom, pools }: TokenBook): number | undefined {
  let from = heldFrom;
  if (from === undefined) return undefined;
  for (const { truth } of pools.values()) {
    if (truth.kind !== "followed") return undefined;
    from = Math.max(from, truth.from);
  }
  return from;
}
