/**
 * Books and the log: records reads of the node, builds books from streams, and keeps them current with the events of
 * other processes. A pool counts as followed only while its stream's headline says so.
 */
import type { Chain } from "../../chains/chains.ts";
import { exchangesOf } from "../../chains/exchanges.ts";
import { isMoney, isReference, isReferencePair, referenceTokens } from "../../chains/tokens.ts";
import type { Clock } from "../../core/clock.ts";
import type { Address } from "../../core/hex.ts";
import { type PoolDiscovered, type PriceEvent, priceStream, type StreamName } from "../../events/types.ts";
import type { EventLog } from "../../log/event-log.ts";
import type { Pool } from "../market/pools.ts";
import { poolOf, type TokenFacts, type Venue, venueOf } from "../search/discovery.ts";
import { type HeadRead, observed } from "../search/history.ts";
import { baseNumber, extend, followByLog, hotPool } from "./pool-truth.ts";
import { Journal } from "./price-streams.ts";
import {
  discoveredEvent,
  factsOf,
  identifiedEvent,
  type KnownPool,
  observationOf,
  observedEvent,
} from "./projection.ts";
import { type BookLimits, Books, emptyBook, revertPools, type TokenBook, unfollow } from "./token-book.ts";

/** Streams read concurrently when memory is restored. */
const LOAD_BATCH = 32;

interface MemoryOptions {
  readonly chain: Chain;
  readonly log: EventLog;
  readonly clock: Clock;
  readonly limits: BookLimits;
  readonly onDrop: (book: TokenBook) => void;
}

export class PoolMemory {
  readonly books: Books;
  readonly journal: Journal;
  /** The chain's factories, in the order of the API's exchange list. */
  readonly venues: readonly Venue[];
  /** Wrapped native, stablecoins and connectors. */
  readonly references: readonly Address[];
  /** Fingerprint of factories and reference tokens. A session of a process with another fingerprint is ignored. */
  readonly fingerprint: string;
  readonly #chain: Chain;
  readonly #clock: Clock;
  /** Reference tokens with facts that this process has appended to the log. */
  readonly #recordedReferences = new Set<Address>();

