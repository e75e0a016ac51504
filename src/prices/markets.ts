/**
 * Where a market's states come from: memory when the follower keeps every pool concerned, else the node at its head in
 * two round trips (factories and words, then states), with one in between where the first finds no pool and the log knows
 * more tokens, and one where many have a pool with the token; else history. Records what it learns in the log before
 * anybody sees it.
 */
import { LRUCache } from "lru-cache";
import { isReference, referenceTokens } from "../chains/tokens.ts";
import type { Address } from "../core/hex.ts";
import type { HeaderRef } from "../events/types.ts";
import type { BlockHeader } from "../rpc/port.ts";
import { callsAt, callsAtHead } from "./asking.ts";
import { emptyBook, type HotPool, hotPool, isCurrent, rebase, stateAt, type TokenBook } from "./book.ts";
import { type PricesContext, pastOf, type Subject } from "./context.ts";
import {
  both,
  pairsAmong,
  planPairs,
  planPoolTokens,
  planProbe,
  planState,
  planToken,
  together,
  unlistedVenues,
} from "./discovery.ts";
import { type HeadRead, observed, statesAt } from "./history.ts";
import type { Market } from "./market.ts";
import { addVia, hold, loadBook, readTransit, release } from "./memory.ts";
import { type Observation, otherToken, type Pool } from "./pools.ts";
import { unfit } from "./quote.ts";
import { recordReads } from "./recording.ts";
import { maySearch, near, nextRound, planLinks, REDISCOVER_MS, searched } from "./search.ts";
import { linked, worthwhile } from "./through.ts";

/**
 * Tokens whose own pools are read to choose among them: some thousand calls, in one round trip. Of more, those whose pools
 * hold most of the token, which is one round trip more.
 */
const MAX_CANDIDATES = 128;
/** A follower that is longer behind than this is no reason to keep an old answer, in ms. */
const AHEAD_MS = 15_000;

/** What was found out about a block. */
type Seen = Pick<Market, "pools" | "states" | "isPast"> & { readonly block: HeaderRef };

export class Markets {
  readonly #context: PricesContext;
  readonly #ahead = new LRUCache<Address, { market: Market; readMs: number }>({ max: 256 });
  /** Tokens that are being asked about again, by whether everywhere. */
  readonly #rediscovering = new Map<string, Promise<Subject | undefined>>();

  constructor(context: PricesContext) {
    this.#context = context;
  }

