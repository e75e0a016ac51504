/** New pools of hot tokens, from the events by which factories announce them. */
import type { Chain } from "../chains/chains.ts";
import { isReference, isReferencePair } from "../chains/tokens.ts";
import type { Address } from "../core/hex.ts";
import type { ChainLog } from "../rpc/port.ts";
import { addressAt, TOPIC } from "./abi.ts";
import type { Books, TokenBook } from "./book.ts";
import type { Venue } from "./discovery.ts";
import type { Pool } from "./pools.ts";

export interface CreationContext {
  readonly chain: Chain;
  readonly venues: readonly Venue[];
  readonly books: Books;
}

/** The pool that a log announces, once for each book in memory that it belongs in and that doesn't have it yet. */
export function creationsIn(log: ChainLog, context: CreationContext): { book: TokenBook; pool: Pool }[] {
  const kind = log.topics[0];
  if (kind !== TOPIC.pairCreated && kind !== TOPIC.poolCreated) return [];
  const venue = context.venues.find((entry) => entry.factory === log.address);
  const token0 = addressAt(log.topics[1] ?? "0x", 0);
  const token1 = addressAt(log.topics[2] ?? "0x", 0);
  const address = addressAt(log.data, kind === TOPIC.pairCreated ? 0 : 1);
  if (venue === undefined || token0 === undefined || token1 === undefined || address === undefined) return [];
  const fee = kind === TOPIC.poolCreated ? Number(BigInt(log.topics[3] ?? "0x0")) : (venue.fees[0] ?? 0);
  const { name: exchange, rank, style, factory } = venue;
  const pool: Pool = { address, factory, style, fee, token0, token1, exchange, rank, stableCurve: false };
  return booksOf(context, token0, token1)
    .filter((book) => !book.pools.has(address))
    .map((book) => ({ book, pool }));
}

function booksOf({ chain, books }: CreationContext, token0: Address, token1: Address): TokenBook[] {
  if (isReferencePair(chain, token0, token1)) return [books.reference];
  const first = isReference(chain, token1) ? books.get(token0) : undefined;
  const second = isReference(chain, token0) ? books.get(token1) : undefined;
  return [first, second].filter((book) => book !== undefined);
}