  constructor({ chain, log, clock, limits, onDrop }: MemoryOptions) {
    this.#chain = chain;
    this.#clock = clock;
    this.venues = exchangesOf(chain).map(venueOf);
    this.references = referenceTokens(chain).map((token) => token.address);
    const dependencies = JSON.stringify([this.references, this.venues]);
    this.fingerprint = new Bun.CryptoHasher("sha256").update(dependencies).digest("hex").slice(0, 12);
    this.journal = new Journal(log, (stream, events) => this.#applyEvents(stream, events));
    this.books = new Books({
      reference: emptyBook(chain.chainId, chain.wrappedNative.address),
      limits,
      clock,
      onDrop: (book) => {
        this.journal.close(book.stream);
        onDrop(book);
      },
    });
  }

  /**
   * Appends what was read for a token to the log: facts, pools and pool states. Resolves once it is durable. The
   * journal drops known facts, so recording the same reads again appends only changes.
   */
  async recordReads(own: TokenBook, { header, reads }: HeadRead): Promise<void> {
    const { reference } = this.books;
    const byPool = new Map(reads.map((read) => [read.pool.address, read]));
    await Promise.all(
      [...new Set([reference, own])].map((book) => {
        const facts = book.facts.get(book.address);
        const identified = facts === undefined ? [] : [identifiedEvent(facts, header.number)];
        const discovered: PriceEvent[] = [];
        const states: PriceEvent[] = [];
        // Appends the whole list of pools, also those not read now: another process must not take a part for the whole.
        for (const [address, hot] of book.pools) {
          const read = byPool.get(address);
          const state = read && observed(read, header);
          discovered.push(discoveredEvent(read?.pool ?? hot.pool, header.number));
          if (state !== undefined) states.push(observedEvent(address, state));
        }
        return this.journal.append(book.stream, [...identified, ...discovered, ...states]);
      }),
    );
    // Each reference token's facts go into its own stream, where a process that starts later reads them.
    await Promise.all(
      [...reference.facts].map(async ([token, facts]) => {
        if (token === reference.address || this.#recordedReferences.has(token)) return;
        const stream = priceStream(this.#chain.chainId, token);
        await this.journal.append(stream, [identifiedEvent(facts, header.number)]);
        this.closeUnheld(stream);
        this.#recordedReferences.add(token);
      }),
    );
  }

  /** Applies the events of a stream to its book. Does nothing for a stream without a book in memory. */
  #applyEvents(stream: StreamName, events: readonly PriceEvent[]): void {
    const book = this.books.peek(stream);
    if (book === undefined) return;
    for (const event of events) {
      switch (event.type) {
        case "TokenIdentified":
          break;
        case "PoolDiscovered": {
          const pool = this.#poolOf(book, event);
          const hot = book.pools.get(event.pool);
          if (hot !== undefined && pool !== undefined) hot.pool = { ...hot.pool, stableCurve: pool.stableCurve };
          else if (pool !== undefined) book.pools.set(pool.address, hotPool(pool));
          break;
        }
        case "PriceObserved": {
          const hot = book.pools.get(event.pool);
          if (hot !== undefined && event.block > baseNumber(hot)) extend(hot, [observationOf(event)], event.timestamp);
          // A state without a log index was read from a node, so a client asked another process for a price.
          if (event.logIndex === undefined) this.noteRequest(book);
          break;
        }
        case "BlocksReverted":
          revertPools(book, event.ancestor.number);
          break;
        default:
          event satisfies never;
      }
    }
  }

  /** Keeps a book, and the reference book, from being idle. */
  noteRequest(book: TokenBook): void {
    book.lastRequestMs = this.#clock.monotonic();
    this.books.reference.lastRequestMs = book.lastRequestMs;
  }

  /** Returns the pool of an event; undefined when its factory is unlisted, or the pool doesn't belong in the book. */
  #poolOf(book: TokenBook, event: PoolDiscovered): Pool | undefined {
    const venue = this.venues.find((entry) => entry.factory === event.factory);
    if (venue === undefined || !belongsTo(this.#chain, book.address, event)) return undefined;
    const { pool: address, style, fee, token0, token1, stableCurve = false } = event;
    return { ...poolOf(venue, { address, fee, token0, token1 }), style, stableCurve };
  }

  /** Returns the pools of a book's stream that belong in the book. */
  knownPools(book: TokenBook): Map<Address, KnownPool> {
    const { pools } = this.journal.state(book.stream);
    return new Map([...pools].filter(([, { discovered }]) => this.#poolOf(book, discovered) !== undefined));
  }

  /**
   * Returns the current session by the log; undefined when there is none. Also undefined when its process has other
   * reference tokens or factories: it does not follow all the pools that a price here depends on.
   */
  sessionUnderWay(): string | undefined {
    const { session } = this.journal.coverage(this.books.reference.stream);
    return session?.startsWith(`${this.fingerprint}-`) ? session : undefined;
  }

  /** Marks a book's pools as followed if the stream's headline says so for the current `session`; else uncovers it. */
  applyCoverage(book: TokenBook, session: string | undefined): void {
    const { session: own, from, pools } = this.journal.coverage(book.stream);
    const known = this.knownPools(book);
    const isWhole = pools === known.size && [...book.pools.keys()].every((address) => known.has(address));
    const isFollowed = session !== undefined && own === session && isWhole;
    if (book.list.kind === "logged") book.list = { kind: "logged", isComplete: isFollowed && from !== undefined };
    if (from === undefined || !isFollowed) {
      unfollow(book);
      return;
    }
    book.heldFrom = from;
    for (const [address, hot] of book.pools) {
      followByLog(hot, from, () => {
        const { observations, knownFrom } = known.get(address)!;
        return { timeline: observations.map(observationOf), knownFrom };
      });
    }
  }

  /** Loads a token's book from its stream into memory; undefined when the stream has no token with decimals. */
  async loadBook(token: Address): Promise<TokenBook | undefined> {
    const { books, journal } = this;
    if (isMoney(this.#chain, token)) return undefined;
    const kept = books.get(token);
    if (kept !== undefined) return kept;
    const book = emptyBook(this.#chain.chainId, token);
    const facts = factsOf(await journal.open(book.stream));
    const held = books.get(token);
    if (held !== undefined) return held;
    if (facts === undefined) {
      journal.close(book.stream);
      return undefined;
    }
    this.#fill(book, new Map([[token, facts]]));
    books.put(book);
    return book;
  }

  /** Loads the facts and pools of the reference tokens from their streams. Returns false when the log has none. */
  async loadReference(): Promise<boolean> {
    const { reference } = this.books;
    if (reference.list.kind !== "unknown") return true;
    const state = await this.journal.open(reference.stream);
    const facts = new Map<Address, TokenFacts>();
    for (const token of this.references) {
      const stream = priceStream(this.#chain.chainId, token);
      const said = factsOf(stream === reference.stream ? state : await this.journal.open(stream));
      this.closeUnheld(stream);
      if (said !== undefined) facts.set(token, said);
    }
    // A request may have asked the factories meanwhile.
    if (!facts.has(reference.address) || reference.list.kind !== "unknown") return false;
    this.#fill(reference, facts);
    return true;
  }

  #fill(book: TokenBook, facts: ReadonlyMap<Address, TokenFacts>): void {
    book.facts = facts;
    for (const { discovered } of this.journal.state(book.stream).pools.values()) {
      const pool = this.#poolOf(book, discovered);
      if (pool !== undefined && !book.pools.has(pool.address)) book.pools.set(pool.address, hotPool(pool));
    }
    book.list = { kind: "logged", isComplete: false };
    book.lastDiscoveryMs = this.#clock.monotonic();
    book.lastRequestMs = book.lastDiscoveryMs;
  }

  /** Restores up to `limit` tokens that the current session follows. Returns false when there is no session. */
  async restore(limit: number): Promise<boolean> {
    if (!(await this.loadReference())) return false;
    const session = this.sessionUnderWay();
    if (session === undefined) return false;
    const tokens = await this.journal.followedBy(this.#chain.chainId, session, limit);
    for (let at = 0; at < tokens.length; at += LOAD_BATCH) {
      await Promise.all(tokens.slice(at, at + LOAD_BATCH).map((token) => this.loadBook(token)));
    }
    for (const book of this.books.all()) this.applyCoverage(book, session);
    return true;
  }

  /** Closes a stream without a book in memory. */
  closeUnheld(stream: StreamName): void {
    if (this.books.peek(stream) === undefined) this.journal.close(stream);
  }
}

/**
 * True if a pool belongs in a token's book. The reference book has the pairs of reference tokens that lead to the
 * dollar. Any other book has its token's pairs with reference tokens, except those of the reference book.
 */
export function belongsTo(chain: Chain, token: Address, pool: Pick<Pool, "token0" | "token1">): boolean {
  const isShared = isReferencePair(chain, pool.token0, pool.token1);
  if (isMoney(chain, token)) return isShared;
  const other = pool.token0 === token ? pool.token1 : pool.token0;
  return !isShared && isReference(chain, other);
}