  /** The subject from memory, when nothing need be asked to know its pools. */
  known(token: Address): Subject | undefined {
    const { books, clock } = this.#context;
    const { reference } = books;
    const book = isReference(this.#context.chain, token) ? reference : books.get(token);
    if (book === undefined) return undefined;
    const now = clock.monotonic();
    book.askedMs = now;
    reference.askedMs = now;
    // One that was let go, and asked about since, has another book: only that one is told of what happens.
    book.via = book.via.map((via) => books.get(via.address) ?? via);
    for (const via of book.via) {
      via.askedMs = now;
      if (books.get(via.address) === undefined) books.put(via);
    }
    if (!this.#isDiscovered(reference) || !this.#isDiscovered(book)) return undefined;
    const facts = book.facts.get(token);
    return facts === undefined ? undefined : { token, facts, book, extra: [], factoryAnswers: true };
  }

  /** Pools in memory that the token's price may come from. */
  poolCount(token: Address): number {
    const { books, chain } = this.#context;
    const book = isReference(chain, token) ? undefined : books.get(token);
    const held = [books.reference, ...(book === undefined ? [] : [book, ...book.via])];
    return held.reduce((count, { pools }) => count + pools.size, 0);
  }

  #isDiscovered(book: TokenBook): boolean {
    const { discoveredAt, discoveredMs, heldFrom, isTransit } = book;
    if (discoveredAt === undefined || isTransit) return false;
    if (heldFrom !== undefined && heldFrom <= discoveredAt + 1) return true;
    return this.#context.clock.monotonic() - discoveredMs < REDISCOVER_MS;
  }

  /** The subject, asking factories and tokens where memory does not know. */
  async subject(token: Address, unlisted: Address | undefined): Promise<Subject> {
    const known = this.known(token);
    return known !== undefined && unlisted === undefined ? known : this.#ask(token, unlisted);
  }

  /**
   * Asks the factories again about a token that was refused a price, followed or not; with `everywhere`, where it has none
   * at all, also about its pools with all other tokens of the log: it may know some since that the token can go through,
   * and of pools with those the follower was not told. Undefined when nothing was found, or it was asked lately. Whoever
   * wants it meanwhile shares it: a floor has any number of values, and each makes a question of its own.
   */
  rediscover(token: Address, { everywhere }: { everywhere: boolean }): Promise<Subject | undefined> {
    const key = `${token}/${everywhere}`;
    const shared = this.#rediscovering.get(key);
    if (shared !== undefined) return shared;
    const asking = this.#askAgain(token, everywhere).finally(() => this.#rediscovering.delete(key));
    this.#rediscovering.set(key, asking);
    return asking;
  }

  async #askAgain(token: Address, everywhere: boolean): Promise<Subject | undefined> {
    const { books, clock } = this.#context;
    const book = books.get(token);
    if (book === undefined) return undefined;
    const isFresh = clock.monotonic() - book.discoveredMs < REDISCOVER_MS;
    if (everywhere ? !maySearch(this.#context, book) : isFresh) return undefined;
    const known = [book.pools.size, book.via.length];
    const fresh = isFresh ? this.known(token) : undefined;
    const subject =
      fresh === undefined
        ? await this.#ask(token, undefined, { everywhere })
        : withRead(fresh, await this.#goThrough(fresh, await nextRound(this.#context, fresh.book)));
    const found = [subject.book.pools.size, subject.book.via.length];
    return found.some((count, index) => count > known[index]!) ? subject : undefined;
  }

  /**
   * Begins to look through the log again for a token that is priced through others, if that is due: it may know one by now
   * that leads further. What is found is the next answer's.
   */
  lookFurther(token: Address): void {
    const book = this.#context.books.get(token);
    if (book === undefined || book.via.length === 0 || !maySearch(this.#context, book)) return;
    // Whoever was answered has a price; the next one looks again.
    this.rediscover(token, { everywhere: true }).catch(() => undefined);
  }

  async #ask(token: Address, unlisted: Address | undefined, { everywhere = false } = {}): Promise<Subject> {
    const context = this.#context;
    const { references, venues } = context;
    const reference = context.books.reference;
    const isOwn = isReference(context.chain, token);
    const logged = isOwn ? reference : await this.#bookOf(token);
    const { others, areAll } = isOwn ? { others: [], areAll: false } : await near(context, logged);
    const referencePlan = both(
      planPairs(this.#isDiscovered(reference) ? [] : venues, pairsAmong(context.chain, references)),
      together(this.#isDiscovered(reference) ? [] : references.map(planToken)),
    );
    const pairs = references.filter((quote) => quote !== token).map((quote) => [token, quote] as const);
    const tokenPlan = both(
      both(planPairs(isOwn ? [] : venues, pairs), planLinks(context, token, others)),
      planToken(token),
    );
    const extraPlan = both(
      planPairs(unlisted === undefined ? [] : unlistedVenues(unlisted), pairs),
      together(unlisted === undefined ? [] : [planProbe(unlisted)]),
    );
    const plan = both(both(referencePlan, tokenPlan), extraPlan);
    const { header, results } = await callsAtHead(context, plan.calls);
    const [[[referencePools, referenceFacts], [[tokenPools, links], facts]], [extraPools, [venue]]] =
      plan.read(results);
    if (referenceFacts.length > 0) {
      reference.facts = new Map(references.map((address, index) => [address, referenceFacts[index]!]));
      addPools(reference, referencePools);
      this.#discovered(reference, header);
    }
    const book = isOwn ? reference : (context.books.get(token) ?? logged);
    if (!isOwn) {
      book.facts = new Map([[token, facts]]);
      addPools(book, tokenPools);
      if (areAll) searched(book, context.clock.monotonic());
    }
    // A pool of a listed factory is that one's, whoever else lends it.
    const own = new Set(this.#hotPools(book).map((hot) => hot.pool.address));
    const extra = unique(extraPools).filter((pool) => pool.style === venue?.style && !own.has(pool.address));
    const factoryAnswers = unlisted === undefined || venue !== undefined;
    const subject: Subject = { token, facts, book, extra, factoryAnswers, asked: header };
    if (isOwn || unfit(facts) !== undefined) {
      if (!isOwn) this.#discovered(book, header);
      return subject;
    }
    // So that others who ask find the same book; what is in it counts once it is discovered.
    context.books.put(book);
    // Pools with other tokens of the log are anybody's to make, and may be there to be found instead of those that count.
    const isLost = book.pools.size === 0;
    const further = everywhere || isLost ? await nextRound(context, book) : [];
    const read = await this.#goThrough(subject, [...links, ...further]);
    this.#discovered(book, header);
    return withRead(subject, read);
  }

  /** The book to ask the factories about, with what the log says; nothing is answered from it before they were asked. */
  async #bookOf(token: Address): Promise<TokenBook> {
    const held = this.#context.books.get(token);
    const isKnown = held !== undefined && this.#isDiscovered(held);
    const book = (await loadBook(this.#context, token)) ?? held ?? emptyBook(this.#context.chain.chainId, token);
    if (!isKnown) {
      book.discoveredAt = undefined;
      book.searchedMs = Number.NEGATIVE_INFINITY;
    }
    return book;
  }

  /**
   * Adds to a subject's book the pools with other tokens of the log that are worth it, and those tokens to what it goes
   * through. Which are is decided by all their states at the head; that they were read is returned.
   */
  async #goThrough(subject: Subject, found: readonly Pool[]): Promise<HeadRead | undefined> {
    const context = this.#context;
    const { token, book, asked } = subject;
    const held = new Set(book.via.map((via) => via.address));
    const isHeld = (pool: Pool): boolean => held.has(otherToken(pool, token));
    addPools(book, found.filter(isHeld));
    let links = unique(found.filter((pool) => !isHeld(pool)));
    if (links.length === 0) return undefined;
    let others = linked(token, links, () => undefined);
    if (others.length > MAX_CANDIDATES) {
      const then = observedIn(await this.readHead({ extra: [] }, links, asked));
      others = linked(token, links, (pool) => then.get(pool)).slice(0, MAX_CANDIDATES);
      const kept = new Set(others.map(({ address }) => address));
      links = links.filter((pool) => kept.has(otherToken(pool, token)));
    }
    const loaded = await Promise.all(others.map(({ address }) => readTransit(context, address)));
    const candidates = loaded.filter((entry) => entry !== undefined);
    const via = [...book.via, ...candidates];
    const pools = unique([...this.#hotPools(book, via).map((hot) => hot.pool), ...links, ...subject.extra]);
    const read = await this.readHead(subject, pools, asked).catch((error: unknown) => {
      for (const candidate of candidates) release(context, candidate);
      throw error;
    });
    const states = observedIn(read);
    const seen = { block: read.header, pools: read.reads.map((entry) => entry.pool), states, isPast: false };
    const own = [...book.pools.values()].map((hot) => hot.pool).filter(isHeld);
    const chosen = worthwhile(
      this.#market(subject, seen, via),
      token,
      linked(token, [...own, ...links], (pool) => states.get(pool)),
    );
    for (const candidate of candidates) {
      if (chosen.has(candidate.address)) addVia(book, [hold(context, candidate)]);
      else release(context, candidate);
    }
    const through = new Set(book.via.map((entry) => entry.address));
    addPools(
      book,
      links.filter((pool) => through.has(otherToken(pool, token))),
    );
    return read;
  }

  #discovered(book: TokenBook, header: BlockHeader): void {
    book.discoveredAt = header.number;
    book.discoveredMs = this.#context.clock.monotonic();
    book.askedMs = book.discoveredMs;
  }

  /** The market at the followed head, when memory has all of it; undefined when the node must be asked. */
  warm(subject: Subject, head: HeaderRef): Market | undefined {
    const { view } = this.#context;
    const pools = this.#hotPools(subject.book);
    if (subject.extra.length > 0 || !pools.every((hot) => isCurrent(hot, head, view))) return undefined;
    const states = new Map(
      pools.flatMap((hot) => {
        const state = stateAt(hot, head.number, view);
        return state === undefined ? [] : [[hot.pool.address, state] as const];
      }),
    );
    return this.#market(subject, {
      block: head,
      pools: pools.map((hot) => hot.pool),
      states,
      isPast: false,
    });
  }

  /** The last market read from the node, while the follower has not reached its block yet. */
  ahead(subject: Subject, head: HeaderRef): Market | undefined {
    const kept = this.#ahead.get(subject.token);
    if (kept === undefined || subject.extra.length > 0) return undefined;
    const fresh = this.#context.clock.monotonic() - kept.readMs < AHEAD_MS;
    return fresh && kept.market.block.number > head.number ? kept.market : undefined;
  }

  /** The market at the node's head: every state in one round trip, recorded before it is returned. */
  async cold(subject: Subject): Promise<Market> {
    const market = await this.#cold(subject);
    if (subject.extra.length === 0) this.#ahead.set(subject.token, { market, readMs: this.#context.clock.monotonic() });
    return market;
  }

  async #cold(subject: Subject): Promise<Market> {
    const pools = this.pools(subject);
    const { header, reads: all } = subject.read ?? (await this.readHead(subject, pools, subject.asked));
    const wanted = new Set(pools.map((pool) => pool.address));
    const reads = all.filter((read) => wanted.has(read.pool.address));
    const hot = new Map(this.#hotPools(subject.book).map((entry) => [entry.pool.address, entry]));
    const states = observedIn({ header, reads });
    await recordReads(this.#context, subject, { header, reads });
    for (const read of reads) {
      const entry = hot.get(read.pool.address);
      const at = { pool: read.pool, state: states.get(read.pool.address) };
      if (entry !== undefined) rebase(entry, at, header, this.#context.view);
    }
    return this.#market(subject, {
      block: header,
      pools: reads.map((read) => read.pool),
      states,
      isPast: false,
    });
  }

  /** Pools of the subject as the node has them now, or had them at a head it has just told. */
  async readHead(subject: Pick<Subject, "extra">, pools: readonly Pool[], at?: BlockHeader): Promise<HeadRead> {
    const extra = new Set(subject.extra.map((pool) => pool.address));
    const plan = together(
      pools.map((pool) =>
        both(planState(pool), together(extra.has(pool.address) ? [planPoolTokens(pool.address)] : [])),
      ),
    );
    const { header, results } = await callsAt(this.#context, plan.calls, at);
    const honest = plan.read(results).filter(([read, [said]]) => said === undefined || !contradicts(read.pool, said));
    return { header, reads: honest.map(([read]) => read) };
  }

  /** The market at the end of a past block; of `pools` only, when given. */
  async past(subject: Subject, block: BlockHeader, pools: readonly Pool[] = this.pools(subject)): Promise<Market> {
    const honest = await this.#honest(subject, pools);
    const then = await statesAt(pastOf(this.#context), honest, block, () => this.readHead(subject, honest));
    return this.#market(subject, { block, isPast: true, ...then });
  }

  /** Without the pools of an unlisted factory that hold other tokens than it says. */
  async #honest({ extra }: Subject, pools: readonly Pool[]): Promise<readonly Pool[]> {
    if (extra.length === 0) return pools;
    const plan = together(extra.map((pool) => planPoolTokens(pool.address)));
    const said = plan.read(await this.#context.reader.calls(plan.calls, "latest"));
    const liars = new Set(extra.filter((pool, index) => contradicts(pool, said[index]!)));
    return pools.filter((pool) => !liars.has(pool));
  }

  pools(subject: Subject): readonly Pool[] {
    return [...this.#hotPools(subject.book).map((hot) => hot.pool), ...subject.extra];
  }

  #hotPools(book: TokenBook, via: readonly TokenBook[] = book.via): HotPool[] {
    const { reference } = this.#context.books;
    if (book === reference) return [...reference.pools.values()];
    const own = [book, ...via].flatMap((book) => [...book.pools]);
    return [...new Map([...reference.pools, ...own]).values()];
  }

  #market(subject: Subject, seen: Seen, through: readonly TokenBook[] = subject.book.via): Market {
    const { chain, books } = this.#context;
    const decimals = new Map<Address, number>();
    for (const token of referenceTokens(chain)) {
      const said = books.reference.facts.get(token.address)?.decimals;
      if (said !== undefined) decimals.set(token.address, said);
    }
    for (const via of through) {
      const said = via.facts.get(via.address)?.decimals;
      if (said !== undefined) decimals.set(via.address, said);
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

const withRead = (subject: Subject, read: HeadRead | undefined): Subject =>
  read === undefined ? subject : { ...subject, read };

/** States by pool. */
function observedIn({ header, reads }: HeadRead): Map<Address, Observation> {
  return new Map(
    reads.flatMap((read) => {
      const state = observed(read, header);
      return state === undefined ? [] : [[read.pool.address, state] as const];
    }),
  );
}

function unique(pools: readonly Pool[]): Pool[] {
  return [...new Map(pools.map((pool) => [pool.address, pool])).values()];
}
