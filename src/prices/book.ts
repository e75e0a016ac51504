/**
 * What memory holds of the tokens that are asked about: their words, their pools, and each pool's states back to the
 * beginning of the average's window. Says whether a pool's state is the truth at a followed head: it was read from the
 * node at some block, and every block since has been through the follower.
 */
import { LRUCache } from "lru-cache";
import type { Clock } from "../core/clock.ts";
import type { Address, Hash } from "../core/hex.ts";
import { type BlockRef, type HeaderRef, priceStream, type StreamName } from "../events/types.ts";
import type { ChainView } from "../indexer/consumer.ts";
import type { TokenFacts } from "./discovery.ts";
import type { Observation, Pool } from "./pools.ts";
import { TWAP_WINDOW } from "./quality.ts";

export interface HotPool {
  pool: Pool;
  /** Ascending by block, one per block. */
  timeline: Observation[];
  /** The block from whose end on `timeline` is complete; undefined when the pool must be read (again). */
  base: BlockRef | undefined;
  /** First block whose events have come through the follower without a gap since. */
  coveredFrom: number | undefined;
  /** Events up to this block are in `timeline`. */
  appliedTo: number;
}

export interface TokenBook {
  readonly address: Address;
  readonly stream: StreamName;
  /** Words of the book's own token; the reference book has those of every reference token. */
  facts: ReadonlyMap<Address, TokenFacts>;
  readonly pools: Map<Address, HotPool>;
  /** Books of tokens this one has a pool with and may be priced through, though they are no reference tokens. */
  via: readonly TokenBook[];
  /** The block the factories were asked at; undefined when they must be asked (again). */
  discoveredAt: BlockRef | undefined;
  /** `Clock.monotonic` of the last question to the factories. */
  discoveredMs: number;
  /** `Clock.monotonic` of the last request. */
  askedMs: number;
}

export interface BookLimits {
  readonly bytes: number;
  /** Pools whose logs are asked for at each poll; a provider's filter holds some thousands of addresses. */
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
        for (const hot of book.pools.values()) {
          hot.base = undefined;
          hot.coveredFrom = undefined;
        }
        book.discoveredAt = undefined;
        options.onDrop(book);
      },
    });
  }

  get(address: Address): TokenBook | undefined {
    return this.#tokens.get(address);
  }

  put(book: TokenBook): void {
    this.#tokens.set(book.address, book);
  }

  /** Tokens in memory, the last asked for first. */
  tokens(): Address[] {
    return [...this.#tokens.keys()];
  }

  /** Every book, the reference first. */
  *all(): Generator<TokenBook> {
    yield this.reference;
    yield* this.#tokens.values();
  }

  /** Lets go of what nobody asked about, and of the least recently asked beyond the bound on pools. */
  prune(): void {
    const now = this.#clock.monotonic();
    let pools = this.reference.pools.size;
    for (const [address, book] of [...this.#tokens.entries()]) {
      pools += book.pools.size;
      const idle = now - book.askedMs > this.#limits.idleMs;
      if (idle || pools > this.#limits.pools) {
        pools -= book.pools.size;
        this.#tokens.delete(address);
      }
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
  appliedTo: -1,
});

/** A book nobody has written in. */
export const emptyBook = (chainId: number, token: Address): TokenBook => ({
  address: token,
  stream: priceStream(chainId, token),
  facts: new Map(),
  pools: new Map(),
  via: [],
  discoveredAt: undefined,
  discoveredMs: Number.NEGATIVE_INFINITY,
  askedMs: Number.NEGATIVE_INFINITY,
});

/** Whether the pool's state at `head` is known for certain. */
export function isCurrent(hot: HotPool, head: HeaderRef, view: ChainView): boolean {
  const { base, coveredFrom } = hot;
  if (base === undefined || coveredFrom === undefined) return false;
  if (base.number > head.number || coveredFrom > base.number + 1) return false;
  return sameBlock(view, base);
}

/** Whether what the follower holds contradicts a block that was read from the node. */
function sameBlock(view: ChainView, block: BlockRef): boolean {
  const header = view.header(block.number);
  return header === undefined ? view.isCanonical(block) : header.hash === block.hash;
}

/** The pool's state at the end of a block. */
export const stateAt = (hot: HotPool, block: number): Observation | undefined =>
  hot.timeline.findLast((observation) => observation.block <= block);

/** Sets what the node said of a pool at the end of a block, unless what the follower made of it is still good. */
export function rebase(hot: HotPool, pool: Pool, observation: Observation | undefined, block: BlockRef): void {
  hot.pool = pool;
  const unbroken = hot.base !== undefined && hot.coveredFrom !== undefined && hot.coveredFrom <= hot.base.number + 1;
  if (unbroken && hot.base!.number <= block.number) return;
  // Events that came before this reading were folded into what is now thrown away.
  if (hot.coveredFrom !== undefined) hot.coveredFrom = Math.max(hot.coveredFrom, hot.appliedTo + 1);
  hot.base = { number: block.number, hash: block.hash };
  hot.timeline = observation === undefined ? [] : [observation];
  hot.appliedTo = block.number;
}

/** Adds states in block order and drops those that no average reaches any more. */
export function extend(hot: HotPool, observations: readonly Observation[], now: number): void {
  for (const observation of observations) {
    if (hot.timeline.at(-1)?.block === observation.block) hot.timeline.pop();
    hot.timeline.push(observation);
  }
  const { timeline } = hot;
  let drop = Math.max(0, timeline.length - MAX_TIMELINE);
  while (drop + 1 < timeline.length && timeline[drop + 1]!.timestamp < now - KEEP_SECONDS) drop++;
  if (drop === 0) return;
  timeline.splice(0, drop);
  const first = timeline[0]!;
  hot.base = { number: first.block, hash: first.blockHash as Hash };
}
