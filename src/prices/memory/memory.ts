/**
 * Books and the log: records reads of the node, builds books from streams, and keeps them current with the events of
 * other processes. A pool counts as followed only while its stream's headline says so.
 */
import type { Chain } from "../../chains/chains.ts";
import { isMoney, isReference, isReferencePair, referenceTokens } from "../../chains/tokens.ts";
import type { Address } from "../../core/hex.ts";
import {
  type PoolDiscovered,
  type PriceEvent,
  type PriceObserved,
  priceStream,
  type StreamName,
  type TokenIdentified,
} from "../../events/types.ts";
import type { PricesContext, Subject } from "../context.ts";
import { fromPoolState, type Observation, type Pool, toPoolState } from "../market/pools.ts";
import type { TokenFacts } from "../search/discovery.ts";
import { type HeadRead, observed } from "../search/history.ts";
import { baseNumber, extend, followByLog, hotPool } from "./pool-truth.ts";
import type { KnownPool, PriceState } from "./projection.ts";
import { emptyBook, revertPools, type TokenBook, unfollow } from "./token-book.ts";

// Converts between the types of the prices and the events of the log. Pure.

const identifiedEvent = (facts: TokenFacts, block: number): TokenIdentified => ({
  type: "TokenIdentified",
  name: facts.name,
  symbol: facts.symbol,
  ...(facts.decimals === undefined ? {} : { decimals: facts.decimals }),
  isContract: facts.kind !== "not_a_token",
  block,
});

export const discoveredEvent = (pool: Pool, block: number): PoolDiscovered => ({
  type: "PoolDiscovered",
  pool: pool.address,
  factory: pool.factory,
  style: pool.style,
  fee: pool.fee,
  token0: pool.token0,
  token1: pool.token1,
  ...(pool.stableCurve ? { stableCurve: true } : {}),
  block,
});

export const observedEvent = (pool: Address, observation: Observation): PriceObserved => ({
  type: "PriceObserved",
  pool,
  state: toPoolState(observation.reading),
  ...(observation.balance0 === undefined ? {} : { balance0: observation.balance0.toString() }),
  ...(observation.balance1 === undefined ? {} : { balance1: observation.balance1.toString() }),
  block: observation.block,
  blockHash: observation.blockHash,
  timestamp: observation.timestamp,
  ...(observation.transactionHash === undefined ? {} : { transactionHash: observation.transactionHash }),
  ...(observation.logIndex === undefined ? {} : { logIndex: observation.logIndex }),
});

/** The inverse of `observedEvent`. */
const observationOf = (event: PriceObserved): Observation => ({
  reading: fromPoolState(event.state),
  ...(event.balance0 === undefined ? {} : { balance0: BigInt(event.balance0) }),
  ...(event.balance1 === undefined ? {} : { balance1: BigInt(event.balance1) }),
  block: event.block,
  blockHash: event.blockHash,
  timestamp: event.timestamp,
  ...(event.transactionHash === undefined ? {} : { transactionHash: event.transactionHash }),
  ...(event.logIndex === undefined ? {} : { logIndex: event.logIndex }),
});

// Appends the node's data at its head to the log: token facts, pools and pool states. The journal drops
// known facts, so recording the same reads again appends only changes.

/** Records everything that was read for a subject. Resolves once it is durable. */
export async function recordReads(
  context: PricesContext,
  subject: Subject,
  { header, reads }: HeadRead,
): Promise<void> {
  const { books, journal, chain } = context;
  const byPool = new Map(reads.map((read) => [read.pool.address, read]));
  const touched = new Set([books.reference, subject.book]);
  await Promise.all(
    [...touched].map((book) => {
      const facts = book.facts.get(book.address);
      const events: PriceEvent[] = facts === undefined ? [] : [identifiedEvent(facts, header.number)];
      // Appends the whole list of pools, also those not read now: another process must not take a part for the whole.
      for (const [address, hot] of book.pools) {
        events.push(discoveredEvent(byPool.get(address)?.pool ?? hot.pool, header.number));
      }
      for (const address of book.pools.keys()) {
        const read = byPool.get(address);
        const state = read === undefined ? undefined : observed(read, header);
        if (state !== undefined) events.push(observedEvent(address, state));
      }
      return journal.append(book.stream, events);
    }),
  );
  // Each reference token's facts go into its own stream, where a process that starts later reads them.
  const references = touched.has(books.reference) ? [...books.reference.facts] : [];
  await Promise.all(
    references.map(async ([token, facts]) => {
      if (token === books.reference.address || context.recordedReferences.has(token)) return;
      const stream = priceStream(chain.chainId, token);
      await journal.append(stream, [identifiedEvent(facts, header.number)]);
      if (books.peek(stream) === undefined) journal.close(stream);
      context.recordedReferences.add(token);
    }),
  );
}

type MemoryContext = Pick<PricesContext, "books" | "chain" | "clock" | "venues">;

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

