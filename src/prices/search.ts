/**
 * The tokens of the log that a token is asked for pools with: a few along with its own first question, and, where those
 * give no price, all there are, in rounds. What a book knows of its last round is kept with it.
 */
import { isReference } from "../chains/tokens.ts";
import type { Address } from "../core/hex.ts";
import type { TokenBook } from "./book.ts";
import type { PricesContext } from "./context.ts";
import { type Plan, planPairs } from "./discovery.ts";
import type { Pool } from "./pools.ts";

/** Without a follower to tell of new pools, or without a price, factories are asked again after so long, in ms. */
export const REDISCOVER_MS = 600_000;
/** Tokens beside the reference tokens whose pools are asked for at first: calls enough, few enough for one batch. */
const MAX_NEAR = 16;
/** Tokens in a round: with eight calls each, on the chain with the most exchanges, 17 Multicall3 requests side by side. */
const ROUND = 1_024;
/** The next round is the next question's, in ms: none takes more round trips than the first. */
const NEXT_ROUND_MS = 1_000;

/** Whether the log may hold tokens by now that a token's pools were not asked for. */
export function maySearch({ clock }: PricesContext, { searchedMs, searchedTo }: TokenBook): boolean {
  return clock.monotonic() - searchedMs >= (searchedTo === undefined ? REDISCOVER_MS : NEXT_ROUND_MS);
}

/** The pools of a token with others, where their factories have them. */
export const planLinks = ({ venues }: PricesContext, token: Address, others: readonly Address[]): Plan<Pool[]> =>
  planPairs(
    venues,
    others.map((other) => [token, other] as const),
  );

/**
 * The tokens to ask about first: those the book goes through already, whose pools may have become more, then those last
 * asked about; and whether the log knows no others, so that to ask about them is the search.
 */
export async function near(
  context: PricesContext,
  book: TokenBook,
): Promise<{ readonly others: readonly Address[]; readonly areAll: boolean }> {
  const { books, journal, chain, references } = context;
  const limit = MAX_NEAR + references.length + 2;
  const logged = await journal.tokens(chain.chainId, { limit });
  const known = [...book.via.map((via) => via.address), ...books.tokens(), ...logged];
  const others = othersOf(context, book, known).slice(0, MAX_NEAR);
  const isAmong = (address: Address): boolean => others.includes(address);
  return { others, areAll: logged.length < limit && othersOf(context, book, logged).every(isAmong) };
}

/** All tokens of the log were asked about. */
export function searched(book: TokenBook, nowMs: number): void {
  book.searchedMs = nowMs;
  book.searchedTo = undefined;
}

/** Pools of a book's token with the next tokens of the log, in one round trip; none before it is time. */
export async function nextRound(context: PricesContext, book: TokenBook): Promise<Pool[]> {
  if (book.round === undefined && !maySearch(context, book)) return [];
  // Whoever asks meanwhile shares it.
  book.round ??= context.searching
    .run(() => askRound(context, book))
    .finally(() => {
      book.round = undefined;
    });
  return book.round;
}

async function askRound(context: PricesContext, book: TokenBook): Promise<Pool[]> {
  const { journal, chain, clock, reader } = context;
  const page = await journal.tokens(chain.chainId, { after: book.searchedTo, limit: ROUND });
  const plan = planLinks(context, book.address, othersOf(context, book, page));
  // Of no block in particular: the pools' states are read at one, and a pool that is missed is found the next time.
  const results = await reader.calls(plan.calls, "latest");
  book.searchedMs = clock.monotonic();
  book.searchedTo = page.length < ROUND ? undefined : page.at(-1);
  return plan.read(results);
}

/** Each once, without the book's own token and the reference tokens. */
const othersOf = ({ chain }: PricesContext, book: TokenBook, addresses: readonly Address[]): Address[] =>
  [...new Set(addresses)].filter((address) => address !== book.address && !isReference(chain, address));
