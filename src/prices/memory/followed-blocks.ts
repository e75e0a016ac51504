/**
 * A `ChainView` that also knows the blocks of the batch that is being written. The published head moves only after the
 * batch is durable, so the plain view lags behind the follower here.
 */
import type { AdvancedBlocks, ChainView } from "../../chain/consumer.ts";
import type { Chain } from "../../chains/chains.ts";
import { isReference, isReferencePair } from "../../chains/tokens.ts";
import type { Address, Hash } from "../../core/hex.ts";
import type { BlockRef, HeaderRef } from "../../events/types.ts";
import type { ChainLog } from "../../rpc/port.ts";
import type { Pool } from "../market/pools.ts";
import type { Venue } from "../search/discovery.ts";
import { addressAt, TOPIC } from "../search/exchange-events.ts";
import type { Books, TokenBook } from "./token-book.ts";

/** Most block hashes kept in addition to the published view. */
const MAX_BLOCKS = 4_096;

/** Prefers the followed blocks over the published view. */
export class FollowedBlocks implements ChainView {
  readonly #shown: ChainView;
  readonly #hashes = new Map<number, Hash>();

  constructor(shown: ChainView) {
    this.#shown = shown;
  }

  add({ headers }: Pick<AdvancedBlocks, "headers">): void {
    const [first] = headers;
    if (first !== undefined) this.#hashes.set(first.number - 1, first.parentHash);
    for (const { number, hash } of headers) this.#hashes.set(number, hash);
    for (const number of this.#hashes.keys()) {
      if (this.#hashes.size <= MAX_BLOCKS) break;
      this.#hashes.delete(number);
    }
  }

  /** Forgets the blocks above `above`; all of them by default. */
  clear(above = -1): void {
    for (const number of this.#hashes.keys()) if (number > above) this.#hashes.delete(number);
  }

  head = (): HeaderRef | undefined => this.#shown.head();
  finalized = (): BlockRef | undefined => this.#shown.finalized();
  header = (number: number): HeaderRef | undefined =>
    this.#hashes.has(number) ? undefined : this.#shown.header(number);

  isCanonical(block: BlockRef): boolean {
    const followed = this.#hashes.get(block.number);
    return followed === undefined ? this.#shown.isCanonical(block) : followed === block.hash;
  }
}

// Decodes the factory events that announce new pools of tokens in memory. Reads nothing from the node.

interface CreationContext {
  readonly chain: Chain;
  readonly venues: readonly Venue[];
  readonly books: Books;
}

/** Returns the pool that a log announces, once for each book in memory that it belongs in and that lacks it. */
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
