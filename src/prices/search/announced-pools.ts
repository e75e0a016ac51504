/**
 * Pools of a token that only Uniswap v4's announcements tell: with hooks, or at unusual fees. They price a token that has
 * no other pool, and only once all announcements of its life were read, so that a price stays a function of the chain.
 */
import { LRUCache } from "lru-cache";
import type { Chain } from "../../chains/chains.ts";
import { isReference } from "../../chains/tokens.ts";
import type { Clock } from "../../core/clock.ts";
import { Refusal } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import { FairSlots, type Requester, type Shares } from "../../core/work.ts";
import type { BlockRef } from "../../events/types.ts";
import type { ChainLog, ChainReader } from "../../rpc/port.ts";
import { otherToken, type Pool } from "../market/pools.ts";
import type { Venue } from "../styles/style.ts";
import { announcedPool, announcementsOf, V4 } from "../styles/v4.ts";
import { MAX_LOG_REQUESTS, undefinedIfTooManyLogs } from "./history.ts";

/** Parts in which a search goes through a chain that can't be read at once, so that a client is told how far it is. */
const PARTS = 8;
/** Requests of the attempt to read the whole chain at once. */
const AT_ONCE = 2;
/** Most pools of a token that are read, the oldest first: an announcement costs next to nothing. */
const MAX_POOLS = 256;
/** Tokens whose searches are remembered. */
const MAX_TOKENS = 2_000;
/** Searches at once, each with a request at a time. */
const SHARES: Shares = { places: 4, perKey: 2, forOperators: 1 };
const MAX_WAITING = 64;
/** Seconds. */
const RETRY_AFTER = 2;
/** A question waits so long, in ms, before it is told to come again: most nodes answer a search in less. */
const PATIENCE_MS = 2_000;

/** A search of one token: up to a final block, from which on the rest is read for each question. */
interface Search {
  /** Parts of the chain that were read. */
  done: number;
  through: number;
  pools: readonly Pool[];
  state: "running" | "complete" | "too long";
  readonly to: number;
  /** What was announced after `through`, up to a block that may leave the chain. */
  tail?: Tail;
  /** The read of a tail that is under way. */
  reading?: Promise<boolean>;
  /** Resolves when it is no longer running. Never rejects. */
  ended: Promise<void>;
}

interface Tail {
  readonly at: BlockRef;
  readonly found: readonly Found[];
}

interface AnnouncedOptions {
  readonly chain: Chain;
  readonly clock: Clock;
  readonly reader: ChainReader;
  /** Those of Uniswap v4 that rank on this chain. */
  readonly venues: readonly Venue[];
  /** The newest block that is shown. */
  readonly head: () => BlockRef | undefined;
  readonly isCanonical: (block: BlockRef) => boolean;
  /** True if it is known that no such pool of a token was announced after one block up to another. */
  readonly announcesNone: (token: Address, after: number, block: number) => boolean;
}

export class AnnouncedPools {
  readonly #options: AnnouncedOptions;
  readonly #searches = new LRUCache<Address, Search>({ max: MAX_TOKENS });
  readonly #slots: FairSlots;

  constructor(options: AnnouncedOptions) {
    this.#options = options;
    const work = `searches for pools on ${options.chain.name}`;
    this.#slots = new FairSlots({ ...SHARES, maxWaiting: MAX_WAITING, retryAfter: RETRY_AFTER, work });
  }

  /** True if an exchange with such pools may be used. */
  mayHelp(accepts: (venue: Venue) => boolean): boolean {
    return this.#options.venues.some(accepts);
  }

  /**
   * Returns the token's announced pools up to a block; undefined if they can't all be found. Starts the search, and waits
   * a moment for it; it goes on without its client.
   * @param finalized the newest final block, at least by its depth: the search goes so far, and once
   * @throws Refusal `searching` until it is complete
   */
  async poolsOf(
    token: Address,
    block: BlockRef,
    finalized: number,
    requester: Requester,
  ): Promise<readonly Pool[] | undefined> {
    const search =
      this.#searches.get(token) ?? this.#begin(token, Math.min(block.number, Math.max(0, finalized)), requester);
    if (search.state === "running") await Promise.race([search.ended, this.#options.clock.sleep(PATIENCE_MS)]);
    if (search.state === "too long") return undefined;
    if (search.state === "running") {
      const percent = Math.floor((search.done / PARTS) * 100);
      throw new Refusal("searching", `pools of this token are being searched for: ${percent} % of the chain is read`, {
        details: { percent, toBlock: search.to },
        retryAfter: RETRY_AFTER,
      });
    }
    if (block.number <= search.through) return search.pools;
    if (this.#covers(token, search, block.number)) {
      const { at = { number: search.through }, found = [] } = search.tail ?? {};
      // The chain's pool lists may forget what they know of older blocks.
      if (block.number > at.number) search.tail = { at: { number: block.number, hash: block.hash }, found };
      return merged(search.pools, found);
    }
    search.reading ??= this.#readTail(token, search, block).finally(() => {
      delete search.reading;
    });
    return (await search.reading) ? this.poolsOf(token, block, finalized, requester) : undefined;
  }

