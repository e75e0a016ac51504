/** New pools of hot tokens, from the events by which factories announce them. */
import type { Chain } from "../chains/chains.ts";
import { isReference } from "../chains/tokens.ts";
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

/** The pool a log announces and the book it belongs in; undefined when it is of nobody's concern, or known. */
export function creationIn(log: ChainLog, context: CreationContext): { book: TokenBook; pool: Pool } | undefined {
  const kind = log.topics[0];
  if (kind !== TOPIC.pairCreated && kind !== TOPIC.poolCreated) return undefined;
  const venue = context.venues.find((entry) => entry.factory === log.address);
  const token0 = addressAt(log.topics[1] ?? "0x", 0);
  const token1 = addressAt(log.topics[2] ?? "0x", 0);
  const address = addressAt(log.data, kind === TOPIC.pairCreated ? 0 : 1);
  if (venue === undefined || token0 === undefined || token1 === undefined || address === undefined) return undefined;
  const book = bookOf(context, token0, token1);
  if (book === undefined || book.pools.has(address)) return undefined;
  const fee = kind === TOPIC.poolCreated ? Number(BigInt(log.topics[3] ?? "0x0")) : (venue.fees[0] ?? 0);
  const { name: exchange, rank, style, factory } = venue;
  return { book, pool: { address, factory, style, fee, token0, token1, exchange, rank, stableCurve: false } };
}

function bookOf({ chain, books }: CreationContext, token0: Address, token1: Address): TokenBook | undefined {
  const known0 = isReference(chain, token0);
  const known1 = isReference(chain, token1);
  if (known0 && known1) return books.reference;
  if (known0) return books.get(token1);
  if (known1) return books.get(token0);
  return undefined;
}
