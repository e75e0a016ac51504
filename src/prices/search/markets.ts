/**
 * Assembles a token's market at a block. At the head the states come from memory if the follower keeps every pool
 * current, else from the node in two round trips (factories and token facts, then states); at a past block, from
 * `history.ts`. Records its reads in the log before a response uses them. Does not price.
 */
import { LRUCache } from "lru-cache";
import type { ChainView } from "../../chain/consumer.ts";
import type { Chain } from "../../chains/chains.ts";
import { isMoney, isReferencePair } from "../../chains/tokens.ts";
import type { Clock } from "../../core/clock.ts";
import { AppError } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import type { HeaderRef } from "../../events/types.ts";
import type { BlockHeader, Call, CallsAtHead, ChainReader } from "../../rpc/port.ts";
import type { Market, PricedBlock } from "../market/market.ts";
import { type Observation, otherToken, type Pool } from "../market/pools.ts";
import { isPricedDirectly, type QuoteOptions, refusalOf } from "../market/quote.ts";
import type { PoolMemory } from "../memory/memory.ts";
import { type HotPool, hotPool, isCurrent, learn, stateAt } from "../memory/pool-truth.ts";
import { emptyBook, type TokenBook, UNLISTED } from "../memory/token-book.ts";
import {
  both,
  pairsAmong,
  planPairs,
  planPoolTokens,
  planProbe,
  planState,
  planToken,
  type TokenFacts,
  together,
  unlistedVenues,
} from "./discovery.ts";
import { type HeadRead, Origins, observed, type PastReader, type PastSource, statesAt } from "./history.ts";

/** A token with its facts and every pool that may price it. */
export interface Subject {
  readonly token: Address;
  readonly facts: TokenFacts;
  readonly book: TokenBook;
  /** Pools of an unlisted factory, used for this request only. */
  readonly unlistedPools: readonly Pool[];
  /** True if the unlisted factory answers like a v2 or v3 factory, or if the request names none. */
  readonly factoryAnswers: boolean;
  /** The head at which the node just answered for factories and tokens; undefined when memory had the answers. */
  readonly discoveredHead?: BlockHeader;
}

interface MarketsOptions {
  readonly chain: Chain;
  readonly reader: ChainReader;
  readonly view: ChainView;
  readonly clock: Clock;
  readonly memory: PoolMemory;
  readonly isFollowing: () => boolean;
}

/** Interval between requests to the factories, in ms, when no follower reports new pools or a price was refused. */
const REDISCOVER_MS = 600_000;
/** A market ahead of the follower is used for at most this long, in ms. */
const AHEAD_MS = 15_000;

type Seen = Pick<Market, "pools" | "states" | "isPast"> & { readonly block: PricedBlock };

export class Markets {
  readonly #options: MarketsOptions;
  readonly #origins = new Origins();
  readonly #ahead = new LRUCache<Address, { market: Market; readMs: number }>({ max: 256 });
  /** Requests in progress that ask the factories about a token again. */
  readonly #rediscovering = new Map<Address, Promise<Subject | undefined>>();

  constructor(options: MarketsOptions) {
    this.#options = options;
  }

