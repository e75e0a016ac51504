/** What the parts of one chain's prices share: its facts, its ports, and the memory they keep together. */
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
  readonly origins: Origins;
  /** Factories of the chain's exchanges, in the contract's order. */
  readonly venues: readonly Venue[];
  /** Wrapped native, stablecoins, connectors. */
  readonly references: readonly Address[];
  /** A fingerprint of factories and reference tokens: sessions of processes with other ones are not believed. */
  readonly listing: string;
  /** This process's own session while it follows; see `coverage.ts`. */
  session: string | undefined;
  /** Last block that came through the follower of this process. */
  followedTo: number | undefined;
  /** Tokens other processes were asked about and this one does not hold, with the version of the stream that told. */
  readonly wanted: Map<Address, number>;
  /** Versions of streams that this process does not follow any more, as of its word that it does not. */
  readonly left: LRUCache<StreamName, number>;
  /** Reference tokens whose words this process has put in the log. */
  readonly said: Set<Address>;
}

/** Where the past is read, as of now. */
export const pastOf = ({ reader, origins, view }: PricesContext): PastSource => ({
  reader,
  origins,
  finalized: view.finalized()?.number ?? -1,
});

/** A token as its market needs it: its words and every pool that may price it. */
export interface Subject {
  readonly token: Address;
  readonly facts: TokenFacts;
  readonly book: TokenBook;
  /** Pools at a factory in no list, for this request only. */
  readonly extra: readonly Pool[];
  /** The unlisted factory answered like one; true when none was asked for. */
  readonly factoryAnswers: boolean;
  /** The head at which factories and tokens have just been asked; undefined when memory knew. */
  readonly asked?: BlockHeader;
}
