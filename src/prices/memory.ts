/**
 * Memory from the log: books of tokens another process, or this one before it was restarted, has asked about, and what
 * either adds to them. A pool counts as followed only while its stream's headline says so.
 */
import { isReference, referenceTokens } from "../chains/tokens.ts";
import type { Address } from "../core/hex.ts";
import { type PriceEvent, priceStream, type StreamName } from "../events/types.ts";
import { type Books, emptyBook, extend, hotPool, revertPool, type TokenBook, uncover } from "./book.ts";
import type { PricesContext } from "./context.ts";
import type { TokenFacts, Venue } from "./discovery.ts";
import { observationOf } from "./facts.ts";
import { type Observation, otherToken, type Pool } from "./pools.ts";
import { latest, type PriceState } from "./projection.ts";
import { linked, MAX_LINKS } from "./through.ts";

type MemoryContext = Pick<PricesContext, "books" | "clock" | "venues">;

/** What a stream says, in the book that is held of it; a stream nobody here holds is left alone. */
export function learn(context: MemoryContext, stream: StreamName, events: readonly PriceEvent[]): void {
  const { books, clock } = context;
  const book = books.held(stream);
  if (book === undefined) return;
  for (const event of events) {
    if (event.type === "PoolDiscovered") {
      const pool = poolOf(context.venues, event);
      const hot = book.pools.get(event.pool);
      if (hot !== undefined && pool !== undefined) hot.pool = { ...hot.pool, stableCurve: pool.stableCurve };
      else if (pool !== undefined) {
        book.pools.set(pool.address, hotPool(pool));
        goThrough(books, book, pool);
      }
    } else if (event.type === "PriceObserved") {
      const hot = book.pools.get(event.pool);
      const known = hot?.base?.number ?? -1;
      if (hot !== undefined && event.block > known) extend(hot, [observationOf(event)], event.timestamp);
      // Without a log index it was asked of a node: somebody asked for a price.
      if (event.logIndex === undefined) {
        book.askedMs = clock.monotonic();
        books.reference.askedMs = book.askedMs;
      }
    } else if (event.type === "BlocksReverted") {
      for (const hot of book.pools.values()) revertPool(hot, event.ancestor.number);
    }
  }
}

/** The pool's other token, where it is in memory, is one that the book's own may be priced through from here on. */
export function goThrough(books: Books, book: TokenBook, pool: Pool): void {
  if (book === books.reference) return;
  // Reference tokens have no book of their own.
  const via = books.get(otherToken(pool, book.address));
  if (via !== undefined) addVia(book, [via]);
}

/** Adds to the tokens a book goes through, in order of address: the same however they came. */
export function addVia(book: TokenBook, via: readonly TokenBook[]): void {
  const all = new Map([...book.via, ...via].map((entry) => [entry.address, entry]));
  book.via = [...all.values()].sort((a, b) => (a.address < b.address ? -1 : 1));
}

function poolOf(venues: readonly Venue[], event: PriceEvent & { type: "PoolDiscovered" }): Pool | undefined {
  const venue = venues.find((entry) => entry.factory === event.factory);
  if (venue === undefined) return undefined;
  const { pool: address, factory, style, fee, token0, token1, stableCurve = false } = event;
  return { address, factory, style, fee, token0, token1, exchange: venue.name, rank: venue.rank, stableCurve };
}

/** Takes the log's word for which of a book's pools are followed. `session`: the one under way. */
export function cover({ journal }: PricesContext, book: TokenBook, session: string | undefined): void {
  const { session: own, from, pools } = journal.coverage(book.stream);
  const known = journal.state(book.stream).pools;
  const isWhole = pools === known.size && [...book.pools.keys()].every((address) => known.has(address));
  if (from === undefined || session === undefined || own !== session || !isWhole) {
    uncover(book);
    return;
  }
  book.heldFrom = from;
  for (const [address, hot] of book.pools) {
    hot.coveredFrom = from;
    if (hot.base !== undefined && hot.base.number >= from - 1) continue;
    const { observations, knownFrom } = known.get(address)!;
    const number = Math.max(from - 1, knownFrom);
    hot.timeline = observations.map(observationOf);
    hot.base = Number.isFinite(number) ? { number, hash: undefined, timestamp: Number.POSITIVE_INFINITY } : undefined;
  }
}

