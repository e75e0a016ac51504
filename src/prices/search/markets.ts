/**
 * Where a market's states come from: memory when the follower keeps every pool concerned, else the node at its head in
 * two round trips (factories and words, then states); else history. Records what it learns in the log before an answer
 * shows it.
 */
import { LRUCache } from "lru-cache";
import { isMoney, isReferencePair, referenceTokens } from "../../chains/quote-tokens.ts";
import { AppError } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import type { HeaderRef } from "../../events/types.ts";
import type { BlockHeader, Call, CallsAtHead } from "../../rpc/port.ts";
import { type PricesContext, pastOf, type Subject } from "../context.ts";
import type { Market } from "../market/market.ts";
import { type Observation, otherToken, type Pool } from "../market/pools.ts";
import { isPricedDirectly, type QuoteOptions, unfit } from "../market/quote.ts";
import { loadBook, recordReads } from "../memory/memory.ts";
import {
  emptyBook,
  type HotPool,
  hotPool,
  isCurrent,
  LISTED,
  rebase,
  stateAt,
  type TokenBook,
  UNLISTED,
} from "../memory/token-book.ts";
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

// Calls at the node's newest block, and at a head it has just told: by whom they may be answered, and of which block.

type Asked = Pick<PricesContext, "reader" | "view">;

/** At the newest block: not by an endpoint that is behind what is followed, where another one is not. */
async function callsAtHead({ reader, view }: Asked, calls: readonly Call[]): Promise<CallsAtHead> {
  const answer = await reader.callsAtHead(calls);
  const followed = view.head();
  if (followed === undefined || answer.header.number >= followed.number) return answer;
  return (await reader.benchLaggards(followed)) ? reader.callsAtHead(calls) : answer;
}

/** At a head that was just told, in one round trip, or at the newest block where there is none or it is not to be had. */
async function callsAt(context: Asked, calls: readonly Call[], header: BlockHeader | undefined): Promise<CallsAtHead> {
  return (await callsAtTold(context, calls, header)) ?? callsAtHead(context, calls);
}

/** Without a question for the head: where there is no Multicall3 that is a round trip of its own. */
async function callsAtTold(
  { reader }: Asked,
  calls: readonly Call[],
  header: BlockHeader | undefined,
): Promise<CallsAtHead | undefined> {
  if (header === undefined) return undefined;
  try {
    const [results, now] = await Promise.all([reader.calls(calls, header.number), reader.header(header.number)]);
    return now?.hash === header.hash ? { header, results } : undefined;
  } catch (error) {
    // Another endpoint may have answered, one that is not there yet.
    if (error instanceof AppError) return undefined;
    throw error;
  }
}

/** Factories are asked again after so long, in ms, where no follower reports new pools or a price was refused. */
const REDISCOVER_MS = 600_000;
/** A follower that is longer behind than this is no reason to keep an old answer, in ms. */
const AHEAD_MS = 15_000;

/** What was found out about a block. */
type Seen = Pick<Market, "pools" | "states" | "isPast"> & { readonly block: HeaderRef };

export class Markets {
  readonly #context: PricesContext;
  readonly #ahead = new LRUCache<Address, { market: Market; readMs: number }>({ max: 256 });
  /** Tokens that factories are being asked about again. */
  readonly #rediscovering = new Map<Address, Promise<Subject | undefined>>();

  constructor(context: PricesContext) {
    this.#context = context;
  }

  /** The subject from memory, when nothing need be asked to know its pools. */
  known(token: Address): Subject | undefined {
    const { books, clock, chain } = this.#context;
    const { reference } = books;
    const book = isMoney(chain, token) ? reference : books.get(token);
    if (book === undefined) return undefined;
    book.askedMs = clock.monotonic();
    reference.askedMs = book.askedMs;
    if (!this.#isDiscovered(reference) || !this.#isDiscovered(book)) return undefined;
    const facts = book.facts.get(token);
    return facts === undefined ? undefined : { token, facts, book, extra: [], factoryAnswers: true };
  }

  /** Pools in memory that the token's price may come from. */
  poolCount(token: Address): number {
    const { books, chain } = this.#context;
    const own = isMoney(chain, token) ? undefined : books.get(token);
    return books.reference.pools.size + (own?.pools.size ?? 0);
  }

  #isDiscovered({ discoveredAt, discoveredMs, heldFrom }: TokenBook): boolean {
    if (discoveredAt === undefined || discoveredAt === UNLISTED) return false;
    if (heldFrom !== undefined && heldFrom <= discoveredAt + 1) return true;
    // This process follows, but not from the block of the question on: it doesn't know the pools created in between.
    if (heldFrom !== undefined && discoveredAt !== LISTED && this.#context.session !== undefined) return false;
    return this.#context.clock.monotonic() - discoveredMs < REDISCOVER_MS;
  }

  /** The subject, asking factories and tokens where memory does not know. */
  async subject(token: Address, unlisted: Address | undefined): Promise<Subject> {
    const known = this.known(token);
    return known !== undefined && unlisted === undefined ? known : this.#ask(token, unlisted);
  }

  /**
   * Asks the factories again about a token that was refused a price. Undefined when they name no new pool, or were asked
   * lately. Concurrent callers share the question: each floor is a request of its own.
   */
  rediscover(token: Address): Promise<Subject | undefined> {
    const shared = this.#rediscovering.get(token);
    if (shared !== undefined) return shared;
    const asking = this.#askAgain(token).finally(() => this.#rediscovering.delete(token));
    this.#rediscovering.set(token, asking);
    return asking;
  }

  async #askAgain(token: Address): Promise<Subject | undefined> {
    const { books, clock } = this.#context;
    const book = books.get(token);
    if (book === undefined || clock.monotonic() - book.discoveredMs < REDISCOVER_MS) return undefined;
    const known = this.poolCount(token);
    const subject = await this.#ask(token, undefined);
    return this.poolCount(token) > known ? subject : undefined;
  }

