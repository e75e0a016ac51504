/** New pools of hot tokens, from the events by which factories announce them. */
import type { Chain } from "../chains/chains.ts";
import { isReference } from "../chains/tokens.ts";
import type { Address } from "../core/hex.ts";
import type { ChainLog } from "../rpc/port.ts";
import { addressAt, TOPIC } from "./abi.ts";
import type { Books, TokenBook } from "./book.ts";
import type { Venue } from "./discovery.ts";
import type { Pool } from "./pools.ts";
import { MAX_LINKS } from "./through.ts";

export interface CreationContext {
  readonly chain: Chain;
  readonly venues: readonly Venue[];
  readonly books: Books;
}

/** The pool a log announces, once for each book it belongs in; none when it is of nobody's concern, or known. */
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
  const known0 = isReference(chain, token0);
  const known1 = isReference(chain, token1);
  if (known0 && known1) return [books.reference];
  const first = known0 ? undefined : books.get(token0);
  const second = known1 ? undefined : books.get(token1);
  if (known0 || known1) return [first ?? second].filter((book) => book !== undefined);
  if (first === undefined || second === undefined) return [];
  // Which of the two has a price of its own is not known here, and may change.
  return [first, second].filter((book) => book.via.length < MAX_LINKS);
}
