/**
 * The state that the parts of one chain's prices share: the chain, its ports, the books in memory and the session.
 * `service.ts` builds it. Also defines `Subject`, the token that a request prices. Holds no logic.
 */
import type { LRUCache } from "lru-cache";
import type { ChainView } from "../chain/consumer.ts";
import type { Chain } from "../chains/chains.ts";
import type { Clock } from "../core/clock.ts";
import type { Address } from "../core/hex.ts";
import type { StreamName } from "../events/types.ts";
import type { BlockHeader, ChainReader } from "../rpc/port.ts";
import type { Pool } from "./market/pools.ts";
import type { Journal } from "./memory/price-streams.ts";
import type { Books, TokenBook } from "./memory/token-book.ts";
import type { TokenFacts, Venue } from "./search/discovery.ts";
import type { Origins, PastSource } from "./search/history.ts";

export interface PricesContext {
  readonly chain: Chain;
  readonly reader: ChainReader;
  readonly view: ChainView;
  readonly clock: Clock;
  readonly journal: Journal;
  readonly books: Books;
  readonly startBlocks: Origins;
  /** The chain's factories, in the order of the API's exchange list. */
  readonly venues: readonly Venue[];
  /** Wrapped native, stablecoins and connectors. */
  readonly references: readonly Address[];
  /** Fingerprint of factories and reference tokens. A session of a process with another fingerprint is ignored. */
  readonly listingFingerprint: string;
  /** This process's session while it follows the chain; see `coverage.ts`. */
  session: string | undefined;
  /** Last block that this process's follower applied. */
  followedTo: number | undefined;
  /** Tokens that other processes price and this one does not hold yet, with the stream version that announced them. */
  readonly announcedTokens: Map<Address, number>;
  /** Streams that this process dropped, with the version in which it recorded that. */
  readonly droppedStreams: LRUCache<StreamName, number>;
  /** Reference tokens with facts that this process has appended to the log. */
  readonly recordedReferences: Set<Address>;
}

/** The source for reads of past blocks, with the final block known at this moment. */
export const pastSourceOf = ({ reader, startBlocks, view }: PricesContext): PastSource => ({
  reader,
  origins: startBlocks,
  finalized: view.finalized()?.number ?? -1,
});

/** A token with its facts and every pool that may price it. */
export interface Subject {
  readonly token: Address;
  readonly facts: TokenFacts;
  readonly book: TokenBook;
  /** Pools of an unlisted factory, used for this request only. */
  readonly unlistedPools: readonly Pool[];
  /** True if the unlisted factory answers like a v2 or v3 factory, or if the request names none. */
  readonly factoryAnswers: boolean;
  /** The head at which the node just answered for factories and tokens; undefined when memory had the answers. */
  readonly discoveredHead?: BlockHeader;
}
