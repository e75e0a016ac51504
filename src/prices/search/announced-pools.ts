/**
 * Pools of a token that only Uniswap v4's announcements tell: with hooks, or at unusual fees. They price a token that has
 * no other pool, and only once all announcements of its life were read, so that a price stays a function of the chain.
 */
import type { Chain } from "../../chains/chains.ts";
import { isReference } from "../../chains/tokens.ts";
import { Budget } from "../../core/budget.ts";
import type { Clock } from "../../core/clock.ts";
import { isAbort, Refusal } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import { OwnedCache } from "../../core/owned-cache.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import { FairSlots, type Requester, type Shares, SingleFlight } from "../../core/work.ts";
import type { BlockRange, BlockRef } from "../../events/types.ts";
import type { ChainLog, ChainReader } from "../../rpc/port.ts";
import { otherToken, type Pool } from "../market/pools.ts";
import { needsTrade } from "../styles/hook-trades.ts";
import type { Venue } from "../styles/style.ts";
import { announcedPool, announcementsOf, V4 } from "../styles/v4.ts";
import { ArchiveWords } from "./archive-words.ts";
import { Gathering } from "./merged-reads.ts";
import { MAX_LOG_REQUESTS, undefinedIfUnreadable } from "./past-source.ts";

/** Parts in which a search begins to go through a chain that can't be read at once. What a part has found is kept. */
const PARTS = 8;
/** Requests of the attempt to read the whole chain at once. */
const AT_ONCE = 2;
/** Most pools of a token that are read, the oldest first: an announcement costs next to nothing. */
const MAX_POOLS = 256;
/** Those among them that trades try: seven in a call of the node. */
const MAX_TRIED = 14;
/** Tokens whose searches are remembered. */
const MAX_TOKENS = 2_000;
/** Tokens of one search: a filter names all of them. */
const MAX_TOGETHER = 100;
/** Turns of the event loop in which a further token joins a search. */
const TURNS_TO_JOIN = 6;
/** Searches at once, each with a request at a time. */
const SHARES: Shares = { places: 4, perKey: 2, forOperators: 1 };
const MAX_WAITING = 64;
/** Seconds. */
const RETRY_AFTER = 2;
/** A question waits so long, in ms, before it is told to come again: most nodes answer a search in less. */
const PATIENCE_MS = 2_000;
/** An archive's word alone is asked for again after this time, in ms: a lie must not last until a restart. */
const ALONE_MS = 3_600_000;
/** Below the time after which a price is a 503. */
const MAX_PATIENCE_MS = 20_000;

/**
 * A search for tokens that were asked about in one turn, up to a final block, from which on the rest is read for each
 * question. It goes on while a question waits for it, and keeps what it has found for the next one.
 */
interface PoolSearch {
  readonly tokens: Address[];
  readonly to: number;
  readonly requests: { left: number };
  wasTriedAtOnce: boolean;
  /** The first block that was not read. */
  next: number;
  /** Blocks of the next part: about those of one request, once it is known how many these are. */
  size: number;
  found: readonly FoundPool[];
  state: "running" | "complete" | "too long";
  /** What archives told of it. No bloom shows in so many blocks what one of them leaves out. */
  readonly words: ArchiveWords;
  /** `Clock.monotonic` of its beginning. */
  readonly begunMs: number;
}

/** The pools of a token that were announced. */
export interface Announced {
  readonly pools: readonly Pool[];
  /** The archive that alone says that there are no others. Undefined if the node told it, or another archive as well. */
  readonly archive: string | undefined;
}

/** What is known of one token. */
interface KnownPools {
  readonly search: PoolSearch;
  /** What was announced after the search, up to a block that may leave the chain. */
  tail?: SearchTail;
}

