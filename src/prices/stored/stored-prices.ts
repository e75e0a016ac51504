/**
 * Reads the prices that the log has of one chain: the book of its heads, and the histories of tokens as they are asked for.
 * Answers the quote of a token at a block that any process has read, without a node.
 *
 * Invariant: a head is in the book only once all histories in memory have what was appended before it. So a token that has
 * no row at a head of its run kept its state.
 */
import type { ChainView } from "../../chain/consumer.ts";
import type { Chain } from "../../chains/chains.ts";
import { Budget } from "../../core/budget.ts";
import type { Clock } from "../../core/clock.ts";
import { isAbort } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import type { Logger } from "../../core/logger.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import {
  type PriceBookEvent,
  type PriceEvent,
  priceBookStream,
  priceStream,
  type StreamName,
} from "../../events/types.ts";
import type { EventLog } from "../../log/event-log.ts";
import { CatchUp, HotStreams } from "../../log/hot-streams.ts";
import type { PricedBlock } from "../market/market.ts";
import type { Quote } from "../market/quote.ts";
import { type BookHead, MAX_HEADS, PriceBook } from "./price-book.ts";
import { PriceHistory } from "./price-history.ts";
import { storedQuote } from "./stored-quotes.ts";

export interface StoredPricesOptions {
  readonly chain: Chain;
  readonly log: EventLog;
  readonly view: ChainView;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The rules by which this process prices, see `pricingRules`. */
  readonly rules: number;
  /** Bytes of all histories in memory. */
  readonly maxBytes: number;
}

/** A token is read for the clients of another process for this long after it said so, in ms. */
const WANTED_MS = 60_000;
/** The name of the service itself among keys: nobody has said yet who pays. */
const SERVICE = "";
/** Events of the book that are looked at together. */
const PAGE = 1_000;
/** Heads that are folded before requests get their turn. */
const SLICE = 500;

interface WantedToken {
  readonly keys: readonly string[];
  /** `Clock.monotonic` at which it ends. */
  readonly until: number;
}

/** A price that stands at a block, with the number of its row in the history. */
export interface StandingPrice {
  readonly history: PriceHistory;
  readonly row: number;
  readonly head: BookHead;
}

export class StoredPrices {
  readonly book = new PriceBook();
  readonly stream: StreamName;
  readonly #options: StoredPricesOptions;
  readonly #prefix: string;
  readonly #tokens: HotStreams<PriceHistory, PriceEvent>;
  readonly #catchUp: CatchUp;
  readonly #wanted = new Map<Address, WantedToken>();
  readonly #listeners = new Set<() => void>();
  /** Resolves once the book is loaded. */
  #loaded: Promise<void> | undefined;
  #isLoaded = false;
  /** `Clock.monotonic` of the last head that a reader read whole. */
  wholeMs = Number.NEGATIVE_INFINITY;

