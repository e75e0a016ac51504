/**
 * Where a market's states come from: memory when the follower keeps every pool concerned, else the node at its head in
 * at most two round trips (factories and words, then states), else history. Records what it learns in the log before
 * anybody sees it.
 */
import { LRUCache } from "lru-cache";
import { isReference, referenceTokens } from "../chains/tokens.ts";
import { AppError } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { HeaderRef } from "../events/types.ts";
import type { BlockHeader, Call, CallsAtHead } from "../rpc/port.ts";
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
import { loadTransit, MAX_VIA } from "./memory.ts";
import { otherToken, type Pool } from "./pools.ts";
import { recordReads } from "./recording.ts";

/** Without a follower to tell of new pools, or without a price, factories are asked again after so long, in ms. */
const REDISCOVER_MS = 600_000;
/** Tokens beside the reference tokens whose pools with a new token are asked for: calls enough, few enough for one batch. */
const MAX_OTHERS = 16;
/** A follower that is longer behind than this is no reason to keep an old answer, in ms. */
const AHEAD_MS = 15_000;

/** What was found out about a block. */
type Seen = Pick<Market, "pools" | "states" | "isPast"> & { readonly block: HeaderRef };

export class Markets {
  readonly #context: PricesContext;
  readonly #ahead = new LRUCache<Address, { market: Market; readMs: number }>({ max: 256 });

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
    for (const via of book.via) {
      via.askedMs = now;
      if (books.get(via.address) === undefined) books.put(via);
    }
    if (!this.#isDiscovered(reference) || !this.#isDiscovered(book)) return undefined;
    const facts = book.facts.get(token);
    return facts === undefined ? undefined : { token, facts, book, extra: [], factoryAnswers: true };
  }