  async #ask(token: Address, unlisted: Address | undefined): Promise<Subject> {
    const context = this.#context;
    const { chain, references, venues } = context;
    const reference = context.books.reference;
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
    const { header, results } = await callsAtHead(context, plan.calls);
    const [[[referencePools, referenceFacts], [tokenPools, facts]], [extraPools, [venue]]] = plan.read(results);
    if (referenceFacts.length > 0) {
      reference.facts = new Map(references.map((address, index) => [address, referenceFacts[index]!]));
      addPools(reference, referencePools);
      this.#discovered(reference, header);
    }
    const book = isOwn ? reference : (context.books.get(token) ?? logged);
    if (!isOwn) {
      book.facts = new Map([[token, facts]]);
      addPools(book, tokenPools);
      this.#discovered(book, header);
      // An address that is no priceable token takes no place in memory.
      if (unfit(facts) === undefined) context.books.put(book);
    }
    // A pool of a listed factory is that one's, whoever else lends it.
    const own = new Set([...reference.pools.keys(), ...book.pools.keys()]);
    const extra = unique(extraPools).filter((pool) => pool.style === venue?.style && !own.has(pool.address));
    const factoryAnswers = unlisted === undefined || venue !== undefined;
    return { token, facts, book, extra, factoryAnswers, asked: header };
  }

  /** The book to ask the factories about, with what the log says; nothing is answered from it before they were asked. */
  async #bookOf(token: Address): Promise<TokenBook> {
    const held = this.#context.books.get(token);
    const isKnown = held !== undefined && this.#isDiscovered(held);
    const book = (await loadBook(this.#context, token)) ?? held ?? emptyBook(this.#context.chain.chainId, token);
    if (!isKnown) book.discoveredAt = undefined;
    return book;
  }

  #discovered(book: TokenBook, header: BlockHeader): void {
    book.discoveredAt = header.number;
    book.discoveredMs = this.#context.clock.monotonic();
    book.askedMs = book.discoveredMs;
  }

  /** The market at the followed head, when memory has all of it; undefined when the node must be asked. */
  warm(subject: Subject, head: HeaderRef): Market | undefined {
    const { view } = this.#context;
    const pools = this.#hotPools(subject);
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
    const { header, reads } = await this.readHead(subject, pools, subject.asked);
    const hot = new Map(this.#hotPools(subject).map((entry) => [entry.pool.address, entry]));
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

  /** The market at the end of a past block of these pools. */
  async past(subject: Subject, block: BlockHeader, pools: readonly Pool[]): Promise<Market> {
    const honest = await this.#honest(subject, pools);
    const then = await statesAt(pastOf(this.#context), honest, block, () => this.readHead(subject, honest));
    return this.#market(subject, { block, isPast: true, ...then });
  }

  /**
   * The market at the end of a past block, with the connectors' pools only where the token has no direct price: without
   * old state each pool is a search through logs, and one that is younger than the question is searched to the first block.
   */
  async pastFor(subject: Subject, block: BlockHeader, optionsAt: (market: Market) => QuoteOptions): Promise<Market> {
    const pools = this.pools(subject);
    const direct = this.#directPools(subject, pools);
    const market = await this.past(subject, block, direct);
    if (direct.length === pools.length || isPricedDirectly(market, optionsAt(market))) return market;
    return this.past(subject, block, pools);
  }

  /** Without the pools of an unlisted factory that hold other tokens than it says. */
  async #honest({ extra }: Subject, pools: readonly Pool[]): Promise<readonly Pool[]> {
    if (extra.length === 0) return pools;
    const plan = together(extra.map((pool) => planPoolTokens(pool.address)));
    const said = plan.read(await this.#context.reader.calls(plan.calls, "latest"));
    const liars = new Set(extra.filter((pool, index) => contradicts(pool, said[index]!)));
    return pools.filter((pool) => !liars.has(pool));
  }

  /** Every pool that the subject's price depends on. */
  pools(subject: Subject): readonly Pool[] {
    return [...this.#hotPools(subject).map((hot) => hot.pool), ...subject.extra];
  }

  /** Keeps the token's own pools with the native coin and the stablecoins, and the pools that tell the dollar. */
  #directPools({ token }: Subject, pools: readonly Pool[]): readonly Pool[] {
    const { chain } = this.#context;
    const ends = (address: Address): boolean => address === token || isMoney(chain, address);
    return pools.filter(({ token0, token1 }) => ends(token0) && ends(token1));
  }

  /**
   * The pools in memory that the subject's price depends on: the token's own, those that tell the dollar, and those of
   * each connector that the token has a pool with.
   */
  #hotPools({ token, book, extra }: Subject): HotPool[] {
    const { chain, books } = this.#context;
    const held = new Map([...books.reference.pools, ...book.pools]);
    const ends = new Set([token]);
    for (const pool of [...[...held.values()].map((hot) => hot.pool), ...extra]) {
      if (pool.token0 === token || pool.token1 === token) ends.add(otherToken(pool, token));
    }
    return [...held.values()].filter(({ pool: { token0, token1 } }) => {
      if (isMoney(chain, token0)) return isMoney(chain, token1) || ends.has(token1);
      return ends.has(token0) && (isMoney(chain, token1) || token0 === token || token1 === token);
    });
  }

  #market(subject: Subject, seen: Seen): Market {
    const { chain, books } = this.#context;
    const decimals = new Map<Address, number>();
    for (const token of referenceTokens(chain)) {
      const said = books.reference.facts.get(token.address)?.decimals;
      if (said !== undefined) decimals.set(token.address, said);
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