  /** Returns false if it takes too many requests. */
  async #readTail(token: Address, search: Search, block: BlockRef): Promise<boolean> {
    // Up to the head, for the questions about other blocks. A pool that came after this block has no state at it.
    const head = this.#options.head();
    const at = head !== undefined && head.number > block.number ? head : block;
    const read = this.#read(token, search.through + 1, at.number, { left: MAX_LOG_REQUESTS });
    const found = await undefinedIfTooManyLogs(read);
    if (found !== undefined) search.tail = { at: { number: at.number, hash: at.hash }, found };
    return found !== undefined;
  }

  /** True if a search with its tail holds what is announced up to a block. */
  #covers(token: Address, { through, tail }: Search, block: number): boolean {
    const { isCanonical, announcesNone } = this.#options;
    if (tail !== undefined && !isCanonical(tail.at)) return false;
    const to = tail?.at.number ?? through;
    return block <= to || announcesNone(token, to, block);
  }

  #begin(token: Address, to: number, requester: Requester): Search {
    const search: Search = { done: 0, through: -1, pools: [], state: "running", to, ended: Promise.resolve() };
    this.#searches.set(token, search);
    search.ended = this.#slots
      .run(requester, () => this.#search(token, search))
      .catch(() => {
        // The next question starts again.
        if (this.#searches.get(token) === search) this.#searches.delete(token);
      });
    return search;
  }

  async #search(token: Address, search: Search): Promise<void> {
    const { venues } = this.#options;
    const atOnce = this.#read(token, 0, search.to, { left: AT_ONCE * venues.length });
    const found = (await undefinedIfTooManyLogs(atOnce)) ?? (await this.#inParts(token, search));
    if (found === undefined) {
      search.state = "too long";
      return;
    }
    search.pools = merged([], found);
    search.through = search.to;
    search.state = "complete";
  }

  /** Undefined if it takes too many requests. */
  async #inParts(token: Address, search: Search): Promise<readonly Found[] | undefined> {
    const requests = { left: MAX_LOG_REQUESTS };
    const size = Math.ceil((search.to + 1) / PARTS);
    const found: Found[] = [];
    for (let from = 0; from <= search.to; from += size) {
      const to = Math.min(search.to, from + size - 1);
      const more = await undefinedIfTooManyLogs(this.#read(token, from, to, requests));
      if (more === undefined) return undefined;
      found.push(...more);
      search.done++;
    }
    return found;
  }

  /** The pools that a range of blocks announces for a token, in chain order. @throws AppError `too_many_logs` */
  async #read(token: Address, fromBlock: number, toBlock: number, requests: { left: number }): Promise<Found[]> {
    const { reader, venues, chain } = this.#options;
    const found: Found[] = [];
    for (const venue of venues) {
      const filter = { addresses: [venue.factory], topics: [V4.created.topic], fromBlock, toBlock, requests };
      const logs: ChainLog[] = [];
      for (const moreTopics of announcementsOf(token)) logs.push(...(await reader.logs({ ...filter, moreTopics })));
      for (const log of logs.sort((a, b) => a.blockNumber - b.blockNumber || a.logIndex - b.logIndex)) {
        const pool = V4.created.isFound?.(log) === true ? undefined : announcedPool(venue, log);
        if (pool !== undefined && isReference(chain, otherToken(pool, token)))
          found.push({ pool, block: log.blockNumber });
      }
    }
    return found;
  }
}

interface Found {
  readonly pool: Pool;
  readonly block: number;
}

const merged = (known: readonly Pool[], found: readonly Found[]): readonly Pool[] =>
  [...new Map([...known, ...found.map(({ pool }) => pool)].map((pool) => [pool.id, pool])).values()].slice(
    0,
    MAX_POOLS,
  );
