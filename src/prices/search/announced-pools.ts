/**
 * Pools of a token that only Uniswap v4's announcements tell: with hooks, or at unusual fees. They price a token that has
 * no other pool, and only once all announcements of its life were read, so that a price stays a function of the chain.
 */
import { LRUCache } from "lru-cache";
import type { Chain } from "../../chains/chains.ts";
import { isReference } from "../../chains/tokens.ts";
import { AppError, Refusal } from "../../core/errors.ts";
import { FairSlots, type Requester, type Shares } from "../../core/fair-slots.ts";
import type { Address } from "../../core/hex.ts";
import type { ChainLog, ChainReader } from "../../rpc/port.ts";
import { otherToken, type Pool } from "../market/pools.ts";
import type { Venue } from "../styles/style.ts";
import { announcedPool, announcementsOf, V4 } from "../styles/v4.ts";

/** Parts in which a search goes through the chain, so that a client can be told how far it is. */
const PARTS = 4;
/** Most requests for logs of one search. */
const MAX_REQUESTS = 64;
/** Most pools of a token that are read, the oldest first: an announcement costs next to nothing. */
const MAX_POOLS = 256;
/** Tokens whose searches are remembered. */
const MAX_TOKENS = 2_000;
/** Searches at once, each with a request at a time. */
const SHARES: Shares = { places: 4, perKey: 2, forOperators: 1 };
const MAX_WAITING = 64;
/** Seconds. */
const RETRY_AFTER = 2;

/** A search of one token: up to a final block, from which on the rest is read for each question. */
interface Search {
  /** Parts of the chain that were read. */
  done: number;
  through: number;
  pools: readonly Pool[];
  state: "running" | "complete" | "too long";
  /** The range that was searched in vain if it is too long. */
  readonly to: number;
}

interface AnnouncedOptions {
  readonly chain: Chain;
  readonly reader: ChainReader;
  /** Those of Uniswap v4 that rank on this chain. */
  readonly venues: readonly Venue[];
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
   * Returns the token's announced pools up to a block; undefined if they can't all be found. Starts the search, which
   * goes on without its client.
   * @throws Refusal `searching` until it is complete, `rate_limited` beyond the key's share
   */
  async poolsOf(
    token: Address,
    block: number,
    finalized: number,
    requester: Requester,
  ): Promise<readonly Pool[] | undefined> {
    const search = this.#searches.get(token) ?? this.#begin(token, Math.min(block, Math.max(0, finalized)), requester);
    if (search.state === "too long") return undefined;
    if (search.state === "running") {
      const percent = Math.floor((search.done / PARTS) * 100);
      throw new Refusal("searching", `pools of this token are being searched for: ${percent} % of the chain is read`, {
        details: { percent, toBlock: search.to },
        retryAfter: RETRY_AFTER,
      });
    }
    if (block <= search.through) return search.pools;
    const newest = await this.#read(token, search.through + 1, block, { left: MAX_REQUESTS });
    const pools = merged(search.pools, newest);
    // The search is remembered up to final blocks only.
    if (finalized > search.through && finalized <= block) {
      search.pools = merged(
        search.pools,
        newest.filter(({ block: at }) => at <= finalized),
      );
      search.through = finalized;
    }
    return pools;
  }

  #begin(token: Address, to: number, requester: Requester): Search {
    const search: Search = { done: 0, through: -1, pools: [], state: "running", to };
    this.#searches.set(token, search);
    this.#slots
      .run(requester, () => this.#search(token, search))
      .catch(() => {
        // The next question starts again.
        if (this.#searches.get(token) === search) this.#searches.delete(token);
      });
    return search;
  }

  async #search(token: Address, search: Search): Promise<void> {
    const requests = { left: MAX_REQUESTS };
    const size = Math.ceil((search.to + 1) / PARTS);
    let found: readonly Found[] = [];
    try {
      for (; search.done < PARTS; search.done++) {
        const from = search.done * size;
        const to = Math.min(search.to, from + size - 1);
        if (from <= to) found = [...found, ...(await this.#read(token, from, to, requests))];
      }
    } catch (error) {
      if (!(error instanceof AppError && error.code === "too_many_logs")) throw error;
      search.state = "too long";
      return;
    }
    search.pools = merged([], found);
    search.through = search.to;
    search.state = "complete";
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