  /** The source for reads of past blocks, with the final block known at this moment. */
  get pastSource(): PastSource {
    const { reader, view } = this.#options;
    return { reader, origins: this.#origins, finalized: view.finalized()?.number ?? -1 };
  }

  /** Returns the subject from memory; undefined when the factories must be asked for its pools. */
  known(token: Address): Subject | undefined {
    const { memory, chain } = this.#options;
    const { books } = memory;
    const { reference } = books;
    const book = isMoney(chain, token) ? reference : books.get(token);
    if (book === undefined) return undefined;
    memory.noteRequest(book);
    if (!this.#isDiscovered(reference) || !this.#isDiscovered(book)) return undefined;
    const facts = book.facts.get(token);
    return facts === undefined ? undefined : { token, facts, book, unlistedPools: [], factoryAnswers: true };
  }

  /** Number of pools in memory that the token's price could come from. */
  poolCount(token: Address): number {
    const { chain, memory } = this.#options;
    const { books } = memory;
    const own = isMoney(chain, token) ? undefined : books.get(token);
    return books.reference.pools.size + (own?.pools.size ?? 0);
  }

  /** True if a price may rely on the book's list of pools. */
  #isDiscovered({ list, heldFrom, lastDiscoveryMs }: TokenBook): boolean {
    const isFresh = this.#options.clock.monotonic() - lastDiscoveryMs < REDISCOVER_MS;
    if (list.kind === "unknown") return false;
    if (list.kind === "logged") return list.isComplete && isFresh;
    if (heldFrom === undefined) return isFresh;
    if (heldFrom <= list.block + 1) return true;
    // This process may have begun to follow after the factories were asked: pools created in between are missing.
    return isFresh && !this.#options.isFollowing();
  }

  /** Returns the subject. Asks factories and tokens for anything that is not in memory. */
  async subject(token: Address, unlisted: Address | undefined): Promise<Subject> {
    const known = this.known(token);
    return known !== undefined && unlisted === undefined ? known : this.#discover(token, unlisted);
  }

  /**
   * Asks the factories again about a token that was refused a price. Undefined when they name no new pool or were asked
   * lately. Concurrent callers share the request, since each liquidity floor is a price request of its own.
   */
  rediscover(token: Address): Promise<Subject | undefined> {
    const shared = this.#rediscovering.get(token);
    if (shared !== undefined) return shared;
    const asking = this.#askAgain(token).finally(() => this.#rediscovering.delete(token));
    this.#rediscovering.set(token, asking);
    return asking;
  }

  async #askAgain(token: Address): Promise<Subject | undefined> {
    const { memory, clock } = this.#options;
    const book = memory.books.get(token);
    if (book === undefined || clock.monotonic() - book.lastDiscoveryMs < REDISCOVER_MS) return undefined;
    const known = this.poolCount(token);
    const subject = await this.#discover(token, undefined);
    return this.poolCount(token) > known ? subject : undefined;
  }