/** Applies the events of a stream to its book. Does nothing for a stream without a book in memory. */
export function applyEvents(context: MemoryContext, stream: StreamName, events: readonly PriceEvent[]): void {
  const { books, clock } = context;
  const book = books.peek(stream);
  if (book === undefined) return;
  for (const event of events) {
    if (event.type === "PoolDiscovered") {
      const pool = poolOf(context, book, event);
      const hot = book.pools.get(event.pool);
      if (hot !== undefined && pool !== undefined) hot.pool = { ...hot.pool, stableCurve: pool.stableCurve };
      else if (pool !== undefined) book.pools.set(pool.address, hotPool(pool));
    } else if (event.type === "PriceObserved") {
      const hot = book.pools.get(event.pool);
      if (hot !== undefined && event.block > baseNumber(hot)) extend(hot, [observationOf(event)], event.timestamp);
      // A state without a log index was read from a node, so a client asked another process for a price.
      if (event.logIndex === undefined) {
        book.lastRequestMs = clock.monotonic();
        books.reference.lastRequestMs = book.lastRequestMs;
      }
    } else if (event.type === "BlocksReverted") {
      revertPools(book, event.ancestor.number);
    }
  }
}

/** Returns the pool of an event; undefined when its factory is unlisted, or the pool doesn't belong in the book. */
function poolOf(
  { chain, venues }: Pick<PricesContext, "chain" | "venues">,
  book: TokenBook,
  event: PoolDiscovered,
): Pool | undefined {
  const venue = venues.find((entry) => entry.factory === event.factory);
  if (venue === undefined || !belongsTo(chain, book.address, event)) return undefined;
  const { pool: address, factory, style, fee, token0, token1, stableCurve = false } = event;
  return { address, factory, style, fee, token0, token1, exchange: venue.name, rank: venue.rank, stableCurve };
}

/** Returns the pools of a book's stream that belong in the book. */
export function knownPools(context: PricesContext, book: TokenBook): Map<Address, KnownPool> {
  const { pools } = context.journal.state(book.stream);
  return new Map([...pools].filter(([, { discovered }]) => poolOf(context, book, discovered) !== undefined));
}

/**
 * Returns the current session by the log; undefined when there is none. Also undefined when its process has other
 * reference tokens or factories: it does not follow all the pools that a price here depends on.
 */
export function sessionUnderWay({ books, journal, listingFingerprint }: PricesContext): string | undefined {
  const { session } = journal.coverage(books.reference.stream);
  return session?.startsWith(`${listingFingerprint}-`) ? session : undefined;
}

/** Marks a book's pools as followed if the stream's headline says so for the current `session`; else uncovers it. */
export function applyCoverage(context: PricesContext, book: TokenBook, session: string | undefined): void {
  const { session: own, from, pools } = context.journal.coverage(book.stream);
  const known = knownPools(context, book);
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
export async function loadBook(context: PricesContext, token: Address): Promise<TokenBook | undefined> {
  const { books, chain, journal, clock } = context;
  if (isMoney(chain, token)) return undefined;
  const kept = books.get(token);
  if (kept !== undefined) return kept;
  const book = emptyBook(chain.chainId, token);
  const facts = factsOf(await journal.open(book.stream));
  const held = books.get(token);
  if (held !== undefined) return held;
  if (facts === undefined) {
    journal.close(book.stream);
    return undefined;
  }
  book.facts = new Map([[token, facts]]);
  fill(context, book);
  book.lastRequestMs = clock.monotonic();
  books.put(book);
  return book;
}

/**
 * Like `loadBook`, for a token that another process priced. Every process writes a connector's facts into the
 * connector's stream; only pools in it show that a client asked for the connector's price.
 */
export async function adoptBook(context: PricesContext, token: Address): Promise<void> {
  const { books, chain, journal } = context;
  if (isReference(chain, token)) {
    const stream = priceStream(chain.chainId, token);
    const { pools } = await journal.open(stream);
    if (pools.size === 0) {
      if (books.peek(stream) === undefined) journal.close(stream);
      return;
    }
  }
  await loadBook(context, token);
}

/** Loads the facts and pools of the reference tokens from their streams. Returns false when the log has none. */
export async function loadReference(context: PricesContext): Promise<boolean> {
  const { books, chain, journal, clock } = context;
  const { reference } = books;
  if (reference.list.kind !== "unknown") return true;
  const state = await journal.open(reference.stream);
  const facts = new Map<Address, TokenFacts>();
  for (const token of referenceTokens(chain)) {
    const stream = priceStream(chain.chainId, token.address);
    const said = factsOf(stream === reference.stream ? state : await journal.open(stream));
    if (books.peek(stream) === undefined) journal.close(stream);
    if (said !== undefined) facts.set(token.address, said);
  }
  if (!facts.has(reference.address) || reference.list.kind !== "unknown") return false;
  reference.facts = facts;
  fill(context, reference);
  reference.lastRequestMs = clock.monotonic();
  return true;
}

function fill(context: PricesContext, book: TokenBook): void {
  for (const { discovered } of context.journal.state(book.stream).pools.values()) {
    const pool = poolOf(context, book, discovered);
    if (pool !== undefined && !book.pools.has(pool.address)) book.pools.set(pool.address, hotPool(pool));
  }
  book.list = { kind: "logged", isComplete: false };
  book.lastDiscoveryMs = context.clock.monotonic();
}

function factsOf({ token }: PriceState): TokenFacts | undefined {
  if (token?.decimals === undefined || !token.isContract) return undefined;
  const { name, symbol, decimals } = token;
  return { name, symbol, decimals, kind: "erc20" };
}