  constructor(options: StoredPricesOptions) {
    const { chain, log, logger, maxBytes } = options;
    this.#options = options;
    this.stream = priceBookStream(chain.chainId);
    this.#prefix = `priced/${chain.chainId}/`;
    this.#tokens = new HotStreams({
      ...{ log, logger, kind: "priced", maxBytes, keepsEmpty: false },
      projection: {
        load: () => new PriceHistory(),
        evolve: (_stream, history, { event, version }) => {
          history.evolve(event, version);
          return [];
        },
        weight: () => 1,
        bytes: (history) => history.bytes,
      },
    });
    this.#catchUp = new CatchUp(this.book, (target) => this.#fold(target));
    log.subscribe((stream, version) => {
      if (stream !== this.stream || !this.#isLoaded) return;
      this.#catchUp.to(version).catch((error: unknown) => {
        if (!isAbort(error)) logger.error({ err: error, stream }, "failed to fold the heads at which prices were read");
      });
    });
  }

  /** Resolves once the book is in memory. */
  ready(): Promise<void> {
    // All questions wait for the book, so the answer to the one that begins to load it must not end that.
    this.#loaded ??= Budget.outside(() => this.#load()).then(
      () => {
        this.#isLoaded = true;
      },
      (error: unknown) => {
        this.#loaded = undefined;
        throw error;
      },
    );
    return this.#loaded;
  }

  /** Reads the book from where its newest heads begin. */
  async #load(): Promise<void> {
    this.book.version = (await this.#begin()) - 1;
    await this.newest();
  }

  /** The version from which on a fold has the newest heads, as many as fit into memory. */
  async #begin(): Promise<number> {
    const { log } = this.#options;
    let heads = 0;
    let before: number | undefined;
    for (;;) {
      const page = await log.readBackwards(this.stream, {
        limit: PAGE,
        ...(before === undefined ? {} : { before }),
      });
      for (const { event, version } of page) {
        if (event.type !== "HeadPriced") continue;
        if (++heads >= MAX_HEADS && event.pools !== undefined) return version;
      }
      before = page.at(-1)?.version;
      if (before === undefined || before === 1) return 1;
    }
  }

  /** Resolves once the book is as the log has it now. */
  async newest(): Promise<void> {
    await this.#catchUp.to((await this.#options.log.head(this.stream)).version);
  }

  /** Resolves once the book has folded a version. */
  to(version: number): Promise<void> {
    return this.#catchUp.to(version);
  }

  async #fold(target: () => number): Promise<void> {
    const { log, clock } = this.#options;
    while (this.book.version < target()) {
      const page = await log.read(this.stream, { from: this.book.version + 1 });
      if (page.length === 0) return;
      await this.#tokens.settle(this.#prefix);
      let folded = 0;
      for (const { event, version } of page) {
        this.book.evolve(event as PriceBookEvent, version);
        if (event.type === "PricesWanted") this.#want(event.tokens);
        if (++folded % SLICE === 0) await yieldToEventLoop();
      }
      if (page.some(({ event }) => event.type === "HeadPriced")) this.wholeMs = clock.monotonic();
      for (const listener of [...this.#listeners]) listener();
    }
  }

  /** What other processes wanted before this one looked ended long ago, or is wanted again soon. */
  #want(tokens: { readonly [token: Address]: readonly string[] }): void {
    if (!this.#isLoaded) return;
    const until = this.#options.clock.monotonic() + WANTED_MS;
    for (const [token, keys] of Object.entries(tokens)) this.#wanted.set(token as Address, { keys, until });
  }

  /** The tokens that clients of other processes wait for, with the names of their keys. */
  wanted(): ReadonlyMap<Address, WantedToken> {
    const now = this.#options.clock.monotonic();
    for (const [token, { until }] of this.#wanted) if (until < now) this.#wanted.delete(token);
    return this.#wanted;
  }

  /** Goes on with the tokens of a reader that is silent, until their clients' processes want them again. */
  inherit(): void {
    const until = this.#options.clock.monotonic() + WANTED_MS;
    for (const token of this.book.members.keys()) {
      if (!this.#wanted.has(token)) this.#wanted.set(token, { keys: [SERVICE], until });
    }
  }

  /** Calls a function after each fold, until the returned one is called. */
  onFolded(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The history of a token as current as the last wake-up. */
  history(token: Address): Promise<PriceHistory> {
    return this.#tokens.get(priceStream(this.#options.chain.chainId, token));
  }

  /** The history of a token as the log has it now. */
  newestHistory(token: Address): Promise<PriceHistory> {
    return this.#tokens.newest(priceStream(this.#options.chain.chainId, token));
  }

  /** The head of a block at which prices were read, by today's rules, if the block is on the chain. */
  headAt(block: number): BookHead | undefined {
    const head = this.book.headAt(block);
    return head !== undefined && this.#isUsable(head) ? head : undefined;
  }

  #isUsable({ block: number, hash, chainVersion, rules }: BookHead): boolean {
    return rules === this.#options.rules && this.#options.view.isCanonical({ number, hash }, chainVersion);
  }

  /** The last block at or before a moment, in Unix seconds, where the book tells it. */
  blockAt(timestamp: number): PricedBlock | undefined {
    const head = this.book.lastBlockAt(timestamp);
    const next = head && this.book.headAt(head.block + 1);
    if (head === undefined || next === undefined || !this.#isUsable(head) || !this.#isUsable(next)) return undefined;
    return { number: head.block, hash: head.hash, timestamp: head.timestamp };
  }

  /** The price of a token that stands at a block. Undefined if no process has read it there. */
  async standingAt(token: Address, block: number): Promise<StandingPrice | undefined> {
    await this.ready();
    if (this.headAt(block) === undefined) return undefined;
    const history = await this.history(token);
    return this.standing(token, history, this.headAt(block));
  }

  standing(token: Address, history: PriceHistory, head: BookHead | undefined): StandingPrice | undefined {
    if (head === undefined) return undefined;
    const run = head.isWhole ? this.book.runAt(token, head.block) : undefined;
    const row = history.rowAt(head.block, head.hash) ?? (run && history.rowSince(run.from, head.block));
    return row === undefined ? undefined : { history, row, head };
  }

  /** The quote of a token at a block that any process has read. Undefined if none has. */
  async quoteAt(token: Address, block: number): Promise<Quote | undefined> {
    const standing = await this.standingAt(token, block);
    return standing && this.quoteOf(token, standing);
  }

  quoteOf(token: Address, { history, row, head }: StandingPrice): Quote | undefined {
    const { chain, rules } = this.#options;
    const price = history.price(row);
    const facts = history.factsOf(row);
    if (price.rules !== rules || facts === undefined) return undefined;
    return storedQuote(price, { chain, token, facts, pools: history.pools, head, coinPools: this.book.pools });
  }

  /** The newest quote of a token at or before a block, not older than so many seconds. */
  async newestQuote(token: Address, block: number, seconds: number): Promise<Quote | undefined> {
    await this.ready();
    const history = await this.history(token);
    const last = this.book.lastHeadAt(block);
    if (last === undefined) return undefined;
    const oldest = this.book.lastBefore(last.timestamp - seconds - 1) ?? -1;
    const ends = this.book.runsOf(token).flatMap((run) => {
      return this.book.lastWholeAt(Math.min(run.to, block), Math.max(run.from.block, oldest + 1))?.block ?? [];
    });
    const blocks = [...ends, ...history.blocksBetween(oldest + 1, block)].sort((a, b) => b - a);
    for (const one of blocks) {
      const standing = this.standing(token, history, this.headAt(one));
      if (standing !== undefined) return this.quoteOf(token, standing);
    }
    return undefined;
  }
}