  async #discover(token: Address, unlisted: Address | undefined): Promise<Subject> {
    const { chain } = this.#options;
    const { books, references, venues } = this.#options.memory;
    const { reference } = books;
    const isOwn = isMoney(chain, token);
    const logged = isOwn ? reference : await this.#bookOf(token);
    const isKnown = this.#isDiscovered(reference);
    const referencePlan = both(
      planPairs(isKnown ? [] : venues, pairsAmong(chain, references)),
      together(isKnown ? [] : references.map(planToken)),
    );
    const pairs = references.filter((quote) => quote !== token).map((quote) => [token, quote] as const);
    const ownPairs = pairs.filter(([, quote]) => !isReferencePair(chain, token, quote));
    const tokenPlan = both(planPairs(venues, ownPairs), planToken(token));
    const extraPlan = both(
      planPairs(unlisted === undefined ? [] : unlistedVenues(unlisted), pairs),
      together(unlisted === undefined ? [] : [planProbe(unlisted)]),
    );
    const plan = both(both(referencePlan, tokenPlan), extraPlan);
    const { header, results } = await this.#callsAtHead(plan.calls);
    const [[[referencePools, referenceFacts], [tokenPools, facts]], [extraPools, [style]]] = plan.read(results);
    if (referenceFacts.length > 0) {
      reference.facts = new Map(references.map((address, index) => [address, referenceFacts[index]!]));
      addPools(reference, referencePools);
      this.#discovered(reference, header);
    }
    const book = isOwn ? reference : (books.get(token) ?? logged);
    if (!isOwn) {
      book.facts = new Map([[token, facts]]);
      addPools(book, tokenPools);
      this.#discovered(book, header);
      // An address that is not a priceable token takes no memory.
      if (refusalOf(facts) === undefined) books.put(book);
    }
    // An unlisted factory can return a listed factory's pool. It counts for the listed one.
    const own = new Set([...reference.pools.keys(), ...book.pools.keys()]);
    const unique = new Map(extraPools.map((pool) => [pool.address, pool])).values();
    const extra = [...unique].filter((pool) => pool.style === style && !own.has(pool.address));
    const factoryAnswers = unlisted === undefined || style !== undefined;
    return { token, facts, book, unlistedPools: extra, factoryAnswers, discoveredHead: header };
  }

  /** Returns the book with the log's pools. Its prices are used only after the factories were asked. */
  async #bookOf(token: Address): Promise<TokenBook> {
    const { memory, chain } = this.#options;
    const held = memory.books.get(token);
    const isKnown = held !== undefined && this.#isDiscovered(held);
    const book = (await memory.loadBook(token)) ?? held ?? emptyBook(chain.chainId, token);
    if (!isKnown) book.list = UNLISTED;
    return book;
  }

  #discovered(book: TokenBook, header: BlockHeader): void {
    book.list = { kind: "asked", block: header.number };
    book.lastDiscoveryMs = this.#options.clock.monotonic();
    book.lastRequestMs = book.lastDiscoveryMs;
  }

  /** Returns the market at the followed head if all of it is in memory; undefined when the node must be asked. */
  fromMemory(subject: Subject, head: HeaderRef): Market | undefined {
    const { view } = this.#options;
    const pools = this.#hotPools(subject);
    if (subject.unlistedPools.length > 0 || !pools.every((hot) => isCurrent(hot, head, view))) return undefined;
    const states = new Map<Address, Observation>();
    for (const hot of pools) {
      const state = stateAt(hot, head.number, view);
      if (state !== undefined) states.set(hot.pool.address, state);
    }
    return this.#market(subject, { block: head, pools: pools.map((hot) => hot.pool), states, isPast: false });
  }

  /** Returns the last market read from the node while the follower has not reached its block yet. */
  aheadOfFollower(subject: Subject, head: HeaderRef): Market | undefined {
    const kept = this.#ahead.get(subject.token);
    if (kept === undefined || subject.unlistedPools.length > 0) return undefined;
    const fresh = this.#options.clock.monotonic() - kept.readMs < AHEAD_MS;
    return fresh && kept.market.block.number > head.number ? kept.market : undefined;
  }

  /** Returns the market at the node's head: every state in one round trip, recorded before it is returned. */
  async fromNode(subject: Subject): Promise<Market> {
    const { memory, view, clock } = this.#options;
    const { header, reads } = await this.readHead(subject, this.pools(subject), subject.discoveredHead);
    const hot = new Map(this.#hotPools(subject).map((entry) => [entry.pool.address, entry]));
    await memory.recordReads(subject.book, { header, reads });
    const states = new Map<Address, Observation>();
    const pools = reads.map(({ pool }) => pool);
    for (const read of reads) {
      const { pool } = read;
      const state = observed(read, header);
      if (state !== undefined) states.set(pool.address, state);
      const entry = hot.get(pool.address);
      if (entry !== undefined) learn(entry, { pool, state }, header, view);
    }
    const market = this.#market(subject, { block: header, pools, states, isPast: false });
    if (subject.unlistedPools.length === 0) this.#ahead.set(subject.token, { market, readMs: clock.monotonic() });
    return market;
  }

  /** Reads the subject's pools at the node's head, or at the head `at` that it has just returned. */
  async readHead(subject: Pick<Subject, "unlistedPools">, pools: readonly Pool[], at?: BlockHeader): Promise<HeadRead> {
    const extra = new Set(subject.unlistedPools.map((pool) => pool.address));
    const plan = together(
      pools.map((pool) =>
        both(planState(pool), together(extra.has(pool.address) ? [planPoolTokens(pool.address)] : [])),
      ),
    );
    const known = at && (await this.#callsAtKnownHead(plan.calls, at));
    const { header, results } = known ?? (await this.#callsAtHead(plan.calls));
    const honest = plan.read(results).filter(([read, [said]]) => said === undefined || !contradicts(read.pool, said));
    return { header, reads: honest.map(([read]) => read) };
  }

  /** Runs calls at the newest block. Retries once on another endpoint if the first one is behind the followed head. */
  async #callsAtHead(calls: readonly Call[]): Promise<CallsAtHead> {
    const { reader, view } = this.#options;
    const answer = await reader.callsAtHead(calls);
    const followed = view.head();
    if (followed === undefined || answer.header.number >= followed.number) return answer;
    return (await reader.benchLaggards(followed)) ? reader.callsAtHead(calls) : answer;
  }

  /**
   * Runs calls at a known head; undefined if that fails. Saves the request for the head: on a chain without Multicall3
   * that is a round trip of its own.
   */
  async #callsAtKnownHead(calls: readonly Call[], header: BlockHeader): Promise<CallsAtHead | undefined> {
    const { reader } = this.#options;
    try {
      const [results, now] = await Promise.all([reader.calls(calls, header.number), reader.header(header.number)]);
      return now?.hash === header.hash ? { header, results } : undefined;
    } catch (error) {
      // The call may have gone to another endpoint, which does not have that block yet.
      if (error instanceof AppError) return undefined;
      throw error;
    }
  }

  /** Returns the market at the end of a past block, with these pools only. */
  async past(
    subject: Subject,
    block: PricedBlock,
    pools: readonly Pool[],
    reader: PastReader = this.#options.reader,
  ): Promise<Market> {
    const honest = await this.#honest(subject, pools);
    const then = await statesAt({ ...this.pastSource, reader }, honest, block, () => this.readHead(subject, honest));
    return this.#market(subject, { block, isPast: true, ...then });
  }

  /**
   * Returns the market at the end of a past block. Adds the connectors' pools only if the token has no direct price:
   * without archive state each pool is a search through logs, down to the first block if the pool is younger.
   * @param reader shares its reads with other questions; by default the chain's
   */
  async pastFor(
    subject: Subject,
    block: PricedBlock,
    optionsAt: (market: Market) => QuoteOptions,
    reader?: PastReader,
  ): Promise<Market> {
    const pools = this.pools(subject);
    const direct = this.#directPools(subject, pools);
    const market = await this.past(subject, block, direct, reader);
    if (direct.length === pools.length || isPricedDirectly(market, optionsAt(market))) return market;
    return this.past(subject, block, pools, reader);
  }

  /** Drops pools of an unlisted factory that hold other tokens than the factory claims. */
  async #honest({ unlistedPools }: Subject, pools: readonly Pool[]): Promise<readonly Pool[]> {
    if (unlistedPools.length === 0) return pools;
    const plan = together(unlistedPools.map((pool) => planPoolTokens(pool.address)));
    const said = plan.read(await this.#options.reader.calls(plan.calls, "latest"));
    const liars = new Set(unlistedPools.filter((pool, index) => contradicts(pool, said[index]!)));
    return pools.filter((pool) => !liars.has(pool));
  }

  /** Returns every pool that the subject's price depends on. */
  pools(subject: Subject): readonly Pool[] {
    return [...this.#hotPools(subject).map((hot) => hot.pool), ...subject.unlistedPools];
  }

  /** Returns the token's own pools with the native coin and the stablecoins, and the pools that set the dollar. */
  #directPools({ token }: Subject, pools: readonly Pool[]): readonly Pool[] {
    const { chain } = this.#options;
    const ends = (address: Address): boolean => address === token || isMoney(chain, address);
    return pools.filter(({ token0, token1 }) => ends(token0) && ends(token1));
  }

  /**
   * Returns the pools in memory that the subject's price depends on: the token's own, those that set the dollar, and
   * those of each connector that the token has a pool with.
   */
  #hotPools({ token, book, unlistedPools }: Subject): HotPool[] {
    const { chain } = this.#options;
    const { books } = this.#options.memory;
    const held = new Map([...books.reference.pools, ...book.pools]);
    const ends = new Set([token]);
    for (const pool of [...[...held.values()].map((hot) => hot.pool), ...unlistedPools]) {
      if (pool.token0 === token || pool.token1 === token) ends.add(otherToken(pool, token));
    }
    return [...held.values()].filter(({ pool: { token0, token1 } }) => {
      if (isMoney(chain, token0)) return isMoney(chain, token1) || ends.has(token1);
      return ends.has(token0) && (isMoney(chain, token1) || token0 === token || token1 === token);
    });
  }

  #market(subject: Subject, seen: Seen): Market {
    const { chain } = this.#options;
    const { books, references } = this.#options.memory;
    const decimals = new Map<Address, number>();
    for (const token of references) {
      const said = books.reference.facts.get(token)?.decimals;
      if (said !== undefined) decimals.set(token, said);
    }
    if (subject.facts.decimals !== undefined) decimals.set(subject.token, subject.facts.decimals);
    const { number, hash, timestamp } = seen.block;
    return { ...seen, chain, block: { number, hash, timestamp }, decimals };
  }
}

const contradicts = (pool: Pool, said: { token0: Address | undefined; token1: Address | undefined }): boolean =>
  said.token0 !== pool.token0 || said.token1 !== pool.token1;

function addPools(book: TokenBook, pools: readonly Pool[]): void {
  for (const pool of pools) if (!book.pools.has(pool.address)) book.pools.set(pool.address, hotPool(pool));
}