/** The book of a token from its stream, held from here on; undefined when the stream knows no token with decimals. */
export async function loadBook(context: PricesContext, token: Address): Promise<TokenBook | undefined> {
  const book = await loadTransit(context, token);
  if (!book?.isTransit) return book;
  const pools = [...book.pools.values()].map((hot) => hot.pool);
  const links = pools.filter((pool) => !isReference(context.chain, otherToken(pool, token)));
  const state = context.journal.state(book.stream);
  const said = (pool: Address): Observation | undefined => {
    const event = latest(state, pool);
    return event === undefined ? undefined : observationOf(event);
  };
  const others = linked(token, links, said).slice(0, MAX_LINKS);
  const via = await Promise.all(others.map(({ address }) => loadTransit(context, address)));
  addVia(
    book,
    via.filter((entry) => entry !== undefined),
  );
  book.isTransit = false;
  return book;
}

/** As `loadBook`, for a token that another one goes through: without what it goes through itself, where it is not held. */
async function loadTransit(context: PricesContext, token: Address): Promise<TokenBook | undefined> {
  const book = await readTransit(context, token);
  return book === undefined ? undefined : hold(context, book);
}

/** As `loadTransit`, to be held with `hold` or let go with `release`. */
export async function readTransit(context: PricesContext, token: Address): Promise<TokenBook | undefined> {
  const { books, chain, journal, clock } = context;
  // Theirs is the reference book: another one of the same stream would be told nothing of what the stream learns.
  if (isReference(chain, token)) return undefined;
  const kept = books.get(token);
  if (kept !== undefined) return kept;
  const book = emptyBook(chain.chainId, token);
  const state = await journal.open(book.stream);
  const facts = factsOf(state);
  if (facts === undefined) {
    journal.close(book.stream);
    return undefined;
  }
  book.facts = new Map([[token, facts]]);
  fill(context, book, state);
  book.isTransit = true;
  book.askedMs = clock.monotonic();
  return books.get(token) ?? book;
}

/** Keeps a book of `readTransit` in memory, or what somebody else has put there meanwhile. */
export function hold(context: PricesContext, book: TokenBook): TokenBook {
  const { books, journal } = context;
  const kept = books.get(book.address);
  if (kept !== undefined) return kept;
  // Nobody told it what its stream learnt since it was read.
  fill(context, book, journal.state(book.stream));
  books.put(book);
  return book;
}

/** Forgets a book of `readTransit` that nobody holds. */
export function release({ books, journal }: PricesContext, book: TokenBook): void {
  if (books.held(book.stream) === undefined) journal.close(book.stream);
}

/** The reference tokens' words and pools from their streams; false when the log has none. */
export async function loadReference(context: PricesContext): Promise<boolean> {
  const { books, chain, journal, clock } = context;
  const { reference } = books;
  if (reference.discoveredAt !== undefined) return true;
  const state = await journal.open(reference.stream);
  const facts = new Map<Address, TokenFacts>();
  for (const token of referenceTokens(chain)) {
    const stream = priceStream(chain.chainId, token.address);
    const said = factsOf(stream === reference.stream ? state : await journal.open(stream));
    if (stream !== reference.stream) journal.close(stream);
    if (said !== undefined) facts.set(token.address, said);
  }
  if (!facts.has(reference.address) || reference.discoveredAt !== undefined) return false;
  reference.facts = facts;
  fill(context, reference, state);
  reference.askedMs = clock.monotonic();
  return true;
}

function fill(context: PricesContext, book: TokenBook, state: PriceState): void {
  for (const { discovered } of state.pools.values()) {
    const pool = poolOf(context.venues, discovered);
    if (pool === undefined) continue;
    const hot = book.pools.get(pool.address) ?? hotPool(pool);
    book.pools.set(pool.address, hot);
  }
  // Older than any coverage: the factories are asked again by and by.
  book.discoveredAt = -1;
  book.discoveredMs = context.clock.monotonic();
  book.searchedMs = book.discoveredMs;
}

function factsOf({ token }: PriceState): TokenFacts | undefined {
  if (token?.decimals === undefined || !token.isContract) return undefined;
  const { name, symbol, decimals } = token;
  return { name, symbol, decimals, kind: "erc20" };
}
