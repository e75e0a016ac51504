/** The tokens of the log that a token is asked for pools with, along with its own question. */
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
/** The pools of a token with others, where their factories have them. */
export const planLinks = ({ venues }: PricesContext, token: Address, others: readonly Address[]): Plan<Pool[]> =>
  planPairs(
    venues,
    others.map((other) => [token, other] as const),
  );

/** The tokens to ask about: those the book goes through already, whose pools may have become more, then those last asked about. */
export async function near(context: PricesContext, book: TokenBook): Promise<Address[]> {
  const { books, journal, chain, references } = context;
  const limit = MAX_NEAR + references.length + 2;
  const logged = await journal.tokens(chain.chainId, limit);
  const known = [...book.via.map((via) => via.address), ...books.tokens(), ...logged];
  return othersOf(context, book, known).slice(0, MAX_NEAR);
}

/** Each once, without the book's own token and the reference tokens. */
const othersOf = ({ chain }: PricesContext, book: TokenBook, addresses: readonly Address[]): Address[] =>
  [...new Set(addresses)].filter((address) => address !== book.address && !isReference(chain, address));