  #isDiscovered(book: TokenBook): boolean {
    const { discoveredAt, discoveredMs, heldFrom, isTransit } = book;
    if (discoveredAt === undefined || isTransit) return false;
    if (heldFrom !== undefined && heldFrom <= discoveredAt + 1) return true;
    return this.#context.clock.monotonic() - discoveredMs < REDISCOVER_MS;
  }

  /** The subject, asking factories and tokens in one round trip where memory does not know. */
  async subject(token: Address, unlisted: Address | undefined): Promise<Subject> {
    const known = this.known(token);
    return known !== undefined && unlisted === undefined ? known : this.#ask(token, unlisted);
  }

  /**
   * Asks the factories again about a token that has no price, followed or not: the log may know tokens since that it can
   * go through, and of pools with those the follower was not told. False when it was asked lately.
   */
  async rediscover(token: Address): Promise<boolean> {
    const { books, clock } = this.#context;
    const book = books.get(token);
    const now = clock.monotonic();
    if (book === undefined || now - book.discoveredMs < REDISCOVER_MS) return false;
    const before = book.discoveredMs;
    // Whoever asks meanwhile need not ask too.
    book.discoveredMs = now;
    try {
      await this.#ask(token, undefined);
    } catch (error) {
      book.discoveredMs = before;
      throw error;
    }
    return true;
  }

  async #ask(token: Address, unlisted: Address | undefined): Promise<Subject> {
    const context = this.#context;
    const { references, venues } = context;
    const reference = context.books.reference;
    const isOwn = isReference(context.chain, token);
    const referencePlan = both(
      planPairs(this.#isDiscovered(reference) ? [] : venues, pairsAmong(context.chain, references)),
      together(this.#isDiscovered(reference) ? [] : references.map(planToken)),
    );
    const pairs = references.filter((quote) => quote !== token).map((quote) => [token, quote] as const);
    const others = isOwn ? [] : await this.#others(token);
    const viaPlan = planPairs(
      venues,
      others.map((other) => [token, other] as const),
    );
    const tokenPlan = both(both(planPairs(isOwn ? [] : venues, pairs), viaPlan), planToken(token));
    const extraPlan = both(
      planPairs(unlisted === undefined ? [] : unlistedVenues(unlisted), pairs),
      together(unlisted === undefined ? [] : [planProbe(unlisted)]),
    );
    const plan = both(both(referencePlan, tokenPlan), extraPlan);
    const { header, results } = await this.#callsAtHead(plan.calls);
    const [[[referencePools, referenceFacts], [[tokenPools, viaPools], facts]], [extraPools, [venue]]] =
      plan.read(results);
    if (referenceFacts.length > 0) {
      reference.facts = new Map(references.map((address, index) => [address, referenceFacts[index]!]));
      this.#discovered(reference, referencePools, header);
    }
    const book = isOwn ? reference : (context.books.get(token) ?? this.#newBook(token));
    if (!isOwn) {
      book.facts = new Map([[token, facts]]);
      book.via = await this.#viaBooks(token, viaPools);
      book.isTransit = false;
      const through = new Set(book.via.map((via) => via.address));
      const linking = viaPools.filter((pool) => through.has(otherToken(pool, token)));
      this.#discovered(book, [...tokenPools, ...linking], header);
      if (facts.kind === "erc20") context.books.put(book);
    }
    // A pool of a listed factory is that one's, whoever else lends it.
    const own = new Set(this.#hotPools(book).map((hot) => hot.pool.address));
    const extra = unique(extraPools).filter((pool) => pool.style === venue?.style && !own.has(pool.address));
    const factoryAnswers = unlisted === undefined || venue !== undefined;
    return { token, facts, book, extra, factoryAnswers, asked: header };
  }

  /** Tokens in memory or in the log that this one may be priced through, reference tokens apart. */
  async #others(token: Address): Promise<Address[]> {
    const { books, journal, chain } = this.#context;
    // Those it goes through already must be found again, however many were asked about since.
    const found = new Set((books.get(token)?.via ?? []).map((via) => via.address));
    for (const address of books.tokens().slice(0, MAX_OTHERS)) found.add(address);
    if (found.size < MAX_OTHERS) {
      const limit = MAX_OTHERS + this.#context.references.length;
      for (const address of await journal.tokens(chain.chainId, limit)) found.add(address);
    }
    found.delete(token);
    return [...found].filter((address) => !isReference(chain, address)).slice(0, MAX_OTHERS);
  }

  /** The books of the tokens these pools lead to; of those that are not in memory what the log says. */
  async #viaBooks(token: Address, pools: readonly Pool[]): Promise<TokenBook[]> {
    const addresses = [...new Set(pools.map((pool) => otherToken(pool, token)))].sort().slice(0, MAX_VIA);
    const found = await Promise.all(addresses.map((address) => loadTransit(this.#context, address)));
    return found.filter((book) => book !== undefined);
  }

  #newBook(token: Address): TokenBook {
    return emptyBook(this.#context.chain.chainId, token);
  }

  #discovered(book: TokenBook, pools: readonly Pool[], header: BlockHeader): void {
    for (const pool of unique(pools)) if (!book.pools.has(pool.address)) book.pools.set(pool.address, hotPool(pool));
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
    const { header, reads } = await this.readHead(subject, this.pools(subject), subject.asked);
    const hot = new Map(this.#hotPools(subject.book).map((entry) => [entry.pool.address, entry]));
    const states = new Map(
      reads.flatMap((read) => {
        const state = observed(read, header);
        return state === undefined ? [] : [[read.pool.address, state] as const];
      }),
    );
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
  async readHead(subject: Subject, pools: readonly Pool[], at?: BlockHeader): Promise<HeadRead> {
    const extra = new Set(subject.extra.map((pool) => pool.address));
    const plan = together(
      pools.map((pool) =>
        both(planState(pool), together(extra.has(pool.address) ? [planPoolTokens(pool.address)] : [])),
      ),
    );
    const { header, results } = (await this.#callsAt(plan.calls, at)) ?? (await this.#callsAtHead(plan.calls));
    const honest = plan.read(results).filter(([read, [said]]) => said === undefined || !contradicts(read.pool, said));
    return { header, reads: honest.map(([read]) => read) };
  }

  /** At the newest block: not by an endpoint that is behind what is followed, where another one is not. */
  async #callsAtHead(calls: readonly Call[]): Promise<CallsAtHead> {
    const { reader, view } = this.#context;
    const answer = await reader.callsAtHead(calls);
    const followed = view.head();
    if (followed === undefined || answer.header.number >= followed.number) return answer;
    return (await reader.passOverLaggards(followed)) ? reader.callsAtHead(calls) : answer;
  }

  /** Without a question for the head: where there is no Multicall3 that is a round trip of its own. */
  async #callsAt(calls: readonly Call[], header: BlockHeader | undefined): Promise<CallsAtHead | undefined> {
    if (header === undefined) return undefined;
    const { reader } = this.#context;
    try {
      const [results, now] = await Promise.all([reader.calls(calls, header.number), reader.header(header.number)]);
      return now?.hash === header.hash ? { header, results } : undefined;
    } catch (error) {
      // Another endpoint may have answered, one that is not there yet.
      if (error instanceof AppError) return undefined;
      throw error;
    }
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

  #hotPools(book: TokenBook): HotPool[] {
    const { reference } = this.#context.books;
    if (book === reference) return [...reference.pools.values()];
    const own = [book, ...book.via].flatMap((book) => [...book.pools]);
    return [...new Map([...reference.pools, ...own]).values()];
  }

  #market(subject: Subject, seen: Seen): Market {
    const { chain, books } = this.#context;
    const decimals = new Map<Address, number>();
    for (const token of referenceTokens(chain)) {
      const said = books.reference.facts.get(token.address)?.decimals;
      if (said !== undefined) decimals.set(token.address, said);
    }
    for (const via of subject.book.via) {
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

function unique(pools: readonly Pool[]): Pool[] {
  return [...new Map(pools.map((pool) => [pool.address, pool])).values()];
}