interface SearchTail {
  readonly at: BlockRef;
  readonly found: readonly FoundPool[];
  readonly words: ArchiveWords;
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
  readonly #known = new OwnedCache<Address, KnownPools>(MAX_TOKENS);
  readonly #slots: FairSlots;
  readonly #searching = new SingleFlight<PoolSearch, void>();
  /** Searches that take in further tokens in this turn. */
  readonly #forming = new Map<string, PoolSearch>();
  readonly #readingTails = new SingleFlight<KnownPools, void>();
  /** Reads of tails that take in further tokens of their question in this turn. */
  readonly #tails = new Map<Budget | undefined, Map<string, Gathering<Address, Omit<SearchTail, "at">>>>();

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
   * Returns the token's announced pools up to a block; undefined if they can't all be found. Starts the search or goes on
   * with it, and waits a moment for it.
   * @param finalized the newest final block, at least by its depth: the search goes so far, and once
   * @throws Refusal `searching` until it is complete
   */
  async poolsOf(
    token: Address,
    block: BlockRef,
    finalized: number,
    requester: Requester,
  ): Promise<Announced | undefined> {
    const known = this.#lasting(token) ?? this.#begin(token, Math.min(block.number, Math.max(0, finalized)), requester);
    const { search } = known;
    if (search.state === "running") await this.#goOn(search, requester);
    if (search.state === "too long") return undefined;
    if (search.state === "running") {
      const percent = Math.floor((search.next / (search.to + 1)) * 100);
      throw new Refusal("searching", `pools of this token are being searched for: ${percent} % of the chain is read`, {
        details: { percent, toBlock: search.to },
        retryAfter: RETRY_AFTER,
      });
    }
    const pools = poolsIn(search.found, token);
    if (block.number <= search.to) return { pools: merged(this.#options.chain, pools), archive: search.words.label };
    if (!this.#covers(token, known, block.number)) {
      // Each question that waits for the read decides by its own budget whether it takes too many requests.
      const reading = this.#readingTails.run(known, () => this.#readTail(token, known, block, requester));
      const isRead = await undefinedIfUnreadable(reading.then(() => true));
      return isRead === true ? this.poolsOf(token, block, finalized, requester) : undefined;
    }
    const { at = { number: search.to }, found = [], words = new ArchiveWords() } = known.tail ?? {};
    // The chain's pool lists may forget what they know of older blocks.
    if (block.number > at.number) known.tail = { at: { number: block.number, hash: block.hash }, found, words };
    return {
      pools: merged(this.#options.chain, [...pools, ...poolsIn(found, token)]),
      archive: search.words.label ?? words.label,
    };
  }

  /** What is known of a token, unless an archive alone said so, long ago. */
  #lasting(token: Address): KnownPools | undefined {
    const known = this.#known.get(token);
    const isOld = known !== undefined && this.#options.clock.monotonic() - known.search.begunMs > ALONE_MS;
    const isAlone = known?.search.words.label !== undefined || known?.tail?.words.label !== undefined;
    return isOld && isAlone && known.search.state === "complete" ? undefined : known;
  }

  #begin(token: Address, to: number, requester: Requester): KnownPools {
    const name = `${requester.key} ${to}`;
    let search = this.#forming.get(name);
    if (search === undefined || search.tokens.length >= MAX_TOGETHER) {
      const requests = { left: MAX_LOG_REQUESTS };
      search = {
        tokens: [],
        to,
        requests,
        wasTriedAtOnce: false,
        next: 0,
        size: Math.ceil((to + 1) / PARTS),
        found: [],
        state: "running",
        words: new ArchiveWords(),
        begunMs: this.#options.clock.monotonic(),
      };
      // Those that never got a slot stay behind.
      if (this.#forming.size >= MAX_TOGETHER) this.#forming.clear();
      this.#forming.set(name, search);
    }
    search.tokens.push(token);
    const known: KnownPools = { search };
    this.#known.set(token, known, requester.key);
    return known;
  }

  /** Waits a moment for the search. It goes on as long as a question waits. Never rejects for what the search met. */
  async #goOn(search: PoolSearch, requester: Requester): Promise<void> {
    const { clock } = this.#options;
    const run = this.#searching.run(search, () => this.#slots.run(requester, () => this.#search(search)));
    // The next question goes on.
    const ended = run.catch((error: unknown) => {
      if (isAbort(error) && Budget.current?.signal?.aborted === true) throw error;
    });
    ended.catch(() => undefined);
    // At a slow node the wait lasts until a part was read: what was read of one is lost with the question.
    const from = search.next;
    let isOver = false;
    const over = ended.finally(() => {
      isOver = true;
    });
    over.catch(() => undefined);
    for (let waited = 0; waited < MAX_PATIENCE_MS && !isOver; waited += PATIENCE_MS) {
      await Promise.race([over, clock.sleep(PATIENCE_MS)]);
      if (search.next > from) return;
    }
  }

  async #search(search: PoolSearch): Promise<void> {
    // Tokens of one question are searched for together. Their prices are begun in slices.
    for (let before = 0; before < search.tokens.length; ) {
      before = search.tokens.length;
      for (let turn = 0; turn < TURNS_TO_JOIN; turn++) await yieldToEventLoop();
    }
    for (const [name, one] of this.#forming) if (one === search) this.#forming.delete(name);
    const { tokens, to } = search;
    if (!search.wasTriedAtOnce) {
      const requests = { left: AT_ONCE * this.#options.venues.length };
      const found = await undefinedIfUnreadable(
        this.#read(tokens, { fromBlock: 0, toBlock: to }, requests, search.words),
      );
      search.wasTriedAtOnce = true;
      if (found !== undefined) return complete(search, found);
    }
    while (search.next <= to) {
      const { next, size } = search;
      const before = search.requests.left;
      const last = Math.min(to, next + size - 1);
      // Of its own: what a question that ends within the part has asked for in vain, the search need not ask for again.
      const requests = { left: before };
      try {
        const found = await undefinedIfUnreadable(
          this.#read(tokens, { fromBlock: next, toBlock: last }, requests, search.words),
        );
        if (found === undefined) {
          // Else this question alone can't pay for more.
          if (requests.left <= 0) search.state = "too long";
          return;
        }
        search.requests.left = requests.left;
        search.found = [...search.found, ...found];
        search.next = last + 1;
      } finally {
        // A question may end within a part, and what it has found of it is lost. So a part is what one request reads.
        const taken = (before - requests.left) / (2 * this.#options.venues.length);
        search.size = Math.max(1, Math.ceil(size / Math.max(1, taken)));
      }
    }
    complete(search, search.found);
  }

  /** @throws AppError `too_many_logs`; OverBudget */
  async #readTail(token: Address, known: KnownPools, block: BlockRef, requester: Requester): Promise<void> {
    const { search } = known;
    // Up to the head, for the questions about other blocks. A pool that came after this block has no state at it.
    const head = this.#options.head();
    const at = head !== undefined && head.number > block.number ? head : block;
    const name = `${requester.key} ${search.to} ${at.hash}`;
    const question = Budget.current?.question;
    const ofQuestion = this.#tails.getOrInsertComputed(question, () => new Map());
    const range = { fromBlock: search.to + 1, toBlock: at.number };
    const gathering = ofQuestion.getOrInsertComputed(
      name,
      () =>
        new Gathering(String, async (tokens) => {
          ofQuestion.delete(name);
          if (ofQuestion.size === 0) this.#tails.delete(question);
          const words = new ArchiveWords();
          return { found: await this.#read(tokens, range, { left: MAX_LOG_REQUESTS }, words), words };
        }),
    );
    const { result } = await gathering.add([token]);
    known.tail = { at: { number: at.number, hash: at.hash }, ...result };
  }

  /** True if a search with its tail holds what is announced up to a block. */
  #covers(token: Address, { search, tail }: KnownPools, block: number): boolean {
    const { isCanonical, announcesNone } = this.#options;
    if (tail !== undefined && !isCanonical(tail.at)) return false;
    const to = tail?.at.number ?? search.to;
    return block <= to || announcesNone(token, to, block);
  }

  /** The pools that a range of blocks announces for tokens, in chain order. @throws AppError `too_many_logs` */
  async #read(
    tokens: readonly Address[],
    range: BlockRange,
    requests: { left: number },
    words: ArchiveWords,
  ): Promise<FoundPool[]> {
    const { reader, venues, chain } = this.#options;
    const found: FoundPool[] = [];
    for (const venue of venues) {
      const filter = { addresses: [venue.factory], topics: [V4.created.topic], ...range, requests };
      const logs = new Map<string, ChainLog>();
      for (const moreTopics of announcementsOf(tokens)) {
        for (const log of await reader.logs({ ...filter, moreTopics, onArchived: words.note })) {
          logs.set(`${log.blockNumber} ${log.logIndex}`, log);
        }
      }
      const inOrder = [...logs.values()].sort((a, b) => a.blockNumber - b.blockNumber || a.logIndex - b.logIndex);
      for (const log of inOrder) {
        const pool = V4.created.isFound?.(log) === true ? undefined : announcedPool(venue, log);
        if (pool === undefined) continue;
        for (const token of tokens) {
          const isOf = pool.token0 === token || pool.token1 === token;
          if (isOf && isReference(chain, otherToken(pool, token))) found.push({ token, pool });
        }
      }
    }
    return found;
  }
}

function complete(search: PoolSearch, found: readonly FoundPool[]): void {
  search.found = found;
  search.state = "complete";
}

interface FoundPool {
  readonly token: Address;
  readonly pool: Pool;
}

const poolsIn = (found: readonly FoundPool[], token: Address): readonly Pool[] =>
  found.flatMap((one) => (one.token === token ? one.pool : []));

/**
 * Keeps each pool once, and the oldest ones. It keeps fewer of those that a trade must try first: any account can make
 * pools with hooks.
 */
function merged(chain: Chain, pools: readonly Pool[]): readonly Pool[] {
  const distinct = [...new Map(pools.map((pool) => [pool.id, pool])).values()];
  const tried = new Set(distinct.filter((pool) => needsTrade(chain, pool)).slice(0, MAX_TRIED));
  return distinct.filter((pool) => tried.has(pool) || !needsTrade(chain, pool)).slice(0, MAX_POOLS);
}
